//! Until right: one sample after the other, and no more once one is right.
//!
//! The least that labels buy: no method that may look at them should spend more. Sample i is the very sequence that
//! full-parallel's sample i is, so what is saved can be counted from either.

use std::sync::Arc;

use super::{Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree};
use crate::vote::{Answers, EndedPath};

/// The strategy. Without somebody who knows the right answer it samples as many as it may.
#[derive(Debug, Clone)]
pub struct UntilRight {
    /// Sequences that may still be started.
    left: usize,
    answers: Option<Arc<dyn Answers>>,
}

impl UntilRight {
    pub fn new(cap: usize, answers: Option<Arc<dyn Answers>>) -> Self {
        UntilRight { left: cap, answers }
    }

    fn start(&mut self) -> Vec<Start> {
        let starts = self.left.min(1);
        self.left -= starts;
        vec![Start::Root; starts]
    }

    fn is_right(&self, tree: &Tree, id: SeqId) -> bool {
        let judged = self.answers.as_ref().map(|reader| reader.right(&[EndedPath::of(tree, id)]));
        judged.is_some_and(|right| right.first() == Some(&true))
    }
}

impl Strategy for UntilRight {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        self.start()
    }

    fn decide(&mut self, _: &Tree, _: SeqId, _: &Step<'_>) -> Verdict {
        Verdict::Keep
    }

    fn ended(&mut self, tree: &Tree, id: SeqId) -> Vec<Start> {
        if self.left == 0 || self.is_right(tree, id) { Vec::new() } else { self.start() }
    }
}
