//! Countdown: "Using each of 13, 22, 10 exactly once, make 66."
//!
//! Numbers are drawn, everything they can make is worked out, and one of those values becomes the target:
//! every problem has a solution. A trace works out values near the target, one a line, until it hits the
//! target or stops; one that stops answers with the nearest value it found, so that an answer always has the
//! right form.

use std::fmt::Write;

use crate::curriculum::{Family, GRADES, Grade};
use crate::document::Document;
use crate::expressions::{LARGEST_VALUE, Reachable};
use crate::rng::Stream;
use crate::tries::{End, Habit, search};

/// Targets lie within these bounds.
const TARGETS: std::ops::RangeInclusive<usize> = 10..=100;

/// What keeps a wrong value far from the target possible (see [`Habit::weight`]).
const FAR_WEIGHT: f64 = 0.02;

const SPREAD: f64 = 8.0;

pub(crate) const GRADE_WEIGHTS: [f64; GRADES] = [0.5, 0.8, 0.8, 2.0, 3.0, 2.5, 2.5, 2.0];

/// Which targets a grade asks for.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// The plainest expression has sums and differences only.
    SumsOnly,
    Any,
    /// The plainest expression has a product or a quotient.
    NeedsProduct,
}

impl Target {
    fn allows(self, multiplies: bool) -> bool {
        match self {
            Self::SumsOnly => !multiplies,
            Self::Any => true,
            Self::NeedsProduct => multiplies,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    /// How many numbers are given.
    numbers: usize,
    /// The numbers are drawn from 1 up to this.
    largest: u32,
    target: Target,
    habit: Habit,
}

const fn shape(numbers: usize, largest: u32, target: Target, insight: f64, patience: usize) -> Shape {
    Shape { numbers, largest, target, habit: Habit { insight, patience, spread: SPREAD } }
}

const SHAPES: [Shape; GRADES] = [
    shape(3, 10, Target::SumsOnly, 1.0, 3),
    shape(3, 25, Target::Any, 1.0, 4),
    shape(3, 50, Target::Any, 0.99, 4),
    shape(4, 12, Target::Any, 0.85, 5),
    shape(4, 25, Target::NeedsProduct, 0.70, 6),
    shape(4, 50, Target::NeedsProduct, 0.60, 6),
    shape(5, 25, Target::NeedsProduct, 0.50, 6),
    shape(5, 50, Target::NeedsProduct, 0.45, 6),
];

/// A problem of the grade with its trace; `None` where the numbers drawn make no target that the grade
/// allows.
pub(crate) fn draw(rng: &mut Stream, grade: Grade) -> Option<Document> {
    let shape = SHAPES[grade.index()];
    let numbers: Vec<u32> = (0..shape.numbers).map(|_| rng.within(1..=shape.largest)).collect();
    // The key and the expressions must not depend on the order in which the numbers are given.
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    let reachable = Reachable::from_numbers(&sorted);

    let allowed = |value: &usize| {
        reachable.get(*value).is_some_and(|expression| shape.target.allows(expression.multiplies()))
    };
    let targets: Vec<usize> = TARGETS.filter(allowed).collect();
    let target = rng.choose(&targets)?;
    let solution = reachable.get(target)?;

    let weights: Vec<f64> = (0..=LARGEST_VALUE)
        .map(|value| match reachable.get(value) {
            // At most LARGEST_VALUE, so it fits.
            Some(_) if value != target => shape.habit.weight(value.abs_diff(target) as u32, FAR_WEIGHT),
            _ => 0.0,
        })
        .collect();
    let tries = search(rng, &shape.habit, weights);

    let mut think = String::new();
    for &value in &tries.wrong {
        line(&mut think, &reachable.get(value)?.steps(), "no");
    }
    let answered = match tries.end {
        End::Found => {
            line(&mut think, &solution.steps(), "yes");
            solution
        }
        End::Stopped => {
            think.push_str("stop\n");
            let nearest = tries.wrong.iter().copied().min_by_key(|value| value.abs_diff(target))?;
            reachable.get(nearest)?
        }
        // Numbers that make so few values are no problem worth asking.
        End::Exhausted => return None,
    };

    Some(Document {
        family: Family::Countdown,
        grade,
        key: format!("C:{}={target}", join(&sorted, ":")),
        problem: format!("Using each of {} exactly once, make {target}.", join(&numbers, ", ")),
        answer: target.to_string(),
        numbers,
        think,
        boxed: answered.infix(),
    })
}

fn line(think: &mut String, steps: &str, verdict: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(think, "{steps} {verdict}");
}

fn join(numbers: &[u32], separator: &str) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expressions::MOST_NUMBERS;

    #[test]
    fn no_grade_asks_for_more_numbers_than_can_be_searched() {
        assert!(SHAPES.iter().all(|shape| shape.numbers <= MOST_NUMBERS));
    }

    #[test]
    fn a_trace_ends_as_it_says() {
        let (mut found, mut stopped) = (0, 0);
        for seed in 0..200 {
            let Some(document) = draw(&mut Stream::seeded(seed), Grade::try_from(7).unwrap()) else {
                continue;
            };
            let target = format!("={}", document.answer);
            match document.think.lines().last().unwrap() {
                "stop" => {
                    stopped += 1;
                    assert!(document.think.lines().all(|line| line == "stop" || line.ends_with(" no")));
                }
                last => {
                    found += 1;
                    assert!(last.ends_with(&format!("{target} yes")), "{last}");
                }
            }
        }
        assert!(found > 0 && stopped > 0, "{found} found, {stopped} stopped");
    }
}
