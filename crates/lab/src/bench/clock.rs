//! Who is charged for the time that passes.
//!
//! Prompts are decoded together, so nobody can say how long one took. Each is charged, when it is done, for its share of the
//! tokens that were decoded and not yet charged; together they are charged for all of the time.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Clock {
    /// Not yet charged to anyone.
    open: Duration,
    since: Instant,
    /// Tokens decoded, as far as the engine has told.
    decoded: usize,
    charged: usize,
}

impl Clock {
    pub fn start() -> Self {
        Clock { open: Duration::ZERO, since: Instant::now(), decoded: 0, charged: 0 }
    }

    /// The engine has decoded so many tokens since the clock was started.
    pub fn decoded(&mut self, tokens: usize) {
        self.decoded = tokens;
    }

    /// Stops the clock and charges a prompt that is done, in seconds. It stands still until [`Clock::go_on`]: grading is not
    /// generating.
    pub fn charge(&mut self, tokens: usize) -> f64 {
        self.open += self.since.elapsed();
        // A prompt may be done before the engine has told of its last tokens.
        let open_tokens = self.decoded.saturating_sub(self.charged).max(tokens).max(1);
        let share = self.open.mul_f64(tokens as f64 / open_tokens as f64);
        // A share of all of it may round to a nanosecond more.
        self.open = self.open.saturating_sub(share);
        self.charged += tokens;
        share.as_secs_f64()
    }

    pub fn go_on(&mut self) {
        self.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_charged_and_by_tokens() {
        let mut clock = Clock::start();
        clock.open = Duration::from_secs(100);
        clock.decoded(100);
        let first = clock.charge(25);
        clock.go_on();
        let second = clock.charge(75);
        assert!((first - 25.0).abs() < 0.1, "{first}");
        assert!((first + second - 100.0).abs() < 0.1, "{second}");
    }
}
