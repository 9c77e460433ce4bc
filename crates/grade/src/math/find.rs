//! Where a response gives its final answer.
//!
//! What a model was told to box is in the last `\boxed{…}`; a later box corrects an earlier one. Without a box, or after
//! it, "the final answer is …" and "Answer: …" say it; failing that it is the last formula or the last number, of a
//! response that may end in its answer without calling it one. The
//! search is linear in the length of the response, and what is not a box is looked for near the end only: an answer
//! that stands earlier than that is not a final one.

use std::{borrow::Cow, ops::Range};

use super::{lex::leading, units::Unit, words};
use crate::{boxed, response::Said};

/// How much of the end of a response is searched for an answer that is not in a box, in bytes.
const TAIL: usize = 1 << 15;
/// The longest statement of an answer, in bytes.
const STATEMENT: usize = 600;

/// The longest number that is looked for in prose, in bytes.
const NUMBER: usize = 400;
/// How far a formula that is typed in prose may reach to either side of a number in it, in characters.
const TYPED: usize = 40;

/// The text of the final answer. Where the gold answer is a `list`, several boxes on the last line are one answer.
pub(super) fn answer(said: Said<'_>, list: bool) -> Option<Cow<'_, str>> {
    let response = said.text;
    let boxes = last_boxes(response, list);
    let tail_start = floor_boundary(response, response.len().saturating_sub(TAIL));
    let after_box = boxes.as_ref().map_or(tail_start, |(end, _)| tail_start.max(*end));
    let tail = &response[after_box..];
    if let Some(stated) = stated(tail, boxes.is_some() || said.explicit) {
        return Some(Cow::Borrowed(stated));
    }
    if let Some((_, content)) = boxes {
        return Some(content);
    }
    if let Some(word) = unclosed_box(tail) {
        return Some(Cow::Borrowed(word));
    }
    if said.explicit {
        return stated(tail, false).filter(|text| is_in_words(text)).map(Cow::Borrowed);
    }
    whole(response).or_else(|| last_mentioned(tail, list)).or_else(|| short_text(response)).map(Cow::Borrowed)
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The content of the last box, or of all boxes on its line, and where it ends.
fn last_boxes(response: &str, list: bool) -> Option<(usize, Cow<'_, str>)> {
    if !list {
        let content = boxed::last_boxed(response)?;
        let end = content.as_ptr() as usize - response.as_ptr() as usize + content.len() + 1;
        return (!content.trim().is_empty()).then(|| {
            let rest = &response[end..];
            let whole = match unit_after(rest).filter(|_| content.ends_with(|c: char| c.is_ascii_digit())) {
                _ if percent_after(rest) => Cow::Owned(format!("{content}\\%")),
                Some(unit) => Cow::Owned(format!("{content}\\text{{ {unit}}}")),
                None => Cow::Borrowed(content),
            };
            (end, whole)
        });
    }
    let boxes = boxed::all_boxed(response);
    let last = boxes.iter().max_by_key(|content| content.start)?.clone();
    let mut joined: Vec<Range<usize>> = vec![last.clone()];
    for content in boxes.iter().rev() {
        let Some(next) = joined.last() else { break };
        let before = content.end < next.start;
        if before && belong_together(&response[content.end..next.start]) {
            joined.push(content.clone());
        }
    }
    let contents: Vec<&str> = joined.into_iter().rev().map(|content| &response[content]).collect();
    let text = match contents.as_slice() {
        [one] => Cow::Borrowed(*one),
        many => Cow::Owned(many.join(", ")),
    };
    (!text.trim().is_empty()).then_some((last.end + 1, text))
}

/// Are boxes with this between them parts of one answer? They stand on one line, and the later one takes nothing back.
fn belong_together(between: &str) -> bool {
    let corrects = |word: &str| {
        matches!(
            word,
            "but" | "wait" | "no" | "not" | "actually" | "rather" | "instead" | "hmm" | "correction"
        )
    };
    !between.contains('\n')
        && !between.split(|c: char| !c.is_alphabetic()).any(|word| corrects(&word.to_lowercase()))
}

/// `\boxed{28}$ percent`
fn percent_after(text: &str) -> bool {
    let rest = text.trim_start_matches(['$', ' ', '}', '*']).trim_start_matches("\\)");
    let word = leading(rest.trim_start(), |c| c.is_ascii_alphabetic());
    rest.starts_with(['%']) || matches!(words::word(word), Some(super::lex::Token::Percent))
}

/// `\boxed{28}$ km`, `\boxed{28}\text{ km}`
fn unit_after(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(['$', ' ', '}', '*', '~']).trim_start_matches("\\)");
    let rest = rest.trim_start_matches("\\,").trim_start_matches("\\ ").trim_start();
    let mut commands = ["\\text{", "\\mathrm{", "\\mbox{"].iter();
    let (rest, length) = match commands.find_map(|command| rest.strip_prefix(command)) {
        Some(words) => {
            let words = words.trim_start_matches([' ', '~']);
            (words, Unit::leading(words).map(|(_, length)| length))
        }
        None => (rest, unit_length(rest)),
    };
    length.map(|length| &rest[..length])
}

/// `\boxed 42`
fn unclosed_box(tail: &str) -> Option<&str> {
    let at = tail.rfind("\\boxed ").or_else(|| tail.rfind("\\fbox "))?;
    let (_, after) = tail[at..].split_once(' ')?;
    let word = leading(after.trim_start(), |c| !c.is_whitespace() && c != '$');
    (!word.is_empty() && !word.starts_with('{')).then_some(word)
}

/// What the last "the answer is …" or "Answer: …" says. With `only_value` that has to stand right behind these words:
/// after a box "this answer is right, because 5 > 3" takes nothing back, and "the answer is found by adding 5 and 3" of a
/// response that was cut off is no answer yet.
fn stated(tail: &str, only_value: bool) -> Option<&str> {
    let lower = tail.to_ascii_lowercase();
    let mut end = lower.len();
    // A few tries: "the answer is" may be followed by nothing that is one.
    for _ in 0..8 {
        let at = lower[..end].rfind("answer")?;
        end = at;
        let after = &tail[at + "answer".len()..];
        let after = after.strip_prefix('s').unwrap_or(after);
        let rest = after.trim_start_matches(['*', ' ', '\t', '_']);
        let stated = if let Some(rest) = rest.strip_prefix(':') {
            Some(rest)
        } else {
            let word = leading(rest, |c| c.is_ascii_alphabetic());
            matches!(word, "is" | "are").then(|| &rest[word.len()..])
        };
        if let Some(found) = stated.and_then(|rest| statement(rest, only_value)) {
            return Some(found);
        }
    }
    None
}

/// Is a statement an answer in words, as "east" is: short, and without a number that it only mentions?
fn is_in_words(text: &str) -> bool {
    !text.contains(|c: char| c.is_ascii_digit() || "\\$=".contains(c)) && text.split_whitespace().count() <= 3
}

/// The answer in what follows "the answer is".
fn statement(text: &str, only_value: bool) -> Option<&str> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "*:_\"“".contains(c));
    let text = text.strip_prefix("\\\"").unwrap_or(text);
    let limit = floor_boundary(text, text.len().min(STATEMENT));
    let formulas = formulas(&text[..limit]);
    // A display formula may go on over several lines; a line of words does not.
    if formulas.first().is_some_and(|first| first.outer.start == 0) {
        return Some(chain(text, &formulas));
    }
    let line = text[..limit].lines().next()?;
    let sentence = sentence(line);
    if is_mathematics(sentence) {
        return Some(sentence);
    }
    if line.starts_with(|c: char| c.is_ascii_digit() || "-−+.".contains(c)) {
        return first_number(line);
    }
    if only_value {
        return None;
    }
    if let Some(found) = last_mentioned(line, true) {
        return Some(found);
    }
    (!sentence.is_empty()).then_some(sentence)
}

