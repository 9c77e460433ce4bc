//! The same to the last bit for several queries at a time, a page in a vector.

use std::arch::x86_64::*;

use super::{Found, LEAST, MOST_QUERIES, PAGE, SEGMENT, TOKENS, Values, WORDS, spread};
use crate::kernel::lanes::{EXP2, EXP2_LEAST, EXP2_ROUND, LANES, ROUND};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub fn softmax(values: Values<'_>, scores: &mut [f32], codes: &mut [i32], found: &mut [Found]) {
    for_some!(some, values, scores, codes, found);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn some<const N: usize>(values: Values<'_>, scores: &mut [f32], codes: &mut [i32], found: &mut [Found]) {
    let pages = values.scales.len();
    let (scores, codes) = (&mut scores.as_chunks_mut::<PAGE>().0[..N * SEGMENT], &mut codes[..N * WORDS]);
    let codes = bytemuck::cast_slice_mut::<i32, i16>(codes).as_chunks_mut::<PAGE>().0;
    let mut tops = [_mm512_set1_ps(f32::NEG_INFINITY); N];
    for p in 0..pages {
        for n in 0..N {
            tops[n] = _mm512_max_ps(load(&scores[n * SEGMENT + p]), tops[n]);
        }
    }
    let top = spread(fold(tops, |a, b| _mm512_max_ps(a, b)));
    let [mut totals, mut sums, mut largest] = [[_mm512_setzero_ps(); N]; 3];
    for p in 0..pages {
        let scales = load(values.scales[p]);
        for n in 0..N {
            let scores = &mut scores[n * SEGMENT + p];
            let weights = exp2(_mm512_sub_ps(load(scores), _mm512_set1_ps(top[n])));
            totals[n] = _mm512_add_ps(totals[n], weights);
            let weights = _mm512_mul_ps(weights, scales);
            sums[n] = _mm512_add_ps(sums[n], weights);
            largest[n] = _mm512_max_ps(weights, largest[n]);
            // SAFETY: writes the 64 bytes of sixteen numbers.
            unsafe { _mm512_storeu_ps(scores.as_mut_ptr(), weights) };
        }
    }
    let add = |a, b| _mm512_add_ps(a, b);
    let (largest, sums) = (fold(largest, |a, b| _mm512_max_ps(a, b)), fold(sums, add));
    let by_size = _mm_div_ps(_mm_set1_ps(f32::from(i16::MAX)), largest);
    let by_sum = _mm_div_ps(_mm_set1_ps(values.room()), sums);
    let some = _mm_cmp_ps_mask::<_CMP_GT_OQ>(largest, _mm_set1_ps(LEAST));
    let steps = _mm_maskz_min_ps(some, by_size, by_sum);
    let scale = spread(_mm_maskz_div_ps(some, _mm_set1_ps(1.0), steps));
    let (total, steps) = (spread(fold(totals, add)), spread(steps));
    for n in 0..N {
        let steps = _mm512_set1_ps(steps[n]);
        for p in 0..pages {
            let at = n * SEGMENT + p;
            let whole = _mm512_fmadd_ps(load(&scores[at]), steps, _mm512_set1_ps(ROUND));
            let whole = _mm512_cvtepi32_epi16(_mm512_castps_si512(whole));
            // SAFETY: writes the 32 bytes of sixteen numbers.
            unsafe { _mm256_storeu_si256(codes[at].as_mut_ptr().cast(), whole) };
        }
        found[n] = Found { top: top[n], total: total[n], scale: scale[n] };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[f32; LANES]) -> __m512 {
    // SAFETY: reads the 64 bytes of sixteen numbers.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// [`lanes::exp2`](crate::kernel::lanes::exp2).
#[inline]
#[target_feature(enable = "avx512f")]
fn exp2(x: __m512) -> __m512 {
    let x = _mm512_max_ps(x, _mm512_set1_ps(EXP2_LEAST));
    let rounded = _mm512_add_ps(x, _mm512_set1_ps(EXP2_ROUND));
    let r = _mm512_sub_ps(x, _mm512_sub_ps(rounded, _mm512_set1_ps(EXP2_ROUND)));
    let mut p = _mm512_set1_ps(EXP2[0]);
    for at in 1..EXP2.len() {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP2[at]));
    }
    let power = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(rounded)));
    _mm512_mul_ps(p, power)
}

/// What the lanes of each vector come to, folded in halves as [`Lanes`](crate::kernel::lanes::Lanes) are.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold<const N: usize>(x: [__m512; N], f: impl Fn(__m512, __m512) -> __m512) -> __m128 {
    // Where there are fewer than four, the last again: nobody asks.
    let at = |n: usize| x[n.min(N - 1)];
    // Eights of two vectors, then fours of all, each in a quarter of its own.
    let eights = |a, b| f(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
    let (ab, cd) = (eights(at(0), at(1)), eights(at(2), at(3)));
    let fours = f(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
    let twos = f(fours, _mm512_permute_ps::<0b01_00_11_10>(fours));
    let ones = f(twos, _mm512_permute_ps::<0b10_11_00_01>(twos));
    let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, ones))
}
