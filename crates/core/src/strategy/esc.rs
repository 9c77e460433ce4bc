//! ESC, early-stopping self-consistency (Li et al. 2024): sample in small windows, and stop when a window is of one mind.
//!
//! A window starts together and is judged when all of it has ended. Sequences that gave no answer are not of one mind with
//! anybody: such a window is followed by the next. Windows are barriers, so no schedule can change what is started.

use std::sync::Arc;

use super::{Start, Step, Strategy, Verdict};
use crate::tree::{SeqId, Tree};
use crate::vote::{Answers, EndedPath};

/// How many windows of how many sequences. What is not given follows from the cap M, and then there are never more than
/// M sequences; the last window may be smaller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EscOptions {
    /// Sequences of a window; `None`: M shared among the windows, rounded up, and at least two.
    pub window: Option<usize>,
    /// Most windows; `None`: as many as M allows where the size of a window is given, else the paper's 8.
    pub windows: Option<usize>,
}

impl EscOptions {
    /// The paper's number of windows.
    pub const WINDOWS: usize = 8;

    /// The size of a window, and the most sequences of all windows together.
    pub fn sizes(&self, cap: usize) -> (usize, usize) {
        let windows = self.windows.unwrap_or(Self::WINDOWS).max(1);
        // One sequence always agrees with itself.
        let window = self.window.unwrap_or(cap.div_ceil(windows).max(2).min(cap)).max(1);
        let most = match (self.window, self.windows) {
            (Some(_), Some(_)) => window.saturating_mul(windows),
            _ => cap,
        };
        (window, most)
    }
}

/// The strategy of ESC. Without somebody who reads answers it cannot see agreement, and runs all windows.
#[derive(Debug, Clone)]
pub struct Esc {
    window: usize,
    /// Sequences that may still be started.
    left: usize,
    answers: Option<Arc<dyn Answers>>,
    /// The first sequence of the current window.
    first: usize,
}

impl Esc {
    pub fn new(options: EscOptions, cap: usize, answers: Option<Arc<dyn Answers>>) -> Self {
        let (window, left) = options.sizes(cap);
        Esc { window, left, answers, first: 0 }
    }

    fn open(&mut self, tree: &Tree) -> Vec<Start> {
        self.first = tree.len();
        let size = self.window.min(self.left);
        self.left -= size;
        vec![Start::Root; size]
    }

    /// Did all sequences of the window give an answer, and the same one?
    fn agrees(&self, tree: &Tree) -> bool {
        let Some(reader) = &self.answers else { return false };
        let paths: Vec<_> = tree.ids().skip(self.first).map(|id| EndedPath::of(tree, id)).collect();
        let answers = reader.answers(&paths);
        answers.len() == paths.len() && answers.iter().all(|a| a.is_some() && *a == answers[0])
    }
}

impl Strategy for Esc {
    fn begin(&mut self, tree: &Tree) -> Vec<Start> {
        self.open(tree)
    }

    fn decide(&mut self, _: &Tree, _: SeqId, _: &Step<'_>) -> Verdict {
        Verdict::Keep
    }

    fn ended(&mut self, tree: &Tree, _: SeqId) -> Vec<Start> {
        let running = tree.live().any(|id| id.0 >= self.first);
        if running || self.left == 0 || self.agrees(tree) { Vec::new() } else { self.open(tree) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (window, windows, M) and what follows: the size of a window, and the most sequences.
    #[test]
    fn what_is_not_given_follows_from_the_cap() {
        let cases = [
            ((None, None, 32), (4, 32)),
            ((None, None, 20), (3, 20)),
            ((None, None, 1), (1, 1)),
            ((Some(5), None, 32), (5, 32)),
            ((None, Some(4), 30), (8, 30)),
            ((Some(40), None, 32), (40, 32)),
            ((Some(5), Some(8), 32), (5, 40)),
            ((Some(2), Some(3), 32), (2, 6)),
        ];
        for ((window, windows, cap), expected) in cases {
            assert_eq!(EscOptions { window, windows }.sizes(cap), expected, "{window:?} {windows:?} {cap}");
        }
    }
}