/// A line up to the end of its first sentence, without emphasis.
fn sentence(line: &str) -> &str {
    let end = line.find(". ").unwrap_or(line.len());
    line[..end]
        .trim_matches(|c: char| c.is_whitespace() || "*_\"”`".contains(c))
        .trim_end_matches(['.', ';', ',', '!'])
}

/// The formulas from the first on that only `,`, `and` or `or` separates.
fn chain<'a>(text: &'a str, formulas: &[Formula]) -> &'a str {
    let mut last = &formulas[0];
    for next in &formulas[1..] {
        let between = text[last.outer.end..next.outer.start].trim();
        if !matches!(between, "," | "and" | "or" | ", and" | ", or" | ";") {
            break;
        }
        last = next;
    }
    with_unit(text, formulas[0].outer.start..last.outer.end)
}

/// The slice, and the percent sign or the unit after it.
fn with_unit(text: &str, span: Range<usize>) -> &str {
    let rest = &text[span.end..];
    let sign = rest.trim_start();
    let blank = rest.len() - sign.len();
    if sign.starts_with('%') {
        return &text[span.start..span.end + blank + 1];
    }
    let word = leading(sign, |c| c.is_ascii_alphabetic());
    match words::word(word) {
        Some(super::lex::Token::Percent) => &text[span.start..span.end + blank + word.len()],
        _ if blank > 0 && !rest[..blank].contains('\n') => {
            text[span.start..span.end + blank + counted_length(sign)].trim_end()
        }
        _ => &text[span],
    }
}

