//! Answers that are words: names, choices, "even".

use super::{lex::leading, node::Node};

/// Are these the same words, whatever their case, spacing, punctuation and dress? In a list, or beside figures, it
/// matters where a word ends: `I, II` is not `III`, and `1, 12` is not `11, 2`.
pub(super) fn same(a: &str, b: &str) -> bool {
    let (left, right) = (spoken_words(a), spoken_words(b));
    if left.is_empty() || right.is_empty() {
        return compact(a) == compact(b);
    }
    let loose = |text: &str| !text.contains(|c: char| ",;".contains(c) || c.is_ascii_digit());
    left == right || (loose(a) && loose(b) && left.concat() == right.concat()) || same_names(a, b)
}

/// Is there nothing in this text but words?
pub(super) fn only_words(text: &str) -> bool {
    !text.contains(|c: char| c.is_ascii_digit() || "+-^_=<>/\\{}|".contains(c))
}

/// Lists of names in any order: `Alice, Bob and Carol`.
fn same_names(a: &str, b: &str) -> bool {
    let names = |text: &str| {
        let plain = plain(text);
        let mut names: Vec<String> =
            plain.split([',', ';']).flat_map(|part| part.split(" and ")).map(letters).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        names
    };
    let (left, right) = (names(a), names(b));
    left.len() > 1 && left == right
}

/// The text in lower case without spacing and punctuation.
pub(super) fn letters(text: &str) -> String {
    spoken_words(text).concat()
}

/// The words and figures of a text in lower case, without punctuation. What is neither, such as the sign for what is no
/// text at all, stays: it says something.
fn spoken_words(text: &str) -> Vec<String> {
    let silent = |c: char| {
        c.is_ascii_punctuation() || c.is_whitespace() || c.is_control() || "–—‘’“”„…·•«»¡¿°".contains(c)
    };
    let plain = plain(text);
    let mut rest = plain.chars().peekable();
    let mut words = vec![String::new()];
    let mut last = ' ';
    while let Some(c) = rest.next() {
        let digit_follows = rest.peek().is_some_and(char::is_ascii_digit);
        // `7.5` is not `75`, `-5` is not `5`.
        let joins = ".:/".contains(c) && last.is_ascii_digit() || c == '-' && !last.is_alphanumeric();
        let heard = !silent(c) || (digit_follows && joins);
        let figures =
            last.is_ascii_digit() != c.is_ascii_digit() && last.is_alphanumeric() && c.is_alphanumeric();
        // Stops and apostrophes stand within a word too: `p.m.`, `isn't`.
        if figures || (!heard && !".'’".contains(c)) {
            words.push(String::new());
        }
        if heard && let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        last = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a few words say in signs: no solution, every number.
pub(super) fn phrase(text: &str) -> Option<Node> {
    if text.len() > 40 {
        return None;
    }
    let letters = letters(text);
    let said =
        letters.strip_prefix("thereis").or_else(|| letters.strip_prefix("thereare")).unwrap_or(&letters);
    let said = said.strip_suffix("exists").or_else(|| said.strip_suffix("exist")).unwrap_or(said);
    match said {
        "nosolution" | "nosolutions" | "norealsolution" | "norealsolutions" | "emptyset" | "theemptyset" => {
            Some(Node::Set(vec![]))
        }
        "dne" | "doesnot" | "itdoesnot" => Some(Node::Text("does not exist".into())),
        "allrealnumbers" | "allreals" | "therealnumbers" => Some(Node::Reals),
        _ => None,
    }
}

/// The text without commands that only dress it.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let name = leading(&rest[at + 1..], |c| c.is_ascii_alphabetic());
        let dress = name.starts_with("text")
            || matches!(
                name,
                "mathrm"
                    | "mathbf"
                    | "mbox"
                    | "hbox"
                    | "left"
                    | "right"
                    | "quad"
                    | "qquad"
                    | "operatorname"
                    | "displaystyle"
                    | "boxed"
                    | "fbox"
                    | "mathit"
                    | "emph"
                    | "bf"
                    | "rm"
            );
        if !dress {
            plain.push_str(name);
        }
        plain.push(' ');
        rest = &rest[at + 1 + name.len()..];
    }
    plain.push_str(rest);
    plain
}

