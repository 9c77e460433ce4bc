//! Activations as whole numbers.

use super::BLOCK;
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, fma};

/// Rows of activations as codes: in each block of 32, a scale times whole numbers of 16 bits (or 8).
///
/// Codes lie in words of 32 bits, so that a word can be multiplied with a lane of weights. Which activations share a word is
/// said by [`inputs_of`].
#[derive(Debug, Default)]
pub(crate) struct CodeRows {
    /// For each block: its words, scale, sum of the activations, and sums of the two halves' codes.
    records: Vec<i32>,
    blocks: usize,
    words: usize,
}

/// Numbers in a record beside the words.
const EXTRA: usize = 4;

/// The place in its block of number `j` of a word, for words of `per_word` activations.
pub(super) fn input_of(per_word: usize, word: usize, j: usize) -> usize {
    let stride = BLOCK / 2 / per_word;
    word / stride * (BLOCK / 2) + word % stride + j * stride
}

/// One block of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeBlock<'a>(&'a [i32]);

impl<'a> CodeBlock<'a> {
    #[inline(always)]
    fn extra(self, at: usize) -> i32 {
        self.0[self.0.len() - EXTRA + at]
    }

    pub const EMPTY: Self = CodeBlock(&[]);

    #[inline(always)]
    pub fn word(self, at: usize) -> i32 {
        self.0[at]
    }

    #[cfg(test)]
    pub fn words(self) -> &'a [i32] {
        &self.0[..self.0.len() - EXTRA]
    }

    #[inline(always)]
    pub fn scale(self) -> f32 {
        f32::from_bits(self.extra(0) as u32)
    }

    /// What the activations sum to.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        f32::from_bits(self.extra(1) as u32)
    }

    /// What the codes of one of `groups` groups sum to.
    #[inline(always)]
    pub fn total(self, group: usize, groups: usize) -> i32 {
        if groups == 1 { self.extra(2) + self.extra(3) } else { self.extra(2 + group) }
    }
}

impl CodeRows {
    /// Makes room for rows of `inputs` numbers each, to be filled by [`quantise`].
    pub fn resize(&mut self, isa: Isa, rows: usize, inputs: usize) {
        debug_assert!(inputs.is_multiple_of(BLOCK));
        self.blocks = inputs / BLOCK;
        self.words = BLOCK / isa.activations_per_word();
        self.records.resize(rows * self.stride(), 0);
    }

    fn stride(&self) -> usize {
        self.blocks * (self.words + EXTRA)
    }

    /// Rows that can be filled apart from each other, and the length of one.
    pub fn rows_mut(&mut self) -> (&mut [i32], usize) {
        let stride = self.stride();
        (&mut self.records, stride)
    }

    /// Block `block` of a row; every block of it has `words` words.
    #[inline(always)]
    pub(super) fn block(&self, row: usize, block: usize, words: usize) -> CodeBlock<'_> {
        CodeBlock(&self.records[(row * self.blocks + block) * (words + EXTRA)..][..words + EXTRA])
    }
}

/// Turns a row into codes, in the form that the instructions want.
pub(crate) fn quantise(isa: Isa, x: &[f32], row: &mut [i32]) {
    match isa.activations_per_word() {
        4 => bytes(isa, x, row),
        _ => shorts(isa, x, row),
    }
}

multiversion! {
    fn shorts(x: &[f32], row: &mut [i32]) = shorts_lanes
}

multiversion! {
    fn bytes(x: &[f32], row: &mut [i32]) = bytes_lanes
}

#[inline(always)]
fn shorts_lanes<const FMA: bool>(x: &[f32], row: &mut [i32]) {
    for (x, record) in x.chunks_exact(BLOCK).zip(row.chunks_exact_mut(BLOCK / 2 + EXTRA)) {
        let codes = block::<FMA>(x, f32::from(i16::MAX), &mut record[BLOCK / 2..]);
        for (codes, words) in codes.iter().zip(record.chunks_exact_mut(LANES / 2)) {
            for k in 0..LANES / 2 {
                words[k] = codes[k] & 0xffff | codes[k + LANES / 2] << 16;
            }
        }
    }
}

#[inline(always)]
fn bytes_lanes<const FMA: bool>(x: &[f32], row: &mut [i32]) {
    for (x, record) in x.chunks_exact(BLOCK).zip(row.chunks_exact_mut(BLOCK / 4 + EXTRA)) {
        let codes = block::<FMA>(x, f32::from(i8::MAX), &mut record[BLOCK / 4..]);
        for (codes, words) in codes.iter().zip(record.chunks_exact_mut(LANES / 4)) {
            for k in 0..LANES / 4 {
                let code = |j: usize| (codes[k + j * LANES / 4] & 0xff) << (8 * j);
                words[k] = code(0) | code(1) | code(2) | code(3);
            }
        }
    }
}

/// The codes of one block, of which the largest becomes `most`; fills in the rest of its record.
#[inline(always)]
fn block<const FMA: bool>(x: &[f32], most: f32, extra: &mut [i32]) -> [[i32; LANES]; 2] {
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it, in two's complement, in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let halves = [Lanes::load(&x[..LANES]), Lanes::load(&x[LANES..])];
    let mut sizes = halves[0].map(f32::abs);
    for i in 0..LANES {
        let other = halves[1].0[i].abs();
        sizes.0[i] = if other > sizes.0[i] { other } else { sizes.0[i] };
    }
    let largest = sizes.max();
    // The comparisons above pass over what is no number; zero times it does not, so that the error is still seen.
    let mut poison = Lanes::ZERO;
    for half in &halves {
        poison.add_product::<FMA>(0.0, half);
    }
    let scale = largest / most + poison.sum();
    let inverse = if largest > 0.0 { most / largest } else { 0.0 };
    let mut codes = [[0; LANES]; 2];
    for (half, codes) in halves.iter().zip(&mut codes) {
        for i in 0..LANES {
            codes[i] = fma::<FMA>(half.0[i], inverse, ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        }
    }
    let totals = codes.map(|codes| codes.iter().sum::<i32>());
    extra[0] = scale.to_bits() as i32;
    extra[1] = (scale * (totals[0] + totals[1]) as f32).to_bits() as i32;
    extra[2..4].copy_from_slice(&totals);
    codes
}
