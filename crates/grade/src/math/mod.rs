//! Mathematical answers: found in a response, read, and compared by what they mean.
//!
//! ```
//! use eager_grade::math;
//!
//! assert!(math::grade(r"1-\frac{2}{\pi}", r"The probability is $\boxed{\frac{\pi - 2}{\pi}}$.").correct);
//! assert!(math::grade(r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\boxed{\frac{-1\pm\sqrt{17}}{2}}").correct);
//! assert!(!math::grade("[0,1)", r"So $x \in \boxed{(0, 1)}$").correct);
//! ```
//!
//! A response goes through four steps. `find` takes out the text of the final answer; `lex` and `parse` read it, in LaTeX
//! or plainly typed, into a tree; `compare` decides by the kind of answer; and numbers are settled in `scalar`, exactly
//! where they are fractions (`exact`) and otherwise with 256 bits and a bound on the error (`numeric`), at several points
//! where symbols remain. There is no computer algebra, and nothing is rewritten: equal expressions have equal values.
//!
//! What cannot be read is compared as text. Length, depth, size of numbers and work are all bounded, so any answer is
//! judged within milliseconds; see `fuel`.
//!
#![doc = include_str!("../../DISAGREEMENTS.md")]

mod atom;
mod compare;
mod complex;
mod elementary;
mod exact;
mod find;
mod fuel;
mod functions;
mod lex;
mod matrix;
mod measured;
mod node;
mod number;
mod numeric;
mod parse;
mod real;
mod scalar;
mod sets;
mod text;
mod units;
mod words;

use std::borrow::Cow;

use num_rational::BigRational;

use crate::Grade;
use crate::response::{Response, Said};
use fuel::Fuel;
use lex::Commas;
use node::Node;
use parse::MAX_LENGTH;
pub use parse::ParseError;

/// A text longer than this, in bytes, is no answer: it is only ever equal to itself.
const HUGE: usize = 1 << 15;

/// An answer that has been read.
#[derive(Debug, Clone)]
pub struct Answer {
    text: String,
    node: Node,
    /// The value of an answer that is a plain number, an integer, a decimal or a fraction, or so many `$`.
    exact: Option<BigRational>,
    error: Option<ParseError>,
}

impl Answer {
    /// Reads an answer as a model writes it into a box. What is not mathematics is kept as words.
    pub fn parse(text: &str) -> Self {
        let text = clean(text);
        if text.len() <= MAX_LENGTH && text::is_words(&text) {
            let node = text::phrase(&text).unwrap_or_else(|| Node::Text(text.as_ref().into()));
            return Self { text: text.into_owned(), node, exact: None, error: None };
        }
        let (node, error) = match parse::parse(&text, Commas::Group) {
            Ok(node) => (node, None),
            Err(error) => (Node::Text(text.as_ref().into()), Some(error)),
        };
        let dollars = |node: &Node| matches!(node, Node::Measured { unit, .. } if &**unit == "$");
        let plain =
            |node: &Node| matches!(node, Node::Number { .. } | Node::Negative(_) | Node::Quotient(..));
        let composed = node.any(&|node| !plain(node) && !dollars(node));
        let exact = if composed { None } else { exact::value(&node, &Fuel::full()) };
        Self { text: text.into_owned(), node, exact, error }
    }

    /// Reads a gold answer: raw LaTeX, a formula in its delimiters, a box, or a whole solution that ends in one.
    pub fn gold(text: &str) -> Self {
        let boxed = !crate::boxed::all_boxed(text).is_empty();
        if !boxed {
            let answer = Self::parse(text);
            let short = answer.error.is_none() && text.len() <= 40;
            if short || text.len() > HUGE || find::is_mathematics(text) {
                return answer;
            }
        }
        match find::answer(text.into(), true) {
            Some(found) if boxed || found.len() < text.trim().len() => Self::parse(&found),
            _ => Self::parse(text),
        }
    }

    /// The answer as written, trimmed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why the answer is compared as text, where it is.
    pub fn error(&self) -> Option<&ParseError> {
        self.error.as_ref()
    }

    /// Is this more than words?
    pub fn is_mathematics(&self) -> bool {
        !matches!(self.node, Node::Text(_))
    }

