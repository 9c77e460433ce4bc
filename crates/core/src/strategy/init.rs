//! EAGer-init, the paper's Algorithm 1: one sequence, forked where the model is unsure.
//!
//! At a step whose entropy reaches theta, while there is room under the cap, nothing is sampled: the sequence takes the
//! most likely token and a twin takes the second. Steps that came close, or that the cap refused, are remembered: that is
//! where [`Regrow`](super::Regrow) starts.
//!
//! The cap makes sequences of one prompt depend on each other: who forks first uses up the room. The paper's loop settles
//! it by position, then by age. An engine that runs out of memory, or streams over a network, does not keep step, so a
//! fork waits until every other live sequence has passed that point. With all sequences in step nothing ever waits.

use super::{Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree};

/// Which sequences count against the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CapRule {
    /// Live and finished together: a prompt never has more sequences than the cap.
    #[default]
    All,
    /// Only the live ones, as Algorithm 1 is written: a finished sequence makes room for another fork.
    Live,
}

/// Where and how often to fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Forking {
    /// Entropy from which a step forks, in nats.
    pub theta: f32,
    /// Most sequences.
    pub cap: usize,
    pub cap_rule: CapRule,
    /// A sequence that has not forked for this many tokens is no longer watched; 0 watches for ever.
    pub window: usize,
    /// Fork after the chain of thought as well.
    pub everywhere: bool,
    /// Steps from this share of theta are remembered for regrowing.
    pub relax: f32,
    /// A fork needs at least so many tokens since the last one on its path; the paper has no such rule, and 0 is none.
    pub spacing: usize,
    /// Give the room under the cap to forks in order of position, whatever order an engine decodes in. Without it a fork
    /// never waits, and the same seed may give another tree where sequences do not run in step.
    pub in_order: bool,
}

impl Forking {
    pub fn new(theta: f32, cap: usize) -> Self {
        Forking {
            theta,
            cap,
            cap_rule: CapRule::default(),
            window: 1000,
            everywhere: false,
            relax: 0.8,
            spacing: 0,
            in_order: true,
        }
    }

    /// The threshold of a second pass.
    pub fn relaxed_theta(&self) -> f32 {
        self.relax.min(1.0) * self.theta
    }

    /// Is entropy still watched at this step?
    pub(super) fn watches(&self, tree: &Tree, id: SeqId, at: usize) -> bool {
        let sequence = tree.get(id);
        let inside = self.everywhere || sequence.reasoning;
        inside && (self.window == 0 || at < sequence.last_fork.saturating_add(self.window))
    }

    /// Is this step far enough from the last fork of its path?
    fn is_spaced(&self, tree: &Tree, id: SeqId, at: usize) -> bool {
        let last_fork = tree.get(id).last_fork;
        // A path that never forked says 0: the start of a response is not a fork.
        last_fork == 0 || at >= last_fork.saturating_add(self.spacing)
    }
}

/// The strategy of EAGer-init.
#[derive(Debug, Clone)]
pub struct Init {
    forking: Forking,
    /// Sequences that were in the tree before this strategy began; they are none of its business.
    before: usize,
}

impl Init {
    pub fn new(forking: Forking) -> Self {
        Init { forking, before: 0 }
    }

    /// Has another sequence yet to decide a step that comes before this one?
    fn must_wait(&self, tree: &Tree, id: SeqId, at: usize) -> bool {
        self.forking.in_order
            && tree.live().any(|other| other != id && (tree.get(other).len(), other) < (at, id))
    }

    fn has_room(&self, tree: &Tree, id: SeqId, at: usize) -> bool {
        let counts = |other: &SeqId| match self.forking.cap_rule {
            CapRule::All => true,
            // Whoever ended by a later step, in order of position, was live when this one was decided.
            CapRule::Live => tree.get(*other).is_live() || ended_by(tree, *other) > (at, id),
        };
        tree.ids().skip(self.before).filter(counts).count() < self.forking.cap
    }
}

/// The step that ended a sequence: its own last, or the fork that made it when its first token ended it.
fn ended_by(tree: &Tree, id: SeqId) -> (usize, SeqId) {
    let sequence = tree.get(id);
    let forked_off = sequence.parent.filter(|_| sequence.tokens.len() == 1);
    (sequence.len() - 1, forked_off.unwrap_or(id))
}

impl Strategy for Init {
    fn begin(&mut self, tree: &Tree) -> Vec<Start> {
        self.before = tree.len();
        vec![Start::Root]
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        let forking = &self.forking;
        if step.entropy < forking.relaxed_theta() || !forking.watches(tree, id, step.at) {
            return Verdict::Keep;
        }
        let &[first, second, ..] = step.top else { return Verdict::Keep };
        if step.entropy < forking.theta || !forking.is_spaced(tree, id, step.at) {
            return Verdict::Remember;
        }
        // Under the default rule a full house stays full, so only a fork that could happen has to wait its turn.
        let settled = forking.cap_rule == CapRule::All && !self.has_room(tree, id, step.at);
        if !settled && self.must_wait(tree, id, step.at) {
            Verdict::Wait
        } else if self.has_room(tree, id, step.at) {
            Verdict::Fork { first, second }
        } else {
            Verdict::Remember
        }
    }
}
