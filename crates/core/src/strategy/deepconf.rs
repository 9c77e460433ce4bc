//! DeepConf online (Fu et al. 2025): give up sequences in which the model loses confidence.
//!
//! The confidence of a token is minus the mean raw log-probability of the top K: a sharp distribution leaves its other
//! candidates very unlikely, so high means sure. It is averaged over a sliding window (a group), and a sequence is as good
//! as its worst group. Some sequences run to their end first, as a warm-up, and set the bar. The rest start together; one
//! whose group falls below the bar is halted. Votes weigh as much as the worst group. Who lies below the bar has no vote: those
//! that were halted and, as in the authors' program, those of the warm-up.
//!
//! Once the bar is set no sequence depends on another, so no schedule can change what is halted. With the paper's consensus
//! stop (its published program has none) they follow one another, and no more are begun when the weighted vote has as good as
//! settled.

use std::sync::Arc;

use super::{Start, Step, Strategy, Verdict};
use crate::entropy::{Candidate, percentile};
use crate::tree::{SeqId, Tree};
use crate::vote::{Answers, EndedPath, weighted_tally};

/// How the bar is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeepConfOptions {
    /// Sequences of the warm-up; `None`: half of the cap M.
    pub warmup: Option<usize>,
    /// The share of warm-up sequences at or above the bar. 0.9 is the authors' "high", 0.1 their "low", which halts more.
    pub keep: f64,
    /// Tokens of a group; `None`: 2,048, or a quarter of the mean length of the warm-up where that is shorter.
    pub window: Option<usize>,
    /// Sample one by one after the warm-up, and stop when one answer has [`CONSENSUS`](Self::CONSENSUS) of the vote.
    pub consensus: bool,
}

impl Default for DeepConfOptions {
    fn default() -> Self {
        DeepConfOptions { warmup: None, keep: 0.9, window: None, consensus: false }
    }
}

impl DeepConfOptions {
    /// The authors' group. They ran sequences of tens of thousands of tokens.
    pub const WINDOW: usize = 2048;

    /// The paper's share of the weighted vote from which an answer is settled.
    pub const CONSENSUS: f64 = 0.95;

    /// Sequences of the warm-up, of at most `cap` in all.
    pub fn warmup(&self, cap: usize) -> usize {
        self.warmup.unwrap_or(cap / 2).clamp(1, cap.max(1))
    }

    /// Tokens of a group, after a warm-up of sequences of these lengths.
    fn window(&self, lengths: impl ExactSizeIterator<Item = usize>) -> usize {
        let count = lengths.len().max(1);
        let quarter = lengths.sum::<usize>() / (4 * count);
        self.window.unwrap_or(quarter.min(Self::WINDOW)).max(1)
    }
}

/// Minus the mean log-probability of the candidates. Those without any chance are left out: one of them would make
/// the step infinitely sure.
pub fn confidence(top: &[Candidate]) -> f32 {
    let (mut sum, mut count) = (0.0, 0u32);
    for logprob in top.iter().map(|c| f64::from(c.logprob)).filter(|l| l.is_finite()) {
        sum -= logprob;
        count += 1;
    }
    if count == 0 { 0.0 } else { (sum / f64::from(count)) as f32 }
}

/// The confidences of one sequence, and its current group.
#[derive(Debug, Clone, Default)]
struct Trace {
    tokens: Vec<f32>,
    /// Over the last `window` tokens, or over all while there are fewer. In f64 it stays far more exact than its terms.
    sum: f64,
    /// Of the groups so far; a sequence without a full one has none.
    lowest: Option<f32>,
}

impl Trace {
    /// Adds a token; gives the confidence of the group that it completes.
    fn push(&mut self, confidence: f32, window: usize) -> Option<f32> {
        self.tokens.push(confidence);
        self.sum += f64::from(confidence);
        let left = self.tokens.len().checked_sub(window)?;
        if left > 0 {
            self.sum -= f64::from(self.tokens[left - 1]);
        }
        let group = (self.sum / window as f64) as f32;
        self.lowest = Some(self.lowest.map_or(group, |lowest| lowest.min(group)));
        Some(group)
    }

