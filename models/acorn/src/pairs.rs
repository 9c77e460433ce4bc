//! Pairs: "Two numbers have sum 61 and product 900. What is the larger?"
//!
//! A trace tries a smaller number, multiplies it with what is left of the sum, and compares. Wrong tries are
//! drawn near the right one, and mostly such that the product ends in the right digit, as anyone would who
//! looked at the last digit first.

use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::curriculum::{Family, GRADES, Grade};
use crate::document::Document;
use crate::rng::Stream;
use crate::tries::{End, Habit, search};

/// What keeps a wrong number far from the right one possible (see [`Habit::weight`]).
const FAR_WEIGHT: f64 = 0.01;

/// How much likelier a wrong try is whose product ends in the right digit.
const SAME_LAST_DIGIT: f64 = 4.0;

pub(crate) const GRADE_WEIGHTS: [f64; GRADES] = [0.3, 0.5, 0.5, 0.7, 1.0, 1.5, 2.0, 2.0];

#[derive(Debug, Clone)]
struct Shape {
    /// What both numbers are drawn from.
    numbers: RangeInclusive<u32>,
    habit: Habit,
}

const fn shape(smallest: u32, largest: u32, insight: f64, patience: usize, spread: f64) -> Shape {
    Shape { numbers: smallest..=largest, habit: Habit { insight, patience, spread } }
}

const SHAPES: [Shape; GRADES] = [
    shape(2, 15, 1.0, 3, 2.0),
    shape(2, 30, 1.0, 3, 3.0),
    shape(10, 50, 1.0, 4, 4.0),
    shape(20, 75, 0.97, 4, 5.0),
    shape(30, 99, 0.95, 4, 6.0),
    shape(2, 99, 0.75, 5, 8.0),
    shape(2, 250, 0.65, 5, 10.0),
    shape(2, 500, 0.60, 5, 12.0),
];

/// A problem of the grade with its trace.
pub(crate) fn draw(rng: &mut Stream, grade: Grade) -> Document {
    let Shape { numbers, habit } = SHAPES[grade.index()].clone();
    let [a, b] = [numbers.clone(), numbers].map(|range| rng.within(range));
    let (smaller, larger) = (a.min(b), a.max(b));
    let (sum, product) = (a + b, a * b);
    let product_of = |number: u32| number * (sum - number);

    let weights: Vec<f64> = (0..=sum / 2)
        .map(|number| {
            if number == 0 || number == smaller {
                return 0.0;
            }
            let bonus = if product_of(number) % 10 == product % 10 { SAME_LAST_DIGIT } else { 1.0 };
            habit.weight(number.abs_diff(smaller), FAR_WEIGHT) * bonus
        })
        .collect();
    let tries = search(rng, &habit, weights);
    // The values searched are those up to half the sum.
    let wrong: Vec<u32> = tries.wrong.iter().map(|&number| number as u32).collect();

    let mut think = String::new();
    let mut line = |number: u32, verdict: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(think, "{number}*{}={} {verdict}", sum - number, product_of(number));
    };
    for &number in &wrong {
        line(number, "no");
    }
    let boxed = match tries.end {
        // Once nothing wrong is left, what remains is right.
        End::Found | End::Exhausted => {
            line(smaller, "yes");
            larger
        }
        End::Stopped => {
            think.push_str("stop\n");
            let nearest = wrong.iter().copied().min_by_key(|&number| product_of(number).abs_diff(product));
            // Patience is never zero, so a search that stopped has tried something.
            sum - nearest.unwrap_or(smaller)
        }
    };

    Document {
        family: Family::Pairs,
        grade,
        key: format!("P:{sum}:{product}"),
        problem: format!("Two numbers have sum {sum} and product {product}. What is the larger?"),
        answer: larger.to_string(),
        numbers: Vec::new(),
        think,
        boxed: boxed.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trace_that_stops_answers_wrongly() {
        let mut stopped = 0;
        for grade in Grade::all() {
            for seed in 0..200 {
                let document = draw(&mut Stream::seeded(seed), grade);
                let stops = document.think.ends_with("stop\n");
                assert_eq!(document.boxed != document.answer, stops, "{document:?}");
                stopped += usize::from(stops);
            }
        }
        assert!(stopped > 0);
    }
}
