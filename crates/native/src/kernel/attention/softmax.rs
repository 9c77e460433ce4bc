//! From scores to the whole numbers that values are weighed with.
//!
//! Scores are logarithms to base two. A weight, times the scale of the value that it will weigh, is cut as finely as 16 bits
//! and the sum over the segment allow: it has up to 15 bits, and where many weigh alike, at least 11.

/// Most queries whose scores become weights together: as many as a fold of four vectors has results.
#[cfg(target_arch = "x86_64")]
const MOST_QUERIES: usize = 4;

/// Calls `$some` for a few queries at a time: most of what one takes by itself is to wait for sums of its lanes.
#[cfg(target_arch = "x86_64")]
macro_rules! for_some {
    ($some:ident, $values:ident, $scores:ident, $codes:ident, $found:ident) => {
        let scores = $scores.chunks_mut(MOST_QUERIES * TOKENS);
        let queries =
            scores.zip($codes.chunks_mut(MOST_QUERIES * WORDS)).zip($found.chunks_mut(MOST_QUERIES));
        for ((scores, codes), found) in queries {
            match found.len() {
                1 => $some::<1>($values, scores, codes, found),
                2 => $some::<2>($values, scores, codes, found),
                3 => $some::<3>($values, scores, codes, found),
                _ => $some::<MOST_QUERIES>($values, scores, codes, found),
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::PAGE;
use super::plan::SEGMENT;
#[cfg(target_arch = "x86_64")]
use crate::kernel::isa::Level;
use crate::kernel::isa::{BASELINE, Isa};
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
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
pub(super) fn softmax(
    isa: Isa,
    values: Values<'_>,
    scores: &mut [f32],
    codes: &mut [i32],
    found: &mut [Found],
) {
    #[cfg(target_arch = "x86_64")]
    match isa.0 {
        Level::Portable => {}
        // SAFETY: an `Isa` of this level exists only where the machine reported these features.
        Level::Avx2 => return unsafe { avx2::softmax(values, scores, codes, found) },
        // SAFETY: an `Isa` of another level exists only where the machine reported AVX-512.
        _ => return unsafe { avx512::softmax(values, scores, codes, found) },
    }
    let queries = scores.chunks_exact_mut(TOKENS).zip(codes.chunks_exact_mut(WORDS));
    for ((scores, codes), found) in queries.zip(found) {
        *found = softmax_lanes::<BASELINE>(values, scores, codes);
    }
}

/// What [`avx2`] and [`avx512`] found for each query.
#[cfg(target_arch = "x86_64")]
#[inline]
fn spread(x: std::arch::x86_64::__m128) -> [f32; MOST_QUERIES] {
    let mut into = [0.0; MOST_QUERIES];
    // SAFETY: writes the 16 bytes of four numbers; SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_storeu_ps(into.as_mut_ptr(), x) };
    into
}

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
            if count == 7 {
                given[..TOKENS].fill(f32::NEG_INFINITY); // a query that sees nothing
            }
            let scales: Vec<f32> = numbers(seed, 1, pages * PAGE).iter().map(|x| x.abs() / 4095.0).collect();
            let scales: Vec<&[f32; PAGE]> = scales.as_chunks().0.iter().collect();
            for most in [4095, 127] {
                let values = Values { scales: &scales, most };
                let (mut scores, mut want) = (given.clone(), vec![0; count * WORDS]);
                let queries = scores.chunks_exact_mut(TOKENS).zip(want.chunks_exact_mut(WORDS));
                let found: Vec<Found> =
                    queries.map(|(scores, codes)| softmax_lanes::<true>(values, scores, codes)).collect();
                for isa in Isa::available().into_iter().filter(|isa| isa.to_string() != "portable") {
                    let (mut scores, mut codes) = (given.clone(), vec![0; count * WORDS]);
                    let mut got = vec![Found::default(); count];
                    softmax(isa, values, &mut scores, &mut codes, &mut got);
                    assert_eq!((&got, &codes), (&found, &want), "{isa}");
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
