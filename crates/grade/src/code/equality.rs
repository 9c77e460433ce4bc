//! Is this output the expected one?
//!
//! The rule is evalplus's: an output is right if Python's `==` says so, or, where a tolerance applies, if it has
//! the type and the length of the expected one and every number in it is close, as `numpy.allclose` with a
//! relative tolerance of 1e-7 has it. A tolerance applies if the problem states one, and otherwise from the first
//! expected output on that is a float or a non-empty list or tuple of floats: 1e-6.
//!
//! Since the tolerance depends on the expected outputs alone, it is known beforehand for each of them, and where
//! there is none, `==` is all that matters. Python's `==` on plain data is equality of a canonical spelling (`1`,
//! `1.0` and `True` are spelled alike, sets and dictionaries in sorted order), so of such an output only a digest
//! is kept: some are megabytes long, and a task has hundreds.
//!
//! Two deviations, both where evalplus takes wrong outputs for right: shapes must agree (numpy would stretch `[1]`
//! to fit `[1, 1]` in nested lists), and the polynomial of `find_zero` is the one that was passed in, not what the
//! program made of the list.

use sha2::{Digest, Sha256};

use super::marshal::{Value, parse};

/// numpy.testing's relative tolerance.
const RELATIVE: f64 = 1e-7;
/// The absolute tolerance where floats are expected and the problem states none.
const FLOATS: f64 = 1e-6;
/// How much of a value is shown to people.
const PREVIEW: usize = 80;

/// What an output is held against.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    /// Equal, by the digest of the canonical spelling; `None` holds a NaN and equals nothing.
    Exact(Option<[u8; 32]>),
    /// Equal or close: the expected output as it came, and the tolerance.
    Close { data: Vec<u8>, atol: f64 },
    /// A root of the polynomial with these coefficients, lowest first.
    Root { coefficients: Vec<f64>, atol: f64 },
}

/// The tolerance of a run of tests, which the outputs expected so far have settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance(pub f64);

impl Tolerance {
    /// The check for the next expected output of the run. None, if the bytes are no plain data.
    pub fn check(&mut self, data: &[u8]) -> Option<Check> {
        let value = parse(data)?;
        if self.0 == 0.0 && is_floats(&value) {
            self.0 = FLOATS;
        }
        Some(match self.0 {
            0.0 => Check::Exact(digest(&value)),
            atol => Check::Close { data: data.to_owned(), atol },
        })
    }
}

impl Check {
    /// `plain` says that the output's type was exactly a built-in one, not derived from it.
    pub fn passes(&self, output: &Value<'_>, plain: bool) -> bool {
        match self {
            Self::Exact(expected) => expected.is_some() && digest(output) == *expected,
            Self::Close { data, atol } => parse(data).is_some_and(|expected| {
                let equal = digest(&expected).is_some_and(|d| digest(output) == Some(d));
                equal || (plain && same_type(output, &expected) && close(output, &expected, *atol))
            }),
            Self::Root { coefficients, atol } => number(output).is_some_and(|x| {
                // `!(… > …)` would take a NaN for a root.
                polynomial(coefficients, x).abs() <= *atol
            }),
        }
    }
}

fn is_floats(value: &Value<'_>) -> bool {
    match value {
        Value::Float(_) => true,
        Value::List(items) | Value::Tuple(items) => {
            !items.is_empty() && items.iter().all(|item| matches!(item, Value::Float(_)))
        }
        _ => false,
    }
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    // `powf`, not `powi`: the C library's `pow`, as in Python, is the more exact, and roots are judged by what is
    // left of large numbers.
    coefficients.iter().enumerate().map(|(power, coefficient)| coefficient * x.powf(power as f64)).sum()
}

fn same_type(a: &Value<'_>, b: &Value<'_>) -> bool {
    let is_int = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Long { .. });
    std::mem::discriminant(a) == std::mem::discriminant(b) || (is_int(a) && is_int(b))
}

