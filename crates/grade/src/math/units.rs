//! Units of measurement, and which of them convert exactly.
//!
//! A unit on one side only is forgiven: it is more often left out than wrong. Where both answers name one, `10 km` is not
//! `10 miles`, but `100 cm` is `1 m`. What is no unit of measurement (`5 ways`, `5 students`) says nothing here; words that
//! change a number, such as `million`, are factors: see [`super::words::scale`].

use std::collections::BTreeMap;

use num_rational::BigRational;

use super::lex::leading;

/// Base units and their powers.
pub(super) type Powers = BTreeMap<&'static str, i32>;

/// What a unit measures, as powers of base units, and how many of those it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    pub(super) factor: BigRational,
    pub(super) powers: Powers,
}

/// Names, the base units with their powers, and how many of them: above and below the bar. Short names are written like
/// this, long ones in any case, in the singular or with an s.
type Row = (&'static [&'static str], &'static [(&'static str, i32)], i64, i64);

const UNITS: &[Row] = &[
    (&["nm", "nanometer", "nanometre"], &[("m", 1)], 1, 1_000_000_000),
    (&["μm", "µm", "micrometer", "micron"], &[("m", 1)], 1, 1_000_000),
    (&["mm", "millimeter", "millimetre"], &[("m", 1)], 1, 1000),
    (&["cm", "centimeter", "centimetre"], &[("m", 1)], 1, 100),
    (&["dm", "decimeter", "decimetre"], &[("m", 1)], 1, 10),
    (&["m", "meter", "metre"], &[("m", 1)], 1, 1),
    (&["km", "kilometer", "kilometre"], &[("m", 1)], 1000, 1),
    (&["in", "inch", "inches"], &[("m", 1)], 254, 10_000),
    (&["ft", "foot", "feet"], &[("m", 1)], 3048, 10_000),
    (&["yd", "yard"], &[("m", 1)], 9144, 10_000),
    (&["mi", "mile"], &[("m", 1)], 1_609_344, 1000),
    (&["mg", "milligram"], &[("g", 1)], 1, 1000),
    (&["g", "gram"], &[("g", 1)], 1, 1),
    (&["kg", "kilogram"], &[("g", 1)], 1000, 1),
    (&["t", "tonne"], &[("g", 1)], 1_000_000, 1),
    (&["ton"], &[("ton", 1)], 1, 1),
    (&["oz", "ounce"], &[("g", 1)], 45_359_237, 1_600_000),
    (&["lb", "lbs", "pound"], &[("g", 1)], 45_359_237, 100_000),
    (&["ms", "millisecond"], &[("s", 1)], 1, 1000),
    (&["s", "sec", "secs", "second"], &[("s", 1)], 1, 1),
    (&["min", "mins", "minute"], &[("s", 1)], 60, 1),
    (&["h", "hr", "hrs", "hour"], &[("s", 1)], 3600, 1),
    (&["day", "days"], &[("s", 1)], 86_400, 1),
    (&["week"], &[("s", 1)], 604_800, 1),
    // A month has no fixed number of days.
    (&["month"], &[("month", 1)], 1, 1),
    (&["yr", "yrs", "year"], &[("month", 1)], 12, 1),
    (&["decade"], &[("month", 1)], 120, 1),
    (&["century", "centuries"], &[("month", 1)], 1200, 1),
    (&["ml", "mL", "milliliter", "millilitre"], &[("m", 3)], 1, 1_000_000),
    (&["l", "L", "liter", "litre"], &[("m", 3)], 1, 1000),
    // One country's gallon is not another's.
    (&["gal", "gallon"], &[("gallon", 1)], 1, 1),
    (&["qt", "quart"], &[("gallon", 1)], 1, 4),
    (&["pt", "pint"], &[("gallon", 1)], 1, 8),
    (&["cup"], &[("gallon", 1)], 1, 16),
    (&["acre"], &[("m", 2)], 40_468_564_224, 10_000_000),
    (&["hectare"], &[("m", 2)], 10_000, 1),
    (&["mph"], &[("m", 1), ("s", -1)], 1_609_344, 3_600_000),
    (&["kph", "kmh"], &[("m", 1), ("s", -1)], 1000, 3600),
    (&["Hz", "hertz"], &[("s", -1)], 1, 1),
    (&["kHz"], &[("s", -1)], 1000, 1),
    (&["rpm"], &[("turn", 1), ("s", -1)], 1, 60),
    (&["N", "newton"], &[("m", 1), ("g", 1), ("s", -2)], 1000, 1),
    (&["J", "joule"], &[("m", 2), ("g", 1), ("s", -2)], 1000, 1),
    (&["kJ", "kilojoule"], &[("m", 2), ("g", 1), ("s", -2)], 1_000_000, 1),
    (&["W", "watt"], &[("m", 2), ("g", 1), ("s", -3)], 1000, 1),
    (&["kW", "kilowatt"], &[("m", 2), ("g", 1), ("s", -3)], 1_000_000, 1),
    (&["Pa", "pascal"], &[("m", -1), ("g", 1), ("s", -2)], 1000, 1),
    (&["kPa", "kilopascal"], &[("m", -1), ("g", 1), ("s", -2)], 1_000_000, 1),
    (&["V", "volt"], &[("volt", 1)], 1, 1),
    (&["A", "ampere"], &[("ampere", 1)], 1, 1),
    (&["K", "kelvin"], &[("kelvin", 1)], 1, 1),
    (&["C", "celsius"], &[("celsius", 1)], 1, 1),
    (&["F", "fahrenheit"], &[("fahrenheit", 1)], 1, 1),
    (&["percent"], &[("percent", 1)], 1, 1),
    (&["degree"], &[("degree", 1)], 1, 1),
    (&["mol", "mole"], &[("mole", 1)], 1, 1),
    (&["rad", "rads", "radian"], &[("radian", 1)], 1, 1),
    (&["$", "usd", "USD", "dollar"], &[("dollar", 1)], 1, 1),
    (&["cent", "cents"], &[("dollar", 1)], 1, 100),
    (&["€", "euro"], &[("euro", 1)], 1, 1),
    (&["¥", "yen"], &[("yen", 1)], 1, 1),
    (&["rupee"], &[("rupee", 1)], 1, 1),
];

