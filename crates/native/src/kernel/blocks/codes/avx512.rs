//! Activations as whole numbers with AVX-512, spelt out: from plain loops the compiler makes something three times as slow.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernel::unit::Crossing;
use crate::kernel::unit::avx512::Vnni;

use super::{BLOCK, EXTRA, Floats, Fours, LANES, MOST, ROUND, RowMut, SharedCodes, TOGETHER, finish};

/// Words of a block.
const WORDS: usize = BLOCK / 2;

/// Every product of neighbouring words is there twice, in the lanes of both: the first of them is kept, unless the words are
/// multiplied one by one.
const KEPT: u16 = {
    let (mut kept, mut pair) = (0, 0);
    while pair < WORDS / 2 {
        kept |= ((Vnni::PLAIN >> pair & 1 == 0) as u16) << (2 * pair);
        pair += 1;
    }
    kept
};

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
    // SAFETY: the caller's promise; records are as long as they were made.
    unsafe {
        let mut fours = Fours::new(codes, rows, blocks, x);
        while let Some((from, into)) = fours.next() {
            four::<CROSSED>(from, into);
        }
    }
}

/// Four blocks: what is left of each when its lanes are taken together is a quarter of a vector.
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
            let neighbours = _mm512_shuffle_epi32::<0b10_11_00_01>(words);
            crossed = _mm512_maskz_sub_epi32(KEPT, crossed, _mm512_madd_epi16(words, neighbours));
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
        (0, 1) => [_mm512_shuffle_i64x2::<0b01_00_01_00>(a, b), _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b)],
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
        let total = |half: u16| if sums { _mm512_mask_reduce_add_epi32(half, eights) } else { 0 };
        finish(record, scale, [total(0x00ff), total(0xff00), 0, 0]);
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
