//! Problems to try acorn on: sixty fixed ones, and as many fresh ones as wanted.
//!
//! A fresh problem is a held-out document without its trace. Seed 0 gives the fixed ones (four of each family
//! and level), so a run on fresh problems differs from the published one in the seed and in nothing else.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::curriculum::{Family, GRADES, Grade, LEVELS};
use crate::document::{Document, Split};

/// The seeds of a cell (a family and a grade) begin this far after those of the cell before it.
const CELL_STRIDE: u64 = 10_000_019;

/// An odd number that scatters the seeds callers choose (0, 1, 2…) over all 2^64.
const SEED_STRIDE: u64 = 0x5851_F42D_4C95_7F2D;

/// After so many repeats in a row a cell is taken to hold nothing new.
const MOST_REPEATS: usize = 2000;

/// A problem that acorn was not trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Family letter, level and number: `c1-1`.
    pub id: String,
    pub family: Family,
    pub level: u8,
    /// The user's message.
    pub problem: String,
    /// The right answer; for countdown the target, which many expressions make.
    pub answer: String,
    /// Countdown's numbers, in the order given; empty for the other families.
    pub numbers: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GenerateError {
    #[error("there is no level {level}: levels go from 1 to {LEVELS}")]
    NoSuchLevel { level: u8 },
    #[error("{family} level {level} has only {found} held-out problems to give, not {wanted}")]
    TooFew { family: Family, level: u8, wanted: usize, found: usize },
}

/// The sixty fixed problems: three families, five levels, four of each.
pub fn problems() -> Vec<Problem> {
    serde_json::from_str(include_str!("../problems.json"))
        .expect("problems.json is part of the crate, and a test reads it")
}

/// Distinct held-out problems of one family and level. The same seed gives the same problems, and asking for
/// more gives the same ones first.
pub fn generate(family: Family, level: u8, seed: u64, count: usize) -> Result<Vec<Problem>, GenerateError> {
    let found = up_to(family, level, seed, count)?;
    if found.len() < count {
        return Err(GenerateError::TooFew { family, level, wanted: count, found: found.len() });
    }
    Ok(found)
}

/// Problems of every family and level, `per_cell` of each, families in order and easy levels first.
///
/// A cell that holds fewer gives all it has (easy pairs are few: two numbers up to 15 make 105 problems, and
/// one in sixteen of them is held out).
pub fn suite(seed: u64, per_cell: usize) -> Vec<Problem> {
    let cells = Family::ALL.into_iter().flat_map(|family| (1..=LEVELS).map(move |level| (family, level)));
    // Every level asked for here exists, so no cell is an error.
    cells.flat_map(|(family, level)| up_to(family, level, seed, per_cell).unwrap_or_default()).collect()
}

fn up_to(family: Family, level: u8, seed: u64, count: usize) -> Result<Vec<Problem>, GenerateError> {
    let grade = Grade::of_level(family, level).ok_or(GenerateError::NoSuchLevel { level })?;
    let cell = (family as usize * GRADES + grade.index()) as u64;
    let mut seed = seed.wrapping_mul(SEED_STRIDE).wrapping_add(CELL_STRIDE * (cell + 1));
    let mut keys = HashSet::new();
    let mut problems = Vec::new();
    let mut repeats = 0;
    while problems.len() < count && repeats < MOST_REPEATS {
        let document = Document::new(family, grade, Split::HeldOut, seed);
        seed = seed.wrapping_add(1);
        if keys.contains(&document.key) {
            repeats += 1;
            continue;
        }
        repeats = 0;
        let id = format!("{}{level}-{}", family.letter(), problems.len() + 1);
        let Document { key, problem, answer, numbers, .. } = document;
        keys.insert(key);
        problems.push(Problem { id, family, level, problem, answer, numbers });
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seed_zero_gives_the_fixed_problems() {
        assert_eq!(suite(0, 4), problems());
    }

    #[test]
    fn another_seed_gives_other_problems() {
        let fixed: HashSet<String> = problems().into_iter().map(|problem| problem.problem).collect();
        let fresh = generate(Family::Countdown, 3, 1, 20).unwrap();
        assert!(fresh.iter().all(|problem| !fixed.contains(&problem.problem)));
    }

    #[test]
    fn a_level_that_does_not_exist_is_refused() {
        for level in [0, 6, u8::MAX] {
            assert_eq!(generate(Family::Pairs, level, 0, 1), Err(GenerateError::NoSuchLevel { level }));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let error = generate(Family::Pairs, 1, 0, 1000).unwrap_err();
        let GenerateError::TooFew { found, wanted: 1000, .. } = error else { panic!("{error}") };
        assert_eq!(generate(Family::Pairs, 1, 9, found).unwrap().len(), found);
        let small = suite(0, found + 1);
        assert_eq!(small.len(), 15 * (found + 1) - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn problems_are_distinct_and_asking_for_more_keeps_the_first(
            family in prop::sample::select(Family::ALL.to_vec()),
            level in 1..=LEVELS,
            seed: u64,
            count in 0_usize..5,
        ) {
            let few = generate(family, level, seed, count).unwrap();
            let more = generate(family, level, seed, count + 1).unwrap();
            prop_assert_eq!(&more[..count], &few[..]);
            let distinct: HashSet<&str> = more.iter().map(|problem| problem.problem.as_str()).collect();
            prop_assert_eq!(distinct.len(), count + 1);
            for problem in &more {
                prop_assert_eq!((problem.family, problem.level), (family, level));
                prop_assert_eq!(problem.numbers.is_empty(), family != Family::Countdown);
            }
        }
    }
}
