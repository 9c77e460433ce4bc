//! The search that a trace shows: try, see that it is wrong, try again, at last find it or stop.
//!
//! Countdown and pairs are problems of search, and a trace that always went straight to the answer would
//! teach the model to be sure of itself where nobody could be. So each try of a trace is the right one only
//! with a chance that falls with the grade; otherwise it is a wrong value, likelier the nearer it lies to the
//! right one. The model learns to spread its probability the same way: this is where its entropy comes from.

use crate::rng::Stream;

/// How the traces of a grade look for the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habit {
    /// The chance that a try is the right one.
    pub(crate) insight: f64,
    /// After so many wrong tries the trace stops without the answer.
    pub(crate) patience: usize,
    /// How far wrong tries scatter around the right one.
    pub(crate) spread: f64,
}

impl Habit {
    /// The weight of a wrong value so far from the right one. The floor keeps far values possible.
    ///
    /// `exp` is the one operation here whose last bit depends on the platform's mathematics library. A
    /// different bit moves a boundary between two values by about 1e-16, so in practice it changes no
    /// document.
    pub(crate) fn weight(&self, distance: u32, floor: f64) -> f64 {
        (-f64::from(distance) / self.spread).exp() + floor
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The last try was the right one.
    Found,
    /// Patience ran out.
    Stopped,
    /// Every wrong value had been tried.
    Exhausted,
}

/// The wrong values tried, in order, and how the search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tries {
    pub(crate) wrong: Vec<usize>,
    pub(crate) end: End,
}

/// Searches among values whose weights these are (the right value's own weight is zero).
pub(crate) fn search(rng: &mut Stream, habit: &Habit, mut weights: Vec<f64>) -> Tries {
    let mut wrong = Vec::new();
    for _ in 0..habit.patience {
        if rng.unit() < habit.insight {
            return Tries { wrong, end: End::Found };
        }
        let Some(value) = rng.weighted(&weights) else {
            return Tries { wrong, end: End::Exhausted };
        };
        // Nothing is tried twice.
        weights[value] = 0.0;
        wrong.push(value);
    }
    Tries { wrong, end: End::Stopped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sure_habit_finds_at_once() {
        let habit = Habit { insight: 1.0, patience: 3, spread: 1.0 };
        let tries = search(&mut Stream::seeded(1), &habit, vec![1.0; 4]);
        assert_eq!(tries, Tries { wrong: vec![], end: End::Found });
    }

    proptest! {
        #[test]
        fn no_value_is_tried_twice_and_the_end_is_told_truly(
            seed: u64, insight in 0.0..1.0_f64, patience in 0_usize..8, values in 0_usize..8,
        ) {
            let habit = Habit { insight, patience, spread: 1.0 };
            let tries = search(&mut Stream::seeded(seed), &habit, vec![1.0; values]);
            let mut distinct = tries.wrong.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), tries.wrong.len());
            match tries.end {
                End::Found => prop_assert!(tries.wrong.len() < patience),
                End::Stopped => prop_assert_eq!(tries.wrong.len(), patience),
                End::Exhausted => prop_assert_eq!(tries.wrong.len(), values),
            }
        }
    }
}
