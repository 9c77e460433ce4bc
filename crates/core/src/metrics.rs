//! The paper's metrics, and the fair comparison at equal tokens.

use serde::{Deserialize, Serialize};

use crate::chance::Key;
use crate::vote::{Votes, weighted_tally};

/// One prompt's graded sequences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub answers: Vec<Option<String>>,
    /// Parallel to `answers`.
    pub correct: Vec<bool>,
    /// What each vote weighs, parallel to `answers`; empty: all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f32>,
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

    fn weight(&self, sequence: usize) -> f32 {
        self.weights.get(sequence).copied().unwrap_or(1.0)
    }

    /// The answers, those with the heaviest votes first.
    pub fn votes(&self) -> Vec<Votes> {
        weighted_tally(self.answers.iter().enumerate().map(|(i, a)| (a.as_deref(), self.weight(i))))
    }

    /// Is there no answer that more than half of the sequences gave?
    pub fn is_divided(&self) -> bool {
        let most = self.votes().iter().map(|votes| votes.count).max().unwrap_or(0);
        2 * most <= self.sequences()
    }

    /// Is the majority's answer correct?
    pub fn consensus(&self) -> bool {
        let votes = self.votes();
        let Some(winner) = votes.first() else { return false };
        let voted = |i: usize| self.weight(i) > 0.0 && self.answers[i].as_ref() == Some(&winner.answer);
        (0..self.answers.len()).find(|&i| voted(i)).is_some_and(|first| self.correct[first])
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

/// The majority's accuracy with k samples, estimated without bias from all of them: the share of the ways to draw k,
/// without replacement, whose majority is right. Drawn samples keep their order, so ties go to the first of them. `k`
/// beyond the number of samples counts as that number.
///
/// Where there are few ways, all are looked at. Else a fixed 2,000 of them are, the same in every call. The standard
/// error of that is about one percent for a prompt at most, and averages out over prompts.
pub fn cons_at_k(outcome: &Outcome, k: usize) -> f64 {
    const WAYS: usize = 2000;
    let n = outcome.sequences();
    let k = k.min(n);
    let ballots = Ballots::new(outcome);
    let (mut right, mut ways) = (0, 0);
    let mut look = |drawn: &[usize]| {
        right += usize::from(ballots.consensus(drawn));
        ways += 1;
    };
    if k <= 1 || k == n || choices(n, k) <= WAYS {
        each_choice(n, k, &mut look);
    } else {
        (0..WAYS).for_each(|way| look(&some_choice(n, k, way)));
    }
    right as f64 / ways as f64
}

/// Answers by number, so that thousands of votes compare no strings.
struct Ballots<'a> {
    outcome: &'a Outcome,
    /// For each sequence, the first that gave the same answer.
    answers: Vec<Option<usize>>,
}

impl<'a> Ballots<'a> {
    fn new(outcome: &'a Outcome) -> Self {
        let given = |answer: &Option<String>| {
            outcome.answers.iter().position(|other| other == answer).filter(|_| answer.is_some())
        };
        Ballots { outcome, answers: outcome.answers.iter().map(given).collect() }
    }

    /// Is the majority of these sequences right?
    fn consensus(&self, drawn: &[usize]) -> bool {
        // By answer: its weight, and the first who gave it.
        let mut votes: Vec<(usize, f64, usize)> = Vec::with_capacity(drawn.len());
        for &voter in drawn {
            let weight = self.outcome.weight(voter);
            let Some(answer) = self.answers[voter].filter(|_| weight > 0.0) else { continue };
            match votes.iter_mut().find(|v| v.0 == answer) {
                Some(known) => known.1 += f64::from(weight),
                None => votes.push((answer, f64::from(weight), voter)),
            }
        }
        let first_wins =
            |best: (usize, f64, usize), next: (usize, f64, usize)| if next.1 > best.1 { next } else { best };
        votes.into_iter().reduce(first_wins).is_some_and(|(_, _, first)| self.outcome.correct[first])
    }
}

/// The number of ways to draw k of n.
fn choices(n: usize, k: usize) -> usize {
    // Each product is divisible: it is the number of ways to draw i + 1.
    let more = |ways: usize, i: usize| ways.saturating_mul(n - i) / (i + 1);
    (0..k.min(n - k)).fold(1, more)
}

