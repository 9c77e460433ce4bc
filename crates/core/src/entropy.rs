//! How unsure is the model about the next token?
//!
//! EAGer looks at the K most likely tokens only: they hold nearly all of the probability, and they are what an HTTP
//! engine can report. Their *raw* log-probabilities (temperature 1) are enough to know the distribution at any other
//! temperature, because the missing normaliser cancels when the K are renormalised.

use serde::{Deserialize, Serialize};

/// A token's number in the vocabulary.
pub type Token = u32;

/// One of the likely next tokens, with its natural log-probability under the model (temperature 1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub token: Token,
    #[serde(with = "stored_logprob")]
    pub logprob: f32,
}

/// How log-probabilities are stored: JSON has no infinity, so that of an impossible token is written as null.
pub mod stored_logprob {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(logprob: &f32, to: S) -> Result<S::Ok, S::Error> {
        stored(*logprob).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        Ok(restored(Option::deserialize(from)?))
    }

    fn stored(logprob: f32) -> Option<f32> {
        logprob.is_finite().then_some(logprob)
    }

    fn restored(stored: Option<f32>) -> f32 {
        stored.unwrap_or(f32::NEG_INFINITY)
    }

    /// The same for those of a whole sequence.
    pub mod all {
        use super::*;

        pub fn serialize<S: Serializer>(logprobs: &[f32], to: S) -> Result<S::Ok, S::Error> {
            to.collect_seq(logprobs.iter().map(|&logprob| stored(logprob)))
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
            let all: Vec<Option<f32>> = Vec::deserialize(from)?;
            Ok(all.into_iter().map(restored).collect())
        }
    }
}

/// The probabilities of `top` at a temperature, renormalised among themselves.
pub fn renormalised(top: &[Candidate], temperature: f32) -> impl Iterator<Item = f64> + '_ {
    let scale = 1.0 / f64::from(temperature);
    let best = top.iter().map(|c| f64::from(c.logprob)).fold(f64::NEG_INFINITY, f64::max);
    let weight = move |c: &Candidate| ((f64::from(c.logprob) - best) * scale).exp();
    let total: f64 = top.iter().map(weight).sum();
    top.iter().map(move |c| weight(c) / total)
}

/// Top-K entropy in nats: `-sum p ln p` over the renormalised candidates.
///
/// ```
/// # use eager_core::entropy::{top_entropy, Candidate};
/// let coin = [Candidate { token: 0, logprob: -0.7 }, Candidate { token: 1, logprob: -0.7 }];
/// assert!((top_entropy(&coin, 1.0) - 2f32.ln()).abs() < 1e-6);
/// ```
pub fn top_entropy(top: &[Candidate], temperature: f32) -> f32 {
    let surprise = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    renormalised(top, temperature).map(surprise).sum::<f64>() as f32
}

/// The `percent`-th percentile (linear interpolation between the neighbours); `None` for no values.
pub fn percentile(values: &[f32], percent: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let rank = (percent.clamp(0.0, 100.0) / 100.0) * last as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    Some(below + (above - below) * rank.fract())
}

/// Peak entropy of one sequence: the mean of the values at or above the `percent`-th percentile.
///
/// The paper uses 99.9, which singles out the few steps where the model hesitated most.
pub fn peak_entropy(values: &[f32], percent: f64) -> Option<f64> {
    let bar = percentile(values, percent)?;
    // The interpolated bar may exceed its lower neighbour by rounding alone, never the maximum.
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values.iter().map(|&v| f64::from(v)).filter(|&v| v >= bar) {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(logprobs: &[f32]) -> Vec<Candidate> {
        logprobs.iter().zip(0..).map(|(&logprob, token)| Candidate { token, logprob }).collect()
    }

    #[test]
    fn certainty_has_no_entropy() {
        assert_eq!(top_entropy(&candidates(&[0.0]), 0.6), 0.0);
        assert_eq!(top_entropy(&candidates(&[0.0, f32::NEG_INFINITY]), 0.6), 0.0);
        assert_eq!(top_entropy(&[], 0.6), 0.0);
    }

    #[test]
    fn temperature_sharpens() {
        let top = candidates(&[-0.5, -1.2, -3.0]);
        assert!(top_entropy(&top, 0.6) < top_entropy(&top, 1.0));
        assert!(top_entropy(&top, 1.0) < top_entropy(&top, 2.0));
    }

    #[test]
    fn percentiles_interpolate_as_numpy_does() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&values, 50.0), Some(2.5));
        assert_eq!(percentile(&values, 100.0), Some(4.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_peak_is_the_mean_of_the_tail() {
        let values: Vec<f32> = (1..=100).map(|v| v as f32).collect();
        assert_eq!(peak_entropy(&values, 99.9), Some(100.0));
        assert_eq!(peak_entropy(&values, 90.0), Some((91..=100).sum::<i32>() as f64 / 10.0));
        assert_eq!(peak_entropy(&[], 99.9), None);
    }

    #[test]
    fn an_impossible_candidate_is_stored_as_null() {
        let cases =
            [(-0.5, r#"{"token":0,"logprob":-0.5}"#), (f32::NEG_INFINITY, r#"{"token":0,"logprob":null}"#)];
        for (logprob, stored) in cases {
            let candidate = Candidate { token: 0, logprob };
            assert_eq!(serde_json::to_string(&candidate).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Candidate>(stored).unwrap(), candidate);
        }
    }

    proptest! {
        #[test]
        fn entropy_lies_between_zero_and_log_k(raw in prop::collection::vec(-30f32..0.0, 1..20), t in 0.1f32..2.0) {
            let h = top_entropy(&candidates(&raw), t);
            prop_assert!(h >= 0.0 && h <= (raw.len() as f32).ln() + 1e-5);
        }

        #[test]
        fn a_common_shift_of_the_logprobs_changes_nothing(raw in prop::collection::vec(-10f32..0.0, 1..20), by in -5f32..5.0) {
            let shifted: Vec<f32> = raw.iter().map(|v| v + by).collect();
            prop_assert!((top_entropy(&candidates(&raw), 0.6) - top_entropy(&candidates(&shifted), 0.6)).abs() < 1e-4);
        }
    }
}