    /// A spelling for counting votes: equal spellings are equal answers, and plain numbers that are equal have one
    /// spelling. Other equal answers may still be spelled differently; [`Answer::equals`] tells.
    pub fn spelling(&self) -> String {
        match (&self.exact, &self.node) {
            (Some(value), _) => value.to_string(),
            (None, Node::Measured { value, unit }) if matches!(**value, Node::Number { .. }) => {
                let number = exact::value(value, &Fuel::full());
                number.map_or_else(|| text::compact(&self.text), |number| format!("{number} {}", unit.trim()))
            }
            (None, _) if self.text.len() > HUGE => self.text.clone(),
            (None, _) => text::compact(&self.text),
        }
    }

    /// Do two answers say the same?
    pub fn equals(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (&self.exact, &other.exact)
            // A decimal that differs may still be a rounded value.
            && (a == b || !(scalar::is_decimal(&self.node) || scalar::is_decimal(&other.node)))
        {
            return a == b;
        }
        if self.text == other.text {
            return true;
        }
        // What is no mathematics is the same only to the letter, unless it is words throughout.
        if self.error.is_some() && other.error.is_some() {
            if self.text.len().max(other.text.len()) > HUGE {
                return false;
            }
            let words = text::only_words(&self.text) && text::only_words(&other.text);
            return text::compact(&self.text) == text::compact(&other.text)
                || (words && text::same(&self.text, &other.text));
        }
        if self.error.is_some() || other.error.is_some() {
            return self.same_words(other) || self.same_choice_value(other);
        }
        let fuel = Fuel::full();
        compare::same(&self.node, &other.node, &fuel)
            || self.reread(other, &fuel)
            || other.reread(self, &fuel)
            || self.same_words(other)
            || self.same_choice_value(other)
    }

    /// The other readings of commas between digits, where the kinds of the answers ask for them: `100,200` as a list
    /// where the other is one, and `1,22` as a decimal where the other is a number.
    fn reread(&self, other: &Self, fuel: &Fuel) -> bool {
        let commas = match (&self.node, &other.node) {
            (Node::Number { .. }, Node::List(..) | Node::Set(_)) => Commas::Separate,
            (Node::List(..), Node::Number { .. }) => Commas::Decimal,
            _ => return false,
        };
        let grouped = self.text.contains(',') && !self.text.contains(' ');
        grouped
            && parse::parse(&self.text, commas).is_ok_and(|node| {
                std::mem::discriminant(&node) != std::mem::discriminant(&self.node)
                    && compare::same(&node, &other.node, fuel)
            })
    }

    /// The same value, where one side gives it with the letter of its choice: `\textbf{(B)}\ 12` and `12`.
    fn same_choice_value(&self, other: &Self) -> bool {
        let value = |answer: &Self| text::choice_value(&answer.text).map(Self::parse);
        match (value(self), value(other)) {
            (Some(value), Some(same)) => {
                text::choice(&self.text) == text::choice(&other.text) && value.equals(&same)
            }
            (Some(value), None) => value.error.is_none() && value.equals(other),
            (None, Some(value)) => value.error.is_none() && self.equals(&value),
            _ => false,
        }
    }

    /// The same words, where at least one side is words; the same choice, where one is only its letter.
    fn same_words(&self, other: &Self) -> bool {
        let words = |answer: &Self| answer.error.is_none() && matches!(answer.node, Node::Text(_));
        // Signs say something that words do not: `x^2` is not "x2".
        let signs = |answer: &Self| -> String {
            answer.text.chars().filter(|c| "+-−^_=<>/|!".contains(*c)).collect()
        };
        let may_be_said = match (words(self), words(other)) {
            (false, false) => false,
            (true, true) => true,
            _ => signs(self) == signs(other),
        };
        if may_be_said && text::same(&self.text, &other.text) {
            return true;
        }
        let letter = |answer: &Self| text::letters(&answer.text).len() == 1;
        (letter(self) || letter(other))
            && text::choice(&self.text).is_some()
            && text::choice(&self.text) == text::choice(&other.text)
    }

    /// Does the answer have several parts, so that a response may give them in several boxes?
    fn is_list(&self) -> bool {
        let several = |node: &Node| matches!(node, Node::List(..) | Node::Set(_) | Node::Bracket { .. });
        self.node.any(&several) || self.node.both_signs().is_some() || matches!(self.node, Node::Union(_))
    }
}