/// Every way to draw k of n, each in ascending order.
fn each_choice(n: usize, k: usize, look: &mut dyn FnMut(&[usize])) {
    let mut drawn: Vec<usize> = (0..k).collect();
    loop {
        look(&drawn);
        // The last that can still move up moves, and those after it follow close.
        let Some(moves) = (0..k).rev().find(|&i| drawn[i] < n - k + i) else { return };
        drawn[moves] += 1;
        for i in moves + 1..k {
            drawn[i] = drawn[i - 1] + 1;
        }
    }
}

/// The `way`-th of a fixed list of random draws of k from n, in ascending order, all ways equally likely.
fn some_choice(n: usize, k: usize, way: usize) -> Vec<usize> {
    let chance = Key::prompt(0, way as u64);
    let mut drawn = Vec::with_capacity(k);
    for i in 0..n {
        // Each is drawn with the share of those that are still to be drawn among those that are left.
        if chance.uniform(i) * ((n - i) as f64) < (k - drawn.len()) as f64 {
            drawn.push(i);
        }
    }
    drawn
}

/// An estimate for each prompt, with as many of its samples as `tokens` buy: see [`passes_at_equal_tokens`].
fn at_equal_tokens(
    full_parallel: &[Outcome],
    tokens: usize,
    estimate: impl Fn(&Outcome, usize) -> f64,
) -> Option<Vec<f64>> {
    let spent: usize = full_parallel.iter().map(|o| o.tokens).sum();
    if spent == 0 || tokens > spent {
        return None;
    }
    let share = tokens as f64 / spent as f64;
    let of = |o: &Outcome| {
        let k = share * o.sequences() as f64;
        let below = estimate(o, k as usize);
        if k.fract() == 0.0 { below } else { below + (estimate(o, k as usize + 1) - below) * k.fract() }
    };
    Some(full_parallel.iter().map(of).collect())
}

/// For each prompt, full-parallel's pass@k had it spent only `tokens` on all prompts: what else the tokens could have
/// bought.
///
/// Every prompt gets the same share of its samples, because a sampler cannot know which prompts are hard. To give each
/// prompt the tokens that another method chose to spend on it would lend the sampler the very knowledge that is being
/// compared. A fractional number of samples is interpolated. `None` when full-parallel did not spend that much itself.
pub fn passes_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<Vec<f64>> {
    at_equal_tokens(full_parallel, tokens, |o, k| pass_at_k(o.sequences(), o.right(), k))
}

/// The same for the majority's accuracy.
pub fn consensus_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<Vec<f64>> {
    at_equal_tokens(full_parallel, tokens, cons_at_k)
}

/// The mean of [`passes_at_equal_tokens`] over prompts.
pub fn pass_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<f64> {
    passes_at_equal_tokens(full_parallel, tokens).map(|each| mean(&each))
}