    /// The lowest group confidence: the mean of the whole where it is shorter than a group.
    fn worst(&self) -> f32 {
        self.lowest.unwrap_or((self.sum / self.tokens.len().max(1) as f64) as f32)
    }

    /// The same sequence in groups of this size.
    fn regrouped(&self, window: usize) -> Trace {
        let mut trace = Trace::default();
        for &confidence in &self.tokens {
            trace.push(confidence, window);
        }
        trace
    }
}

/// What the warm-up taught.
#[derive(Debug, Clone, Copy)]
struct Bar {
    window: usize,
    least: f32,
}

impl Bar {
    /// What the vote of a sequence with this lowest group confidence weighs.
    fn weigh(&self, worst: f32) -> f32 {
        if worst < self.least { 0.0 } else { worst }
    }
}

/// The strategy of DeepConf.
#[derive(Debug, Clone)]
pub struct DeepConf {
    options: DeepConfOptions,
    cap: usize,
    /// Without somebody who reads answers no consensus is seen.
    answers: Option<Arc<dyn Answers>>,
    /// Sequences that were in the tree before this strategy began.
    before: usize,
    /// By sequence, from `before` on.
    traces: Vec<Trace>,
    /// `None` during the warm-up.
    bar: Option<Bar>,
    /// Votes that the grove has not been told of.
    weights: Vec<(SeqId, f32)>,
    /// Those that weigh something.
    votes: Vec<(SeqId, f32)>,
}

impl DeepConf {
    pub fn new(options: DeepConfOptions, cap: usize, answers: Option<Arc<dyn Answers>>) -> Self {
        let (traces, weights, votes) = Default::default();
        DeepConf { options, cap, answers, before: 0, traces, bar: None, weights, votes }
    }

    fn trace(&mut self, id: SeqId) -> &mut Trace {
        let at = id.0 - self.before;
        if self.traces.len() <= at {
            self.traces.resize_with(at + 1, Trace::default);
        }
        &mut self.traces[at]
    }

    fn weigh(&mut self, id: SeqId, weight: f32) {
        self.weights.push((id, weight));
        if weight > 0.0 {
            self.votes.push((id, weight));
        }
    }

    /// Has one answer as good as all of the vote?
    fn is_settled(&self, tree: &Tree) -> bool {
        let Some(reader) = &self.answers else { return false };
        let paths: Vec<_> = self.votes.iter().map(|&(id, _)| EndedPath::of(tree, id)).collect();
        let answers = reader.answers(&paths);
        let ballots = answers.iter().zip(&self.votes);
        let votes = weighted_tally(ballots.map(|(answer, &(_, weight))| (answer.as_deref(), weight)));
        let all: f64 = votes.iter().map(|v| v.weight).sum();
        votes.first().is_some_and(|first| first.weight >= DeepConfOptions::CONSENSUS * all)
    }

    /// What follows the warm-up: all that is left, or the next while there is no consensus.
    fn rest(&self, tree: &Tree) -> Vec<Start> {
        let left = (self.before + self.cap).saturating_sub(tree.len());
        match self.options.consensus {
            false => vec![Start::Root; left],
            true if left > 0 && !self.is_settled(tree) => vec![Start::Root],
            true => Vec::new(),
        }
    }

    /// All of the warm-up has ended: sets the bar and weighs the warm-up's votes.
    fn set_bar(&mut self) {
        let window = self.options.window(self.traces.iter().map(|t| t.tokens.len()));
        let worst: Vec<f32> = self.traces.iter().map(|t| t.regrouped(window).worst()).collect();
        let percent = 100.0 * (1.0 - self.options.keep);
        // There is at least one sequence in a warm-up.
        let least = percentile(&worst, percent).unwrap_or(f64::NEG_INFINITY) as f32;
        let bar = Bar { window, least };
        self.bar = Some(bar);
        for (id, worst) in (self.before..).map(SeqId).zip(worst) {
            self.weigh(id, bar.weigh(worst));
        }
        self.traces.iter_mut().for_each(|t| *t = Trace::default());
    }
}

