//! Where a step's time goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The parts of a step, in the order in which a token passes them: what the calling thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Which sequences run, and their pages.
    Schedule,
    /// Embeddings, norms, activations into codes, rotations, and keys and values into pages; and where threads compute sequences
    /// apart, waiting for the last.
    Between,
    /// Products; and the feed-forward's gate, which is applied where it is computed.
    Matrices,
    Attention,
    /// The product that gives the logits.
    Logits,
    /// Top candidates, entropy's input and the draw.
    Sample,
    /// What the strategies decide, forks included.
    Decide,
}

const NAMES: [&str; 7] = ["schedule", "between", "matrices", "attention", "logits", "sample", "decide"];

/// Time spent in each phase since it was last asked. Clones share their counts.
#[derive(Debug, Clone, Default)]
pub struct Phases(Arc<[AtomicU64; NAMES.len()]>);

impl Phases {
    /// The times so far, which then start again from zero.
    pub fn take(&self) -> Vec<(&'static str, Duration)> {
        let take = |count: &AtomicU64| Duration::from_nanos(count.swap(0, Ordering::Relaxed));
        NAMES.into_iter().zip(self.0.iter().map(take)).collect()
    }
}

/// Gives every stretch of time to a phase.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    pub phases: Phases,
    last: Instant,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch { phases: Phases::default(), last: Instant::now() }
    }
}

impl Stopwatch {
    /// What came before this does not count.
    pub fn start(&mut self) {
        self.last = Instant::now();
    }

    /// The time since the last lap was this phase's.
    pub fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let spent = now.duration_since(self.last).as_nanos() as u64;
        self.phases.0[phase as usize].fetch_add(spent, Ordering::Relaxed);
        self.last = now;
    }
}