/// How much of what follows a number and a blank belongs to it: words that make another number of it, and a unit.
fn counted_length(text: &str) -> usize {
    let mut length = 0;
    while let Some((_, _, rest)) = words::scale(&text[length..]) {
        length = text.len() - rest.len();
    }
    length + unit_length(&text[length..]).unwrap_or(0)
}

/// How long the unit at the start of a text is. A letter by itself, and "in", are more often something else.
fn unit_length(text: &str) -> Option<usize> {
    let word = leading(text, |c| c.is_ascii_alphabetic());
    let unit = if word.len() > 1 && word != "in" { Unit::leading(text) } else { None };
    unit.map(|(_, length)| length)
}

/// A formula with its delimiters.
struct Formula {
    outer: Range<usize>,
}

/// The formulas of a text: `$…$`, `$$…$$`, `\(…\)`, `\[…\]`.
fn formulas(text: &str) -> Vec<Formula> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut open: Option<(usize, &[u8])> = None;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (mark, length): (&[u8], usize) = match rest {
            [b'$', b'$', ..] => (b"$$", 2),
            [b'$', ..] => (b"$", 1),
            [b'\\', b'(', ..] => (b"\\(", 2),
            [b'\\', b'[', ..] => (b"\\[", 2),
            [b'\\', b')', ..] => (b"\\)", 2),
            [b'\\', b']', ..] => (b"\\]", 2),
            [b'\\', _, ..] => (b"", 2),
            // A formula in a line of text does not go on after a blank line.
            [b'\n', b'\n', ..] => {
                open = open.filter(|(_, mark)| *mark != b"$");
                (b"", 1)
            }
            _ => (b"", 1),
        };
        if !mark.is_empty() {
            let closes = match open {
                Some((_, b"\\(")) => mark == b"\\)",
                Some((_, b"\\[")) => mark == b"\\]",
                Some((_, opened)) => mark == opened,
                None => false,
            };
            match open {
                Some((start, _)) if closes => {
                    if !text[start..at].trim_matches(['$', '\\', '(', '[', ' ', '\n']).is_empty() {
                        found.push(Formula { outer: start..at + length });
                    }
                    open = None;
                }
                _ if mark != b"\\)" && mark != b"\\]" => open = Some((at, mark)),
                _ => {}
            }
        }
        at += length;
    }
    found
}

/// The last formula or the last number, whichever comes later.
fn last_mentioned(text: &str, list: bool) -> Option<&str> {
    let formulas = formulas(text);
    let number = last_number(text);
    match formulas.last() {
        Some(formula) if number.as_ref().is_none_or(|number| number.end <= formula.outer.end) => {
            let mut first = formulas.len() - 1;
            while list && first > 0 {
                let between = text[formulas[first - 1].outer.end..formulas[first].outer.start].trim();
                if !matches!(between, "," | "and" | "or" | ", and" | ", or") {
                    break;
                }
                first -= 1;
            }
            Some(with_unit(text, formulas[first].outer.start..formula.outer.end))
        }
        _ => number.map(|span| {
            let span = alternatives(text, span, list);
            let closes = formulas.last().is_some_and(|formula| formula.outer.end == span.start);
            with_unit(text, if closes { span } else { with_currency(text, span) })
        }),
    }
}

