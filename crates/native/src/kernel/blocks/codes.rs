//! Activations as whole numbers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::hint::black_box;
use std::ops::Range;

use super::BLOCK;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::planes::{self, Planes};
use crate::kernel::ahead::Ahead;
#[cfg(target_arch = "x86_64")]
use crate::kernel::ahead::Pieces;
use crate::kernel::buffer::Buffer;
#[cfg(target_arch = "x86_64")]
use crate::kernel::isa::Level;
use crate::kernel::isa::{BASELINE, Isa};
use crate::kernel::lanes::{LANES, ROUND, fma, fold};
use crate::shared_slice::SharedSlice;

/// Rows of activations as codes: in each block of 32, a scale times whole numbers of 16 bits (or 8). For a matrix unit, they are
/// `Planes`.
///
/// Codes lie in words of 32 bits, so that a word can be multiplied with a lane of weights. Which activations share a word is
/// said by [`input_of`]. The first blocks of all rows come first: rows are multiplied together, block after block.
#[derive(Debug, Default)]
pub(crate) struct CodeRows {
    /// For each block of each row: its words, and what is [`Beside`] them.
    records: Buffer<i32>,
    rows: usize,
    blocks: usize,
}

/// What a record has beside the words, in this order: 32 bits each.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Beside {
    pub scale: f32,
    /// What the activations sum to, and those of the two halves.
    pub sum: f32,
    pub half_sums: [f32; 2],
    /// What the codes of the two halves sum to.
    pub totals: [i32; 2],
    /// For kernels that take two products in one: what the products of neighbouring words sum to, modulo 2³² and with the other
    /// sign, but for words that the kernel multiplies one by one; and in the two halves.
    pub crossed: i32,
    pub half_crossed: [i32; 2],
}

/// Numbers in it.
const EXTRA: usize = size_of::<Beside>() / size_of::<i32>();

/// The largest code of 16 bits: with any code of a weight added, it is still one of 16 bits.
pub(super) const MOST: i16 = i16::MAX - 128;

/// The place in its block of number `j` of a word, for words of `per_word` activations.
pub(super) fn input_of(per_word: usize, word: usize, j: usize) -> usize {
    let stride = BLOCK / 2 / per_word;
    word / stride * (BLOCK / 2) + word % stride + j * stride
}

/// One block of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeBlock<'a>(&'a [i32]);

impl<'a> CodeBlock<'a> {
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
    fn beside(self) -> &'a Beside {
        let numbers = &self.0[self.0.len() - EXTRA..];
        // SAFETY: so many numbers of 32 bits, of which every value is valid as a float, too.
        unsafe { &*numbers.as_ptr().cast() }
    }

    #[inline(always)]
    pub fn scale(self) -> f32 {
        self.beside().scale
    }

    /// What the activations of one of `groups` groups sum to.
    #[inline(always)]
    pub fn sum(self, group: usize, groups: usize) -> f32 {
        let beside = self.beside();
        if groups == 1 { beside.sum } else { beside.half_sums[group] }
    }

    /// What the codes of one of `groups` groups sum to.
    #[inline(always)]
    pub fn total(self, group: usize, groups: usize) -> i32 {
        let [first, second] = self.beside().totals;
        if groups == 1 { first.wrapping_add(second) } else { [first, second][group] }
    }
}

impl CodeRows {
    /// Makes room for rows of `inputs` numbers each, to be filled.
    pub fn resize(&mut self, isa: Isa, rows: usize, inputs: usize) {
        debug_assert!(inputs.is_multiple_of(BLOCK));
        (self.rows, self.blocks) = (rows, inputs / BLOCK);
        let record = BLOCK / isa.activations_per_word() + EXTRA;
        #[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(unused_mut))]
        let mut len = rows * self.blocks * record;
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if isa.has_matrix_unit() {
            len = (rows + planes::BEHIND) * planes::stride(inputs);
        }
        self.records.at_least(len);
    }

    /// For tasks that each fill rows, or blocks of rows, of their own.
    pub fn shared(&mut self) -> SharedCodes<'_> {
        SharedCodes { rows: self.rows, records: SharedSlice::new(&mut self.records) }
    }

    /// Rows for the matrix unit.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn planes(&self) -> Planes<'_> {
        Planes { words: &self.records, inputs: self.blocks * BLOCK }
    }

    /// All of them, to be read. What is ahead is asked for meanwhile.
    pub(super) fn view<'a>(&'a self, ahead: Option<&'a Ahead<'a>>) -> CodeView<'a> {
        // Nobody asks elsewhere.
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ahead;
        CodeView {
            records: &self.records,
            rows: self.rows,
            #[cfg(target_arch = "x86_64")]
            ahead,
        }
    }
}

