//! Integer expressions: the answers of countdown problems.
//!
//! "Using each of 13, 22, 10 exactly once, make 66" has many right answers, so an answer is not compared with a
//! stored one: it is read, its numbers are counted, and its value is worked out exactly.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = signed (("*" | "/") signed)*
//! signed  = "-" signed | atom
//! atom    = digits | "(" sum ")"
//! ```
//!
//! `×`, `÷` and `−` are read as `*`, `/` and `-`; white space may stand between tokens. The text comes from a
//! model and may be anything, so length and nesting are limited, and every failure is an error with its place.

use std::{fmt, ops::Range};

use crate::rational::{ArithmeticError, Rational};

/// The longest expression read, in bytes.
pub const MAX_LENGTH: usize = 4096;
/// How deep parentheses and signs may nest.
pub const MAX_DEPTH: usize = 128;

/// Where in the text something stands, in bytes.
pub type Span = Range<usize>;

/// Why a text is not an expression, or an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("an expression of {length} bytes is over the limit of {MAX_LENGTH}")]
    TooLong { length: usize },
    #[error("nested more than {MAX_DEPTH} deep at byte {}", span.start)]
    TooDeep { span: Span },
    #[error("unexpected {found:?} at byte {}: expected {expected}", span.start)]
    Unexpected { found: String, expected: &'static str, span: Span },
    #[error("the expression ends where {expected} should follow")]
    Ended { expected: &'static str },
    #[error("the number at bytes {}..{} does not fit in 128 bits", span.start, span.end)]
    NumberTooLarge { span: Span },
    #[error("{source} in bytes {}..{}", span.start, span.end)]
    Arithmetic { source: ArithmeticError, span: Span },
}

/// Does the expression use exactly these numbers, each once, and equal the target?
///
/// Numbers are counted as they are written, without sign: `-3+5` uses 3 and 5.
pub fn countdown(expression: &str, numbers: &[i64], target: i64) -> Result<bool, ExpressionError> {
    let expression = Expression::parse(expression)?;
    let value = expression.value()?;
    let mut used: Vec<i128> = expression.numbers().collect();
    let mut given: Vec<i128> = numbers.iter().copied().map(i128::from).collect();
    used.sort_unstable();
    given.sort_unstable();
    Ok(used == given && value == target.into())
}

/// An expression that has been read.
///
/// Kept in postfix order rather than as a tree: a long sum would be a deep tree, and walking or dropping one
/// needs as much stack as it is deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// The tokens without white space, operators in ASCII.
    text: String,
    steps: Vec<(Step, Span)>,
}

/// One step of evaluation on a stack of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Push(i128),
    Negate,
    Combine(Operator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > MAX_LENGTH {
            return Err(ExpressionError::TooLong { length: text.len() });
        }
        let tokens = tokenize(text)?;
        let compact = tokens.iter().map(|(token, _)| token.to_string()).collect();
        let mut parser = Parser { tokens: &tokens, next: 0, steps: Vec::with_capacity(tokens.len()) };
        parser.sum(0)?;
        match parser.peek() {
            None => Ok(Self { text: compact, steps: parser.steps }),
            Some((token, span)) => Err(unexpected(token, span, "an operator or the end")),
        }
    }

    /// The numbers used, in the order they are written.
    pub fn numbers(&self) -> impl Iterator<Item = i128> + '_ {
        self.steps.iter().filter_map(|(step, _)| match step {
            Step::Push(number) => Some(*number),
            Step::Negate | Step::Combine(_) => None,
        })
    }

    /// The exact value.
    pub fn value(&self) -> Result<Rational, ExpressionError> {
        // The parser emits a step after the steps of its operands, so an operand is always there to pop, and
        // exactly one value is left at the end.
        const OPERAND: &str = "an operand is pushed before the step that takes it";
        let mut stack: Vec<Rational> = Vec::new();
        for (step, span) in &self.steps {
            let value = match step {
                Step::Push(number) => Rational::new(*number, 1),
                Step::Negate => stack.pop().expect(OPERAND).checked_neg(),
                Step::Combine(operator) => {
                    let right = stack.pop().expect(OPERAND);
                    operator.apply(stack.pop().expect(OPERAND), right)
                }
            };
            stack.push(value.map_err(|source| ExpressionError::Arithmetic { source, span: span.clone() })?);
        }
        Ok(stack.pop().expect(OPERAND))
    }
}

/// The expression without white space, operators in ASCII.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Operator {
    fn apply(self, left: Rational, right: Rational) -> Result<Rational, ArithmeticError> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Digits(&'a str),
    Operator(Operator),
    Open,
    Close,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Digits(digits) => digits,
            Self::Operator(Operator::Add) => "+",
            Self::Operator(Operator::Subtract) => "-",
            Self::Operator(Operator::Multiply) => "*",
            Self::Operator(Operator::Divide) => "/",
            Self::Open => "(",
            Self::Close => ")",
        })
    }
}

