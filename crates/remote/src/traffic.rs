//! What went over the wire.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counters of one engine. They can be read while it runs.
#[derive(Debug, Default)]
pub struct Traffic {
    requests: AtomicUsize,
    retries: AtomicUsize,
    handed: AtomicUsize,
    received: AtomicUsize,
    wasted: AtomicUsize,
    narrow: AtomicUsize,
    prompt: AtomicUsize,
    cached: AtomicUsize,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests for tokens.
    pub requests: usize,
    /// How many of them took up a sequence whose request had failed.
    pub retries: usize,
    /// Sequences that went on at another server.
    pub handed: usize,
    /// Tokens received.
    pub received: usize,
    /// Received tokens that no tree has: decoded past a fork or past the end of a sequence. What the server decoded
    /// between our hanging up and its noticing is not known here and not counted.
    pub wasted: usize,
    /// Received tokens that came with fewer candidates than were asked for. Their entropy is over those there were.
    pub narrow: usize,
    /// Prompt tokens of the requests for which the server said how many it had cached.
    pub prompt: usize,
    /// How many of those it had cached.
    pub cached: usize,
}

impl Traffic {
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Tally {
            requests: read(&self.requests),
            retries: read(&self.retries),
            handed: read(&self.handed),
            received: read(&self.received),
            wasted: read(&self.wasted),
            narrow: read(&self.narrow),
            prompt: read(&self.prompt),
            cached: read(&self.cached),
        }
    }

    pub(crate) fn request(&self, again: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.retries.fetch_add(usize::from(again), Ordering::Relaxed);
    }

    pub(crate) fn hand_over(&self, sequences: usize) {
        self.handed.fetch_add(sequences, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, tokens: usize, narrow: usize) {
        self.received.fetch_add(tokens, Ordering::Relaxed);
        self.narrow.fetch_add(narrow, Ordering::Relaxed);
    }

    pub(crate) fn waste(&self, tokens: usize) {
        self.wasted.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn cache(&self, prompt: usize, cached: usize) {
        self.prompt.fetch_add(prompt, Ordering::Relaxed);
        self.cached.fetch_add(cached, Ordering::Relaxed);
    }
}
