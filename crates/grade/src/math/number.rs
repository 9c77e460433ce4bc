//! Numbers as they are typeset: digit groups, decimals, repeating decimals, scientific notation.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Pow, Zero};

use super::lex::{Commas, argument, leading};

/// A number as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Literal {
    pub(super) value: BigRational,
    pub(super) form: Form,
    /// The power of ten of scientific notation, kept apart because it may be enormous.
    pub(super) exponent: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Integer,
    Decimal,
    /// `½`, or a repeating decimal: exact, but not an integer.
    Fraction,
}

impl Literal {
    pub(super) fn digit(byte: u8) -> Self {
        Self::integer(i64::from(byte.saturating_sub(b'0')))
    }

    pub(super) fn integer(value: i64) -> Self {
        Self { value: BigRational::from_integer(value.into()), form: Form::Integer, exponent: 0 }
    }

    pub(super) fn fraction(over: i64, under: i64) -> Self {
        Self { value: BigRational::new(over.into(), under.into()), form: Form::Fraction, exponent: 0 }
    }
}

/// The number at the start of a text that begins with a digit or with a point before one, and its length.
pub(super) fn read(text: &str, commas: Commas) -> (Literal, usize) {
    let (whole, mut at) = whole_part(text, commas);
    let mut decimals = String::new();
    let mut form = Form::Integer;
    let rest = &text[at..];
    let point = rest.starts_with('.')
        || (commas == Commas::Decimal && rest.starts_with(',') && !digits(&rest[1..]).is_empty());
    if point {
        decimals = digits(&rest[1..]).to_owned();
        if !decimals.is_empty() {
            form = Form::Decimal;
        }
        // `3375.` is the end of a sentence, `1..2` nothing that is read here.
        if !decimals.is_empty() || !rest[1..].starts_with('.') {
            at += 1 + decimals.len();
        }
        if let Some((period, length)) = repeating(&text[at..]) {
            return (repeating_decimal(&whole, &decimals, period), at + length);
        }
    }
    let (exponent, length) = scientific(&text[at..]).unwrap_or((0, 0));
    (Literal { value: decimal(&whole, &decimals), form, exponent }, at + length)
}

fn digits(text: &str) -> &str {
    leading(text, |c| c.is_ascii_digit())
}

/// The digits before the point without what groups them, and their length as written.
fn whole_part(text: &str, commas: Commas) -> (String, usize) {
    let first = digits(text);
    let mut whole = first.to_owned();
    let mut at = first.len();
    if first.is_empty() || first.len() > 3 || first.starts_with('0') {
        return (whole, at);
    }
    let mut separator = None;
    while let Some((kind, length)) = group_separator(&text[at..]) {
        let group = digits(&text[at + length..]);
        let same = separator.is_none_or(|earlier| earlier == kind);
        let comma_allowed = kind != "," || commas == Commas::Group || group.starts_with('0');
        if group.len() != 3 || !same || !comma_allowed {
            break;
        }
        separator = Some(kind);
        whole.push_str(group);
        at += length + 3;
    }
    (whole, at)
}

/// What may stand between groups of three digits: its kind and its length.
fn group_separator(text: &str) -> Option<(&'static str, usize)> {
    for (spelling, kind) in
        [("{,}", "{,}"), (",\\!", ",\\!"), ("\\,", "\\,"), ("\\ ", "\\,"), ("\\;", "\\,"), ("\\:", "\\,")]
    {
        if let Some(rest) = text.strip_prefix(spelling) {
            let blank = leading(rest, |c| c == ' ').len();
            return Some((kind, spelling.len() + blank));
        }
    }
    let first = text.chars().next()?;
    match first {
        ',' => Some((",", 1)),
        ' ' | '\u{a0}' | '\u{2009}' | '\u{202f}' => Some((" ", first.len_utf8())),
        _ => None,
    }
}

/// The period of a repeating decimal: `\overline{4}`, `\bar 3`, `(142857)`.
fn repeating(text: &str) -> Option<(&str, usize)> {
    for command in ["\\overline", "\\bar", "\\dot"] {
        if let Some(rest) = text.strip_prefix(command) {
            let (period, length) = argument(rest);
            return (!period.is_empty() && period.bytes().all(|b| b.is_ascii_digit()))
                .then_some((period, command.len() + length));
        }
    }
    let period = digits(text.strip_prefix('(')?);
    let closed = text[1 + period.len()..].starts_with(')');
    (closed && !period.is_empty()).then_some((period, period.len() + 2))
}

fn repeating_decimal(whole: &str, decimals: &str, period: &str) -> Literal {
    let shift = power_of_ten(decimals.len());
    let nines = power_of_ten(period.len()) - 1;
    let tail = BigRational::new(integer(period), shift * nines);
    Literal { value: decimal(whole, decimals) + tail, form: Form::Fraction, exponent: 0 }
}

/// The exponent of `1.5e10`, and its length.
fn scientific(text: &str) -> Option<(i64, usize)> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let exponent = digits(unsigned);
    let followed = unsigned[exponent.len()..].starts_with(|c: char| c.is_alphanumeric());
    if exponent.is_empty() || followed {
        return None;
    }
    let length = 1 + (rest.len() - unsigned.len()) + exponent.len();
    let magnitude: i64 = exponent.parse().ok()?;
    Some((if rest.starts_with('-') { -magnitude } else { magnitude }, length))
}

fn decimal(whole: &str, decimals: &str) -> BigRational {
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() {
        return BigRational::from_integer(integer(whole));
    }
    BigRational::new(integer(&format!("{whole}{decimals}")), power_of_ten(decimals.len()))
}

fn integer(digits: &str) -> BigInt {
    if digits.len() <= 18 {
        return digits.bytes().fold(0i64, |value, byte| value * 10 + i64::from(byte - b'0')).into();
    }
    digits.parse().unwrap_or_else(|_| BigInt::zero())
}

fn power_of_ten(exponent: usize) -> BigInt {
    Pow::pow(BigInt::from(10), exponent)
}