/// The mean of [`consensus_at_equal_tokens`] over prompts.
pub fn cons_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<f64> {
    consensus_at_equal_tokens(full_parallel, tokens).map(|each| mean(&each))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
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
            ..Outcome::default()
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
        let divided: Vec<bool> = outcomes.iter().map(Outcome::is_divided).collect();
        assert_eq!(divided, [true, false, true]);
    }

    #[test]
    fn equal_tokens_interpolates() {
        let full = [outcome(&[("1", true), ("2", false)], 60), outcome(&[("", false), ("", false)], 40)];
        assert_eq!(pass_at_equal_tokens(&full, 100), Some(0.5));
        assert_eq!(pass_at_equal_tokens(&full, 50), Some(0.25));
        assert_eq!(pass_at_equal_tokens(&full, 75), Some(0.375));
        assert_eq!(passes_at_equal_tokens(&full, 75), Some(vec![0.75, 0.0]));
        assert_eq!(pass_at_equal_tokens(&full, 101), None);
        assert_eq!(pass_at_equal_tokens(&[], 0), None);
    }

    #[test]
    fn majorities_at_equal_tokens_interpolate_too() {
        // One sample is right in one of two; of two samples the first wins the tie.
        let full = [outcome(&[("1", true), ("2", false)], 60), outcome(&[("3", true), ("3", true)], 40)];
        assert_eq!(consensus_at_equal_tokens(&full, 100), Some(vec![1.0, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 50), Some(vec![0.5, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 75), Some(vec![0.75, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 0), Some(vec![0.0, 0.0]));
        assert_eq!(cons_at_equal_tokens(&full, 75), Some(0.875));
        assert_eq!(cons_at_equal_tokens(&full, 101), None);
    }

    #[test]
    fn the_heavier_answer_is_the_majority() {
        let mut prompt = outcome(&[("4", false), ("5", true), ("4", false), ("", false)], 10);
        assert!(!prompt.consensus());
        prompt.weights = vec![1.0, 2.5, 1.0, 9.0];
        assert!(prompt.consensus());
        assert_eq!(prompt.votes()[0].answer, "5");
        // Whoever does not vote has no say in whether the answer is right either.
        prompt = outcome(&[("4", false), ("4", true)], 10);
        prompt.weights = vec![0.0, 1.0];
        assert!(prompt.consensus());
    }

    #[test]
    fn no_votes_are_no_majority() {
        let silent = outcome(&[("", false), ("", false), ("", false)], 10);
        assert!((0..5).all(|k| cons_at_k(&silent, k) == 0.0));
        assert_eq!(cons_at_k(&Outcome::default(), 3), 0.0);
    }

    /// Against a closed form: with two answers the majority is right when right ones are more than half, or half and first.
    #[test]
    fn many_ways_are_sampled_closely() {
        let answers: Vec<(&str, bool)> =
            (0..32).map(|i| if i % 3 == 0 { ("7", true) } else { ("8", false) }).collect();
        let prompt = outcome(&answers, 320);
        let (right, wrong, k) = (11, 21, 9);
        assert!(choices(32, k) > 2000);
        let hits: usize = (5..=k).map(|r| choices(right, r) * choices(wrong, k - r)).sum();
        let expected = hits as f64 / choices(32, k) as f64;
        assert!((cons_at_k(&prompt, k) - expected).abs() < 0.02, "{} {expected}", cons_at_k(&prompt, k));
        assert_eq!(cons_at_k(&prompt, k), cons_at_k(&prompt, k));
    }

    #[test]
    fn random_draws_are_fair() {
        let mut drawn = [0usize; 12];
        for way in 0..6000 {
            let choice = some_choice(12, 4, way);
            assert_eq!(choice.len(), 4);
            assert!(choice.is_sorted());
            choice.into_iter().for_each(|i| drawn[i] += 1);
        }
        assert!(drawn.iter().all(|&n| n.abs_diff(2000) < 150), "{drawn:?}");
    }

    fn outcomes() -> impl Strategy<Value = Outcome> {
        let sequence = (0u8..4, any::<bool>(), prop_oneof![Just(1.0f32), 0.0f32..2.0]);
        (prop::collection::vec(sequence, 0..9), any::<bool>()).prop_map(|(sequences, weighted)| Outcome {
            answers: sequences.iter().map(|s| (s.0 > 0).then(|| s.0.to_string())).collect(),
            correct: sequences.iter().map(|s| s.1).collect(),
            weights: if weighted { sequences.iter().map(|s| s.2).collect() } else { Vec::new() },
            tokens: 10 * sequences.len(),
        })
    }

    /// The prompt had it drawn only these samples.
    fn only(all: &Outcome, subset: u32) -> Outcome {
        let kept = |i: &usize| subset & (1 << i) != 0;
        let indices: Vec<usize> = (0..all.sequences()).filter(kept).collect();
        Outcome {
            answers: indices.iter().map(|&i| all.answers[i].clone()).collect(),
            correct: indices.iter().map(|&i| all.correct[i]).collect(),
            weights: indices.iter().map(|&i| all.weight(i)).collect(),
            tokens: all.tokens,
        }
    }

    proptest! {
        #[test]
        fn cons_at_k_counts_subsets(prompt in outcomes(), k in 0usize..10) {
            let n = prompt.sequences();
            let drawn = k.min(n);
            let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == drawn);
            let majorities: Vec<bool> = subsets.map(|s| only(&prompt, s).consensus()).collect();
            let right = majorities.iter().filter(|&&right| right).count();
            prop_assert_eq!(majorities.len(), choices(n, drawn));
            prop_assert_eq!(cons_at_k(&prompt, k), right as f64 / majorities.len() as f64);
            prop_assert_eq!(cons_at_k(&prompt, n), f64::from(prompt.consensus()));
        }

        #[test]
        fn totals_are_means_over_prompts(full in prop::collection::vec(outcomes(), 1..5), tokens in 0usize..300) {
            let means = |each: Option<Vec<f64>>| each.map(|e| e.iter().sum::<f64>() / e.len() as f64);
            prop_assert_eq!(pass_at_equal_tokens(&full, tokens), means(passes_at_equal_tokens(&full, tokens)));
            prop_assert_eq!(cons_at_equal_tokens(&full, tokens), means(consensus_at_equal_tokens(&full, tokens)));
        }

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
