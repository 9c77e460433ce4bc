//! How long to wait for a server, and when to try again.
//!
//! Silence has two meanings. A server that is busy says nothing for a long time and is well; one that has died says
//! nothing either. After a moment of silence it is asked whether it is there (`/health` is answered at once even by a busy
//! server): only when that goes unanswered too is the connection given up early.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The times that matter to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the first contact, all of it.
    pub connect: Duration,
    /// Silence after which the server is asked whether it is well.
    pub quiet: Duration,
    /// Longest silence of a server that is well, before the first token of a request: it may have a queue.
    pub first: Duration,
    /// The same between two tokens. No server takes as long as this for one.
    pub stall: Duration,
    /// How long attempts at a sequence may fail, one after the other and without a token, before the run ends with an error.
    pub give_up: Duration,
    /// Before the second attempt; each further one waits twice as long, up to `rest`.
    pub pause: Duration,
    pub rest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            connect: Duration::from_secs(5),
            quiet: Duration::from_secs(10),
            first: Duration::from_secs(600),
            stall: Duration::from_secs(60),
            give_up: Duration::from_secs(180),
            pause: Duration::from_millis(250),
            rest: Duration::from_secs(20),
        }
    }
}

impl Patience {
    /// How long to wait after so many failures in a row. Between half of it and all of it is left to chance, so that the
    /// sequences that lost one server together do not all come back at the same moment. A server that named a time
    /// is not asked before it.
    pub(crate) fn before_attempt(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.pause.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.rest);
        let pause = doubled.mul_f64(0.5 + 0.5 * chance());
        match asked {
            Some(asked) => asked.min(self.give_up) + pause.min(self.pause),
            None => pause,
        }
    }
}

/// A number in [0, 1) that is another every time: unlike sampling, waiting must not be reproducible.
fn chance() -> f64 {
    (random() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_rest() {
        let patience = Patience::default();
        let cases = [(1, 250), (2, 500), (3, 1000), (7, 16_000), (8, 20_000), (100, 20_000)];
        for (failures, most) in cases {
            for _ in 0..20 {
                let pause = patience.before_attempt(failures, None).as_millis();
                assert!((most / 2..=most).contains(&pause), "{failures} failures: {pause} ms");
            }
        }
    }

    #[test]
    fn the_servers_wish_is_kept() {
        let patience = Patience::default();
        let pause = patience.before_attempt(1, Some(Duration::from_secs(7)));
        assert!(pause >= Duration::from_secs(7) && pause <= Duration::from_millis(7250));
        // An hour is longer than we would wait at all.
        assert!(patience.before_attempt(1, Some(Duration::from_secs(3600))) < Duration::from_secs(181));
    }
}