/// `numpy.allclose(output, expected)` for numbers and for nested lists and tuples of one shape; for anything else
/// numpy has no answer, and ours is no.
fn close(output: &Value<'_>, expected: &Value<'_>, atol: f64) -> bool {
    use Value::{Complex, List, Tuple};
    match (output, expected) {
        (List(outputs) | Tuple(outputs), List(expected) | Tuple(expected)) => {
            outputs.len() == expected.len()
                && outputs.iter().zip(expected).all(|(output, expected)| close(output, expected, atol))
        }
        (Complex(..), _) | (_, Complex(..)) => match (complex(output), complex(expected)) {
            (Some(a), Some(b)) => {
                a == b
                    || (b.0.is_finite()
                        && b.1.is_finite()
                        && f64::hypot(a.0 - b.0, a.1 - b.1) <= atol + RELATIVE * f64::hypot(b.0, b.1))
            }
            _ => false,
        },
        _ => match (number(output), number(expected)) {
            (Some(a), Some(b)) => a == b || (b.is_finite() && (a - b).abs() <= atol + RELATIVE * b.abs()),
            _ => false,
        },
    }
}

fn complex(value: &Value<'_>) -> Option<(f64, f64)> {
    match value {
        Value::Complex(re, im) => Some((*re, *im)),
        _ => number(value).map(|re| (re, 0.0)),
    }
}

/// A real number as a float, rounded where it must be.
fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Bool(bool) => Some(f64::from(u8::from(*bool))),
        Value::Int(int) => Some(f64::from(*int)),
        Value::Float(float) => Some(*float),
        Value::Long { negative, digits } => {
            let magnitude = digits
                .chunks_exact(2)
                .rev()
                .fold(0.0, |sum, digit| sum * 32768.0 + f64::from(u16::from_le_bytes([digit[0], digit[1]])));
            Some(if *negative { -magnitude } else { magnitude })
        }
        _ => None,
    }
}

/// The same for values that Python holds equal and for numbers that differ by a rounding error: floats that are no
/// whole number count to six digits. One NaN is as another here, and nothing else is.
pub(super) fn fingerprint(value: &Value<'_>) -> [u8; 32] {
    digest(&rounded(value)).unwrap_or_default()
}

fn rounded<'a>(value: &Value<'a>) -> Value<'a> {
    let round = |float: f64| {
        // As `1234567` and `1234567.0` are one value, so is what misses it by a rounding error.
        let whole = float.round();
        let near = (float - whole).abs() <= 1e-9 * float.abs();
        if near { whole } else { format!("{float:.5e}").parse().unwrap_or(float) }
    };
    let all = |items: &[Value<'a>]| items.iter().map(rounded).collect();
    match value {
        // Nothing else is spelled so: no set holds the same twice.
        Value::Float(float) if float.is_nan() => Value::Set(vec![Value::None, Value::None]),
        Value::Complex(re, im) if re.is_nan() || im.is_nan() => {
            Value::Set([*re, *im, *re, *im].map(|part| rounded(&Value::Float(part))).to_vec())
        }
        Value::Float(float) => Value::Float(round(*float)),
        Value::Complex(re, im) => Value::Complex(round(*re), round(*im)),
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        Value::Set(items) => Value::Set(all(items)),
        Value::Dict(pairs) => {
            Value::Dict(pairs.iter().map(|(key, item)| (rounded(key), rounded(item))).collect())
        }
        other => other.clone(),
    }
}

/// The digest of the canonical spelling; none, if a NaN is part of it.
fn digest(value: &Value<'_>) -> Option<[u8; 32]> {
    let mut spelling = Vec::new();
    spell(value, &mut spelling)?;
    Some(Sha256::digest(&spelling).into())
}