/// The unit that this word names.
fn named(word: &str) -> Option<Unit> {
    let long = (word.chars().count() > 3).then(|| word.to_lowercase());
    let singular = long.as_deref().map(|word| word.strip_suffix('s').unwrap_or(word));
    // `kgs`; but `ms` is another unit than `m`, and points are no pints.
    let stem = word.strip_suffix('s').filter(|stem| stem.chars().count() == 2 && *stem != "pt");
    let known = |name: &&str| {
        word == *name || stem == Some(*name) || long.as_deref() == Some(*name) || singular == Some(*name)
    };
    let (_, powers, above, below) = UNITS.iter().find(|(names, ..)| names.iter().any(&known))?;
    let factor = BigRational::new((*above).into(), (*below).into());
    Some(Unit { factor, powers: powers.iter().copied().collect() })
}

impl Unit {
    /// The unit that these words begin with.
    pub(super) fn of(words: &str) -> Option<Self> {
        Self::leading(words.trim()).map(|(unit, _)| unit)
    }

    /// The unit at the start of a text, and its length there: `cm^2`, `miles per hour`, `square feet of carpet`.
    pub(super) fn leading(text: &str) -> Option<(Self, usize)> {
        let mut unit = Unit { factor: BigRational::from_integer(1.into()), powers: BTreeMap::new() };
        let (mut at, mut end, mut sign) = (0, 0, 1);
        // Nobody multiplies more than a few.
        for _ in 0..8 {
            let (raised, start) = prefix(text, at);
            let letters = leading(&text[start..], char::is_alphabetic);
            let money = leading(&text[start..], |c| "$€¥".contains(c));
            let word = if letters.is_empty() { money } else { letters };
            let Some(next) = named(word) else { break };
            let (power, after) = exponent(text, start + word.len());
            unit.multiply(&next, sign * power * raised);
            end = after;
            let Some((divides, next)) = joint(&text[after..]) else { break };
            // All that follows a bar is under it.
            sign = if divides { -1 } else { sign };
            at = after + next;
        }
        // What is counted per something else is no known unit: `5 dollars per apple`.
        let per = joint(&text[end..]).is_some_and(|(divides, _)| divides);
        (end > 0 && !per).then_some((unit, end))
    }

    fn multiply(&mut self, other: &Unit, power: i32) {
        self.factor *= other.factor.pow(power);
        for (base, times) in &other.powers {
            *self.powers.entry(base).or_default() += times * power;
        }
        self.powers.retain(|_, times| *times != 0);
    }
}

