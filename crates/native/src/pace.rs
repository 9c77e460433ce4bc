//! Which of two ways is faster, found out by trying.

use std::time::Duration;

/// Two ways to do the same. What is faster now may be slower in a minute, so the other one is tried now and then.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Whether the second way is preferred.
    second: bool,
    /// Turns since the last trial began, and from one trial to the next.
    turns: usize,
    every: usize,
    /// How much there is to do in a turn of this trial.
    work: usize,
    /// The least time of either way in it: of the one that is preferred, and of the other.
    least: [Duration; 2],
}

/// Turns of a trial for each way, one after the other: any of them may be disturbed, all hardly.
const TRIES: usize = 4;
/// Turns between trials, which are the rarer the longer they change nothing.
const SHORTEST: usize = 64;
const LONGEST: usize = 512;
/// What the other way must take at most, of what the preferred one does, to take its place.
const ENOUGH: f64 = 0.98;
/// If it takes so many times as long, it is not tried again in this trial.
const HOPELESS: f64 = 2.0;

impl Default for Pace {
    fn default() -> Self {
        Pace { second: false, turns: 0, every: SHORTEST, work: 0, least: [Duration::MAX; 2] }
    }
}

impl Pace {
    /// Whether the next turn goes the second way.
    pub fn goes_second(&self) -> bool {
        let other = (TRIES..2 * TRIES).contains(&self.turns);
        self.second != other
    }

    /// The turn is over, and took so long for so much work.
    pub fn took(&mut self, time: Duration, work: usize) {
        if self.turns < 2 * TRIES {
            if work != self.work {
                // Times would not compare: the trial begins anew.
                (self.turns, self.work, self.least) = (0, work, [Duration::MAX; 2]);
                return;
            }
            let least = &mut self.least[self.turns / TRIES];
            *least = time.min(*least);
        }
        self.turns += 1;
        let [own, other] = self.least.map(|time| time.as_secs_f64());
        let tried = self.turns - TRIES.min(self.turns);
        if tried == 1 && other > HOPELESS * own {
            self.turns = 2 * TRIES;
        }
        if self.turns == 2 * TRIES {
            let better = other < ENOUGH * own;
            self.every = if better { SHORTEST } else { LONGEST.min(2 * self.every) };
            self.second ^= better;
        }
        if self.turns >= self.every {
            (self.turns, self.least) = (0, [Duration::MAX; 2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many turns go the second way, if the two take so long.
    fn seconds(pace: &mut Pace, turns: usize, millis: [u64; 2]) -> usize {
        let mut count = 0;
        for turn in 0..turns {
            let second = pace.goes_second();
            count += usize::from(second);
            // Every other turn is disturbed.
            let disturbed = 40 * (turn % 2) as u64;
            pace.took(Duration::from_millis(millis[usize::from(second)] + disturbed), 32);
        }
        count
    }

    #[test]
    fn the_faster_way_is_found_and_found_again() {
        let mut pace = Pace::default();
        assert!(seconds(&mut pace, 10_000, [100, 150]) < 150);
        assert!(seconds(&mut pace, 10_000, [150, 100]) > 9_000);
        assert!(seconds(&mut pace, 10_000, [100, 150]) < 1_000);
        // Hardly a difference: it stays.
        assert!(seconds(&mut pace, 10_000, [100, 99]) < 150);
    }

    #[test]
    fn what_is_hopeless_is_tried_once() {
        assert!(seconds(&mut Pace::default(), 10_000, [100, 1000]) < 30);
    }

    #[test]
    fn turns_of_other_sizes_decide_nothing() {
        let mut pace = Pace::default();
        for turn in 0..10_000 {
            assert!(!pace.goes_second());
            pace.took(Duration::from_millis(1), 30 + turn % 3);
        }
    }
}