/// What stands around an answer and says nothing: delimiters, a full stop, escaped escapes.
fn clean(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim().trim_matches(['*', '`']).trim();
    let trimmed = trimmed.trim_end_matches(['.', ',', ';', '$', ' ', '*', '`']);
    // One dollar sign is a currency's, two are around a formula.
    let formula = text.trim().trim_end_matches(['.', ',', ';', ' ', '*', '`']).ends_with('$');
    let trimmed = match trimmed.strip_prefix('$') {
        Some(inner) if formula && !inner.contains('$') => inner,
        _ => trimmed,
    };
    let end = trimmed.len();
    // `3.` and `\.` are cut; `\$` at the end is not an answer anyway.
    if doubly_escaped(&trimmed[..end]) {
        return Cow::Owned(trimmed.replace("\\\\", "\\"));
    }
    if trimmed.contains(is_full_width) {
        return Cow::Owned(trimmed.chars().map(half_width).collect());
    }
    Cow::Borrowed(trimmed)
}

/// The forms of the printable ASCII characters that are as wide as an ideograph: `４２`.
fn is_full_width(c: char) -> bool {
    ('\u{ff01}'..='\u{ff5e}').contains(&c)
}

fn half_width(c: char) -> char {
    let narrow = is_full_width(c).then(|| char::from_u32(u32::from(c) - 0xfee0)).flatten();
    narrow.unwrap_or(c)
}

/// Is every backslash doubled, as in a text that was quoted once too often?
fn doubly_escaped(text: &str) -> bool {
    let mut runs = 0;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let run = lex::leading(&rest[at..], |c| c == '\\').len();
        rest = &rest[at + run..];
        // Two before a blank or a digit begin a row.
        let escapes = rest.starts_with(|c: char| c.is_ascii_alphabetic() || "{}%$,;:!".contains(c));
        if run % 2 == 1 || !escapes {
            return false;
        }
        runs += 1;
    }
    runs > 0
}

/// The final answer in what a response says.
pub fn find<'a>(said: impl Into<Said<'a>>) -> Option<Answer> {
    find::answer(said.into(), false).map(|text| Answer::parse(&text))
}

/// The final answer of a response to a problem with this gold answer: where that has several parts, the response may
/// give them in several boxes.
pub fn find_like<'a>(gold: &Answer, said: impl Into<Said<'a>>) -> Option<Answer> {
    find::answer(said.into(), gold.is_list()).map(|text| Answer::parse(&text))
}

/// Finds the answer of a response and judges it.
pub fn grade<'a>(gold: &str, response: impl Into<Response<'a>>) -> Grade {
    let (answer, correct) = judge(&Answer::gold(gold), response.into());
    Grade { answer: answer.map(|answer| answer.spelling()), correct }
}

/// The same for many responses. Answers that say the same get one spelling, that of the first of them, and are all right
/// or all wrong: a unit that one side leaves out is forgiven, so `10` is 10 km and 10 miles, which are not the same.
pub fn grade_all<'a, R: Into<Response<'a>>>(
    gold: &str,
    responses: impl IntoIterator<Item = R>,
) -> Vec<Grade> {
    let gold = Answer::gold(gold);
    let mut known: Vec<(String, bool, Answer)> = Vec::new();
    let mut name = |answer: Answer, correct: bool| {
        let spelling = answer.spelling();
        let alike = |(first, verdict, other): &&(String, bool, Answer)| {
            *verdict == correct && (*first == spelling || other.equals(&answer))
        };
        if let Some((first, ..)) = known.iter().find(alike) {
            return first.clone();
        }
        // A name belongs to one verdict.
        let taken = known.iter().any(|(first, ..)| *first == spelling);
        let name = if taken { format!("{spelling} ({})", answer.text()) } else { spelling };
        known.push((name.clone(), correct, answer));
        name
    };
    let grade = |response: R| {
        let (answer, correct) = judge(&gold, response.into());
        Grade { answer: answer.map(|answer| name(answer, correct)), correct }
    };
    responses.into_iter().map(grade).collect()
}

fn judge(gold: &Answer, response: Response<'_>) -> (Option<Answer>, bool) {
    let answer = response.said().and_then(|said| find_like(gold, said));
    let correct = answer.as_ref().is_some_and(|answer| gold.equals(answer));
    (answer, correct)
}
