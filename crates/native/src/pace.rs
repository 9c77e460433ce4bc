//! Which of two ways is faster, found out by trying.

/// Two ways to do the same. What is faster now may be slower in a minute, so the other one is tried now and then.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Whether the second way is preferred.
    second: bool,
    /// Turns since the last trial began, and from one trial to the next.
    turns: usize,
    every: usize,
    /// The least time of either way in this trial.
    least: [f64; 2],
}

/// Turns of a trial for each way: any of them may be disturbed, all hardly.
const TRIES: usize = 4;
/// Turns between trials, which are the rarer the longer they change nothing.
const SHORTEST: usize = 64;
const LONGEST: usize = 512;
/// What the other way must take at most, of what this one does, to be preferred.
const ENOUGH: f64 = 0.98;

impl Default for Pace {
    fn default() -> Self {
        Pace { second: false, turns: 0, every: SHORTEST, least: [f64::INFINITY; 2] }
    }
}

impl Pace {
    /// Whether the next turn goes the second way.
    pub fn goes_second(&self) -> bool {
        let tried = self.turns < TRIES;
        self.second != tried
    }

    /// The turn is over and took so long, for what is comparable between turns.
    pub fn took(&mut self, time: f64) {
        let way = usize::from(self.goes_second());
        self.least[way] = self.least[way].min(time);
        self.turns += 1;
        if self.turns == 2 * TRIES {
            let own = usize::from(self.second);
            let better = self.least[1 - own] < ENOUGH * self.least[own];
            self.every = if better { SHORTEST } else { LONGEST.min(2 * self.every) };
            self.second ^= better;
        }
        if self.turns >= self.every {
            (self.turns, self.least) = (0, [f64::INFINITY; 2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many turns go the second way, if the two take so long.
    fn seconds(pace: &mut Pace, turns: usize, [first, second]: [f64; 2]) -> usize {
        let mut count = 0;
        for turn in 0..turns {
            // Every other turn is disturbed.
            let disturbed = (turn % 2) as f64;
            count += usize::from(pace.goes_second());
            pace.took(disturbed + if pace.goes_second() { second } else { first });
        }
        count
    }

    #[test]
    fn the_faster_way_is_found_and_found_again() {
        let mut pace = Pace::default();
        assert!(seconds(&mut pace, 10_000, [1.0, 1.5]) < 150);
        assert!(seconds(&mut pace, 10_000, [1.5, 1.0]) > 9_000);
        assert!(seconds(&mut pace, 10_000, [1.0, 1.5]) < 1_000);
        // Hardly a difference: it stays.
        assert!(seconds(&mut pace, 10_000, [1.0, 0.99]) < 150);
    }
}
