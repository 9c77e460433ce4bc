//! Activations as whole numbers.

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
use crate::kernel::isa::{Isa, multiversion};
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
    /// For `winograd`: what the products of neighbouring words sum to, modulo 2³² and with the other sign; and in the two halves.
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

    /// For tasks that each fill rows of their own.
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
        // SAFETY: of both, the caller's promise and that an `Isa` of a level exists only where the machine reported AVX-512.
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Vnni => return unsafe { avx512::shorts::<false>(self, rows, blocks, x) },
            #[cfg(target_arch = "x86_64")]
            Level::Winograd => return unsafe { avx512::shorts::<true>(self, rows, blocks, x) },
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
                _ => shorts(isa, x, into, sums),
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

multiversion! {
    fn shorts(x: &[f32], row: RowMut<'_>, sums: bool) = shorts_lanes
}

// Goes through `black_box`, block by block: the compiler would rather take a number from each of sixteen blocks at a time,
// with gathers and scatters, and that takes several times as long as one block after the other.
#[inline(always)]
fn shorts_lanes<const FMA: bool>(x: &[f32], mut row: RowMut<'_>, sums: bool) {
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

/// The same with AVX-512, spelt out: from the loops above the compiler makes something three times as slow.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use std::ops::Range;

    use super::{BLOCK, EXTRA, Floats, LANES, MOST, ROUND, RowMut, SharedCodes, finish};

    /// Blocks that become codes together: what is left of each when its lanes are taken together is a quarter of a vector.
    const TOGETHER: usize = 4;
    /// Words of a block.
    const WORDS: usize = BLOCK / 2;

    /// Codes of 16 bits, two to a word; with the products of neighbouring words, or without.
    ///
    /// # Safety
    /// As for `SharedCodes::fill`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    pub unsafe fn shorts<const CROSSED: bool>(
        codes: SharedCodes<'_>,
        rows: Range<usize>,
        blocks: Range<usize>,
        x: Floats,
    ) {
        if rows.is_empty() || blocks.is_empty() {
            return;
        }
        let (mut row, mut block) = (rows.start, blocks.start);
        while row < rows.end {
            // The last is taken again where there are fewer: it becomes the same codes.
            let (mut from, mut into) = ([std::ptr::null(); TOGETHER], [std::ptr::null_mut(); TOGETHER]);
            let (mut last, mut more) = ((row, block), true);
            for at in 0..TOGETHER {
                if more {
                    last = (row, block);
                    block += 1;
                    if block == blocks.end {
                        (row, block) = (row + 1, blocks.start);
                        more = row < rows.end;
                    }
                }
                let (row, block) = last;
                // SAFETY: the caller promises that it is there.
                from[at] =
                    unsafe { x.first.add((row - rows.start) * x.stride + (block - blocks.start) * BLOCK) };
                let mut record = RowMut { codes, row, first: block };
                into[at] = record.record::<{ WORDS + EXTRA }>(0).as_mut_ptr();
            }
            // SAFETY: as above; records are the caller's, and as long as they were made.
            unsafe { four::<CROSSED>(from, into) };
        }
    }

    /// Four blocks.
    ///
    /// # Safety
    /// There must be the activations of a block, and room for a record, at every place.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    unsafe fn four<const CROSSED: bool>(from: [*const f32; TOGETHER], into: [*mut i32; TOGETHER]) {
        let most = _mm512_set1_ps(f32::from(MOST));
        let mut x = [[_mm512_setzero_ps(); 2]; TOGETHER];
        let mut sizes = [_mm512_setzero_si512(); TOGETHER];
        for at in 0..TOGETHER {
            // SAFETY: each reads the 64 bytes of sixteen activations.
            x[at] = unsafe { [_mm512_loadu_ps(from[at]), _mm512_loadu_ps(from[at].add(LANES))] };
            sizes[at] = _mm512_max_epu32(size(x[at][0]), size(x[at][1]));
        }
        // Without the sign, bits are ordered as the numbers they stand for. The largest of a block is in all lanes of its quarter.
        let [a, b, c, d] = sizes;
        let larger = |a: __m512i, b: __m512i| _mm512_max_epu32(a, b);
        let halves = [quarters::<0, 1>(a, b), quarters::<0, 1>(c, d)].map(|[low, high]| larger(low, high));
        let [even, odd] = quarters::<0, 2>(halves[0], halves[1]);
        let largest = larger(even, odd);
        let largest = larger(largest, _mm512_shuffle_epi32::<0b01_00_11_10>(largest));
        let largest = larger(largest, _mm512_shuffle_epi32::<0b10_11_00_01>(largest));
        let largest = _mm512_castsi512_ps(largest);
        let scales = _mm512_div_ps(largest, most);
        // What is no number is not above zero, as in the plain version.
        let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(largest, _mm512_setzero_ps());
        let inverse = _mm512_maskz_div_ps(above, most, largest);
        let inverses = [
            _mm512_shuffle_f32x4::<0b00_00_00_00>(inverse, inverse),
            _mm512_shuffle_f32x4::<0b01_01_01_01>(inverse, inverse),
            _mm512_shuffle_f32x4::<0b10_10_10_10>(inverse, inverse),
            _mm512_shuffle_f32x4::<0b11_11_11_11>(inverse, inverse),
        ];
        let round = _mm512_set1_ps(ROUND);
        let mut sums = [_mm512_setzero_si512(); TOGETHER];
        for at in 0..TOGETHER {
            let code = |x: __m512| {
                let rounded = _mm512_castps_si512(_mm512_fmadd_ps(x, inverses[at], round));
                _mm512_sub_epi32(rounded, _mm512_castps_si512(round))
            };
            // Both halves have the first eight of their sixteen below, the others above.
            let [low, high] = quarters::<0, 1>(code(x[at][0]), code(x[at][1]));
            let words = _mm512_mask_blend_epi16(0xaaaa_aaaa, low, _mm512_slli_epi32::<16>(high));
            // SAFETY: writes the 64 bytes of the record's first sixteen numbers.
            unsafe { _mm512_storeu_si512(into[at].cast(), words) };
            // From the words: where an activation is no number, they have less of its code than lanes of 32 bits.
            let totals = _mm512_madd_epi16(words, _mm512_set1_epi16(1));
            let mut crossed = _mm512_setzero_si512();
            if CROSSED {
                // Every product is there twice, in the lanes of both words: one of them is kept.
                let neighbours = _mm512_shuffle_epi32::<0b10_11_00_01>(words);
                crossed = _mm512_maskz_sub_epi32(0x5555, crossed, _mm512_madd_epi16(words, neighbours));
            }
            // Quarters are now the first and the second half of either.
            let [even, odd] = quarters::<0, 2>(totals, crossed);
            sums[at] = _mm512_add_epi32(even, odd);
        }
        // Four lanes of every quarter are to be summed up, of four blocks, which become the lanes.
        let [a, b, c, d] = sums;
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        let sums = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        // Of each block, the scale: the first lane of its quarter.
        let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        let scales = _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, scales));
        let first = _mm512_castsi512_si128(sums);
        let second = _mm512_extracti32x4_epi32::<1>(sums);
        let (first_crossed, second_crossed) =
            (_mm512_extracti32x4_epi32::<2>(sums), _mm512_extracti32x4_epi32::<3>(sums));
        let scaled = |total: __m128i| _mm_castps_si128(_mm_mul_ps(scales, _mm_cvtepi32_ps(total)));
        let crossed = _mm_add_epi32(first_crossed, second_crossed);
        // In the order of `Beside`.
        let beside = [
            turned([
                _mm_castps_si128(scales),
                scaled(_mm_add_epi32(first, second)),
                scaled(first),
                scaled(second),
            ]),
            turned([first, second, crossed, first_crossed]),
        ];
        let last = [
            _mm_extract_epi32::<0>(second_crossed),
            _mm_extract_epi32::<1>(second_crossed),
            _mm_extract_epi32::<2>(second_crossed),
            _mm_extract_epi32::<3>(second_crossed),
        ];
        for at in 0..TOGETHER {
            // SAFETY: they write the nine numbers behind the record's words.
            unsafe {
                _mm_storeu_si128(into[at].add(WORDS).cast(), beside[0][at]);
                _mm_storeu_si128(into[at].add(WORDS + 4).cast(), beside[1][at]);
                *into[at].add(WORDS + 8) = last[at];
            }
        }
    }

    /// Without the sign.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn size(x: __m512) -> __m512i {
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX))
    }

    /// Two quarters of each of two vectors, and then the other two: the lower and the upper half, or the even and the odd ones.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn quarters<const FIRST: u8, const SECOND: u8>(a: __m512i, b: __m512i) -> [__m512i; 2] {
        match (FIRST, SECOND) {
            (0, 1) => {
                [_mm512_shuffle_i64x2::<0b01_00_01_00>(a, b), _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b)]
            }
            _ => [_mm512_shuffle_i64x2::<0b10_00_10_00>(a, b), _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b)],
        }
    }

    /// Lanes become vectors and vectors lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn turned([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
        let (low_ab, low_cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (high_ab, high_cd) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        [
            _mm_unpacklo_epi64(low_ab, low_cd),
            _mm_unpackhi_epi64(low_ab, low_cd),
            _mm_unpacklo_epi64(high_ab, high_cd),
            _mm_unpackhi_epi64(high_ab, high_cd),
        ]
    }

    /// Codes of 8 bits, four to a word.
    #[target_feature(enable = "avx512f,avx512bw,fma")]
    pub fn bytes(x: &[f32], mut row: RowMut<'_>, sums: bool) {
        const WORDS: usize = BLOCK / 4;
        let (blocks, _) = x.as_chunks::<BLOCK>();
        // The four quarters of a half become the four bytes of its words.
        let up = _mm512_set_epi32(24, 24, 24, 24, 16, 16, 16, 16, 8, 8, 8, 8, 0, 0, 0, 0);
        for at in 0..blocks.len() {
            let record = row.record::<{ WORDS + EXTRA }>(at);
            let (scale, halves) = codes(&blocks[at], f32::from(i8::MAX));
            let [a, b] = halves;
            let eights = _mm512_add_epi32(
                _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
                _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
            );
            let none = _mm512_setzero_si512();
            finish(record, scale, if sums { totals(eights, none) } else { [0; 4] });
            for half in 0..2 {
                let bytes = _mm512_sllv_epi32(_mm512_and_si512(halves[half], _mm512_set1_epi32(0xff)), up);
                let two = _mm512_or_si512(bytes, _mm512_shuffle_i64x2::<0b00_00_11_10>(bytes, bytes));
                let one = _mm512_or_si512(two, _mm512_shuffle_i64x2::<0b00_00_00_01>(two, two));
                let words = &mut record[half * WORDS / 2..][..WORDS / 2];
                // SAFETY: writes the 16 bytes of these four numbers.
                unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), _mm512_castsi512_si128(one)) };
            }
        }
    }

    /// The scale and the codes of a block's halves, of which the largest becomes `most`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,fma")]
    fn codes(x: &[f32; BLOCK], most: f32) -> (f32, [__m512i; 2]) {
        // SAFETY: each reads the 64 bytes of sixteen numbers.
        let (a, b) = unsafe { (_mm512_loadu_ps(x[..LANES].as_ptr()), _mm512_loadu_ps(x[LANES..].as_ptr())) };
        let size = |x: __m512| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX));
        let largest = f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(size(a), size(b))));
        let inverse = _mm512_set1_ps(if largest > 0.0 { most / largest } else { 0.0 });
        let round = _mm512_set1_ps(ROUND);
        let code = |x: __m512| {
            let rounded = _mm512_castps_si512(_mm512_fmadd_ps(x, inverse, round));
            _mm512_sub_epi32(rounded, _mm512_castps_si512(round))
        };
        (largest / most, [code(a), code(b)])
    }

    /// What the lanes of either half of `t` sum to, and those of either half of `c`: all four at once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn totals(t: __m512i, c: __m512i) -> [i32; 4] {
        let fours = _mm512_add_epi32(
            _mm512_shuffle_i64x2::<0b10_00_10_00>(t, c),
            _mm512_shuffle_i64x2::<0b11_01_11_01>(t, c),
        );
        let twos = _mm512_add_epi32(fours, _mm512_shuffle_epi32::<0b01_00_11_10>(fours));
        let ones = _mm512_add_epi32(twos, _mm512_shuffle_epi32::<0b10_11_00_01>(twos));
        let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        let mut totals = [0; 4];
        let found = _mm512_castsi512_si128(_mm512_permutexvar_epi32(firsts, ones));
        // SAFETY: writes the 16 bytes of four numbers.
        unsafe { _mm_storeu_si128(totals.as_mut_ptr().cast(), found) };
        totals
    }
}
