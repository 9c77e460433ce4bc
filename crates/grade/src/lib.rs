//! Is this answer right?
//!
//! A [`Grader`] knows one problem's gold answer. It finds the final answer of a response, spells it so that equal
//! answers are equal strings (votes count strings), and says whether it is right:
//!
//! ```
//! use eager_grade::Grader;
//!
//! let grader = Grader::Expression { numbers: vec![7, 22, 10], target: 66 };
//! let grade = grader.grade(r"10 - 7 is 3, and 3 * 22 is 66: \boxed{(10 - 7) * 22}");
//! assert_eq!(grade.answer.as_deref(), Some("(10-7)*22"));
//! assert!(grade.correct);
//! ```
//!
//! What takes more than a look at the text has graders of its own, which start processes and can fail to give a
//! verdict: [`code`] runs programs against tests, inside a [`sandbox`], and [`command`] asks a program of the user's.
//!
//! Responses come from a model and may be anything: nothing here panics, and what cannot be read is wrong.

pub mod boxed;
pub mod choice;
#[cfg(unix)]
pub mod code;
#[cfg(unix)]
pub mod command;
pub mod expression;
pub mod math;
pub mod number;
pub mod ordered;
#[cfg(unix)]
mod process;
mod rational;
pub mod response;
#[cfg(unix)]
pub mod sandbox;

use serde::{Deserialize, Serialize};

pub use rational::{ArithmeticError, Rational};

use expression::Expression;
use response::{Response, Said};

/// What makes an answer to a problem right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Grader {
    /// An expression that uses exactly these numbers, each once, and equals the target.
    Expression { numbers: Vec<i64>, target: i64 },
    /// This very answer: the same number, or, for what is not a plain number, the same text.
    Exact { gold: String },
    /// Mathematics that says the same as this: see [`math`].
    Math { gold: String },
    /// One of several choices: see [`choice`]. `choices` are their texts in the order in which they were shown, or
    /// empty where they are not known; then there are four.
    Choice {
        gold: char,
        #[serde(default)]
        choices: Vec<String>,
    },
}

/// The verdict on one response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grade {
    /// The final answer, if the response gave one.
    pub answer: Option<String>,
    pub correct: bool,
}

impl Grader {
    /// The final answer of a response, spelled so that equal spellings are equal answers. An empty box is no answer.
    pub fn answer<'a>(&self, response: impl Into<Response<'a>>) -> Option<String> {
        let said = response.into().said()?;
        match self {
            Self::Math { gold } => {
                math::find_like(&math::Answer::gold(gold), said).map(|answer| answer.spelling())
            }
            Self::Choice { choices, .. } => choice::find(said, letters(choices), choices).map(String::from),
            // Spaces go only where the text is an expression: `1 2` must not become the number 12.
            Self::Expression { .. } => boxed_content(said).map(|content| {
                Expression::parse(content).map_or_else(|_| content.to_owned(), |e| e.to_string())
            }),
            Self::Exact { .. } => boxed_content(said).map(number::canonical),
        }
    }

    /// Is this answer right? It may be spelled in any way, not only as [`Grader::answer`] does.
    pub fn correct(&self, answer: &str) -> bool {
        match self {
            Self::Expression { numbers, target } => {
                expression::countdown(answer, numbers, *target).unwrap_or(false)
            }
            Self::Exact { gold } => number::equal(answer, gold),
            Self::Math { gold } => math::Answer::gold(gold).equals(&math::Answer::parse(answer)),
            Self::Choice { gold, choices } => {
                choice::find(answer, letters(choices), choices) == Some(gold.to_ascii_uppercase())
            }
        }
    }

    /// Finds the answer and judges it.
    pub fn grade<'a>(&self, response: impl Into<Response<'a>>) -> Grade {
        let response = response.into();
        // The answer's spelling may say less than its text does, so it is judged before it is spelled.
        if let Self::Math { gold } = self {
            return math::grade(gold, response);
        }
        let answer = self.answer(response);
        let correct = answer.as_deref().is_some_and(|answer| self.correct(answer));
        Grade { answer, correct }
    }

    /// Grades the responses to one prompt. Answers that say the same get one spelling, the first's, so that votes count them
    /// together.
    pub fn grade_all<'a, R: Into<Response<'a>>>(&self, responses: impl IntoIterator<Item = R>) -> Vec<Grade> {
        match self {
            Self::Math { gold } => math::grade_all(gold, responses),
            _ => responses.into_iter().map(|response| self.grade(response)).collect(),
        }
    }
}

fn boxed_content(said: Said<'_>) -> Option<&str> {
    boxed::last_boxed(said.text).map(str::trim).filter(|content| !content.is_empty())
}

/// How many letters a choice may have.
fn letters(choices: &[String]) -> usize {
    if choices.is_empty() { 4 } else { choices.len() }
}
