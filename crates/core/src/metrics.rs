//! The paper's metrics, and the fair comparison at equal tokens.

use serde::{Deserialize, Serialize};

use crate::vote::tally;

/// One prompt's graded sequences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub answers: Vec<Option<String>>,
    /// Parallel to `answers`.
    pub correct: Vec<bool>,
    /// Tokens decoded for the whole tree.
    pub tokens: usize,
}

impl Outcome {
    pub fn sequences(&self) -> usize {
        self.correct.len()
    }

    pub fn right(&self) -> usize {
        self.correct.iter().filter(|&&c| c).count()
    }

    pub fn solved(&self) -> bool {
        self.right() > 0
    }

    /// Is the majority's answer correct?
    pub fn consensus(&self) -> bool {
        let votes = tally(self.answers.iter().map(Option::as_deref));
        let Some(winner) = votes.first() else { return false };
        let gave = |answer: &Option<String>| answer.as_deref() == Some(winner.answer.as_str());
        self.answers.iter().position(gave).is_some_and(|first| self.correct[first])
    }
}

/// Averages over all prompts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Share of prompts with at least one correct sequence.
    pub pass_at_k: f64,
    /// Share of prompts whose majority answer is correct.
    pub cons_at_k: f64,
    /// Mean over prompts of the share of correct sequences.
    pub pass_rate: f64,
    pub sequences: usize,
    pub tokens: usize,
    pub seconds: f64,
    pub prompts: usize,
}

impl Metrics {
    pub fn of(outcomes: &[Outcome], seconds: f64) -> Self {
        let share = |right: usize, of: usize| if of == 0 { 0.0 } else { right as f64 / of as f64 };
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            let sum: f64 = outcomes.iter().map(of).sum();
            if outcomes.is_empty() { 0.0 } else { sum / outcomes.len() as f64 }
        };
        Metrics {
            pass_at_k: mean(&|o| f64::from(o.solved())),
            cons_at_k: mean(&|o| f64::from(o.consensus())),
            pass_rate: mean(&|o| share(o.right(), o.sequences())),
            sequences: outcomes.iter().map(Outcome::sequences).sum(),
            tokens: outcomes.iter().map(|o| o.tokens).sum(),
            seconds,
            prompts: outcomes.len(),
        }
    }
}

/// The unbiased estimate of pass@k from `n` samples of which `right` are correct (Chen et al. 2021): the chance that k
/// drawn without replacement hold a correct one. `k` beyond `n` asks more than the samples know and counts as `n`.
pub fn pass_at_k(n: usize, right: usize, k: usize) -> f64 {
    let wrong = n.saturating_sub(right);
    let all_wrong: f64 = (0..k.min(n)).map(|i| wrong.saturating_sub(i) as f64 / (n - i) as f64).product();
    if k.min(n) == 0 { 0.0 } else { 1.0 - all_wrong }
}

/// Full-parallel's pass@k had it spent only `tokens`: what else the tokens could have bought.
///
/// Its samples are alike, so this budget buys the same share of them for every prompt; a fractional number of samples is
/// interpolated. `None` when full-parallel did not spend that much itself.
pub fn pass_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<f64> {
    let spent: usize = full_parallel.iter().map(|o| o.tokens).sum();
    if spent == 0 || tokens > spent {
        return None;
    }
    let share = tokens as f64 / spent as f64;
    let estimate = |o: &Outcome| {
        let k = share * o.sequences() as f64;
        let at = |k: f64| pass_at_k(o.sequences(), o.right(), k as usize);
        at(k.floor()) + (at(k.ceil()) - at(k.floor())) * k.fract()
    };
    Some(full_parallel.iter().map(estimate).sum::<f64>() / full_parallel.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(answers: &[(&str, bool)], tokens: usize) -> Outcome {
        Outcome {
            answers: answers.iter().map(|(a, _)| (!a.is_empty()).then(|| a.to_string())).collect(),
            correct: answers.iter().map(|(_, c)| *c).collect(),
            tokens,
        }
    }

    #[test]
    fn metrics_average_over_prompts() {
        let outcomes = [
            outcome(&[("4", true), ("4", true), ("5", false), ("", false)], 100),
            outcome(&[("1", false), ("1", false), ("2", true)], 50),
            outcome(&[("", false)], 10),
        ];
        let metrics = Metrics::of(&outcomes, 2.5);
        assert_eq!((metrics.pass_at_k, metrics.cons_at_k), (2.0 / 3.0, 1.0 / 3.0));
        assert!((metrics.pass_rate - (0.5 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
        assert_eq!((metrics.sequences, metrics.tokens, metrics.prompts), (8, 160, 3));
        assert_eq!(Metrics::of(&[], 0.0).pass_at_k, 0.0);
    }

    #[test]
    fn equal_tokens_interpolates() {
        let full = [outcome(&[("1", true), ("2", false)], 60), outcome(&[("", false), ("", false)], 40)];
        assert_eq!(pass_at_equal_tokens(&full, 100), Some(0.5));
        assert_eq!(pass_at_equal_tokens(&full, 50), Some(0.25));
        assert_eq!(pass_at_equal_tokens(&full, 75), Some(0.375));
        assert_eq!(pass_at_equal_tokens(&full, 101), None);
        assert_eq!(pass_at_equal_tokens(&[], 0), None);
    }

    proptest! {
        /// Against the definition: enumerate every way to draw k of n.
        #[test]
        fn pass_at_k_counts_subsets(n in 1usize..10, right in 0usize..10, k in 1usize..12) {
            let right = right.min(n);
            let drawn = k.min(n);
            let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == drawn);
            let (mut hits, mut all) = (0u32, 0u32);
            for subset in subsets {
                all += 1;
                hits += u32::from(subset & ((1 << right) - 1) != 0);
            }
            prop_assert!((pass_at_k(n, right, k) - f64::from(hits) / f64::from(all)).abs() < 1e-9);
        }
    }
}