fn tokenize(text: &str) -> Result<Vec<(Token<'_>, Span)>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let start = text.len() - rest.len();
        let mut length = first.len_utf8();
        let token = match first {
            '0'..='9' => {
                length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                Some(Token::Digits(&rest[..length]))
            }
            '+' => Some(Token::Operator(Operator::Add)),
            '-' | '−' => Some(Token::Operator(Operator::Subtract)),
            '*' | '×' => Some(Token::Operator(Operator::Multiply)),
            '/' | '÷' => Some(Token::Operator(Operator::Divide)),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            _ if first.is_whitespace() => None,
            _ => {
                return Err(unexpected(
                    first,
                    start..start + length,
                    "a number, an operator or a parenthesis",
                ));
            }
        };
        tokens.extend(token.map(|token| (token, start..start + length)));
        rest = &rest[length..];
    }
    Ok(tokens)
}

fn unexpected(found: impl fmt::Display, span: Span, expected: &'static str) -> ExpressionError {
    ExpressionError::Unexpected { found: found.to_string(), expected, span }
}

/// Recursive descent, a method for each rule of the grammar above; each returns the span of what it read.
struct Parser<'a> {
    tokens: &'a [(Token<'a>, Span)],
    next: usize,
    steps: Vec<(Step, Span)>,
}

