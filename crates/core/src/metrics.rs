//! The paper's metrics, and the fair comparison at equal tokens.

use serde::{Deserialize, Serialize};

use crate::chance::Key;
use crate::prefixes::Prefixes;
use crate::tree::Tree;
use crate::vote::{Votes, tied, weighted_tally};

/// What sequences without an answer count for in a majority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unanswered {
    /// Nothing: only answers are counted.
    #[default]
    Ignored,
    /// All of them together are one answer, which is wrong.
    Wrong,
}

impl Unanswered {
    pub const ALL: [Self; 2] = [Self::Ignored, Self::Wrong];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::Wrong => "wrong",
        }
    }
}

/// One prompt's graded sequences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub answers: Vec<Option<String>>,
    /// Parallel to `answers`.
    pub correct: Vec<bool>,
    /// What each vote weighs, parallel to `answers`; empty: all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f32>,
    /// Which sequences the method gave up, parallel to `answers`; empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub halted: Vec<bool>,
    /// From 0 to 1, parallel to `answers`; empty where the grader only knows right and wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
    /// Tokens decoded for the whole tree.
    pub tokens: usize,
}

impl Outcome {
    /// The answers of a tree's sequences, and which of them are correct, in the sequences' order.
    pub fn of(tree: &Tree, grades: impl IntoIterator<Item = (Option<String>, bool)>) -> Self {
        let (answers, correct) = grades.into_iter().unzip();
        Outcome {
            answers,
            correct,
            weights: tree.weights(),
            halted: tree.halted(),
            scores: Vec::new(),
            tokens: tree.tokens_generated(),
        }
    }

    pub fn sequences(&self) -> usize {
        self.correct.len()
    }

    pub fn right(&self) -> usize {
        self.correct.iter().filter(|&&c| c).count()
    }

    pub fn solved(&self) -> bool {
        self.right() > 0
    }

    fn is_halted(&self, sequence: usize) -> bool {
        self.halted.get(sequence).copied().unwrap_or(false)
    }

    /// The share of correct sequences; one that was given up is wrong.
    pub fn pass_rate(&self) -> f64 {
        self.right_share(self.sequences())
    }

    /// The share of correct sequences among those that were not given up.
    pub fn pass_rate_unhalted(&self) -> f64 {
        self.right_share((0..self.sequences()).filter(|&i| !self.is_halted(i)).count())
    }

    fn right_share(&self, of: usize) -> f64 {
        let right = (0..self.sequences()).filter(|&i| self.correct[i] && !self.is_halted(i)).count();
        if of == 0 { 0.0 } else { right as f64 / of as f64 }
    }

    fn weight(&self, sequence: usize) -> f32 {
        self.weights.get(sequence).copied().unwrap_or(1.0)
    }

    /// The mean score of the sequences, where they have scores.
    pub fn score(&self) -> Option<f64> {
        let scored = !self.scores.is_empty();
        scored.then(|| self.scores.iter().sum::<f64>() / self.scores.len() as f64)
    }

    /// The answers, those with the heaviest votes first.
    pub fn votes(&self) -> Vec<Votes> {
        weighted_tally(self.answers.iter().enumerate().map(|(i, a)| (a.as_deref(), self.weight(i))))
    }

    /// Do several answers have the most votes?
    pub fn is_tied(&self) -> bool {
        !tied(&self.votes()).is_empty()
    }

    /// Is there no answer that more than half of the sequences gave?
    pub fn is_divided(&self) -> bool {
        let most = self.votes().iter().map(|votes| votes.count).max().unwrap_or(0);
        2 * most <= self.sequences()
    }

    /// Is the majority's answer correct?
    pub fn consensus(&self, unanswered: Unanswered) -> bool {
        let votes = self.votes();
        let Some(winner) = votes.first() else { return false };
        let first = |answer: Option<&String>| {
            (0..self.answers.len()).find(|&i| self.weight(i) > 0.0 && self.answers[i].as_ref() == answer)
        };
        let Some(voted) = first(Some(&winner.answer)) else { return false };
        let outvoted = match (unanswered, first(None)) {
            (Unanswered::Wrong, Some(silent)) => {
                let weight = self.unanswered_weight();
                weight > winner.weight || weight == winner.weight && silent < voted
            }
            _ => false,
        };
        self.correct[voted] && !outvoted
    }

    /// What the votes of sequences without an answer would weigh together.
    fn unanswered_weight(&self) -> f64 {
        let silent = (0..self.answers.len()).filter(|&i| self.answers[i].is_none());
        silent.map(|i| f64::from(self.weight(i).max(0.0))).sum()
    }
}

