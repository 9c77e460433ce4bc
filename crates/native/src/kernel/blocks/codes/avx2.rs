//! Activations as whole numbers with AVX2, spelt out: of what a block needs, most is to take lanes together, and the compiler does
//! that one by one.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{BLOCK, Floats, Fours, MOST, ROUND, SharedCodes, TOGETHER};

/// Words of a block.
const WORDS: usize = BLOCK / 2;
/// Vectors of a block.
const VECTORS: usize = BLOCK / 8;

// Adding it leaves a whole number in the lowest 16 bits, where it has nothing itself.
const _: () = assert!(ROUND.to_bits() as u16 == 0);

/// Codes of 16 bits, two to a word, with the products of neighbouring words.
///
/// # Safety
/// As for `SharedCodes::fill`.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn shorts(codes: SharedCodes<'_>, rows: Range<usize>, blocks: Range<usize>, x: Floats) {
    // SAFETY: the caller's promise; records are as long as they were made.
    unsafe {
        let mut fours = Fours::new(codes, rows, blocks, x);
        while let Some((from, into)) = fours.next() {
            four(from, into);
        }
    }
}

/// Four blocks.
///
/// # Safety
/// There must be the activations of a block, and room for a record, at every place.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn four(from: [*const f32; TOGETHER], into: [*mut i32; TOGETHER]) {
    let most = _mm_set1_ps(f32::from(MOST));
    let mut sizes = [_mm256_setzero_si256(); TOGETHER];
    for at in 0..TOGETHER {
        // SAFETY: the caller promises that they are there.
        let [a, b, c, d] = unsafe { load(from[at]) };
        sizes[at] = _mm256_max_epu32(_mm256_max_epu32(size(a), size(b)), _mm256_max_epu32(size(c), size(d)));
    }
    // Without the sign, bits are ordered as the numbers they stand for.
    let largest =
        _mm_castsi128_ps(taken_together(sizes, |a, b| _mm256_max_epu32(a, b), |a, b| _mm_max_epu32(a, b)));
    let scales = _mm_div_ps(largest, most);
    // What is no number is not above zero, as in the plain version.
    let inverses = _mm_and_ps(_mm_cmpgt_ps(largest, _mm_setzero_ps()), _mm_div_ps(most, largest));
    // SAFETY: the caller promises that all is there.
    unsafe {
        one(from[0], into[0], lane::<0>(inverses), lane::<0>(scales));
        one(from[1], into[1], lane::<1>(inverses), lane::<1>(scales));
        one(from[2], into[2], lane::<2>(inverses), lane::<2>(scales));
        one(from[3], into[3], lane::<3>(inverses), lane::<3>(scales));
    }
}

/// One block, whose scale and its inverse are in the first lanes.
///
/// # Safety
/// As for [`four`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn one(from: *const f32, into: *mut i32, inverse: __m128, scale: __m128) {
    let (inverse, round) = (_mm256_broadcastss_ps(inverse), _mm256_set1_ps(ROUND));
    let code = |x: __m256| _mm256_castps_si256(_mm256_fmadd_ps(x, inverse, round));
    // Both halves have the first eight of their sixteen below, the others above.
    let words = |low: __m256i, high: __m256i| _mm256_blend_epi16::<0xaa>(low, _mm256_slli_epi32::<16>(high));
    // SAFETY: the caller promises that they are there.
    let [a, b, c, d] = unsafe { load(from) };
    let (first, second) = (words(code(a), code(b)), words(code(c), code(d)));
    // SAFETY: they write the 64 bytes of the record's first sixteen numbers.
    unsafe {
        _mm256_storeu_si256(into.cast(), first);
        _mm256_storeu_si256(into.add(WORDS / 2).cast(), second);
    }
    let total = |words: __m256i| _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    // Every product is there twice, in the lanes of both words: one of them is kept.
    let crossed = |words: __m256i| {
        let products = _mm256_madd_epi16(words, _mm256_shuffle_epi32::<0b10_11_00_01>(words));
        let zero = _mm256_setzero_si256();
        _mm256_sub_epi32(zero, _mm256_blend_epi32::<0b10_10_10_10>(products, zero))
    };
    // Totals of the first and the second half, and what is crossed there.
    let sums = taken_together(
        [total(first), total(second), crossed(first), crossed(second)],
        |a, b| _mm256_add_epi32(a, b),
        |a, b| _mm_add_epi32(a, b),
    );
    // In the order of `Beside`. Of both halves, then of the first and of the second.
    let both = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b10_11_00_01>(sums));
    let totals = _mm_unpacklo_epi64(both, sums);
    let scaled = _mm_mul_ps(_mm_shuffle_ps::<0>(scale, scale), _mm_cvtepi32_ps(totals));
    let beside = [
        _mm_castps_si128(_mm_move_ss(scaled, scale)),
        _mm_castps_si128(_mm_shuffle_ps::<0b10_10_01_00>(_mm_castsi128_ps(sums), _mm_castsi128_ps(both))),
    ];
    // SAFETY: they write the nine numbers behind the record's words.
    unsafe {
        _mm_storeu_si128(into.add(WORDS).cast(), beside[0]);
        _mm_storeu_si128(into.add(WORDS + 4).cast(), beside[1]);
        _mm_storel_epi64(into.add(WORDS + 7).cast(), _mm_unpackhi_epi64(sums, sums));
    }
}

/// # Safety
/// There must be so many.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(from: *const f32) -> [__m256; VECTORS] {
    // SAFETY: each reads the 32 bytes of eight activations.
    unsafe {
        [
            _mm256_loadu_ps(from),
            _mm256_loadu_ps(from.add(8)),
            _mm256_loadu_ps(from.add(16)),
            _mm256_loadu_ps(from.add(24)),
        ]
    }
}

/// Without the sign.
#[inline]
#[target_feature(enable = "avx2")]
fn size(x: __m256) -> __m256i {
    _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(i32::MAX))
}

/// What the lanes of each vector come to, a lane for each.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn taken_together(
    [a, b, c, d]: [__m256i; 4],
    wide: impl Fn(__m256i, __m256i) -> __m256i,
    narrow: impl Fn(__m128i, __m128i) -> __m128i,
) -> __m128i {
    let ab = wide(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let cd = wide(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    let all = wide(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    narrow(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all))
}

/// A lane, in the first.
#[inline]
#[target_feature(enable = "avx2")]
fn lane<const LANE: i32>(x: __m128) -> __m128 {
    match LANE {
        0 => x,
        1 => _mm_shuffle_ps::<0b01_01_01_01>(x, x),
        2 => _mm_shuffle_ps::<0b10_10_10_10>(x, x),
        _ => _mm_shuffle_ps::<0b11_11_11_11>(x, x),
    }
}
