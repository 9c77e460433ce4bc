//! The baseline: M independent samples of every prompt.

use super::{Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree};

#[derive(Debug, Clone)]
pub struct FullParallel {
    pub sequences: usize,
}

impl Strategy for FullParallel {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root; self.sequences]
    }

    fn decide(&mut self, _: &Tree, _: SeqId, _: &Step<'_>) -> Verdict {
        Verdict::Keep
    }
}