impl Strategy for DeepConf {
    fn begin(&mut self, tree: &Tree) -> Vec<Start> {
        self.before = tree.len();
        let warmup = self.options.warmup(self.cap);
        self.traces.resize_with(warmup, Trace::default);
        vec![Start::Root; warmup]
    }

    fn decide(&mut self, _: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        let bar = self.bar;
        // During the warm-up the size of a group is not known yet.
        let window = bar.map_or(usize::MAX, |b| b.window);
        let group = self.trace(id).push(confidence(step.top), window);
        match (group, bar) {
            (Some(group), Some(bar)) if group < bar.least => Verdict::Halt,
            _ => Verdict::Keep,
        }
    }

    fn ended(&mut self, tree: &Tree, id: SeqId) -> Vec<Start> {
        if let Some(bar) = self.bar {
            let trace = std::mem::take(self.trace(id));
            self.weigh(id, bar.weigh(trace.worst()));
            return if self.options.consensus { self.rest(tree) } else { Vec::new() };
        }
        if tree.live().any(|id| id.0 >= self.before) {
            return Vec::new();
        }
        self.set_bar();
        self.rest(tree)
    }

    fn weights(&mut self) -> Vec<(SeqId, f32)> {
        std::mem::take(&mut self.weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(logprobs: &[f32]) -> Vec<Candidate> {
        logprobs.iter().map(|&logprob| Candidate { token: 0, logprob }).collect()
    }

    #[test]
    fn a_sharp_step_is_a_confident_one() {
        assert_eq!(confidence(&top(&[-1.0, -2.0])), 1.5);
        assert!(confidence(&top(&[-0.01, -9.0])) > confidence(&top(&[-0.7, -0.7])));
        assert_eq!(confidence(&top(&[-1.0, f32::NEG_INFINITY])), 1.0);
        assert_eq!(confidence(&[]), 0.0);
    }

    #[test]
    fn a_sequence_is_as_good_as_its_worst_group() {
        let whole = Trace { tokens: vec![4.0, 1.0, 3.0, 8.0], ..Trace::default() };
        for (window, worst) in [(1, 1.0), (2, 2.0), (3, 8.0 / 3.0), (4, 4.0), (5, 4.0)] {
            assert_eq!(whole.regrouped(window).worst(), worst, "groups of {window}");
        }
        assert_eq!(Trace::default().worst(), 0.0);
    }

    #[test]
    fn who_lies_below_the_bar_has_no_vote() {
        // Of warm-ups with these confidences, 0.1 keeps the best alone and 1 keeps all.
        for (keep, weights) in [(1.0, [1.0, 3.0, 2.0]), (0.5, [0.0, 3.0, 2.0]), (0.1, [0.0, 3.0, 0.0])] {
            let options = DeepConfOptions { keep, window: Some(1), ..DeepConfOptions::default() };
            let mut strategy = DeepConf::new(options, 6, None);
            strategy.traces = [1.0, 3.0, 2.0].map(|c| Trace { tokens: vec![c], ..Trace::default() }).into();
            strategy.set_bar();
            let told: Vec<f32> = strategy.weights().into_iter().map(|(_, weight)| weight).collect();
            assert_eq!(told, weights, "{keep}");
        }
    }

    #[test]
    fn the_group_suits_the_warm_up() {
        let ruled = |lengths: &[usize]| DeepConfOptions::default().window(lengths.iter().copied());
        assert_eq!(ruled(&[100, 61]), 20);
        assert_eq!(ruled(&[20_000, 30_000]), DeepConfOptions::WINDOW);
        assert_eq!(ruled(&[1, 2]), 1);
        let given = DeepConfOptions { window: Some(7), ..DeepConfOptions::default() };
        assert_eq!(given.window([100].into_iter()), 7);
    }

    #[test]
    fn the_warm_up_is_half_unless_told() {
        let warmup = |asked, cap| DeepConfOptions { warmup: asked, ..DeepConfOptions::default() }.warmup(cap);
        assert_eq!(
            [warmup(None, 32), warmup(None, 1), warmup(Some(4), 32), warmup(Some(99), 8)],
            [16, 1, 4, 8]
        );
    }
}
