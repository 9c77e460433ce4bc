//! What acorn was taught, in which proportions, and which part of it is asked.
//!
//! A family has eight *grades*, its kinds of problem in order of difficulty. Training mixes all of them: the
//! easy ones are few, and there so that the hard ones can be learnt. Five of the grades are the *levels* 1 to
//! 5 that problems are asked at; the rest are stepping stones between them. What a grade means (how many
//! numbers, how large) stands in the family's own file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rng::Stream;
use crate::{arithmetic, countdown, pairs};

/// Grades per family.
pub const GRADES: usize = 8;

/// Levels per family: 1 up to this.
pub const LEVELS: u8 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Make a target from given numbers, each used exactly once.
    Countdown,
    /// Products and sums of integers.
    Arithmetic,
    /// The larger of two numbers, from their sum and their product.
    Pairs,
}

impl Family {
    pub const ALL: [Self; 3] = [Self::Countdown, Self::Arithmetic, Self::Pairs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Countdown => "countdown",
            Self::Arithmetic => "arithmetic",
            Self::Pairs => "pairs",
        }
    }

    /// The letter that problem ids begin with.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Countdown => 'c',
            Self::Arithmetic => 'a',
            Self::Pairs => 'p',
        }
    }

    /// The family's share of the training documents.
    fn share(self) -> f64 {
        match self {
            Self::Countdown => 0.45,
            Self::Arithmetic => 0.3,
            Self::Pairs => 0.25,
        }
    }

    /// How often each grade comes up within the family, relative to the others.
    fn grade_weights(self) -> [f64; GRADES] {
        match self {
            Self::Countdown => countdown::GRADE_WEIGHTS,
            Self::Arithmetic => arithmetic::GRADE_WEIGHTS,
            Self::Pairs => pairs::GRADE_WEIGHTS,
        }
    }

    /// The grades that levels 1 to 5 ask.
    fn asked(self) -> [u8; LEVELS as usize] {
        match self {
            Self::Countdown => [1, 3, 5, 6, 7],
            Self::Arithmetic => [2, 3, 4, 6, 7],
            Self::Pairs => [0, 2, 4, 6, 7],
        }
    }

    /// Draws a family by its share.
    pub(crate) fn draw(rng: &mut Stream) -> Self {
        let shares = Self::ALL.map(Self::share);
        // Shares are positive constants, so an index always comes back; the fallback is never taken.
        rng.weighted(&shares).map_or(Self::Countdown, |index| Self::ALL[index])
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no family is called `{0}`: the families are countdown, arithmetic and pairs")]
pub struct UnknownFamily(String);

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|family| family.name() == name)
            .ok_or_else(|| UnknownFamily(name.to_owned()))
    }
}

/// A kind of problem within a family: 0 (easiest) to 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Grade(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no grade {0}: grades go from 0 to 7")]
pub struct UnknownGrade(u8);

impl Grade {
    /// Every grade, easiest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..GRADES as u8).map(Self)
    }

    /// The grade that a level asks, or `None` outside levels 1 to 5.
    pub fn of_level(family: Family, level: u8) -> Option<Self> {
        let index = usize::from(level).checked_sub(1)?;
        family.asked().get(index).copied().map(Self)
    }

    /// An index into a family's table of grades.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Draws a grade of the family as training mixes them.
    pub(crate) fn draw(family: Family, rng: &mut Stream) -> Self {
        // Weights are positive constants, so an index below GRADES always comes back.
        Self(rng.weighted(&family.grade_weights()).map_or(0, |index| index as u8))
    }
}

impl TryFrom<u8> for Grade {
    type Error = UnknownGrade;

    fn try_from(grade: u8) -> Result<Self, Self::Error> {
        if usize::from(grade) < GRADES { Ok(Self(grade)) } else { Err(UnknownGrade(grade)) }
    }
}

impl From<Grade> for u8 {
    fn from(grade: Grade) -> Self {
        grade.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for family in Family::ALL {
            assert_eq!(family.name().parse(), Ok(family));
        }
        assert!("geometry".parse::<Family>().is_err());
    }

    #[test]
    fn levels_rise_through_the_grades() {
        for family in Family::ALL {
            let grades: Vec<_> = (1..=LEVELS).map(|level| Grade::of_level(family, level).unwrap()).collect();
            assert!(grades.is_sorted_by(|easier, harder| easier < harder), "{family}: {grades:?}");
            assert_eq!(Grade::of_level(family, 0), None);
            assert_eq!(Grade::of_level(family, LEVELS + 1), None);
        }
    }

    #[test]
    fn a_grade_out_of_range_is_refused() {
        assert!(Grade::try_from(7).is_ok());
        assert_eq!(Grade::try_from(8), Err(UnknownGrade(8)));
        assert!(serde_json::from_str::<Grade>("8").is_err());
    }

    #[test]
    fn every_family_and_grade_is_taught() {
        for family in Family::ALL {
            assert!(family.share() > 0.0);
            assert!(family.grade_weights().iter().all(|&weight| weight > 0.0));
        }
    }
}
