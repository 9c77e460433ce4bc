//! One look at all logits of a row: the best tokens and what all weights sum to.

use std::f32::consts::LOG2_E;

use super::isa::{Isa, multiversion};
use super::lanes::{EXP2_LEAST, LANES, Lanes, exp2_within};

/// Logits that are looked at together, in the nearest cache.
const BLOCK: usize = 64 * LANES;

/// Logits whose largest is compared at once: nearly always it is not among the best.
const STRIDE: usize = 4 * LANES;

/// What a row of logits holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Survey {
    /// The tokens of highest logit with their logits, best first; among equals the lower number comes first.
    pub best: Vec<(u32, f32)>,
    /// The sum of `e^(x - top)`, where `top` is the best token's logit. Not a number if a logit is none.
    pub total: f64,
    /// The sum of `e^((x - top) * scale)`.
    pub scaled: f64,
}

impl Survey {
    /// Looks for the best `count` tokens, one or more, and sums the weights. What was found before is forgotten.
    pub fn look(&mut self, isa: Isa, logits: &[f32], count: usize, scale: f32) {
        debug_assert!(count > 0 && !logits.is_empty());
        self.best.clear();
        (self.total, self.scaled) = (0.0, 0.0);
        let mut top = f32::NEG_INFINITY;
        for (block, logits) in logits.chunks(BLOCK).enumerate() {
            collect(isa, logits, block * BLOCK, count, &mut self.best);
            let best = self.best.first().map_or(top, |best| best.1);
            if best > top {
                // What was summed so far was relative to another top.
                let shrink = f64::from(top) - f64::from(best);
                self.total *= shrink.exp();
                self.scaled *= (shrink * f64::from(scale)).exp();
                top = best;
            }
            let total = sum(isa, logits, top, LOG2_E);
            // The best token's distance is zero, which must not meet an infinity.
            let factor = (LOG2_E * scale).min(f32::MAX);
            let scaled = if scale == 1.0 { total } else { sum(isa, logits, top, factor) };
            self.total += f64::from(total);
            self.scaled += f64::from(scaled);
        }
    }
}

multiversion! {
    /// Puts what belongs among the best into their place.
    fn collect(logits: &[f32], first: usize, count: usize, best: &mut Vec<(u32, f32)>) = collect_lanes
}

#[inline(always)]
fn collect_lanes<const FMA: bool>(logits: &[f32], first: usize, count: usize, best: &mut Vec<(u32, f32)>) {
    for (at, logits) in logits.chunks(STRIDE).enumerate() {
        if let (Ok(logits), true) = (logits.try_into(), best.len() >= count)
            && best.last().is_some_and(|last| largest(logits) <= last.1)
        {
            continue;
        }
        for (i, &logit) in logits.iter().enumerate() {
            let full = best.len() >= count;
            if logit.is_nan() || full && best.last().is_some_and(|last| logit <= last.1) {
                continue;
            }
            let place = best.partition_point(|&(_, other)| other >= logit);
            if full {
                best.pop();
            }
            best.insert(place, ((first + at * STRIDE + i) as u32, logit));
        }
    }
}

/// The largest of them; what is no number does not count.
#[inline(always)]
fn largest(logits: &[f32; STRIDE]) -> f32 {
    let mut top = Lanes::splat(f32::NEG_INFINITY);
    for k in 0..STRIDE / LANES {
        for i in 0..LANES {
            let x = logits[k * LANES + i];
            top.0[i] = if x > top.0[i] { x } else { top.0[i] };
        }
    }
    top.max()
}

/// The best tokens of a row as in [`Survey::best`], where they are many: to put each into its place would take long.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    best: Vec<(u32, f32)>,
    /// The largest logit of every stride.
    tops: Vec<f32>,
    /// What is sorted.
    keys: Vec<u64>,
}

impl Ranking {
    /// The best `count` tokens.
    pub fn best(&mut self, isa: Isa, logits: &[f32], count: usize) -> &[(u32, f32)] {
        self.tops.resize(logits.len().div_ceil(STRIDE), 0.0);
        maxima(isa, logits, &mut self.tops);
        // As many strides have a logit like this or a higher one, so none of the best is below it.
        let least = match count.checked_sub(1) {
            Some(last) if last < self.tops.len() => {
                *self.tops.select_nth_unstable_by(last, |a, b| b.total_cmp(a)).1
            }
            _ => f32::NEG_INFINITY,
        };
        let above = self.above(logits, least);
        &above[..above.len().min(count)]
    }