/// The blocks of all rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeView<'a> {
    records: &'a [i32],
    rows: usize,
    #[cfg(target_arch = "x86_64")]
    ahead: Option<&'a Ahead<'a>>,
}

impl<'a> CodeView<'a> {
    /// Block `block` of a row; every block of it has `words` words.
    #[inline(always)]
    pub fn block(self, row: usize, block: usize, words: usize) -> CodeBlock<'a> {
        CodeBlock(self.blocks(row..row + 1, block, words))
    }

    /// The same of several rows, one record after the other.
    #[inline(always)]
    pub fn blocks(self, rows: Range<usize>, block: usize, words: usize) -> &'a [i32] {
        let at = |row: usize| (block * self.rows + row) * (words + EXTRA);
        &self.records[at(rows.start)..at(rows.end)]
    }

    /// So many pieces of what is ahead.
    #[cfg(target_arch = "x86_64")]
    pub fn pieces(self, count: usize) -> Pieces<'a> {
        self.ahead.map_or_else(Pieces::default, |ahead| ahead.take(count))
    }

    /// How many bytes it is from a row's block to its next.
    #[cfg(target_arch = "x86_64")]
    pub fn distance(self, words: usize) -> usize {
        self.rows * (words + EXTRA) * size_of::<i32>()
    }
}

/// Rows that tasks divide among themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedCodes<'a> {
    records: SharedSlice<'a, i32>,
    rows: usize,
}

/// Where the activations of rows lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floats {
    /// The first of a row, and how far it is from there to the next row's.
    pub first: *const f32,
    pub stride: usize,
}

impl Floats {
    /// So many activations of a row.
    ///
    /// # Safety
    /// They must be there, and nobody may write to them.
    #[inline(always)]
    unsafe fn row<'a>(self, row: usize, count: usize) -> &'a [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.first.add(row * self.stride), count) }
    }
}

impl SharedCodes<'_> {
    /// Fills some blocks of some rows, in the form that the instructions want (for a matrix unit, all blocks); with what
    /// activations sum to, or without, where no weights ask. The activations of these blocks are those from `x` on.
    ///
    /// # Safety
    /// Room must have been made for these rows and blocks, for this `Isa`. The activations must be there, nobody else may write
    /// to them, and nobody else may fill the same blocks of the rows.
    pub unsafe fn fill(self, isa: Isa, rows: Range<usize>, blocks: Range<usize>, x: Floats, sums: bool) {
        match isa.0 {
            // SAFETY: the caller's promise; an `Isa` of this level exists only where the machine reported AVX-512.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Vnni => return unsafe { avx512::shorts::<false>(self, rows, blocks, x) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Winograd => return unsafe { avx512::shorts::<true>(self, rows, blocks, x) },
            // SAFETY: the caller's promise; an `Isa` of this level exists only where the machine reported AVX2.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => return unsafe { avx2::shorts(self, rows, blocks, x) },
            _ => {}
        }
        for (at, row) in rows.enumerate() {
            // SAFETY: the caller's promise.
            let x = unsafe { x.row(at, blocks.len() * BLOCK) };
            let into = RowMut { codes: self, row, first: blocks.start };
            match isa.0 {
                // SAFETY: an `Isa` of this level exists only where the machine reported AVX-512.
                #[cfg(target_arch = "x86_64")]
                Level::Vnni8 => unsafe { avx512::bytes(x, into, sums) },
                // SAFETY: as above, and the row is the caller's.
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Level::Amx => unsafe {
                    let stride = planes::stride(x.len());
                    planes::quantise(x, self.records.part(row * stride..(row + 1) * stride));
                },
                _ => shorts::<BASELINE>(x, into, sums),
            }
        }
    }
}

/// A row that is one task's, from a block on.
#[derive(Debug)]
struct RowMut<'a> {
    codes: SharedCodes<'a>,
    row: usize,
    first: usize,
}

impl RowMut<'_> {
    /// The record of a block; all have so many numbers.
    #[inline(always)]
    fn record<const N: usize>(&mut self, block: usize) -> &mut [i32; N] {
        let at = ((self.first + block) * self.codes.rows + self.row) * N;
        // SAFETY: the blocks are this one's alone, by the promise to `fill`, which was made for the codes of one `Isa`: all records
        // are of one length. There are as many numbers, by the assertion in `part`.
        unsafe { &mut *self.codes.records.part(at..at + N).as_mut_ptr().cast() }
    }
}

