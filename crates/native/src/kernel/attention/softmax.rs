//! From scores to the whole numbers that values are weighed with.
//!
//! Scores are logarithms to base two. A weight, times the scale of the value that it will weigh, is cut as finely as 16 bits
//! and the sum over the segment allow: it has up to 15 bits, and where many weigh alike, at least 11.

use super::PAGE;
use super::plan::SEGMENT;
#[cfg(target_arch = "x86_64")]
use crate::kernel::isa::Level;
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, ROUND, exp2, fma};

/// Tokens in a segment.
pub(super) const TOKENS: usize = SEGMENT * PAGE;

/// Words of weights in a segment: two in each.
pub(super) const WORDS: usize = TOKENS / 2;

/// Weights that are less, even the largest of a segment, are as good as nothing, and their inverse might not be a number.
const LEAST: f32 = 1e-30;

/// What the scores of a query came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Found {
    /// The largest of them, which all weights are relative to.
    pub top: f32,
    /// The sum of the weights.
    pub total: f32,
    /// What a whole number of the weights stands for.
    pub scale: f32,
}

/// The values that some queries weigh.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    /// Their scales, of the pages that the queries see.
    pub scales: &'a [&'a [f32; PAGE]],
    /// The largest code.
    pub most: i32,
}

impl Values<'_> {
    /// What whole numbers of weights may sum to, so that 31 bits hold the sum of the products. Rounding adds at most a half to
    /// each.
    fn room(&self) -> f32 {
        (i32::MAX / self.most) as f32 - TOKENS as f32
    }
}

/// Turns the scores of queries that see the same pages into weights, `TOKENS` and `WORDS` of each. What is left of the scores
/// means nothing.
pub(super) fn softmax(
    isa: Isa,
    values: Values<'_>,
    scores: &mut [f32],
    codes: &mut [i32],
    found: &mut [Found],
) {
    #[cfg(target_arch = "x86_64")]
    if !matches!(isa.0, Level::Portable | Level::Avx2) {
        // SAFETY: an `Isa` of another level exists only where the machine reported AVX-512.
        return unsafe { wide::softmax(values, scores, codes, found) };
    }
    let queries = scores.chunks_exact_mut(TOKENS).zip(codes.chunks_exact_mut(WORDS));
    for ((scores, codes), found) in queries.zip(found) {
        *found = softmax_of_one(isa, values, scores, codes);
    }
}

