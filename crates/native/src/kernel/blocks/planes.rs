//! Activations for the matrix unit: rows of whole numbers of 16 bits, their upper bytes apart from their lower ones.

use std::arch::x86_64::*;

use crate::kernel::lanes::LANES;
use crate::kernel::unit::amx::{Rows, TILE};

/// Activations that a tile has of a row.
pub(super) const WIDE: usize = 64;

/// The largest number: its upper byte, rounded, has to have room for it.
const MOST: f32 = 127.0 * 256.0;

/// Words of 32 bits at the end of a row, of which the first is its scale: so many that rows begin on cache lines.
const EXTRA: usize = 16;

/// Bytes of a plane.
fn padded(inputs: usize) -> usize {
    inputs.next_multiple_of(WIDE)
}

/// Words that a row of so many inputs takes.
pub(super) fn stride(inputs: usize) -> usize {
    2 * padded(inputs) / 4 + EXTRA
}

/// Rows behind the last that a tile may read, and nobody asks for.
pub(super) const BEHIND: usize = 2 * TILE;

/// Rows of activations that became whole numbers: `(256 high + low) * scale` each, with `low` from -128 to 127.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planes<'a> {
    pub words: &'a [i32],
    pub inputs: usize,
}

impl Planes<'_> {
    /// What a tile reads from a row on, at a step of 64 inputs.
    #[inline(always)]
    pub fn rows(&self, row: usize, step: usize) -> Rows {
        let (stride, plane) = (stride(self.inputs), padded(self.inputs));
        assert!(step * WIDE < plane && (row + TILE) * stride <= self.words.len());
        // SAFETY: inside the words, by the assertion; so are sixteen rows.
        let high = unsafe { self.words.as_ptr().add(row * stride).cast::<u8>().add(step * WIDE) };
        Rows { high, low: high.wrapping_add(plane), stride: stride * 4 }
    }

    /// A row as whole numbers, in the order of its inputs.
    #[cfg(test)]
    pub fn whole(&self, row: usize) -> Vec<i64> {
        let stride = stride(self.inputs);
        let bytes: &[i8] = bytemuck::cast_slice(&self.words[row * stride..][..stride]);
        let place = |input: usize| input / 16 * 16 + input % 4 * 4 + input % 16 / 4;
        let number = |at: usize| i64::from(bytes[at]) * 256 + i64::from(bytes[padded(self.inputs) + at]);
        (0..self.inputs).map(|input| number(place(input))).collect()
    }

    #[inline(always)]
    pub fn scale(&self, row: usize) -> f32 {
        let stride = stride(self.inputs);
        f32::from_bits(self.words[(row + 1) * stride - EXTRA] as u32)
    }
}

/// Turns a row into whole numbers. Bytes of 16 neighbours lie as weights do where four meet a word.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn quantise(x: &[f32], row: &mut [i32]) {
    let mut sizes = _mm512_setzero_si512();
    let (whole, rest) = x.as_chunks::<WIDE>();
    let mut last = [0.0; WIDE];
    last[..rest.len()].copy_from_slice(rest);
    let all = || whole.iter().chain((!rest.is_empty()).then_some(&last));
    for x in all() {
        for x in load(x) {
            // Without the sign, bits are ordered as the numbers they stand for, and what is no number is the largest.
            let size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX));
            sizes = _mm512_max_epu32(sizes, size);
        }
    }
    let largest = f32::from_bits(_mm512_reduce_max_epu32(sizes));
    // What is so small is as good as nothing, and its inverse might not be a number.
    let inverse = _mm512_set1_ps(if largest > 1e-30 { MOST / largest } else { 0.0 });
    let plane = padded(x.len()) / 4;
    let (high, low) = row.split_at_mut(plane);
    let (low, extra) = low.split_at_mut(plane);
    let (high, low) = (high.as_chunks_mut::<LANES>().0, low.as_chunks_mut::<LANES>().0);
    let order = order();
    for (at, x) in all().enumerate() {
        let [a, b, c, d] = load(x);
        let code = |x: __m512| _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        let (ab, cd) = (_mm512_packs_epi32(code(a), code(b)), _mm512_packs_epi32(code(c), code(d)));
        let byte = _mm512_set1_epi16(0xff);
        let lower = _mm512_packus_epi16(_mm512_and_si512(ab, byte), _mm512_and_si512(cd, byte));
        let up = |x: __m512i| _mm512_srai_epi16::<8>(_mm512_add_epi16(x, _mm512_set1_epi16(128)));
        let upper = _mm512_packs_epi16(up(ab), up(cd));
        // SAFETY: both write the 64 bytes of sixteen words.
        unsafe {
            _mm512_storeu_si512(high[at].as_mut_ptr().cast(), _mm512_permutexvar_epi8(order, upper));
            _mm512_storeu_si512(low[at].as_mut_ptr().cast(), _mm512_permutexvar_epi8(order, lower));
        }
    }
    extra[0] = (largest / MOST).to_bits() as i32;
}

/// 64 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; WIDE]) -> [__m512; 4] {
    // SAFETY: each reads sixteen of the 64 numbers.
    unsafe {
        let at = |first: usize| _mm512_loadu_ps(x[first..].as_ptr());
        [at(0), at(16), at(32), at(48)]
    }
}

/// Undoes what packing four vectors does to their order, and has every fourth of 16 neighbours lie together.
#[inline]
#[target_feature(enable = "avx512f")]
fn order() -> __m512i {
    const ORDER: [u8; WIDE] = {
        let mut order = [0; WIDE];
        let mut at = 0;
        while at < WIDE {
            let (vector, word, byte) = (at / 16, at / 4 % 4, at % 4);
            order[at] = (byte * 16 + vector * 4 + word) as u8;
            at += 1;
        }
        order
    };
    // SAFETY: reads the 64 bytes of the constant.
    unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) }
}
