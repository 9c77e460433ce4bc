//! Texts that a template marks as safe.
//!
//! Nothing is escaped in a chat template, with one exception that Jinja makes in any case: what is added to a text marked
//! `|safe` is escaped as HTML, as if the whole were going to be part of a page. minijinja adds such texts like any other, so
//! the sums that have one become calls of [`sum`].

use minijinja::value::{Rest, Value};
use minijinja::{Error, ErrorKind};

/// What the calls are called. No template would use a name like this.
pub(super) const SUM: &str = "__sum";

/// A template in which the sums with a safe text are calls. What is not plainly such a sum stays as it is, and so does a
/// template that has `raw` text, which may look like a sum and is none.
pub(super) fn with_calls(source: String) -> String {
    if !source.contains("safe") || source.contains("endraw") {
        return source;
    }
    let (mut out, mut rest) = (String::with_capacity(source.len()), source.as_str());
    while let Some(start) = rest.find("{{") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let Some(end) = end_of_expression(tag) else {
            rest = tag;
            break;
        };
        // Signs at the ends say what becomes of the space around.
        let from = usize::from(tag[..end].starts_with(['-', '+']));
        let to = if tag[from..end].ends_with(['-', '+']) { end - 1 } else { end };
        match safe_sum(&tag[from..to]) {
            Some(terms) => {
                out.push_str(&tag[..from]);
                out.push_str(&format!(" {SUM}({}) ", terms.join(",")));
                out.push_str(&tag[to..end]);
            }
            None => out.push_str(&tag[..end]),
        }
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

/// Where `}}` ends an expression: not inside a text.
fn end_of_expression(tag: &str) -> Option<usize> {
    let mut scan = Scan::default();
    tag.char_indices()
        .find(|&(at, c)| scan.step(c) == Place::Top && tag[at..].starts_with("}}"))
        .map(|(at, _)| at)
}

/// The terms of a sum of which one is marked as safe, and that has nothing else outside of brackets and texts.
fn safe_sum(expression: &str) -> Option<Vec<&str>> {
    let (mut scan, mut terms, mut from) = (Scan::default(), Vec::new(), 0);
    for (at, c) in expression.char_indices() {
        if scan.step(c) == Place::Top {
            match c {
                '+' => {
                    terms.push(&expression[from..at]);
                    from = at + 1;
                }
                '~' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | ',' | ':' => return None,
                _ => {}
            }
        }
    }
    terms.push(&expression[from..]);
    let word = |word: &str| ["and", "or", "not", "in", "is", "if", "else"].contains(&word);
    let plain = |term: &&str| !term.split(|c: char| !c.is_alphanumeric() && c != '_').any(word);
    let safe = |term: &&str| term.rsplit_once('|').is_some_and(|(_, filter)| filter.trim() == "safe");
    let outside: Vec<String> = terms.iter().map(|term| without_texts(term)).collect();
    let full = terms.len() > 1 && terms.iter().all(|term| !term.trim().is_empty());
    let sum = full && outside.iter().all(|term| plain(&term.as_str())) && terms.iter().any(safe);
    sum.then_some(terms)
}

/// An expression with its texts left out.
fn without_texts(expression: &str) -> String {
    let mut scan = Scan::default();
    expression.chars().filter(|&c| scan.step(c) != Place::Text).collect()
}

/// Where in an expression a character is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In a text, or a quote around one.
    Text,
    Brackets,
    Top,
}

/// Reads an expression from its start.
#[derive(Debug, Default)]
struct Scan {
    quote: Option<char>,
    escaped: bool,
    depth: usize,
}

impl Scan {
    fn step(&mut self, c: char) -> Place {
        if let Some(quote) = self.quote {
            if self.escaped {
                self.escaped = false;
            } else if c == '\\' {
                self.escaped = true;
            } else if c == quote {
                self.quote = None;
            }
            return Place::Text;
        }
        match c {
            '\'' | '"' => {
                self.quote = Some(c);
                return Place::Text;
            }
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' if self.depth > 0 => {
                self.depth -= 1;
                return Place::Brackets;
            }
            _ => {}
        }
        if self.depth > 0 { Place::Brackets } else { Place::Top }
    }
}

/// Adds texts from the left. Once one is safe, all are, and those that were not are escaped.
pub(super) fn sum(terms: Rest<Value>) -> Result<Value, Error> {
    let (mut all, mut safe) = (String::new(), false);
    for term in terms.iter() {
        let Some(text) = term.as_str() else {
            let what = format!("a value of type {} cannot be added to a text", term.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        };
        if term.is_safe() && !safe {
            (all, safe) = (escaped(&all), true);
        }
        if safe && !term.is_safe() {
            all.push_str(&escaped(text));
        } else {
            all.push_str(text);
        }
    }
    Ok(if safe { Value::from_safe_string(all) } else { all.into() })
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sums_with_a_safe_text_become_calls() {
        for (source, expected) in [
            ("{{ 'a'|safe + b }}", "{{ __sum( 'a'|safe , b ) }}"),
            (
                "x{{- \"}}+\" | safe + f(b, 1 - 2)['c'] -}}y",
                "x{{- __sum( \"}}+\" | safe , f(b, 1 - 2)['c'] ) -}}y",
            ),
            ("{{ 'is in' + b|safe }}", "{{ __sum( 'is in' , b|safe) }}"),
            ("{{+ a|safe + b +}}", "{{+ __sum( a|safe , b ) +}}"),
        ] {
            assert_eq!(
                with_calls(source.to_owned()).split_whitespace().collect::<String>(),
                expected.split_whitespace().collect::<String>()
            );
        }
        for source in [
            "{{ 'a' + b }} safe",
            "{{ a|safe }}",
            "{{ 'a'|safe ~ b }}",
            "{{ 'a'|safe + b if c else d }}",
            "{{ a + b|safe == c }}",
            "{{ 'a'|safe + b",
            "{% set x = 'a'|safe + b %}",
            "{{ 'a'|safe + + b }}",
            "{% raw %}{{ 'a'|safe + b }}{% endraw %}",
        ] {
            assert_eq!(with_calls(source.to_owned()), source);
        }
    }

    #[test]
    fn what_meets_a_safe_text_is_escaped_once() {
        let safe = |text: &str| Value::from_safe_string(text.to_owned());
        let total = sum(Rest(vec!["<".into(), safe("&"), "'".into(), safe("<")])).unwrap();
        assert_eq!(total.as_str(), Some("&lt;&&#39;<"));
        assert!(total.is_safe());
        assert!(!sum(Rest(vec!["<".into(), ">".into()])).unwrap().is_safe());
        assert!(sum(Rest(vec![safe("a"), 1.into()])).is_err());
    }
}