/// Appends a spelling that two values share exactly if Python holds them equal. Every spelling begins with its
/// kind and tells its length, so none is the beginning of another.
fn spell(value: &Value<'_>, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::None => out.push(b'N'),
        Value::Bool(bool) => spell_small(i64::from(*bool), out),
        Value::Int(int) => spell_small(i64::from(*int), out),
        Value::Long { negative, digits } => spell_digits(*negative, digits, out),
        Value::Float(float) => spell_float(*float, out)?,
        Value::Complex(re, 0.0) => spell_float(*re, out)?,
        Value::Complex(re, im) => {
            out.push(b'y');
            spell_float(*re, out)?;
            spell_float(*im, out)?;
        }
        Value::Text(text) => spell_counted(b'u', text, out),
        Value::Bytes(bytes) => spell_counted(b's', bytes, out),
        Value::List(items) => spell_items(b'[', items, out)?,
        Value::Tuple(items) => spell_items(b'(', items, out)?,
        Value::Set(items) => spell_sorted(b'<', items.iter().map(|item| (item, None)), out)?,
        Value::Dict(pairs) => spell_sorted(b'{', pairs.iter().map(|(key, item)| (key, Some(item))), out)?,
    }
    Some(())
}

fn spell_counted(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

fn spell_items(kind: u8, items: &[Value<'_>], out: &mut Vec<u8>) -> Option<()> {
    out.push(kind);
    out.extend((items.len() as u64).to_le_bytes());
    items.iter().try_for_each(|item| spell(item, out))
}

fn spell_sorted<'v, 'a: 'v>(
    kind: u8,
    items: impl Iterator<Item = (&'v Value<'a>, Option<&'v Value<'a>>)>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut spellings = Vec::new();
    for (key, item) in items {
        let (mut key_spelling, mut spelling) = (Vec::new(), Vec::new());
        spell(key, &mut key_spelling)?;
        if let Some(item) = item {
            spell(item, &mut spelling)?;
        }
        spellings.push((key_spelling, spelling));
    }
    spellings.sort();
    out.push(kind);
    out.extend((spellings.len() as u64).to_le_bytes());
    spellings.iter().for_each(|(key, item)| {
        out.extend(key);
        out.extend(item);
    });
    Some(())
}

/// An integer: its sign and its digits of 15 bits, as `marshal` has them.
fn spell_digits(negative: bool, digits: &[u8], out: &mut Vec<u8>) {
    out.push(if negative && !digits.is_empty() { b'-' } else { b'+' });
    out.extend((digits.len() as u64).to_le_bytes());
    out.extend(digits);
}

fn spell_small(value: i64, out: &mut Vec<u8>) {
    let mut rest = value.unsigned_abs();
    let mut digits = [0_u8; 10];
    let mut length = 0;
    while rest > 0 {
        digits[length..length + 2].copy_from_slice(&((rest & 0x7fff) as u16).to_le_bytes());
        rest >>= 15;
        length += 2;
    }
    spell_digits(value < 0, &digits[..length], out);
}

/// A float that is a whole number is spelled as that number: Python compares the two exactly.
fn spell_float(value: f64, out: &mut Vec<u8>) -> Option<()> {
    /// Up to here every whole float is an i64 that `spell_small` has room for.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.is_nan() {
        return None;
    }
    if value.is_infinite() || value.fract() != 0.0 {
        out.push(b'g');
        out.extend(value.to_le_bytes());
    } else if value.abs() <= EXACT {
        spell_small(value as i64, out);
    } else {
        let bits = value.to_bits();
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        // Above 2^53 the exponent is positive: 1075 is the bias and the 52 bits after the point.
        let shift = (bits >> 52 & 0x7ff) as usize - 1075;
        let mut digits = vec![0_u16; (53 + shift).div_ceil(15)];
        for bit in (0..53).filter(|bit| mantissa >> bit & 1 == 1) {
            digits[(bit + shift) / 15] |= 1 << ((bit + shift) % 15);
        }
        let digits: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
        spell_digits(value < 0.0, &digits, out);
    }
    Some(())
}

/// The value as Python would show it, cut short.
pub(super) fn preview(value: &Value<'_>) -> String {
    let mut text = String::new();
    show(value, &mut text);
    if text.chars().count() > PREVIEW {
        text = text.chars().take(PREVIEW).chain(['…']).collect();
    }
    text
}