/// Blocks that become codes together.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 4;

/// Some blocks of some rows, four at a time: where their activations are, and their records.
#[cfg(target_arch = "x86_64")]
struct Fours<'a> {
    codes: SharedCodes<'a>,
    rows: Range<usize>,
    blocks: Range<usize>,
    x: Floats,
    /// The next one.
    row: usize,
    block: usize,
}

#[cfg(target_arch = "x86_64")]
impl<'a> Fours<'a> {
    /// # Safety
    /// As for [`SharedCodes::fill`].
    unsafe fn new(codes: SharedCodes<'a>, rows: Range<usize>, blocks: Range<usize>, x: Floats) -> Self {
        // Rows without blocks have none.
        let end = if blocks.is_empty() { rows.start } else { rows.end };
        let (row, block) = (rows.start, blocks.start);
        Fours { codes, rows: row..end, blocks, x, row, block }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<([*const f32; TOGETHER], [*mut i32; TOGETHER])> {
        if self.row >= self.rows.end {
            return None;
        }
        let (mut from, mut into) = ([std::ptr::null(); TOGETHER], [std::ptr::null_mut(); TOGETHER]);
        for at in 0..TOGETHER {
            if self.row == self.rows.end {
                // The last is taken again where there are fewer: it becomes the same codes.
                (from[at], into[at]) = (from[at - 1], into[at - 1]);
                continue;
            }
            let place =
                (self.row - self.rows.start) * self.x.stride + (self.block - self.blocks.start) * BLOCK;
            // SAFETY: whoever made this promised that it is there.
            from[at] = unsafe { self.x.first.add(place) };
            let mut row = RowMut { codes: self.codes, row: self.row, first: self.block };
            into[at] = row.record::<{ BLOCK / 2 + EXTRA }>(0).as_mut_ptr();
            self.block += 1;
            if self.block == self.blocks.end {
                (self.row, self.block) = (self.row + 1, self.blocks.start);
            }
        }
        Some((from, into))
    }
}

// Goes through `black_box`, block by block: the compiler would rather take a number from each of sixteen blocks at a time,
// with gathers and scatters, and that takes several times as long as one block after the other.
#[inline(always)]
fn shorts<const FMA: bool>(x: &[f32], mut row: RowMut<'_>, sums: bool) {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    for (at, x) in blocks.iter().enumerate() {
        let (x, record) = (black_box(x), row.record::<{ BLOCK / 2 + EXTRA }>(at));
        let codes = block::<FMA, _>(x, record, sums);
        for half in 0..2 {
            for k in 0..LANES / 2 {
                let (low, high) = (codes[half * LANES + k], codes[half * LANES + LANES / 2 + k]);
                record[half * LANES / 2 + k] = low & 0xffff | high << 16;
            }
        }
    }
}

/// The codes of one block; fills in the end of its record.
#[inline(always)]
fn block<const FMA: bool, const N: usize>(
    x: &[f32; BLOCK],
    record: &mut [i32; N],
    sums: bool,
) -> [i32; BLOCK] {
    let most = f32::from(MOST);
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
        let code = fma::<FMA>(x[i], inverse, ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        // As words will have it, whatever came in.
        codes[i] = i32::from(code as i16);
    }
    let mut totals = [0; 4];
    if sums {
        let mut halves = [[0; LANES]; 2];
        for i in 0..LANES {
            (halves[0][i], halves[1][i]) = (codes[i], codes[LANES + i]);
        }
        totals[0] = fold(halves[0], i32::wrapping_add);
        totals[1] = fold(halves[1], i32::wrapping_add);
    }
    finish(record, largest / most, totals);
    codes
}

/// Fills in the end of a record: from the scale, what the codes of its halves sum to, and (with the other sign) the products of
/// neighbouring words. The former overflow only where an activation is no number, which the scale then shows, or where the
/// largest is next to nothing.
#[inline(always)]
fn finish<const N: usize>(record: &mut [i32; N], scale: f32, [a, b, c, d]: [i32; 4]) {
    let at = N - EXTRA;
    let sum = |total: i32| (scale * total as f32).to_bits() as i32;
    // One by one: a call for all of them would take longer than everything else here.
    record[at] = scale.to_bits() as i32;
    record[at + 1] = sum(a.wrapping_add(b));
    record[at + 2] = sum(a);
    record[at + 3] = sum(b);
    record[at + 4] = a;
    record[at + 5] = b;
    record[at + 6] = c.wrapping_add(d);
    record[at + 7] = c;
    record[at + 8] = d;
}