/// `square` or `cubic` at this place: the power, and where the unit itself starts. Degrees of a temperature are no angle.
fn prefix(text: &str, at: usize) -> (i32, usize) {
    let word = leading(&text[at..], char::is_alphabetic);
    let power = match word.to_lowercase().as_str() {
        "square" | "sq" => 2,
        "cubic" | "cu" => 3,
        "degree" | "degrees" => 1,
        _ => return (1, at),
    };
    let start = at + word.len() + leading(&text[at + word.len()..], |c| c == ' ' || c == '.').len();
    let after = leading(&text[start..], char::is_alphabetic).to_lowercase();
    let temperature = matches!(after.as_str(), "c" | "f" | "celsius" | "fahrenheit");
    if power > 1 || temperature { (power, start) } else { (1, at) }
}

/// The exponent at this place, and where it ends: `^2`, `^{-1}`, `²`.
fn exponent(text: &str, at: usize) -> (i32, usize) {
    let rest = &text[at..];
    for (raised, power) in [("²", 2), ("³", 3)] {
        if rest.starts_with(raised) {
            return (power, at + raised.len());
        }
    }
    let written = rest.strip_prefix('^').map(super::lex::argument);
    let power = written.as_ref().and_then(|(content, _)| content.trim().parse().ok());
    match (power, written) {
        (Some(power @ -9..=9), Some((_, length))) => (power, at + 1 + length),
        _ => (1, at),
    }
}

/// What joins two units: whether it divides, and its length.
fn joint(text: &str) -> Option<(bool, usize)> {
    let blank = leading(text, |c| c == ' ').len();
    let rest = &text[blank..];
    let (divides, mark) = match rest.chars().next()? {
        '/' => (true, 1),
        '*' | '·' | '⋅' => (false, rest.chars().next()?.len_utf8()),
        _ if leading(rest, char::is_alphabetic) == "per" => (true, "per".len()),
        // `N m` side by side, but not `10 kg in a day`.
        _ => {
            let word = leading(rest, char::is_alphabetic);
            let symbol = blank > 0 && word.len() <= 2 && word != "in" && named(word).is_some();
            return symbol.then_some((false, blank));
        }
    };
    let after = &rest[mark..];
    Some((divides, blank + mark + leading(after, |c| c == ' ').len()))
}

/// How two units compare.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Conversion {
    /// At least one is no unit of measurement that we know.
    Unknown,
    Different,
    /// How many base units each of them is.
    Exact(BigRational, BigRational),
}

pub(super) fn conversion(one: &str, other: &str) -> Conversion {
    match (Unit::of(one), Unit::of(other)) {
        (Some(one), Some(other)) if one.powers == other.powers => Conversion::Exact(one.factor, other.factor),
        (Some(_), Some(_)) => Conversion::Different,
        _ => Conversion::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_converts_and_what_does_not() {
        let exact = |above: i64, below: i64| Some(Some(BigRational::new(above.into(), below.into())));
        for (from, to, expected) in [
            ("cm", "m", exact(1, 100)),
            ("km", "kilometers", exact(1, 1)),
            ("miles", "km", exact(1_609_344, 1_000_000)),
            ("mph", "miles per hour", exact(1, 1)),
            ("km/h", "m/s", exact(10, 36)),
            ("cm^2", "square centimeters", exact(1, 1)),
            ("cm^{3}", "mL", exact(1, 1)),
            ("sq ft", "ft²", exact(1, 1)),
            ("N*m", "J", exact(1, 1)),
            ("m s^{-1}", "m/s", exact(1, 1)),
            ("dollars", "cents", exact(100, 1)),
            ("years", "months", exact(12, 1)),
            ("miles away", "mi", exact(1, 1)),
            ("yds", "ft", exact(3, 1)),
            ("kgs", "t", exact(1, 1000)),
            ("cups", "qt", exact(1, 4)),
            ("€", "euros", exact(1, 1)),
            ("degrees C", "Celsius", exact(1, 1)),
            ("degrees Celsius", "degrees Fahrenheit", Some(None)),
            ("degrees", "radians", Some(None)),
            ("pts", "pints", None),
            ("km", "kg", Some(None)),
            ("cm^2", "cm^3", Some(None)),
            ("m/s", "m", Some(None)),
            ("years", "days", Some(None)),
            ("dollars", "euros", Some(None)),
            ("km", "apples", None),
            ("dollars per apple", "dollars", None),
            ("ways", "km", None),
            ("", "km", None),
        ] {
            let found = match conversion(from, to) {
                Conversion::Unknown => None,
                Conversion::Different => Some(None),
                Conversion::Exact(from, to) => Some(Some(from / to)),
            };
            assert_eq!(found, expected, "{from} {to}");
        }
    }
}
