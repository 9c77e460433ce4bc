//! Arithmetic: "What is 888 * 27 + 271?"
//!
//! There is nothing to search for here: a trace is the calculation, and what is hard is a single step in it.
//! The grades differ in how much of the work is written down. "Step by step" problems are long, and every
//! step of them is easy. The highest grades are short, and hold one leap: a whole product of two long numbers
//! in one go, which acorn often gets wrong in a digit.

use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::curriculum::{Family, GRADES, Grade};
use crate::document::Document;
use crate::rng::Stream;

const ANY: RangeInclusive<u32> = 10..=999;
const ONE_DIGIT: RangeInclusive<u32> = 2..=9;
const TWO_DIGITS: RangeInclusive<u32> = 11..=99;
const THREE_DIGITS: RangeInclusive<u32> = 101..=999;
const FOUR_DIGITS: RangeInclusive<u32> = 1001..=9999;
/// The lower grades also allow round hundreds.
const HUNDREDS: RangeInclusive<u32> = 100..=999;

pub(crate) const GRADE_WEIGHTS: [f64; GRADES] = [0.3, 0.3, 0.5, 1.5, 2.0, 1.5, 1.5, 0.8];

/// What a grade asks, and how much of the work its traces write down.
#[derive(Debug, Clone)]
enum Form {
    /// `a + b` or `a - b`, in one step.
    Sum,
    /// `a * b + c`, the product in one step.
    Product { a: RangeInclusive<u32>, b: RangeInclusive<u32>, c: RangeInclusive<u32> },
    /// `a * b + c`, the product by the tens and the units of `b`.
    TensAndUnits,
    /// `a * b + c * d`, both products digit by digit.
    TwoProducts {
        a: RangeInclusive<u32>,
        b: RangeInclusive<u32>,
        c: RangeInclusive<u32>,
        d: RangeInclusive<u32>,
    },
}

const FORMS: [Form; GRADES] = [
    Form::Sum,
    Form::Product { a: HUNDREDS, b: ONE_DIGIT, c: ANY },
    Form::TensAndUnits,
    Form::TwoProducts { a: THREE_DIGITS, b: THREE_DIGITS, c: THREE_DIGITS, d: TWO_DIGITS },
    Form::TwoProducts { a: FOUR_DIGITS, b: THREE_DIGITS, c: FOUR_DIGITS, d: THREE_DIGITS },
    Form::Product { a: THREE_DIGITS, b: THREE_DIGITS, c: THREE_DIGITS },
    Form::Product { a: FOUR_DIGITS, b: THREE_DIGITS, c: THREE_DIGITS },
    Form::Product { a: FOUR_DIGITS, b: FOUR_DIGITS, c: THREE_DIGITS },
];

/// A problem of the grade with its trace.
pub(crate) fn draw(rng: &mut Stream, grade: Grade) -> Document {
    let mut work = Work::default();
    let mut hint = "";
    let (question, answer) = match FORMS[grade.index()].clone() {
        Form::Sum => sum(rng, &mut work),
        Form::Product { a, b, c } => {
            let [a, b, c] = [a, b, c].map(|range| rng.within(range));
            let product = work.multiply(a, b);
            (format!("{a} * {b} + {c}"), work.add(product, c))
        }
        Form::TensAndUnits => {
            let [a, b, c] = [HUNDREDS, TWO_DIGITS, HUNDREDS].map(|range| rng.within(range));
            let product = work.multiply_by_digits(a, b);
            (format!("{a} * {b} + {c}"), work.add(product, c))
        }
        Form::TwoProducts { a, b, c, d } => {
            let [a, b, c, d] = [a, b, c, d].map(|range| rng.within(range));
            hint = ", step by step";
            let first = work.multiply_by_digits(a, b);
            let second = work.multiply_by_digits(c, d);
            (format!("{a} * {b} + {c} * {d}"), work.add(first, second))
        }
    };
    Document {
        family: Family::Arithmetic,
        grade,
        key: format!("A:{question}"),
        problem: format!("What is {question}{hint}?"),
        answer: answer.to_string(),
        numbers: Vec::new(),
        think: work.lines,
        boxed: answer.to_string(),
    }
}

/// A sum or a difference (of which the larger number comes first).
fn sum(rng: &mut Stream, work: &mut Work) -> (String, u32) {
    let [a, b] = [ANY, ANY].map(|range| rng.within(range));
    if rng.coin() {
        (format!("{a} + {b}"), work.add(a, b))
    } else {
        let (a, b) = (a.max(b), a.min(b));
        (format!("{a} - {b}"), work.subtract(a, b))
    }
}

/// A calculation, written down as it is done. All values stay below 10^8 + 10^3, well within a u32.
#[derive(Debug, Default)]
struct Work {
    lines: String,
}

impl Work {
    fn add(&mut self, a: u32, b: u32) -> u32 {
        self.line(a, '+', b, a + b)
    }

    fn subtract(&mut self, a: u32, b: u32) -> u32 {
        self.line(a, '-', b, a - b)
    }

    fn multiply(&mut self, a: u32, b: u32) -> u32 {
        self.line(a, '*', b, a * b)
    }

    /// Multiplies by one digit of `b` at a time, highest first, and adds up as it goes; zeros are passed
    /// over.
    fn multiply_by_digits(&mut self, a: u32, b: u32) -> u32 {
        let places = [100, 10, 1].into_iter().map(|place| b / place % 10 * place).filter(|&part| part > 0);
        let mut so_far = None;
        for part in places {
            let product = self.multiply(a, part);
            so_far = Some(match so_far {
                Some(sum) => self.add(sum, product),
                None => product,
            });
        }
        so_far.unwrap_or(0)
    }

    fn line(&mut self, a: u32, operation: char, b: u32, result: u32) -> u32 {
        // Writing to a String cannot fail.
        let _ = writeln!(self.lines, "{a}{operation}{b}={result}");
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_worked_digit_by_digit() {
        let mut work = Work::default();
        assert_eq!(work.multiply_by_digits(818, 106), 86_708);
        assert_eq!(work.lines, "818*100=81800\n818*6=4908\n81800+4908=86708\n");
    }

    #[test]
    fn every_line_of_a_trace_is_true() {
        for grade in Grade::all() {
            for seed in 0..100 {
                let document = draw(&mut Stream::seeded(seed), grade);
                for line in document.think.lines() {
                    let (left, result) = line.split_once('=').unwrap();
                    let operation = left.find(['+', '-', '*']).unwrap();
                    let (a, b): (u32, u32) =
                        (left[..operation].parse().unwrap(), left[operation + 1..].parse().unwrap());
                    let truth = match left.as_bytes()[operation] {
                        b'+' => a + b,
                        b'-' => a - b,
                        _ => a * b,
                    };
                    assert_eq!(result, truth.to_string(), "{line}");
                }
                assert!(document.think.ends_with(&format!("={}\n", document.answer)));
                assert_eq!(document.boxed, document.answer);
            }
        }
    }
}