/// The number with the sign of a currency before it: `$5`, `\$5`, `€5`.
fn with_currency(text: &str, number: Range<usize>) -> Range<usize> {
    let before = &text[..number.start];
    let sign = ["\\$", "$", "€", "¥"].iter().find(|sign| before.ends_with(**sign));
    number.start - sign.map_or(0, |sign| sign.len())..number.end
}

/// The number with those before it that it is an alternative to: `6 or 7` is not 7. In a `list` the others count too.
fn alternatives(text: &str, last: Range<usize>, list: bool) -> Range<usize> {
    let mut start = last.start;
    // A longer list is no answer to be found in prose.
    for _ in 0..16 {
        let before = &text[..start];
        let others: &[&str] = if list { &[", and ", " and ", ", "] } else { &[] };
        let Some(before) =
            [", or ", " or "].iter().chain(others).find_map(|joint| before.strip_suffix(joint))
        else {
            break;
        };
        let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or(before);
        let number = word.trim_start_matches(['-', '−', '$', '*']);
        if number.is_empty() || number_length(number) != Some(number.len()) {
            break;
        }
        start = before.len() - word.len();
    }
    start..last.end
}

/// The number at the start of a text.
fn first_number(text: &str) -> Option<&str> {
    let sign = leading(text, |c| "-−+".contains(c)).len();
    let length = number_length(&text[sign..])?;
    Some(with_unit(text, 0..sign + length))
}

/// The last number that stands by itself, as `2/3` or `-1,234.5`, not as the `2` of `AZ2`.
fn last_number(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut last = None;
    let mut at = 0;
    while at < bytes.len() {
        let digit = bytes[at].is_ascii_digit()
            || (bytes[at] == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit));
        if !digit {
            at += 1;
            continue;
        }
        let length = number_length(&text[at..]).unwrap_or(1);
        let before = text[..at].chars().next_back();
        if let Some(span) = typed_formula(text, at..at + length) {
            at = span.end;
            last = Some(span);
            continue;
        }
        if !before.is_some_and(|c| c.is_alphanumeric() || "_.^".contains(c)) {
            let sign = before.filter(|c| "-−".contains(*c)).map_or(0, char::len_utf8);
            // A hyphen after a word or number joins; it is no sign.
            let joined =
                text[..at - sign].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == ')');
            let start = if joined { at } else { at - sign };
            let start = mixed_start(text, start..at + length).unwrap_or(start);
            last = Some(start..at + length);
        }
        at += length;
    }
    last
}

/// The word around a number that makes more of it than a number: `2√3`, `2π`, `2^10`, `10:30`.
fn typed_formula(text: &str, number: Range<usize>) -> Option<Range<usize>> {
    let inside = |c: char| c.is_alphanumeric() || "√π^²³()+-−*/.:".contains(c);
    let before = text[..number.start].chars().rev().take(TYPED).take_while(|&c| inside(c));
    let start = number.start - before.map(char::len_utf8).sum::<usize>();
    let after = text[number.end..].chars().take(TYPED).take_while(|&c| inside(c));
    let end = number.end + after.map(char::len_utf8).sum::<usize>();
    let word = &text[start..end];
    let trimmed = word.trim_end_matches(['.', ':']);
    let trimmed = trimmed.trim_start_matches([':', '.']);
    let clock = trimmed.split_once(':').is_some_and(|(hour, minute)| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits(hour) && digits(minute)
    });
    // The raised figure of `5m²` belongs to the unit.
    let raised = trimmed.char_indices().any(|(at, c)| {
        "^²³".contains(c) && trimmed[..at].ends_with(|before: char| before.is_ascii_digit() || before == ')')
    });
    let formula = clock || raised || trimmed.contains(['√', 'π']) || trimmed.contains("sqrt(");
    let start = start + (word.len() - word.trim_start_matches([':', '.']).len());
    (formula && is_mathematics(trimmed) && start <= number.start).then(|| start..start + trimmed.len())
}