multiversion! {
    fn softmax_of_one(values: Values<'_>, scores: &mut [f32], codes: &mut [i32]) -> Found = softmax_lanes
}

#[inline(always)]
fn softmax_lanes<const FMA: bool>(values: Values<'_>, scores: &mut [f32], codes: &mut [i32]) -> Found {
    let pages = &mut scores.as_chunks_mut::<LANES>().0[..values.scales.len()];
    let mut tops = Lanes::splat(f32::NEG_INFINITY);
    for scores in pages.iter() {
        for i in 0..LANES {
            tops.0[i] = if scores[i] > tops.0[i] { scores[i] } else { tops.0[i] };
        }
    }
    let top = tops.max();
    let (mut totals, mut sums, mut largest) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    for p in 0..pages.len() {
        // Copies: the compiler cannot know that what these refer to lies apart.
        let (mut weights, scales) = (pages[p], *values.scales[p]);
        for i in 0..LANES {
            let weight = exp2::<FMA>(weights[i] - top);
            totals.0[i] += weight;
            weights[i] = weight * scales[i];
            sums.0[i] += weights[i];
            largest.0[i] = if weights[i] > largest.0[i] { weights[i] } else { largest.0[i] };
        }
        pages[p] = weights;
    }
    let (largest, sum) = (largest.max(), sums.sum());
    let (by_size, by_sum) = (f32::from(i16::MAX) / largest, values.room() / sum);
    let steps = if by_size < by_sum { by_size } else { by_sum };
    let some = largest > LEAST;
    let steps = if some { steps } else { 0.0 };
    let (codes, _) = bytemuck::cast_slice_mut::<i32, i16>(codes).as_chunks_mut::<LANES>();
    for p in 0..pages.len() {
        let (weights, mut whole) = (pages[p], [0; LANES]);
        for i in 0..LANES {
            whole[i] = fma::<FMA>(weights[i], steps, ROUND).to_bits() as i16;
        }
        codes[p] = whole;
    }
    Found { top, total: totals.sum(), scale: if some { 1.0 / steps } else { 0.0 } }
}

/// The same to the last bit, for several queries at a time: most of what one takes is to wait for sums of its lanes.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::*;
    use crate::kernel::lanes::{EXP2, EXP2_LEAST, EXP2_ROUND};

    /// Queries at a time: as many as there are lanes when a vector was folded twice.
    const MOST: usize = 4;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    pub fn softmax(values: Values<'_>, scores: &mut [f32], codes: &mut [i32], found: &mut [Found]) {
        let scores = scores.chunks_mut(MOST * TOKENS);
        let queries = scores.zip(codes.chunks_mut(MOST * WORDS)).zip(found.chunks_mut(MOST));
        for ((scores, codes), found) in queries {
            match found.len() {
                1 => some::<1>(values, scores, codes, found),
                2 => some::<2>(values, scores, codes, found),
                3 => some::<3>(values, scores, codes, found),
                _ => some::<MOST>(values, scores, codes, found),
            }
        }
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

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn spread(x: __m128) -> [f32; MOST] {
        let mut into = [0.0; MOST];
        // SAFETY: writes the 16 bytes of four numbers.
        unsafe { _mm_storeu_ps(into.as_mut_ptr(), x) };
        into
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

    /// What the lanes of each vector come to, folded in halves as [`Lanes`] are.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::tests::numbers;

    /// Of any number of queries and pages, with scores so far apart that some weigh nothing.
    #[test]
    fn kernels_that_fuse_agree_to_the_last_bit() {
        for (seed, (count, pages)) in (0..).zip([(1, 1), (2, 3), (3, 16), (4, 7), (7, 16), (9, 2)]) {
            let mut given: Vec<f32> =
                numbers(seed, 0, count * TOKENS).iter().map(|x| x * x * x * 40.0).collect();
            given[PAGE - 1] = f32::NEG_INFINITY;
            let scales: Vec<f32> = numbers(seed, 1, pages * PAGE).iter().map(|x| x.abs() / 4095.0).collect();
            let scales: Vec<&[f32; PAGE]> = scales.as_chunks().0.iter().collect();
            for most in [4095, 127] {
                let mut seen: Option<(Vec<Found>, Vec<i32>)> = None;
                for isa in Isa::available().into_iter().filter(|isa| isa.to_string() != "portable") {
                    let (mut scores, mut codes) = (given.clone(), vec![0; count * WORDS]);
                    let mut found = vec![Found::default(); count];
                    let values = Values { scales: &scales, most };
                    softmax(isa, values, &mut scores, &mut codes, &mut found);
                    let got = (found, codes);
                    assert_eq!(seen.get_or_insert_with(|| got.clone()), &got, "{isa}");
                }
            }
        }
    }

    /// Segments that weigh nothing at all have no scale, and whole numbers never sum up to more than there is room for.
    #[test]
    fn whole_numbers_fit() {
        let most = 4095;
        for isa in Isa::available() {
            for (score, scale) in [(0.0, 1.0), (0.0, 0.0), (1e30, 1e-33), (-1e30, 1e20)] {
                let scales = [scale; PAGE];
                let scales = [&scales; SEGMENT];
                let (mut scores, mut codes) = ([score; TOKENS], [-1; WORDS]);
                let mut found = [Found::default()];
                softmax(isa, Values { scales: &scales, most }, &mut scores, &mut codes, &mut found);
                let whole = bytemuck::cast_slice::<i32, i16>(&codes);
                let sum: i64 = whole.iter().map(|&code| i64::from(code)).sum();
                assert!(whole.iter().all(|&code| code >= 0) && sum * most as i64 <= i32::MAX.into());
                assert_eq!((found[0].top, found[0].total), (score, TOKENS as f32));
                assert_eq!(sum > 0, scale > LEAST, "{isa}");
                let stands_for = sum as f32 * found[0].scale;
                let want = if scale > LEAST { TOKENS as f32 * scale } else { 0.0 };
                assert!((stands_for - want).abs() <= 1e-3 * want, "{isa}: {stands_for} for {want}");
            }
        }
    }
}
