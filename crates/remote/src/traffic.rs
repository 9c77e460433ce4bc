//! What went over the wire.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Counters of one engine. They can be read while it runs.
#[derive(Debug, Default)]
pub struct Traffic {
    retries: AtomicUsize,
    handed: AtomicUsize,
    received: AtomicUsize,
    wasted: AtomicUsize,
    narrow: AtomicUsize,
    fresh: Counters,
    forks: Counters,
    further: Counters,
}

/// What a request goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The prompt.
    Prompt,
    /// The place where a sequence left another.
    Fork,
    /// Where the sequence's own request had ended.
    Itself,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicUsize,
    prompt: AtomicUsize,
    cached: AtomicUsize,
    answered: AtomicUsize,
    waited: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that took up a sequence whose request had failed.
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
    /// Requests that began a sequence with its prompt.
    pub fresh: Requests,
    /// Requests that began a fork.
    pub forks: Requests,
    /// Requests that went on with a sequence whose request had ended: it had broken off, or was decoding what no longer counted.
    pub further: Requests,
}

/// The requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    pub count: usize,
    /// Prompt tokens of those for which the server said how many it had cached.
    pub prompt: usize,
    /// How many of those it had cached.
    pub cached: usize,
    /// From the request to its first token, on average.
    pub wait: Duration,
}

impl Tally {
    pub fn requests(&self) -> usize {
        self.fresh.count + self.forks.count + self.further.count
    }
}

impl Requests {
    /// The share of the prompts that the server did not have to compute, where it says so.
    pub fn cached_share(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }
}

impl Counters {
    fn read(&self) -> Requests {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let answered = read(&self.answered).max(1) as u64;
        Requests {
            count: read(&self.requests),
            prompt: read(&self.prompt),
            cached: read(&self.cached),
            wait: Duration::from_micros(self.waited.load(Ordering::Relaxed) / answered),
        }
    }
}

impl Traffic {
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Tally {
            retries: read(&self.retries),
            handed: read(&self.handed),
            received: read(&self.received),
            wasted: read(&self.wasted),
            narrow: read(&self.narrow),
            fresh: self.fresh.read(),
            forks: self.forks.read(),
            further: self.further.read(),
        }
    }

    fn counters(&self, origin: Origin) -> &Counters {
        match origin {
            Origin::Prompt => &self.fresh,
            Origin::Fork => &self.forks,
            Origin::Itself => &self.further,
        }
    }

    pub(crate) fn request(&self, origin: Origin, again: bool) {
        self.counters(origin).requests.fetch_add(1, Ordering::Relaxed);
        self.retries.fetch_add(usize::from(again), Ordering::Relaxed);
    }

    /// The first token of a request came after this time.
    pub(crate) fn answer(&self, origin: Origin, after: Duration) {
        let counters = self.counters(origin);
        counters.answered.fetch_add(1, Ordering::Relaxed);
        counters.waited.fetch_add(after.as_micros() as u64, Ordering::Relaxed);
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

    pub(crate) fn cache(&self, origin: Origin, prompt: usize, cached: usize) {
        let counters = self.counters(origin);
        counters.prompt.fetch_add(prompt, Ordering::Relaxed);
        counters.cached.fetch_add(cached, Ordering::Relaxed);
    }
}