fn show(value: &Value<'_>, out: &mut String) {
    // Enough is enough: what follows would be cut off.
    if out.len() > 8 * PREVIEW {
        return;
    }
    let mut items = |open: &str, items: &[Value<'_>], close: &str| {
        out.push_str(open);
        for (index, item) in items.iter().take(PREVIEW).enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            show(item, out);
        }
        out.push_str(close);
    };
    match value {
        Value::List(list) => items("[", list, "]"),
        Value::Tuple(tuple) if tuple.len() == 1 => items("(", tuple, ",)"),
        Value::Tuple(tuple) => items("(", tuple, ")"),
        Value::Set(set) => items("{", set, "}"),
        Value::Dict(pairs) => {
            out.push('{');
            for (index, (key, item)) in pairs.iter().take(PREVIEW).enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                show(key, out);
                out.push_str(": ");
                show(item, out);
            }
            out.push('}');
        }
        Value::None => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(int) => out.push_str(&int.to_string()),
        Value::Long { negative, digits } => {
            // Only as much of it as a person can take in.
            let sign = if *negative { "-" } else { "" };
            match u128_of(digits) {
                Some(number) => out.push_str(&format!("{sign}{number}")),
                None => out.push_str(&format!("an integer of {} bits", digits.len() / 2 * 15)),
            }
        }
        Value::Float(float) => out.push_str(&format!("{float:?}")),
        Value::Complex(re, im) => out.push_str(&format!("({re:?}+{im:?}j)")),
        Value::Text(text) => {
            let text = String::from_utf8_lossy(&text[..text.len().min(4 * PREVIEW)]).into_owned();
            out.push_str(&format!("{text:?}"));
        }
        Value::Bytes(bytes) => out.push_str(&format!("{} bytes", bytes.len())),
    }
}

fn u128_of(digits: &[u8]) -> Option<u128> {
    (digits.len() <= 16).then(|| {
        let digit = |pair: &[u8]| u128::from(u16::from_le_bytes([pair[0], pair[1]]));
        digits.chunks_exact(2).rev().fold(0, |sum, pair| sum << 15 | digit(pair))
    })
}

#[cfg(test)]
mod tests {
    use super::super::marshal::Writer;
    use super::*;

    /// Values are written as JSON here; `tuple` turns a list into one.
    fn data(json: &str) -> Vec<u8> {
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(json).unwrap();
        let mut writer = Writer::default();
        writer.json(&raw).unwrap();
        writer.0
    }

    fn passes(expected: &str, output: &str, atol: f64) -> bool {
        let check = Tolerance(atol).check(&data(expected)).unwrap();
        check.passes(&parse(&data(output)).unwrap(), true)
    }

    #[test]
    fn equality_is_pythons() {
        let table = [
            ("1", "1", true),
            ("1", "1.0", true),
            ("1", "true", true),
            ("0", "false", true),
            ("0", "-0.0", true),
            ("1", "\"1\"", false),
            ("0", "null", false),
            ("null", "null", true),
            ("[1, 2]", "[1.0, 2]", true),
            ("[1, 2]", "[2, 1]", false),
            ("[1, 2]", "[1, 2, 3]", false),
            ("[[], [1]]", "[[], [1]]", true),
            ("[[], [1]]", "[[1], []]", false),
            ("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1.0}", true),
            ("{\"a\": 1}", "{\"a\": 2}", false),
            ("\"ab\"", "\"ab\"", true),
            ("[\"a\", \"b\"]", "[\"ab\", \"\"]", false),
            // Integers are exact at any size, floats exactly what they are.
            ("100000000000000000000", "1e20", true),
            ("100000000000000000001", "1e20", false),
            ("-100000000000000000000", "-1e20", true),
            ("9007199254740993", "9007199254740992.0", false),
            ("18446744073709551616", "18446744073709551616.0", true),
            ("3", "3.0000000001", false),
        ];
        for (expected, output, equal) in table {
            assert_eq!(passes(expected, output, 0.0), equal, "{expected} and {output}");
        }
        let tuple = |json: &str| match parse(&data(json)).unwrap() {
            Value::List(items) => digest(&Value::Tuple(items)),
            _ => unreachable!("the test passes lists"),
        };
        assert_ne!(tuple("[1]"), digest(&parse(&data("[1]")).unwrap()), "a tuple is no list");
    }

