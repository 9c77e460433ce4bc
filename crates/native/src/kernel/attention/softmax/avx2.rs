//! The same to the last bit for several queries at a time, a page in two vectors.

use std::arch::x86_64::*;

use super::{Found, LEAST, MOST_QUERIES, PAGE, SEGMENT, TOKENS, Values, WORDS, spread};
use crate::kernel::lanes::{EXP2, EXP2_LEAST, EXP2_ROUND, ROUND};

#[target_feature(enable = "avx2,fma")]
pub fn softmax(values: Values<'_>, scores: &mut [f32], codes: &mut [i32], found: &mut [Found]) {
    for_some!(some, values, scores, codes, found);
}

/// Queries one after the other, whose lanes are then folded together: there are not registers enough for more.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn some<const N: usize>(values: Values<'_>, scores: &mut [f32], codes: &mut [i32], found: &mut [Found]) {
    let pages = values.scales.len();
    let (scores, codes) = (&mut scores.as_chunks_mut::<PAGE>().0[..N * SEGMENT], &mut codes[..N * WORDS]);
    let codes = bytemuck::cast_slice_mut::<i32, i16>(codes).as_chunks_mut::<PAGE>().0;
    let max = |a, b| _mm256_max_ps(a, b);
    let add = |a, b| _mm256_add_ps(a, b);
    let mut tops = [_mm256_setzero_ps(); N];
    for n in 0..N {
        let [mut low, mut high] = [_mm256_set1_ps(f32::NEG_INFINITY); 2];
        for scores in &scores[n * SEGMENT..][..pages] {
            let [a, b] = load(scores);
            (low, high) = (max(a, low), max(b, high));
        }
        tops[n] = max(low, high);
    }
    let top = spread(fold(tops, max));
    let [mut totals, mut sums, mut largest] = [[_mm256_setzero_ps(); N]; 3];
    for n in 0..N {
        let top = _mm256_set1_ps(top[n]);
        let [mut all, mut sum, mut most] = [[_mm256_setzero_ps(); 2]; 3];
        for (scores, scales) in scores[n * SEGMENT..][..pages].iter_mut().zip(values.scales) {
            let (mut weights, scales) = (load(scores), load(scales));
            for half in 0..2 {
                let weight = exp2(_mm256_sub_ps(weights[half], top));
                all[half] = add(all[half], weight);
                weights[half] = _mm256_mul_ps(weight, scales[half]);
                sum[half] = add(sum[half], weights[half]);
                most[half] = max(weights[half], most[half]);
            }
            store(weights, scores);
        }
        (totals[n], sums[n], largest[n]) = (add(all[0], all[1]), add(sum[0], sum[1]), max(most[0], most[1]));
    }
    let (largest, sums) = (fold(largest, max), fold(sums, add));
    let by_size = _mm_div_ps(_mm_set1_ps(f32::from(i16::MAX)), largest);
    let by_sum = _mm_div_ps(_mm_set1_ps(values.room()), sums);
    let some = _mm_cmpgt_ps(largest, _mm_set1_ps(LEAST));
    let steps = _mm_and_ps(some, _mm_min_ps(by_size, by_sum));
    let scale = spread(_mm_and_ps(some, _mm_div_ps(_mm_set1_ps(1.0), steps)));
    let (total, steps) = (spread(fold(totals, add)), spread(steps));
    for n in 0..N {
        let steps = _mm256_set1_ps(steps[n]);
        let queries = scores[n * SEGMENT..][..pages].iter().zip(&mut codes[n * SEGMENT..][..pages]);
        for (scores, codes) in queries {
            let [low, high] = load(scores);
            let whole = _mm256_packus_epi32(round(low, steps), round(high, steps));
            // Packed in halves of vectors.
            let whole = _mm256_permute4x64_epi64::<0b11_01_10_00>(whole);
            // SAFETY: writes the 32 bytes of sixteen numbers.
            unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), whole) };
        }
        found[n] = Found { top: top[n], total: total[n], scale: scale[n] };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[f32; PAGE]) -> [__m256; 2] {
    // SAFETY: reads the 64 bytes of sixteen numbers.
    unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(from: [__m256; 2], into: &mut [f32; PAGE]) {
    // SAFETY: writes the 64 bytes of sixteen numbers.
    unsafe {
        _mm256_storeu_ps(into.as_mut_ptr(), from[0]);
        _mm256_storeu_ps(into.as_mut_ptr().add(8), from[1]);
    }
}

/// [`lanes::exp2`](crate::kernel::lanes::exp2).
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp2(x: __m256) -> __m256 {
    let x = _mm256_max_ps(x, _mm256_set1_ps(EXP2_LEAST));
    let rounded = _mm256_add_ps(x, _mm256_set1_ps(EXP2_ROUND));
    let r = _mm256_sub_ps(x, _mm256_sub_ps(rounded, _mm256_set1_ps(EXP2_ROUND)));
    let mut p = _mm256_set1_ps(EXP2[0]);
    for at in 1..EXP2.len() {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP2[at]));
    }
    _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(rounded))))
}

/// So many steps, rounded to whole numbers of 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn round(x: __m256, steps: __m256) -> __m256i {
    let rounded = _mm256_castps_si256(_mm256_fmadd_ps(x, steps, _mm256_set1_ps(ROUND)));
    _mm256_and_si256(rounded, _mm256_set1_epi32(0xffff))
}

/// What the lanes of each vector come to, folded in halves as [`Lanes`](crate::kernel::lanes::Lanes) are.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn fold<const N: usize>(x: [__m256; N], f: impl Fn(__m256, __m256) -> __m256) -> __m128 {
    // Where there are fewer than four, the last again: nobody asks.
    let at = |n: usize| x[n.min(N - 1)];
    // Fours of two vectors, each in a half of its own, then twos of all.
    let fours = |a, b| f(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
    let (ab, cd) = (fours(at(0), at(1)), fours(at(2), at(3)));
    let twos = f(_mm256_shuffle_ps::<0b01_00_01_00>(ab, cd), _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd));
    let ones =
        f(_mm256_shuffle_ps::<0b10_00_10_00>(twos, twos), _mm256_shuffle_ps::<0b11_01_11_01>(twos, twos));
    // The first and third in the lower half, the others in the upper.
    _mm_unpacklo_ps(_mm256_castps256_ps128(ones), _mm256_extractf128_ps::<1>(ones))
}
