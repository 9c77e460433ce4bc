//! Strategies decide; engines decode.
//!
//! A strategy sees one prompt's tree. It says which sequences to begin with, what to do at every decoded token, and what
//! to start when a sequence has ended. That is the whole interface: each method is a screenful behind it.

mod deepconf;
mod esc;
mod full_parallel;
mod init;
mod regrow;
mod until_right;

use std::fmt;

pub use deepconf::{DeepConf, DeepConfOptions, confidence};
pub use esc::{Esc, EscOptions};
pub use full_parallel::FullParallel;
pub use init::{CapRule, Forking, Init};
pub use regrow::{Preference, Regrow, Regrowing};
pub use until_right::UntilRight;

use crate::entropy::Candidate;
use crate::tree::{SeqId, Tree};

/// A sequence to start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// From the prompt.
    Root,
    /// From the path of `from` before position `at`, with `token` there instead.
    Branch { from: SeqId, at: usize, token: Candidate, entropy: f32 },
}

/// A decoded token that awaits a decision.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Position of the token in its path.
    pub at: usize,
    /// The most likely tokens, best first.
    pub top: &'a [Candidate],
    pub sampled: Candidate,
    pub entropy: f32,
}

/// What becomes of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Take the sampled token.
    Keep,
    /// Take it, and remember the others: a branch may start here later.
    Remember,
    /// Take `first`, and let a twin take `second`.
    Fork { first: Candidate, second: Candidate },
    /// Take it and end the sequence here.
    Halt,
    /// Ask again when the other sequences have caught up.
    Wait,
}

/// A way to grow one prompt's tree.
pub trait Strategy: fmt::Debug + Send {
    /// The sequences to begin with.
    fn begin(&mut self, tree: &Tree) -> Vec<Start>;

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict;

    /// A sequence has ended (the tree says how): start more?
    fn ended(&mut self, tree: &Tree, id: SeqId) -> Vec<Start> {
        let _ = (tree, id);
        Vec::new()
    }

    /// The weights of votes that have become known since this was last asked, which is whenever a sequence has ended and
    /// [`ended`](Strategy::ended) was told. A sequence that is never named has a vote like any other.
    fn weights(&mut self) -> Vec<(SeqId, f32)> {
        Vec::new()
    }
}
