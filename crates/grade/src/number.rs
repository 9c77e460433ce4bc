//! Numbers as people write them, compared as the values they are.
//!
//! `24247`, `24,247`, `+24247` and `24247.0` are one answer, as are `1/2` and `0.5`. What is not a plain number is
//! only ever equal to the same text. [`canonical`] gives equal answers one spelling, so that votes count them
//! together; [`equal`] is defined by it, so that grading and voting cannot disagree.

use crate::rational::Rational;

/// Do two answers say the same?
pub fn equal(a: &str, b: &str) -> bool {
    canonical(a) == canonical(b)
}

/// The one spelling of an answer: lowest terms for a number (`7`, `-1/2`), the trimmed text for anything else.
///
/// The two never meet: a text that reads as a number is spelled as one.
pub fn canonical(text: &str) -> String {
    match parse(text) {
        Some(value) => value.to_string(),
        None => text.trim().to_owned(),
    }
}

/// The value of a plain integer, decimal or fraction of integers.
///
/// A sign may stand in front, commas may group the digits of a whole part in threes, and a decimal may leave out
/// the digits on one side of its point. `None` is any other text, a fraction over zero, or a value beyond 128
/// bits.
pub fn parse(text: &str) -> Option<Rational> {
    let text = text.trim();
    let (negative, magnitude) = match text.strip_prefix(['-', '−']) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text.strip_prefix('+').unwrap_or(text).trim_start()),
    };
    let value = match magnitude.split_once('/') {
        Some((over, under)) => Rational::new(whole(over.trim_end())?, whole(under.trim_start())?).ok()?,
        None => decimal(magnitude)?,
    };
    if negative { value.checked_neg().ok() } else { Some(value) }
}

/// `12`, `1,234`, `1.50`, `.5`, `2.`
fn decimal(text: &str) -> Option<Rational> {
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    if before.is_empty() && after.is_empty() {
        return None;
    }
    let whole_part = if before.is_empty() { 0 } else { whole(before)? };
    // Zeros at the end say nothing, and without them a long `.000…` does not overflow.
    let mut numerator = whole_part;
    let mut denominator = 1_i128;
    if !after.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    for digit in after.trim_end_matches('0').bytes() {
        numerator = append_digit(numerator, digit)?;
        denominator = denominator.checked_mul(10)?;
    }
    Rational::new(numerator, denominator).ok()
}

/// Digits, plain or grouped in threes by commas.
fn whole(text: &str) -> Option<i128> {
    let mut groups = text.split(',');
    let first = groups.next()?;
    let grouped = first.len() < text.len();
    if first.is_empty() || (grouped && first.len() > 3) || !groups.all(|group| group.len() == 3) {
        return None;
    }
    let mut digits = text.bytes().filter(|&byte| byte != b',');
    digits.try_fold(0, append_digit)
}

/// `value` with one more decimal digit; `None` for a byte that is no digit, or too large a value.
fn append_digit(value: i128, digit: u8) -> Option<i128> {
    let digit = char::from(digit).to_digit(10)?;
    value.checked_mul(10)?.checked_add(digit.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_spellings() {
        let table = [
            ("24247", "24247"),
            (" 24247\n", "24247"),
            ("+24247", "24247"),
            ("24,247", "24247"),
            ("24247.0", "24247"),
            ("24247.", "24247"),
            ("24,247.500", "48495/2"),
            ("1,234,567", "1234567"),
            ("007", "7"),
            ("-7", "-7"),
            ("−7", "-7"),
            ("- 7", "-7"),
            ("-0", "0"),
            ("0.0", "0"),
            ("0.5", "1/2"),
            (".5", "1/2"),
            ("-.25", "-1/4"),
            ("1/2", "1/2"),
            ("2 / 4", "1/2"),
            ("-10/5", "-2"),
            ("1,000/3", "1000/3"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
            // Not plain numbers: the trimmed text.
            ("", ""),
            (" x + 1 ", "x + 1"),
            (".", "."),
            ("-", "-"),
            ("+-7", "+-7"),
            ("--7", "--7"),
            ("1/0", "1/0"),
            ("1/-2", "1/-2"),
            ("1/2/3", "1/2/3"),
            ("0.5/2", "0.5/2"),
            ("1.2.3", "1.2.3"),
            ("1.,5", "1.,5"),
            ("24,24", "24,24"),
            ("2424,247", "2424,247"),
            (",247", ",247"),
            ("24,", "24,"),
            ("24 247", "24 247"),
            ("1e3", "1e3"),
            ("٣", "٣"),
            ("12%", "12%"),
            ("170141183460469231731687303715884105728", "170141183460469231731687303715884105728"),
        ];
        for (text, spelling) in table {
            assert_eq!(canonical(text), spelling, "{text:?}");
            assert_eq!(canonical(spelling), spelling, "the spelling of {text:?} is not stable");
        }
    }

    #[test]
    fn equality_is_exact() {
        assert!(equal("1/2", "0.5"));
        assert!(equal("24,247", "24247.0"));
        assert!(equal("(x, y)", " (x, y) "));
        assert!(!equal("1/3", "0.333333"));
        assert!(!equal("24247", "24246.9999999999999999999"));
        assert!(!equal("x", "X"));
    }

    #[test]
    fn zeros_do_not_overflow() {
        let zeros = "0".repeat(500);
        assert!(equal(&format!("{zeros}3.{zeros}"), "3"));
    }
}
