//! What full-parallel would have made of one prompt with a share of its samples.
//!
//! Its samples are alike, so a share of the tokens buys the same share of the samples of every prompt. These are the terms of
//! the means in [`eager_core::metrics`], one prompt at a time, because the bootstrap draws prompts.

use eager_core::Outcome;
use eager_core::metrics::{cons_at_k, pass_at_k};

/// pass@k; a fractional number of samples is interpolated.
pub fn pass(full_parallel: &Outcome, share: f64) -> f64 {
    let samples = share * full_parallel.sequences() as f64;
    let at = |k: f64| pass_at_k(full_parallel.sequences(), full_parallel.right(), k as usize);
    at(samples.floor()) + (at(samples.ceil()) - at(samples.floor())) * samples.fract()
}

/// Majority accuracy, likewise.
pub fn cons(full_parallel: &Outcome, share: f64) -> Option<f64> {
    let samples = share * full_parallel.sequences() as f64;
    let at = |k: f64| cons_at_k(full_parallel, k as usize);
    let below = at(samples.floor());
    Some(if samples.fract() == 0.0 { below } else { below + (at(samples.ceil()) - below) * samples.fract() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::metrics::pass_at_equal_tokens;
    use proptest::prelude::*;

    fn outcome(right: usize, wrong: usize, tokens: usize) -> Outcome {
        Outcome {
            answers: vec![None; right + wrong],
            correct: (0..right + wrong).map(|i| i < right).collect(),
            tokens,
            ..Outcome::default()
        }
    }

    proptest! {
        #[test]
        fn the_mean_over_prompts_is_what_the_core_says(
            prompts in prop::collection::vec((0usize..6, 0usize..6, 1usize..500), 1..12),
            spent in 0.0f64..1.0,
        ) {
            let all: Vec<Outcome> = prompts.iter().map(|&(r, w, t)| outcome(r, w, t)).collect();
            let total: usize = all.iter().map(|o| o.tokens).sum();
            let tokens = (spent * total as f64) as usize;
            let share = tokens as f64 / total as f64;
            let mean = all.iter().map(|o| pass(o, share)).sum::<f64>() / all.len() as f64;
            prop_assert!((mean - pass_at_equal_tokens(&all, tokens).unwrap()).abs() < 1e-9);
        }
    }
}
