//! `regrow`: spend more on a tree without decoding anything again.
//!
//! The first pass remembered every step where a fork was refused or came close, with the tokens that were not taken.
//! Regrowing starts new branches right there, the most promising first, and never more than its budget. The branches do
//! not fork by themselves; they remember in turn. They start in waves, and a wave chooses among all that the waves before
//! it have found. On acorn, small waves solve as much as one large wave and add less than half the tokens: later branches
//! start deeper in the tree.

use std::collections::BTreeMap;

use super::{Forking, Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree};

/// Which untaken tokens come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Those that the model found most likely. On acorn this solves more than the others, or as much for fewer tokens.
    #[default]
    Likely,
    /// Those at the steps of highest entropy.
    Unsure,
    /// Probability times the entropy of the step.
    Both,
    /// The earliest in the path.
    Early,
    /// The latest in the path: they add the fewest tokens.
    Late,
    /// Those that complete the likeliest reasoning as a whole: the mean log-probability of the path up to them.
    Path,
    /// The likely ones, but divided by how many ways were already taken from there: they spread.
    Fresh,
}

/// Where and in what order new branches start. The defaults take every untaken token, the likeliest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regrowing {
    pub first: Preference,
    /// Branches of a prompt that start together, at least one.
    pub wave: usize,
    /// Branches of one wave that leave the same sequence are at least so many positions apart.
    pub spacing: usize,
    /// Most tokens that may ever be taken at one step, the first pass's included; 2 leaves one to regrow where it did
    /// not fork. 0 is no limit.
    pub candidates: usize,
    /// Least probability, among the top K, of a token to start from.
    pub least: f32,
}

impl Default for Regrowing {
    fn default() -> Self {
        Regrowing { first: Preference::default(), wave: 8, spacing: 0, candidates: 0, least: 0.0 }
    }
}

/// An untaken token that a branch may start with.
struct Open {
    score: f32,
    from: SeqId,
    at: usize,
    start: Start,
}

/// Adds up to `budget` branches to a finished tree.
#[derive(Debug, Clone)]
pub struct Regrow {
    forking: Forking,
    regrowing: Regrowing,
    budget: usize,
}

impl Regrow {
    pub fn new(forking: Forking, regrowing: Regrowing, budget: usize) -> Self {
        Regrow { forking, regrowing, budget }
    }

    /// All that may be taken, in order of place; at one place the likeliest first.
    fn open(&self, tree: &Tree) -> Vec<Open> {
        let branches = branches(tree);
        let mut paths = Paths::default();
        let mut open = Vec::new();
        for (from, at, spot) in tree.spots() {
            let taken = 1 + branches.get(&(from, at)).copied().unwrap_or(0);
            let room = match self.regrowing.candidates {
                0 => usize::MAX,
                most => most.saturating_sub(taken),
            };
            let likely = spot.untaken.iter().filter(|u| u.probability >= self.regrowing.least);
            for (ahead, untaken) in likely.take(room).enumerate() {
                let score = match self.regrowing.first {
                    Preference::Likely => untaken.probability,
                    Preference::Unsure => spot.entropy,
                    Preference::Both => untaken.probability * spot.entropy,
                    Preference::Early => -(at as f32),
                    Preference::Late => at as f32,
                    Preference::Path => paths.mean_logprob(tree, from, at, untaken.candidate.logprob),
                    // Those ahead of it at this place are likelier, so they will have been taken before it is.
                    Preference::Fresh => untaken.probability / (taken + ahead) as f32,
                };
                let start = Start::Branch { from, at, token: untaken.candidate, entropy: spot.entropy };
                open.push(Open { score, from, at, start });
            }
        }
        open
    }

    /// The best untaken tokens of the tree, as far as the wave and the budget go.
    fn pick(&mut self, tree: &Tree) -> Vec<Start> {
        let mut open = self.open(tree);
        // A stable sort: ties stay in order of place.
        open.sort_by(|a, b| b.score.total_cmp(&a.score));
        let most = self.budget.min(self.regrowing.wave.max(1));
        let mut picked: Vec<Open> = Vec::new();
        for next in open {
            if picked.len() == most {
                break;
            }
            let close = |p: &Open| p.from == next.from && p.at.abs_diff(next.at) < self.regrowing.spacing;
            if self.regrowing.spacing == 0 || !picked.iter().any(close) {
                picked.push(next);
            }
        }
        self.budget -= picked.len();
        picked.into_iter().map(|open| open.start).collect()
    }
}

/// How many branches leave each place: forked or regrown.
fn branches(tree: &Tree) -> BTreeMap<(SeqId, usize), usize> {
    let mut branches = BTreeMap::new();
    for sequence in tree.sequences() {
        if let Some(parent) = sequence.parent {
            *branches.entry((parent, sequence.fork_at)).or_default() += 1;
        }
    }
    branches
}

/// Sums of log-probabilities along the paths that were asked for.
#[derive(Default)]
struct Paths {
    /// For a sequence: the sum before each position of its path.
    sums: BTreeMap<SeqId, Vec<f64>>,
}

impl Paths {
    /// The mean log-probability of the path of `id` before `at`, and of another token there.
    fn mean_logprob(&mut self, tree: &Tree, id: SeqId, at: usize, logprob: f32) -> f32 {
        let sums = self.sums.entry(id).or_insert_with(|| {
            let mut sum = 0.0;
            let before = |logprob: f32| {
                let before = sum;
                sum += f64::from(logprob);
                before
            };
            tree.logprobs(id).into_iter().map(before).collect()
        });
        ((sums[at] + f64::from(logprob)) / (at + 1) as f64) as f32
    }
}

impl Strategy for Regrow {
    fn begin(&mut self, tree: &Tree) -> Vec<Start> {
        self.pick(tree)
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        let unsure = step.entropy >= self.forking.relaxed_theta();
        if unsure && self.forking.watches(tree, id, step.at) { Verdict::Remember } else { Verdict::Keep }
    }

    fn ended(&mut self, tree: &Tree, _: SeqId) -> Vec<Start> {
        if tree.live().next().is_none() { self.pick(tree) } else { Vec::new() }
    }
}
