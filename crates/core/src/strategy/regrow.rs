//! `regrow`: spend more on a tree without decoding anything again.
//!
//! The first pass remembered every step where a fork was refused or came close, with the tokens that were not taken.
//! Regrowing starts new branches right there, the most promising first, and never more than its budget. The branches do
//! not fork by themselves; they remember in turn. They start in waves, and a wave chooses among all that the waves before
//! it have found. On acorn, small waves solve as much as one large wave and add less than half the tokens: later branches
//! start deeper in the tree.

use super::{Forking, Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree, Untaken};

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
}

/// Adds up to `budget` branches to a finished tree.
#[derive(Debug, Clone)]
pub struct Regrow {
    forking: Forking,
    preference: Preference,
    budget: usize,
    /// Branches started together, at least one.
    wave: usize,
}

impl Regrow {
    pub fn new(forking: Forking, preference: Preference, budget: usize, wave: usize) -> Self {
        Regrow { forking, preference, budget, wave: wave.max(1) }
    }

    fn score(&self, at: usize, entropy: f32, untaken: &Untaken) -> f32 {
        match self.preference {
            Preference::Likely => untaken.probability,
            Preference::Unsure => entropy,
            Preference::Both => untaken.probability * entropy,
            Preference::Early => -(at as f32),
        }
    }

    /// The best untaken tokens of the tree, as far as the budget goes.
    fn pick(&mut self, tree: &Tree) -> Vec<Start> {
        let mut open: Vec<(f32, Start)> = Vec::new();
        for (from, at, spot) in tree.spots() {
            for untaken in &spot.untaken {
                let start = Start::Branch { from, at, token: untaken.candidate, entropy: spot.entropy };
                open.push((self.score(at, spot.entropy, untaken), start));
            }
        }
        // A stable sort: ties stay in order of place.
        open.sort_by(|a, b| b.0.total_cmp(&a.0));
        open.truncate(self.budget.min(self.wave));
        self.budget -= open.len();
        open.into_iter().map(|(_, start)| start).collect()
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