impl<'a> Parser<'a> {
    fn sum(&mut self, depth: usize) -> Result<Span, ExpressionError> {
        let mut left = self.product(depth)?;
        while let Some((Token::Operator(operator @ (Operator::Add | Operator::Subtract)), _)) = self.peek() {
            self.next += 1;
            let right = self.product(depth)?;
            left = self.emit(Step::Combine(operator), left.start..right.end);
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<Span, ExpressionError> {
        let mut left = self.signed(depth)?;
        while let Some((Token::Operator(operator @ (Operator::Multiply | Operator::Divide)), _)) = self.peek()
        {
            self.next += 1;
            let right = self.signed(depth)?;
            left = self.emit(Step::Combine(operator), left.start..right.end);
        }
        Ok(left)
    }

    fn signed(&mut self, depth: usize) -> Result<Span, ExpressionError> {
        match self.peek() {
            Some((Token::Operator(Operator::Subtract), sign)) => {
                self.next += 1;
                let operand = self.signed(deeper(depth, &sign)?)?;
                Ok(self.emit(Step::Negate, sign.start..operand.end))
            }
            _ => self.atom(depth),
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Span, ExpressionError> {
        const EXPECTED: &str = "a number or \"(\"";
        let (token, span) = self.peek().ok_or(ExpressionError::Ended { expected: EXPECTED })?;
        self.next += 1;
        match token {
            Token::Digits(digits) => match digits.parse() {
                Ok(number) => Ok(self.emit(Step::Push(number), span)),
                // Digits alone can only fail to parse by being too many.
                Err(_) => Err(ExpressionError::NumberTooLarge { span }),
            },
            Token::Open => {
                self.sum(deeper(depth, &span)?)?;
                let close = self.close()?;
                Ok(span.start..close.end)
            }
            Token::Operator(_) | Token::Close => Err(unexpected(token, span, EXPECTED)),
        }
    }

    fn close(&mut self) -> Result<Span, ExpressionError> {
        const EXPECTED: &str = "an operator or \")\"";
        match self.peek() {
            Some((Token::Close, span)) => {
                self.next += 1;
                Ok(span)
            }
            Some((token, span)) => Err(unexpected(token, span, EXPECTED)),
            None => Err(ExpressionError::Ended { expected: EXPECTED }),
        }
    }

    fn peek(&self) -> Option<(Token<'a>, Span)> {
        self.tokens.get(self.next).cloned()
    }

    fn emit(&mut self, step: Step, span: Span) -> Span {
        self.steps.push((step, span.clone()));
        span
    }
}

/// One level further down, at what stands at `span`. Only parentheses and signs recurse.
fn deeper(depth: usize, span: &Span) -> Result<usize, ExpressionError> {
    if depth == MAX_DEPTH { Err(ExpressionError::TooDeep { span: span.clone() }) } else { Ok(depth + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<String, ExpressionError> {
        Expression::parse(text)?.value().map(|value| value.to_string())
    }

    #[test]
    fn values() {
        let table = [
            ("7", "7"),
            (" 7 ", "7"),
            ("007", "7"),
            ("1+2*3", "7"),
            ("(1+2)*3", "9"),
            ("10-4-3", "3"),
            ("10-(4-3)", "9"),
            ("24/4/2", "3"),
            ("24/(4/2)", "12"),
            ("2*6/4", "3"),
            ("1/2", "1/2"),
            ("1/3*3", "1"),
            ("8/(3-8/3)", "24"),
            ("-3+5", "2"),
            ("2*-3", "-6"),
            ("2--3", "5"),
            ("-(2-5)", "3"),
            ("- -4", "4"),
            ("-2*3", "-6"),
            ("(((5)))", "5"),
            ("13 × 22 ÷ 2 − 1", "142"),
            ("1\n+\t2\u{a0}+ 3", "6"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ];
        for (text, expected) in table {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        let table = [
            ("", "the expression ends where a number or \"(\" should follow"),
            ("  ", "the expression ends where a number or \"(\" should follow"),
            ("1+", "the expression ends where a number or \"(\" should follow"),
            ("(1+2", "the expression ends where an operator or \")\" should follow"),
            ("1 2", "unexpected \"2\" at byte 2: expected an operator or the end"),
            ("2(3)", "unexpected \"(\" at byte 1: expected an operator or the end"),
            ("(1)2", "unexpected \"2\" at byte 3: expected an operator or the end"),
            ("(1 2)", "unexpected \"2\" at byte 3: expected an operator or \")\""),
            ("1)", "unexpected \")\" at byte 1: expected an operator or the end"),
            ("()", "unexpected \")\" at byte 1: expected a number or \"(\""),
            ("+1", "unexpected \"+\" at byte 0: expected a number or \"(\""),
            ("1**2", "unexpected \"*\" at byte 2: expected a number or \"(\""),
            ("2×x", "unexpected \"x\" at byte 3: expected a number, an operator or a parenthesis"),
            ("1.5", "unexpected \".\" at byte 1: expected a number, an operator or a parenthesis"),
            ("1+2=3", "unexpected \"=\" at byte 3: expected a number, an operator or a parenthesis"),
            ("٣", "unexpected \"٣\" at byte 0: expected a number, an operator or a parenthesis"),
            ("1+6/(3-3)", "division by zero in bytes 2..9"),
            (
                "1 + 170141183460469231731687303715884105728",
                "the number at bytes 4..43 does not fit in 128 bits",
            ),
            (
                "170141183460469231731687303715884105727+1",
                "the value does not fit in 128 bits in bytes 0..41",
            ),
        ];
        for (text, message) in table {
            assert_eq!(value(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn length_and_depth_are_limited() {
        let nested =
            |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(value(&nested("(", ")", MAX_DEPTH)).as_deref(), Ok("1"));
        assert_eq!(value(&nested("-", "", MAX_DEPTH)).as_deref(), Ok("1"));
        for (open, close) in [("(", ")"), ("-", "")] {
            let error = value(&nested(open, close, MAX_DEPTH + 1)).unwrap_err();
            assert_eq!(error, ExpressionError::TooDeep { span: MAX_DEPTH..MAX_DEPTH + 1 });
            let error = value(&nested(open, close, 100_000)).unwrap_err();
            assert!(matches!(error, ExpressionError::TooLong { .. }), "{error}");
        }
        // Neither a long chain nor many groups side by side count as depth.
        assert_eq!(value(&("1+".repeat(2000) + "1")).as_deref(), Ok("2001"));
        assert_eq!(value(&("(1)*".repeat(1000) + "-1")).as_deref(), Ok("-1"));
    }

    #[test]
    fn numbers_are_reported_in_order() {
        let numbers = |text| Expression::parse(text).unwrap().numbers().collect::<Vec<_>>();
        assert_eq!(numbers("(13-4)*-22/010"), [13, 4, 22, 10]);
    }

    #[test]
    fn an_expression_shows_itself_without_spaces() {
        assert_eq!(Expression::parse(" ( 13 − 4 ) × 22 ÷ 10 ").unwrap().to_string(), "(13-4)*22/10");
    }

    #[test]
    fn countdown_wants_each_number_once_and_the_target() {
        let table = [
            ("(10-7)*22", Ok(true)),
            ("22 × (10 − 7)", Ok(true)),
            ("22*-(7-10)", Ok(true)),
            // The wrong value, a number missing, one too many, one twice, another.
            ("22+10-7", Ok(false)),
            ("3*22", Ok(false)),
            ("66", Ok(false)),
            ("(10-7)*22+7-7", Ok(false)),
            ("(10-7)*22+0", Ok(false)),
            ("22+22+22", Ok(false)),
        ];
        for (text, verdict) in table {
            assert_eq!(countdown(text, &[7, 22, 10], 66), verdict, "{text}");
        }
        assert_eq!(countdown("5*5", &[5, 5], 25), Ok(true));
        assert_eq!(countdown("5*5", &[5], 25), Ok(false));
        // Fractions on the way are exact.
        assert_eq!(countdown("8/(3-8/3)", &[3, 3, 8, 8], 24), Ok(true));
        assert!(countdown("", &[], 0).is_err());
        assert!(countdown("1/(2-2)", &[1, 2, 2], 0).is_err());
    }
}
