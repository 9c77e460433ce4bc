//! Numbers and text as people read them.

use crate::statistics::Estimate;

/// A share of one, such as pass@k.
pub fn share(value: f64) -> String {
    format!("{value:.3}")
}

/// A difference of two shares, with its sign.
pub fn signed(value: f64) -> String {
    let text = format!("{:.3}", value.abs());
    match text.trim_start_matches(['0', '.']).is_empty() {
        true => text,
        false => format!("{}{text}", if value < 0.0 { '\u{2212}' } else { '+' }),
    }
}

pub fn percent(value: f64) -> String {
    let text = format!("{:.0}%", (value * 100.0).abs());
    if value < 0.0 && text != "0%" { format!("\u{2212}{text}") } else { text }
}

/// How many, in three or four digits.
pub fn count(value: f64) -> String {
    match value {
        v if v >= 9.995e6 => format!("{:.1}M", v / 1e6),
        v if v >= 999_500.0 => format!("{:.2}M", v / 1e6),
        v if v >= 99_950.0 => format!("{:.0}k", v / 1e3),
        v if v >= 9_999.5 => format!("{:.1}k", v / 1e3),
        v if v >= 999.5 => format!("{},{:03}", v.round() as u64 / 1000, v.round() as u64 % 1000),
        v => format!("{v:.0}"),
    }
}

/// A mean number of sequences.
pub fn decimal(value: f64) -> String {
    format!("{value:.1}")
}

pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 5970.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// An interval in the same form as its number, as `low to high`; `None` where it reads as a single number.
pub fn interval(estimate: &Estimate, form: fn(f64) -> String) -> Option<String> {
    let (low, high) = estimate.interval.map(|i| (form(i.low), form(i.high)))?;
    (low != high).then(|| format!("{low} to {high}"))
}

/// A setting such as theta, without the noise of its binary form.
pub fn setting(value: f32) -> String {
    format!("{value}")
}

/// `1 problem`, `2 problems`.
pub fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Words as a list: `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Text for HTML, in an element or an attribute. Characters that no document may hold are replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c => out.push(shown(c)),
        }
    }
    out
}

/// A character, or what stands for one that no document may hold.
pub fn shown(c: char) -> char {
    if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') { '\u{FFFD}' } else { c }
}

/// Text for a cell of a Markdown table.
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_whitespace() || c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_or_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (33.0, "33"),
            (999.4, "999"),
            (999.6, "1,000"),
            (1007.0, "1,007"),
            (9_999.0, "9,999"),
            (9_999.7, "10.0k"),
            (76_779.0, "76.8k"),
            (99_960.0, "100k"),
            (999_700.0, "1.00M"),
            (2_810_000.0, "2.81M"),
            (12_340_000.0, "12.3M"),
        ] {
            assert_eq!(count(value), text);
        }
        for (value, text) in [(0.02, "+0.020"), (-0.1, "\u{2212}0.100"), (0.0, "0.000"), (-0.0001, "0.000")] {
            assert_eq!(signed(value), text);
        }
        for (value, text) in [(9.0, "9.0 s"), (64.0, "64 s"), (600.0, "10 min"), (16_200.0, "4.5 h")] {
            assert_eq!(duration(value), text);
        }
        assert_eq!(
            (percent(0.456), percent(-0.2), percent(-0.001)),
            ("46%".into(), "\u{2212}20%".into(), "0%".into())
        );
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list::<&str>(&[]), "");
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("</script><b a='x\"&\u{0}"), "&lt;/script&gt;&lt;b a=&#39;x&quot;&amp;\u{FFFD}");
        assert_eq!(escape_markdown("a|b\n# `c` <d>"), "a\\|b \\# \\`c\\` &lt;d&gt;");
    }
}