/// Averages over all prompts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Share of prompts with at least one correct sequence.
    pub pass_at_k: f64,
    /// Share of prompts whose majority answer is correct; sequences without an answer are ignored.
    pub cons_at_k: f64,
    /// The same where they are together one answer, which is wrong.
    pub cons_at_k_unanswered_wrong: f64,
    /// Mean over prompts of the share of correct sequences; one that was given up is wrong.
    pub pass_rate: f64,
    /// The same without the sequences that were given up; `None` where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_rate_unhalted: Option<f64>,
    /// Mean over prompts of the mean score of the sequences, where the grader gives scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    pub sequences: usize,
    /// Tokens decoded.
    pub tokens: usize,
    /// What an engine would have decoded that decodes each distinct prefix of a prompt's sequences once.
    pub tokens_distinct: usize,
    /// Prompts whose vote is a tie: the answer that came first stands for it.
    pub ties: usize,
    pub seconds: f64,
    pub prompts: usize,
}

impl Metrics {
    /// `prefixes` are those of the same prompts.
    pub fn of(outcomes: &[Outcome], prefixes: &[Prefixes], seconds: f64) -> Self {
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            let sum: f64 = outcomes.iter().map(of).sum();
            if outcomes.is_empty() { 0.0 } else { sum / outcomes.len() as f64 }
        };
        let scored = outcomes.iter().any(|o| o.score().is_some());
        Metrics {
            score: scored.then(|| mean(&|o| o.score().unwrap_or(0.0))),
            pass_at_k: mean(&|o| f64::from(o.solved())),
            cons_at_k: mean(&|o| f64::from(o.consensus(Unanswered::Ignored))),
            cons_at_k_unanswered_wrong: mean(&|o| f64::from(o.consensus(Unanswered::Wrong))),
            pass_rate: mean(&Outcome::pass_rate),
            pass_rate_unhalted: outcomes
                .iter()
                .any(|o| o.halted.contains(&true))
                .then(|| mean(&Outcome::pass_rate_unhalted)),
            sequences: outcomes.iter().map(Outcome::sequences).sum(),
            tokens: outcomes.iter().map(|o| o.tokens).sum(),
            tokens_distinct: prefixes.iter().map(Prefixes::distinct).sum(),
            ties: outcomes.iter().filter(|o| o.is_tied()).count(),
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
pub fn cons_at_k(outcome: &Outcome, k: usize, unanswered: Unanswered) -> f64 {
    const WAYS: usize = 2000;
    let n = outcome.sequences();
    let k = k.min(n);
    let ballots = Ballots::new(outcome, unanswered);
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
    fn new(outcome: &'a Outcome, unanswered: Unanswered) -> Self {
        let counts = |answer: &Option<String>| answer.is_some() || unanswered == Unanswered::Wrong;
        let given = |answer: &Option<String>| {
            outcome.answers.iter().position(|other| other == answer).filter(|_| counts(answer))
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
        let is_right = |first: usize| self.outcome.correct[first] && self.outcome.answers[first].is_some();
        votes.into_iter().reduce(first_wins).is_some_and(|(_, _, first)| is_right(first))
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

/// An estimate for each prompt from a share of its samples. A fractional number of samples is interpolated.
fn at_share(full_parallel: &[Outcome], share: f64, estimate: impl Fn(&Outcome, usize) -> f64) -> Vec<f64> {
    let of = |o: &Outcome| interpolate(share * o.sequences() as f64, |k| estimate(o, k));
    full_parallel.iter().map(of).collect()
}

fn interpolate(k: f64, at: impl Fn(usize) -> f64) -> f64 {
    let below = at(k as usize);
    if k.fract() == 0.0 { below } else { below + (at(k as usize + 1) - below) * k.fract() }
}

/// The share of its samples that full-parallel could have decoded with `tokens` for all prompts: what else the tokens
/// could have bought.
///
/// Every prompt gets the same share of its samples, because a sampler cannot know which prompts are hard. To give each
/// prompt the tokens that another method chose to spend on it would lend the sampler the very knowledge that is being
/// compared. `None` when full-parallel did not spend that much itself.
pub fn share_of_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<f64> {
    let spent: usize = full_parallel.iter().map(|o| o.tokens).sum();
    (spent > 0 && tokens <= spent).then(|| tokens as f64 / spent as f64)
}

/// The same with each distinct prefix decoded once: the share of the samples whose expected distinct prefixes are
/// `distinct` over all prompts. More samples share more, so this is not proportional to the tokens.
pub fn share_of_prefixes(full_parallel: &[Prefixes], distinct: usize) -> Option<f64> {
    let all: usize = full_parallel.iter().map(Prefixes::distinct).sum();
    if all == 0 || distinct > all {
        return None;
    }
    let expected = |share: f64| -> f64 {
        full_parallel.iter().map(|p| interpolate(share * p.sequences() as f64, |k| p.expected(k))).sum()
    };
    // It grows with the share, so halving finds the place: to the last bit of a share in 53 steps.
    let halve = |(low, high): (f64, f64), _| {
        let middle = (low + high) / 2.0;
        if expected(middle) < distinct as f64 { (middle, high) } else { (low, middle) }
    };
    Some((0..53).fold((0.0, 1.0), halve).1)
}

/// For each prompt, full-parallel's pass@k with this share of its samples.
pub fn passes_at_share(full_parallel: &[Outcome], share: f64) -> Vec<f64> {
    at_share(full_parallel, share, |o, k| pass_at_k(o.sequences(), o.right(), k))
}

/// The same for the majority's accuracy.
pub fn consensus_at_share(full_parallel: &[Outcome], share: f64, unanswered: Unanswered) -> Vec<f64> {
    at_share(full_parallel, share, |o, k| cons_at_k(o, k, unanswered))
}

/// Full-parallel's pass@k over all prompts had it spent only `tokens` on them: see [`share_of_tokens`].
pub fn pass_at_equal_tokens(full_parallel: &[Outcome], tokens: usize) -> Option<f64> {
    share_of_tokens(full_parallel, tokens).map(|share| mean(&passes_at_share(full_parallel, share)))
}

/// The same with each distinct prefix decoded once: see [`share_of_prefixes`].
pub fn pass_at_equal_prefixes(
    full_parallel: &[Outcome],
    prefixes: &[Prefixes],
    distinct: usize,
) -> Option<f64> {
    share_of_prefixes(prefixes, distinct).map(|share| mean(&passes_at_share(full_parallel, share)))
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
        let metrics = Metrics::of(&outcomes, &[], 2.5);
        assert_eq!((metrics.pass_at_k, metrics.cons_at_k), (2.0 / 3.0, 1.0 / 3.0));
        assert!((metrics.pass_rate - (0.5 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
        assert_eq!((metrics.sequences, metrics.tokens, metrics.prompts, metrics.ties), (8, 160, 3, 0));
        assert_eq!(Metrics::of(&[outcome(&[("1", true), ("2", false)], 9)], &[], 0.0).ties, 1);
        assert_eq!(Metrics::of(&[], &[], 0.0).pass_at_k, 0.0);
        let divided: Vec<bool> = outcomes.iter().map(Outcome::is_divided).collect();
        assert_eq!(divided, [true, false, true]);
    }

    #[test]
    fn equal_tokens_interpolates() {
        let full = [outcome(&[("1", true), ("2", false)], 60), outcome(&[("", false), ("", false)], 40)];
        assert_eq!(pass_at_equal_tokens(&full, 100), Some(0.5));
        assert_eq!(pass_at_equal_tokens(&full, 50), Some(0.25));
        assert_eq!(pass_at_equal_tokens(&full, 75), Some(0.375));
        assert_eq!(
            share_of_tokens(&full, 75).map(|share| passes_at_share(&full, share)),
            Some(vec![0.75, 0.0])
        );
        assert_eq!(pass_at_equal_tokens(&full, 101), None);
        assert_eq!(pass_at_equal_tokens(&[], 0), None);
    }

    #[test]
    fn majorities_at_equal_tokens_interpolate_too() {
        // One sample is right in one of two; of two samples the first wins the tie.
        let consensus_at_equal_tokens = |full: &[Outcome], tokens| {
            share_of_tokens(full, tokens).map(|share| consensus_at_share(full, share, Unanswered::Ignored))
        };
        let full = [outcome(&[("1", true), ("2", false)], 60), outcome(&[("3", true), ("3", true)], 40)];
        assert_eq!(consensus_at_equal_tokens(&full, 100), Some(vec![1.0, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 50), Some(vec![0.5, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 75), Some(vec![0.75, 1.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 0), Some(vec![0.0, 0.0]));
        assert_eq!(consensus_at_equal_tokens(&full, 101), None);
    }

    #[test]
    fn the_heavier_answer_is_the_majority() {
        let mut prompt = outcome(&[("4", false), ("5", true), ("4", false), ("", false)], 10);
        assert!(!prompt.consensus(Unanswered::Ignored));
        prompt.weights = vec![1.0, 2.5, 1.0, 9.0];
        assert!(prompt.consensus(Unanswered::Ignored));
        assert_eq!(prompt.votes()[0].answer, "5");
        // Whoever does not vote has no say in whether the answer is right either.
        prompt = outcome(&[("4", false), ("4", true)], 10);
        prompt.weights = vec![0.0, 1.0];
        assert!(prompt.consensus(Unanswered::Ignored));
    }

    #[test]
    fn what_has_no_answer_may_count_as_one_wrong_answer() {
        let consensus = |answers: &[(&str, bool)]| {
            Unanswered::ALL.map(|unanswered| outcome(answers, 10).consensus(unanswered))
        };
        assert_eq!(consensus(&[("4", true), ("", false), ("", false)]), [true, false]);
        assert_eq!(consensus(&[("4", true), ("4", true), ("", false)]), [true, true]);
        // As in any tie, the first wins.
        assert_eq!(consensus(&[("4", true), ("", false)]), [true, true]);
        assert_eq!(consensus(&[("", false), ("4", true)]), [true, false]);
        let metrics = Metrics::of(&[outcome(&[("4", true), ("", false), ("", false)], 10)], &[], 0.0);
        assert_eq!((metrics.cons_at_k, metrics.cons_at_k_unanswered_wrong), (1.0, 0.0));
        // What weighs nothing is no vote for having no answer either.
        let mut halted = outcome(&[("", false), ("", false), ("4", true)], 10);
        halted.weights = vec![0.0, 0.5, 1.0];
        assert!(halted.consensus(Unanswered::Wrong));
    }

    #[test]
    fn who_was_given_up_is_wrong_or_left_out() {
        let mut given_up = outcome(&[("4", true), ("5", false), ("4", true), ("", false)], 10);
        let whole = outcome(&[("4", true), ("5", false)], 10);
        assert_eq!(Metrics::of(&[whole.clone(), given_up.clone()], &[], 0.0).pass_rate_unhalted, None);
        given_up.halted = vec![false, false, true, true];
        let metrics = Metrics::of(&[whole, given_up], &[], 0.0);
        assert_eq!((metrics.pass_rate, metrics.pass_rate_unhalted), (0.375, Some(0.5)));
    }

    #[test]
    fn no_votes_are_no_majority() {
        let silent = outcome(&[("", false), ("", false), ("", false)], 10);
        assert!((0..5).all(|k| cons_at_k(&silent, k, Unanswered::Ignored) == 0.0));
        assert_eq!(cons_at_k(&Outcome::default(), 3, Unanswered::Ignored), 0.0);
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
        assert!(
            (cons_at_k(&prompt, k, Unanswered::Ignored) - expected).abs() < 0.02,
            "{} {expected}",
            cons_at_k(&prompt, k, Unanswered::Ignored)
        );
        assert_eq!(cons_at_k(&prompt, k, Unanswered::Ignored), cons_at_k(&prompt, k, Unanswered::Ignored));
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
            ..Outcome::default()
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
            ..Outcome::default()
        }
    }

    proptest! {
        #[test]
        fn cons_at_k_counts_subsets(prompt in outcomes(), k in 0usize..10, wrong in any::<bool>()) {
            let unanswered = if wrong { Unanswered::Wrong } else { Unanswered::Ignored };
            let n = prompt.sequences();
            let drawn = k.min(n);
            let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == drawn);
            let majorities: Vec<bool> = subsets.map(|s| only(&prompt, s).consensus(unanswered)).collect();
            let right = majorities.iter().filter(|&&right| right).count();
            prop_assert_eq!(majorities.len(), choices(n, drawn));
            prop_assert_eq!(cons_at_k(&prompt, k, unanswered), right as f64 / majorities.len() as f64);
            prop_assert_eq!(cons_at_k(&prompt, n, unanswered), f64::from(prompt.consensus(unanswered)));
        }

        /// What is shared costs once, so the same number buys more samples, and all of them at the end.
        #[test]
        fn equal_prefixes_buy_what_they_cost(
            prompts in prop::collection::vec(prop::collection::vec(prop::collection::vec(0u32..2, 1..6), 1..7), 1..4),
            bought in 0.0f64..=1.0,
        ) {
            let prefixes: Vec<Prefixes> = prompts.iter().cloned().map(Prefixes::of).collect();
            let all: usize = prefixes.iter().map(Prefixes::distinct).sum();
            let distinct = (bought * all as f64) as usize;
            let share = share_of_prefixes(&prefixes, distinct).unwrap();
            let cost: f64 =
                prefixes.iter().map(|p| interpolate(share * p.sequences() as f64, |k| p.expected(k))).sum();
            prop_assert!((cost - distinct as f64).abs() < 1e-9, "{cost} {distinct}");
            prop_assert_eq!(share_of_prefixes(&prefixes, all + 1), None);
            let decoded: Vec<Outcome> = prompts
                .iter()
                .map(|p| Outcome { tokens: p.iter().map(Vec::len).sum(), ..Outcome::default() })
                .collect();
            if prompts.iter().all(|p| p.len() == prompts[0].len()) {
                prop_assert!(share + 1e-9 >= share_of_tokens(&decoded, distinct).unwrap());
            }
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