/// Where the integer before a proper fraction starts: `2 1/2`.
fn mixed_start(text: &str, fraction: Range<usize>) -> Option<usize> {
    let (over, under) = text[fraction.clone()].split_once('/')?;
    let before = text[..fraction.start].strip_suffix(' ')?;
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let start = before.len() - digits;
    let alone = !text[..start].ends_with(|c: char| c.is_alphanumeric() || ".,/".contains(c));
    let proper = over.parse::<u64>().ok()? < under.parse::<u64>().ok()?;
    (digits > 0 && alone && proper).then_some(start)
}

/// How long the number at the start of a text is, with the fraction bar and what is under it.
fn number_length(text: &str) -> Option<usize> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // A longer number is no answer, and reading it would take longer than its length.
    let near = &text[..floor_boundary(text, text.len().min(NUMBER))];
    let (_, mut length) = super::number::read(near, super::lex::Commas::Group);
    if text[..length].ends_with('.') && length > 1 {
        length -= 1;
    }
    let under = text[length..].strip_prefix('/').map(|rest| leading(rest, |c| c.is_ascii_digit()).len());
    match under {
        Some(digits) if digits > 0 => Some(length + 1 + digits),
        _ => Some(length.max(1)),
    }
}

/// A response that is nothing but its answer.
fn whole(response: &str) -> Option<&str> {
    let trimmed = response.trim();
    let text = trimmed.trim_matches(['*', '`']).trim();
    (text.len() <= STATEMENT && !text.contains("\n\n") && is_mathematics(text)).then_some(text)
}

/// Is this a formula rather than a sentence: does it hold no words but those of mathematics?
pub(super) fn is_mathematics(text: &str) -> bool {
    let text = text.trim();
    let formulas = formulas(text);
    if text.is_empty() || formulas.len() > 1 {
        return false;
    }
    // "So, $x = 5$": words around a formula make a sentence of it.
    if let Some(formula) = formulas.first()
        && text[..formula.outer.start].contains(char::is_alphabetic)
    {
        return false;
    }
    let mut rest = text;
    let mut meaningful = false;
    while let Some(first) = rest.chars().next() {
        if first == '\\' {
            let name = leading(&rest[1..], |c| c.is_ascii_alphabetic());
            let length = 1 + name.len().max(rest[1..].chars().next().map_or(0, char::len_utf8));
            meaningful = true;
            rest = &rest[length..];
            if matches!(
                name,
                "text" | "textbf" | "mathrm" | "mbox" | "textnormal" | "operatorname" | "begin" | "end"
            ) {
                rest = &rest[super::lex::argument(rest).1..];
            }
            continue;
        }
        let run = leading(rest, char::is_alphabetic);
        if run.is_empty() {
            meaningful |= first.is_ascii_digit() || "∞∅√½⅓¼".contains(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let unit = meaningful && words::is_unit(run, false);
        let word = run.chars().count() > 2 || is_short_word(run);
        if word && words::word(run).is_none() && !unit {
            return false;
        }
        meaningful |= run.len() == 1 || words::word(run).is_some();
        rest = &rest[run.len()..];
    }
    meaningful
}

/// A word of two letters that is hardly a product of two symbols, or a word in a script that has no symbols.
fn is_short_word(run: &str) -> bool {
    let common = [
        "is", "it", "so", "to", "of", "we", "as", "if", "be", "by", "an", "no", "my", "he", "do", "at", "on",
        "up", "us",
    ];
    let symbol =
        |c: char| c.is_ascii() || ('α'..='ω').contains(&c.to_lowercase().next().unwrap_or(c)) || c == 'º';
    common.contains(&run.to_ascii_lowercase().as_str()) || !run.chars().all(symbol)
}

/// A short response without any formula or number is an answer in words.
fn short_text(response: &str) -> Option<&str> {
    let text = response.trim().trim_end_matches('.').trim_matches(['*', '`']);
    (!text.is_empty() && text.len() <= 60 && !text.contains('\n')).then_some(text)
}