    #[test]
    fn tolerance() {
        let table = [
            // Floats bring a tolerance with them.
            ("0.1", "0.1000005", 0.0, true),
            ("0.1", "0.100002", 0.0, false),
            ("[0.1, 2.0]", "[0.1000005, 2.0]", 0.0, true),
            ("[0.1, 2]", "[0.1000005, 2]", 0.0, false),
            ("1e10", "10000000000.5", 0.0, true),
            // With a tolerance, types and shapes count only where values differ.
            ("2.0", "2", 1e-6, true),
            ("2.0", "2.0000001", 1e-6, true),
            ("2", "2.0000001", 1e-6, false),
            ("[1.0]", "[1.0000001, 1.0]", 1e-6, false),
            ("[[1.0]]", "[[1.0000001]]", 1e-6, true),
            ("[[1.0, 1.0]]", "[1.0000001]", 1e-6, false),
            ("[1.0, \"a\"]", "[1.0000001, \"a\"]", 1e-6, false),
            // Infinities are equal to themselves.
            ("1e999", "1e999", 0.0, true),
            ("1e999", "1e308", 0.0, false),
            ("1e308", "1e999", 0.0, false),
            ("1e999", "-1e999", 0.0, false),
        ];
        for (expected, output, atol, right) in table {
            assert_eq!(passes(expected, output, atol), right, "{expected} and {output} at {atol}");
        }
    }

    #[test]
    fn tolerance_stays_once_floats_were_expected() {
        let mut tolerance = Tolerance(0.0);
        assert!(matches!(tolerance.check(&data("1")), Some(Check::Exact(_))));
        assert!(matches!(tolerance.check(&data("1.0")), Some(Check::Close { .. })));
        assert!(matches!(tolerance.check(&data("1")), Some(Check::Close { .. })));
    }

    #[test]
    fn a_nan_equals_nothing() {
        let nan = Value::Float(f64::NAN);
        let written = [b"g".as_slice(), &f64::NAN.to_le_bytes()].concat();
        let check = Tolerance(0.0).check(&written).unwrap();
        assert!(!check.passes(&nan, true));
        assert!(!Check::Exact(digest(&nan)).passes(&nan, true));
        assert!(!Check::Root { coefficients: vec![0.0, 1.0], atol: 1.0 }.passes(&nan, true));
    }

    #[test]
    fn a_fingerprint_is_of_the_value() {
        let of = |value: Value<'_>| fingerprint(&value);
        let float = Value::Float;
        assert_eq!(of(float(1_234_567.0)), of(Value::Int(1_234_567)));
        assert_eq!(of(float(1_234_567.000_000_000_2)), of(Value::Int(1_234_567)));
        assert_eq!(of(float(0.1 + 0.2)), of(float(0.3)));
        assert_ne!(of(float(1_234_567.0)), of(float(1_234_568.0)));
        let beside = |value: i32| Value::List(vec![float(f64::NAN), Value::Int(value)]);
        assert_eq!(of(beside(1)), of(Value::List(vec![float(-f64::NAN), Value::Int(1)])));
        assert_ne!(of(beside(1)), of(beside(2)));
        assert_ne!(of(float(f64::NAN)), of(Value::Text(b"nan")));
        assert_ne!(of(float(f64::NAN)), of(Value::None));
        assert_ne!(of(Value::Complex(f64::NAN, 1.0)), of(Value::Complex(f64::NAN, 2.0)));
        assert_ne!(of(float(f64::INFINITY)), of(float(f64::NEG_INFINITY)));
    }

    #[test]
    fn roots() {
        let check = Check::Root { coefficients: vec![-6.0, 11.0, -6.0, 1.0], atol: 1e-4 };
        assert!(check.passes(&Value::Float(1.000_001), true));
        assert!(check.passes(&Value::Int(3), true));
        assert!(!check.passes(&Value::Float(1.1), true));
        assert!(!check.passes(&Value::None, true));
        assert!(!check.passes(&Value::Float(f64::INFINITY), true));
    }
}
