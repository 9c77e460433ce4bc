//! Documents: problems with worked traces, as acorn reads them in training.
//!
//! Whether a problem may be read in training or is kept for evaluation is decided by a hash of its key: one
//! problem in sixteen is held out. Drawing goes on until a problem falls on the side that was asked for.

use serde::{Deserialize, Serialize};

use crate::curriculum::{Family, Grade};
use crate::rng::Stream;
use crate::{arithmetic, countdown, pairs};

/// One problem in this many is held out.
const HELD_OUT_ONE_IN: u64 = 16;

/// Which side of the split a problem is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Training,
    HeldOut,
}

impl Split {
    /// The side that a key falls on.
    ///
    /// The hash is FNV-1a with an offset one digit short of the usual one. The weights were trained on this
    /// very split: putting the offset right would let trained problems in among the held-out ones.
    fn of(key: &str) -> Self {
        const OFFSET: u64 = 1_469_598_103_934_665_603;
        const PRIME: u64 = 1_099_511_628_211;
        let hash = key.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        // The lowest bits of FNV are its weakest; the shift folds higher ones in.
        if (hash ^ (hash >> 29)).is_multiple_of(HELD_OUT_ONE_IN) { Self::HeldOut } else { Self::Training }
    }
}

/// A problem with its trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub family: Family,
    pub grade: Grade,
    /// What makes two problems the same problem.
    pub key: String,
    pub problem: String,
    /// The right answer; for countdown the target, which many expressions make.
    pub answer: String,
    /// Countdown's numbers, in the order given; empty for the other families.
    #[serde(default)]
    pub numbers: Vec<u32>,
    /// What stands between `<think>` and `</think>`: whole lines.
    pub think: String,
    /// What stands inside `\boxed{…}`. It is wrong where the trace stopped without the answer.
    pub boxed: String,
}

impl Document {
    /// The document that this seed gives for the family and the grade.
    pub fn new(family: Family, grade: Grade, split: Split, seed: u64) -> Self {
        Self::draw(&mut Stream::seeded(seed), split, |_| (family, grade))
    }

    /// Draws until there is a problem on the right side of the split. Every grade of every family has
    /// problems on both sides (a test draws them all), so this ends.
    fn draw(rng: &mut Stream, split: Split, mut cell: impl FnMut(&mut Stream) -> (Family, Grade)) -> Self {
        loop {
            let (family, grade) = cell(rng);
            let document = match family {
                Family::Countdown => countdown::draw(rng, grade),
                Family::Arithmetic => Some(arithmetic::draw(rng, grade)),
                Family::Pairs => Some(pairs::draw(rng, grade)),
            };
            if let Some(document) = document.filter(|document| Split::of(&document.key) == split) {
                return document;
            }
        }
    }
}

/// An endless stream of training documents, families and grades mixed as the curriculum says.
#[derive(Debug, Clone)]
pub struct Corpus {
    rng: Stream,
}

impl Corpus {
    pub fn new(seed: u64) -> Self {
        Self { rng: Stream::seeded(seed) }
    }
}

impl Iterator for Corpus {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        Some(Document::draw(&mut self.rng, Split::Training, |rng| {
            let family = Family::draw(rng);
            (family, Grade::draw(family, rng))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_cell_has_both_sides() {
        for family in Family::ALL {
            for grade in Grade::all() {
                for split in [Split::Training, Split::HeldOut] {
                    let document = Document::new(family, grade, split, 11);
                    assert_eq!((document.family, document.grade), (family, grade));
                    assert_eq!(Split::of(&document.key), split);
                }
            }
        }
    }

    #[test]
    fn the_corpus_holds_every_cell_and_nothing_held_out() {
        let documents: Vec<Document> = Corpus::new(5).take(2000).collect();
        assert!(documents.iter().all(|document| Split::of(&document.key) == Split::Training));
        let cells: HashSet<_> = documents.iter().map(|document| (document.family, document.grade)).collect();
        assert_eq!(cells.len(), Family::ALL.len() * Grade::all().count());
    }
}