const DRESSES: [&str; 8] = ["\\left", "\\right", "\\displaystyle", "\\,", "\\!", "\\;", "\\:", "\\ "];

/// The whole text without what only spaces it: for what is neither mathematics nor words.
pub(super) fn compact(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    let mut rest = text;
    'scan: while let Some(first) = rest.chars().next() {
        let dresses: &[&str] = if first == '\\' { &DRESSES } else { &[] };
        for dress in dresses {
            let longer =
                |after: &str| dress.len() > 2 && after.starts_with(|c: char| c.is_ascii_alphabetic());
            if let Some(after) = rest.strip_prefix(*dress)
                && !longer(after)
            {
                rest = after;
                continue 'scan;
            }
        }
        if !first.is_whitespace() && first != '$' {
            compact.push(first);
        }
        rest = &rest[first.len_utf8()..];
    }
    compact
}

/// Does a bare answer read as words rather than as a product of symbols?
pub(super) fn is_words(text: &str) -> bool {
    let mut longest = 0;
    let mut runs = 0;
    let mut capitalised = false;
    for run in text.split(|c: char| c.is_whitespace() || ",.;'’-".contains(c)).filter(|run| !run.is_empty())
    {
        if !run.chars().all(char::is_alphabetic) {
            return false;
        }
        runs += 1;
        longest = longest.max(run.chars().count());
        capitalised |= run.starts_with(char::is_uppercase) && run.chars().skip(1).all(char::is_lowercase);
    }
    // `abc` may be a product, `Amy` and `north` are not.
    let known = runs == 1 && super::words::word(text.trim()).is_some();
    !known && (longest >= 4 || (longest == 3 && capitalised) || (runs > 1 && longest >= 3))
}

/// The letter of a choice given with or without what it stands for: `C`, `(C)`, `\textbf{(C)}\ 5`, `C. north`.
pub(super) fn choice(text: &str) -> Option<char> {
    let (letter, rest) = labelled(&plain(text))?;
    // `(A) or (B)` is no choice.
    let mut words = rest.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let hedges = words.any(|word| {
        matches!(word, "or" | "and" | "not")
            || (word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    (!hedges).then_some(letter)
}

/// What stands after the letter of a choice.
pub(super) fn choice_value(text: &str) -> Option<&str> {
    choice(text)?;
    let at = text.find([')', ':', '.'])?;
    let value = text[at + 1..].trim_start_matches(|c: char| c.is_whitespace() || "}*~:.".contains(c));
    // The label may have shared the braces of its value: `\text{B. 12}`.
    let unopened = value.matches('}').count() > value.matches('{').count();
    let value = value.strip_suffix('}').filter(|_| unopened).unwrap_or(value);
    (value.contains(|c: char| c.is_ascii_digit() || c == '\\') && choice(value).is_none()).then_some(value)
}

/// The letter of a choice, and what follows it.
fn labelled(plain: &str) -> Option<(char, String)> {
    let trimmed = plain.trim_matches(|c: char| c.is_whitespace() || "{}$*~".contains(c));
    let named =
        ["Option ", "option ", "Choice ", "choice "].iter().find_map(|name| trimmed.strip_prefix(name));
    let trimmed = named.unwrap_or(trimmed);
    let opened = trimmed.starts_with('(');
    let body = trimmed.strip_prefix('(').unwrap_or(trimmed).trim_start();
    let letter = body.chars().next().filter(|c| c.is_ascii_uppercase())?;
    let after = body[1..].trim_start_matches([' ', '}']);
    let closed = after.starts_with(')') || (!opened && after.starts_with([':', '.']));
    (after.is_empty() || closed).then(|| (letter, after.to_owned()))
}
