//! Activations as whole numbers.

use std::hint::black_box;

use super::BLOCK;
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, ROUND, fma};
use crate::kernel::matmul::at_least;

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

    /// What the activations of one of `groups` groups sum to.
    #[inline(always)]
    pub fn sum(self, group: usize, groups: usize) -> f32 {
        if groups == 1 {
            f32::from_bits(self.extra(1) as u32)
        } else {
            self.scale() * self.total(group, groups) as f32
        }
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
        let len = rows * self.stride();
        at_least(&mut self.records, len);
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

/// Turns a row into codes, in the form that the instructions want; with what they sum to, or without, where no weights ask.
pub(crate) fn quantise(isa: Isa, x: &[f32], row: &mut [i32], sums: bool) {
    match isa.activations_per_word() {
        4 => bytes(isa, x, row, sums),
        _ => shorts(isa, x, row, sums),
    }
}

multiversion! {
    fn shorts(x: &[f32], row: &mut [i32], sums: bool) = shorts_lanes
}

multiversion! {
    fn bytes(x: &[f32], row: &mut [i32], sums: bool) = bytes_lanes
}

// Both go through `black_box`, block by block: the compiler would rather take a number from each of sixteen blocks at a time,
// with gathers and scatters, and that takes several times as long as one block after the other.

#[inline(always)]
fn shorts_lanes<const FMA: bool>(x: &[f32], row: &mut [i32], sums: bool) {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (records, _) = row.as_chunks_mut::<{ BLOCK / 2 + EXTRA }>();
    for (x, record) in blocks.iter().zip(records) {
        let x = black_box(x);
        let codes = block::<FMA, { BLOCK / 2 + EXTRA }>(x, f32::from(i16::MAX), record, sums);
        for half in 0..2 {
            for k in 0..LANES / 2 {
                let (low, high) = (codes[half * LANES + k], codes[half * LANES + LANES / 2 + k]);
                record[half * LANES / 2 + k] = low & 0xffff | high << 16;
            }
        }
    }
}

#[inline(always)]
fn bytes_lanes<const FMA: bool>(x: &[f32], row: &mut [i32], sums: bool) {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (records, _) = row.as_chunks_mut::<{ BLOCK / 4 + EXTRA }>();
    for (x, record) in blocks.iter().zip(records) {
        let x = black_box(x);
        let codes = block::<FMA, { BLOCK / 4 + EXTRA }>(x, f32::from(i8::MAX), record, sums);
        for half in 0..2 {
            for k in 0..LANES / 4 {
                let code = |j: usize| (codes[half * LANES + j * LANES / 4 + k] & 0xff) << (8 * j);
                record[half * LANES / 4 + k] = code(0) | code(1) | code(2) | code(3);
            }
        }
    }
}

/// The codes of one block, of which the largest becomes `most`; fills in the end of its record.
#[inline(always)]
fn block<const FMA: bool, const N: usize>(
    x: &[f32; BLOCK],
    most: f32,
    record: &mut [i32; N],
    sums: bool,
) -> [i32; BLOCK] {
    // Without the sign, bits are ordered as the numbers they stand for, and what is no number is the largest: the scale
    // shows it, and so will the results.
    let mut sizes = [0; LANES];
    for i in 0..LANES {
        let (a, b) = (x[i].to_bits() & 0x7fff_ffff, x[LANES + i].to_bits() & 0x7fff_ffff);
        sizes[i] = if a > b { a } else { b };
    }
    let largest = f32::from_bits(fold(sizes, |a, b| if a > b { a } else { b }));
    let inverse = if largest > 0.0 { most / largest } else { 0.0 };
    let mut codes = [0; BLOCK];
    for i in 0..BLOCK {
        codes[i] = fma::<FMA>(x[i], inverse, ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
    }
    let scale = largest / most;
    record[N - 4] = scale.to_bits() as i32;
    if sums {
        let mut halves = [[0; LANES]; 2];
        for i in 0..LANES {
            (halves[0][i], halves[1][i]) = (codes[i], codes[LANES + i]);
        }
        let totals = [fold(halves[0], |a, b| a + b), fold(halves[1], |a, b| a + b)];
        record[N - 3] = (scale * (totals[0] + totals[1]) as f32).to_bits() as i32;
        record[N - 2] = totals[0];
        record[N - 1] = totals[1];
    }
    codes
}

/// Lanes into one, by halves.
#[inline(always)]
fn fold<T: Copy>(mut lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}