    /// The tokens that have at least this logit.
    pub fn above(&mut self, logits: &[f32], least: f32) -> &[(u32, f32)] {
        // One number that says both: the higher the logit the lower it is, and then the lower the token.
        const SIGN: u32 = 1 << 31;
        let key = |token: u32, logit: f32| {
            // Both zeros are one number.
            let bits = (logit + 0.0).to_bits();
            let rising = if bits & SIGN == 0 { bits | SIGN } else { !bits };
            u64::from(!rising) << 32 | u64::from(token)
        };
        self.keys.clear();
        for (at, logits) in logits.chunks(STRIDE).enumerate() {
            // Written whether wanted or not: a choice would be guessed wrong too often.
            let (mut some, mut count) = ([0; STRIDE], 0);
            for (i, &logit) in logits.iter().enumerate() {
                some[count] = key((at * STRIDE + i) as u32, logit);
                count += usize::from(logit >= least);
            }
            self.keys.extend_from_slice(&some[..count]);
        }
        self.keys.sort_unstable();
        self.best.clear();
        self.best.extend(self.keys.iter().map(|&key| (key as u32, logits[key as u32 as usize])));
        &self.best
    }
}

multiversion! {
    /// The largest logit of every stride.
    fn maxima(logits: &[f32], into: &mut [f32]) = maxima_lanes
}

#[inline(always)]
fn maxima_lanes<const FMA: bool>(logits: &[f32], into: &mut [f32]) {
    let (whole, rest) = logits.as_chunks::<STRIDE>();
    for at in 0..whole.len() {
        into[at] = largest(&whole[at]);
    }
    if let (Some(last), false) = (into.last_mut(), rest.is_empty()) {
        *last = rest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    }
}

multiversion! {
    /// The sum of `2^((x - top) * factor)` over one block.
    fn sum(logits: &[f32], top: f32, factor: f32) -> f32 = sum_lanes
}

#[inline(always)]
fn sum_lanes<const FMA: bool>(logits: &[f32], top: f32, factor: f32) -> f32 {
    let weigh = |logit: f32| {
        let x = (logit - top) * factor;
        exp2_within::<FMA>(if x < EXP2_LEAST { EXP2_LEAST } else { x })
    };
    let (whole, rest) = logits.as_chunks::<LANES>();
    let mut lanes = Lanes::ZERO;
    for at in 0..whole.len() {
        for i in 0..LANES {
            lanes.0[i] += weigh(whole[at][i]);
        }
    }
    let mut sum = lanes.sum();
    for &logit in rest {
        sum += weigh(logit);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::tests::numbers;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a full sort and plain sums. Rounded logits, so that there are equals; a slope, so that the best change.
        #[test]
        fn a_survey_finds_the_best_and_the_sums(
            seed: u64,
            len in 1usize..5000,
            count in 1usize..40,
            scale in 0.1f32..4.0,
            slope in -0.01f32..0.01,
        ) {
            let random = numbers(seed, 0, len);
            let logits: Vec<f32> =
                random.iter().enumerate().map(|(i, x)| (x * 20.0 + slope * i as f32).round() / 2.0).collect();
            let mut sorted: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
            sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let sum = |scale: f32| -> f64 {
                logits.iter().map(|x| (f64::from(x - sorted[0].1) * f64::from(scale)).exp()).sum()
            };
            // Used again and again, as in a run: what an earlier look left must not show.
            let (mut found, mut ranking) = (Survey::default(), Ranking::default());
            for isa in Isa::available() {
                found.look(isa, &logits, count, scale);
                prop_assert_eq!(&found.best, &sorted[..count.min(len)], "{}", isa);
                prop_assert_eq!(ranking.best(isa, &logits, count), &sorted[..count.min(len)], "{}", isa);
                let least = sorted[count.min(len) - 1].1;
                let wanted = sorted.partition_point(|&(_, logit)| logit >= least);
                prop_assert_eq!(ranking.above(&logits, least), &sorted[..wanted]);
                for (got, want) in [(found.total, sum(1.0)), (found.scaled, sum(scale))] {
                    prop_assert!((got - want).abs() <= 3e-6 * want, "{isa}: {got} for {want}");
                }
            }
        }

        /// However low a temperature, the best tokens keep their weight.
        #[test]
        fn the_largest_scale_leaves_the_best(len in 1usize..3000) {
            let logits: Vec<f32> = (0..len).map(|i| -(i.div_ceil(2) as f32)).collect();
            let mut found = Survey::default();
            for isa in Isa::available() {
                found.look(isa, &logits, 3, f32::MAX);
                prop_assert_eq!(found.scaled, 1.0, "{}", isa);
            }
        }

        #[test]
        fn what_is_no_number_is_noticed(len in 1usize..3000, at in any::<prop::sample::Index>()) {
            let mut logits = numbers(0, 0, len);
            logits[at.index(len)] = f32::NAN;
            let mut found = Survey::default();
            for isa in Isa::available() {
                found.look(isa, &logits, 3, 1.5);
                prop_assert!(found.total.is_nan(), "{isa}");
            }
        }
    }
}
