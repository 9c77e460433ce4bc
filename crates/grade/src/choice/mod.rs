//! Multiple choice: which letter did a response settle on?
//!
//! Models are asked to end with `Answer: B`, and do so in many ways: `**Answer: B**`, `\boxed{B}`, `The answer is (B).`,
//! `\text{B}`, "option B", or the text of the choice itself. The last statement counts: a model that changes its mind
//! says so later. A letter in the middle of a sentence is not a statement, except after words that make it one; a bare
//! "option B" is one only where nothing plainer is said, because the options that were turned down are named like that
//! too. A statement that names several letters names none.
//!
//! Choices are shuffled before they are shown, or a model that likes the letter A would look knowledgeable. The order
//! depends on the seed and the record's id alone ([`order`]), so that it is the same on every machine, in every run,
//! whatever else is asked.

mod shuffle;

pub use shuffle::order;

use crate::response::Said;

/// The longest stretch after "answer" that is searched for its letter, in bytes.
const STATEMENT: usize = 200;
/// How much of the end of a response is searched, in bytes.
const TAIL: usize = 1 << 15;

/// How many mentions of an answer are looked at, from the last one back.
const MENTIONS: usize = 64;

/// The letter of the `index`-th choice.
pub fn letter(index: usize) -> char {
    char::from(b'A' + u8::try_from(index % 26).unwrap_or(0))
}

/// What a statement names: one letter, or several of them and so none.
type Named = Option<char>;

/// The letter that what is said settles on, out of the first `choices` letters. `texts` are the choices' own texts, where
/// they are known (there may be fewer of them, or none).
pub fn find<'a>(said: impl Into<Said<'a>>, choices: usize, texts: &[String]) -> Option<char> {
    let Said { text: response, explicit } = said.into();
    let valid = |letter: char| ((letter as usize).wrapping_sub('A' as usize) < choices).then_some(letter);
    let tail = tail(response);
    let stated = last_stated(tail, explicit, &valid, texts);
    let judged = last_judged(tail, explicit, &valid);
    let boxed = last_box(response).and_then(|(at, content)| Some((at, reads_as(content, &valid, texts)?)));
    // Positions are counted from the end, because they were found in different texts.
    let latest = [stated, judged, boxed].into_iter().flatten().min_by_key(|(from_end, _)| *from_end);
    if let Some((_, named)) = latest {
        return named;
    }
    if explicit {
        return None;
    }
    last_mentioned(tail, &valid)
        .or_else(|| concluding_letter(tail, &valid))
        .or_else(|| last_line(tail, &valid, texts))
        .or_else(|| last_parenthesised(tail, &valid))
}

fn tail(response: &str) -> &str {
    let mut start = response.len().saturating_sub(TAIL);
    while !response.is_char_boundary(start) {
        start += 1;
    }
    &response[start..]
}

/// The last box, and how far from the end of the response it ends.
fn last_box(response: &str) -> Option<(usize, &str)> {
    let content = crate::boxed::last_boxed(response)?;
    let start = content.as_ptr() as usize - response.as_ptr() as usize;
    Some((response.len() - start - content.len(), content))
}

/// What the last "answer: …", "answer is …", "option is …" or "choice: …" says, and how far from the end. An `explicit`
/// answer is called one: options are also named while they are weighed.
fn last_stated(
    tail: &str,
    explicit: bool,
    valid: &impl Fn(char) -> Option<char>,
    texts: &[String],
) -> Option<(usize, Named)> {
    let cues = ["answer", "答案", "option", "choice"];
    let cues = if explicit { &cues[..2] } else { &cues };
    last_after(tail, cues, |after, cue| statement(after, cue, valid, texts))
}

/// What `read` makes of the text after the last cue where it makes anything of it, and how far from the end that is.
fn last_after<T>(
    tail: &str,
    cues: &[&'static str],
    read: impl Fn(&str, &'static str) -> Option<T>,
) -> Option<(usize, T)> {
    let lower = tail.to_ascii_lowercase();
    let mut end = lower.len();
    for _ in 0..MENTIONS {
        let (at, cue) = cues.iter().filter_map(|cue| Some((lower[..end].rfind(cue)?, *cue))).max()?;
        end = at;
        if let Some(found) = read(&tail[at + cue.len()..], cue) {
            return Some((tail.len() - at, found));
        }
    }
    None
}

/// What is said right after a cue, where words or signs between make it a statement.
fn statement(
    after: &str,
    cue: &str,
    valid: &impl Fn(char) -> Option<char>,
    texts: &[String],
) -> Option<Named> {
    let dress = |c: char| c.is_whitespace() || "*_:：=`\"“',-–—".contains(c);
    let mut rest = after;
    let mut marked = false;
    // "answer is therefore: **option (B)**"
    for _ in 0..8 {
        let trimmed = rest.trim_start_matches(dress);
        marked |= rest[..rest.len() - trimmed.len()].contains([':', '：', '=', '-', '–', '—']);
        let word = word(trimmed);
        match word.to_ascii_lowercase().as_str() {
            "is" | "choice" | "option" | "be" | "must" | "s" => marked = true,
            "therefore" | "thus" | "clearly" | "the" | "correct" | "letter" | "hence" | "would"
            | "should" | "most" | "likely" => {}
            // "The answer to this question is"
            "to" | "for" => {
                let question = clause(trimmed);
                rest = &trimmed[question.find(" is ")? + 1..];
                continue;
            }
            _ => {
                rest = trimmed;
                break;
            }
        }
        rest = &trimmed[word.len()..];
    }
    let line = clipped(rest).lines().next()?;
    if !marked {
        // A heading and its letter: `Answer D`, and nothing else.
        let bare = line.trim_matches(|c: char| !c.is_alphanumeric());
        let heading = cue == "answer" && bare.len() == 1;
        return leading_letter(line, valid).filter(|_| heading).map(|(letter, _)| Some(letter));
    }
    if cue == "answer" || cue == "答案" { reads_as(line, valid, texts) } else { named(line, valid) }
}

/// The letter that a text begins with, if that is the only one it names.
fn named(text: &str, valid: &impl Fn(char) -> Option<char>) -> Option<Named> {
    let (letter, after) = leading_letter(text, valid)?;
    Some((!names_another(letter, after)).then_some(letter))
}

/// No more than a statement's length of a text.
fn clipped(text: &str) -> &str {
    let mut limit = text.len().min(STATEMENT);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    &text[..limit]
}

/// A text up to the end of its first sentence or part of one.
fn clause(text: &str) -> &str {
    let text = clipped(text);
    let end = text.find(['\n', ';']).into_iter().chain(text.find(". ")).min().unwrap_or(text.len());
    &text[..end]
}

/// Words that reject what they are said of.
const REJECTIONS: [&str; 15] = [
    "wrong",
    "incorrect",
    "false",
    " not ",
    "n't",
    "cannot",
    " too ",
    "fail",
    "ignore",
    "rule",
    "eliminat",
    "unlikely",
    "would",
    "neither",
    "consider",
];

fn rejects(clause: &str) -> bool {
    let lower = clause.to_ascii_lowercase();
    REJECTIONS.iter().any(|word| lower.contains(word))
}

/// The last "B is correct" or "(B) is the answer", and how far from the end. The best so far is no `explicit` answer.
fn last_judged(tail: &str, explicit: bool, valid: &impl Fn(char) -> Option<char>) -> Option<(usize, Named)> {
    let praises = ["correct", "answer", "right", "best"];
    let praises = if explicit { &praises[..2] } else { &praises };
    let lower = tail.to_ascii_lowercase();
    let mut end = lower.len();
    for _ in 0..MENTIONS {
        let at = lower[..end].rfind(" is ")?;
        end = at;
        let after = &lower[at + " is ".len()..];
        let after = after.strip_prefix("the ").unwrap_or(after).trim_start_matches('*');
        if !praises.iter().any(|praise| after.starts_with(praise)) {
            continue;
        }
        // The words that name the choice: the last ones of the sentence so far.
        let before = tail[..at].trim_end_matches(['*', ')', '}', '$', '_', '"']);
        let Some(letter) = before.chars().next_back().filter(char::is_ascii_uppercase) else { continue };
        let subject = before[..before.len() - 1].trim_end_matches(['*', '(', '{', '$', '_', '"']);
        let last = subject.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or("");
        let starts =
            subject.trim_end().is_empty() || subject.trim_end().ends_with([',', '.', ':', '\n', '>', '#']);
        let attached = subject.ends_with(char::is_alphanumeric);
        let leads = ["option", "choice", "answer", "so", "thus", "hence", "therefore", "that", "only"];
        if !attached
            && (starts || subject.ends_with('\n') || leads.contains(&last.to_ascii_lowercase().as_str()))
            && let Some(letter) = valid(letter)
        {
            return Some((tail.len() - at, Some(letter)));
        }
    }
    None
}

/// The last "option B" that is not rejected.
fn last_mentioned(tail: &str, valid: &impl Fn(char) -> Option<char>) -> Option<char> {
    let read = |after: &str, _| {
        let clause = clause(after);
        named(clause, valid)?.filter(|_| !rejects(clause))
    };
    last_after(tail, &["option", "choice"], read).map(|(_, letter)| letter)
}

/// The letter that a last line ends in, after a word that draws a conclusion: "so B", "I choose B".
fn concluding_letter(tail: &str, valid: &impl Fn(char) -> Option<char>) -> Option<char> {
    let line = tail.trim_end().lines().next_back()?;
    let bare = line.trim_end_matches(|c: char| !c.is_alphanumeric());
    let letter = bare.chars().next_back().filter(char::is_ascii_uppercase)?;
    let before = bare[..bare.len() - 1].trim_end_matches(['*', '(', '"']);
    let word = before.strip_suffix(' ')?.trim_end_matches([',', ':']).rsplit(' ').next()?;
    let concludes =
        ["so", "thus", "hence", "therefore", "but", "with", "choose", "pick", "select", "be", "it's"];
    let refuted = word == "be" && rejects(line);
    let concludes = !refuted && concludes.contains(&word.to_ascii_lowercase().as_str());
    concludes.then_some(letter).and_then(valid)
}

/// Does what follows a letter name another one: `A, B`, `(A) or (C)`, `A B C D`?
fn names_another(letter: char, after: &str) -> bool {
    let closing = |c: char| c.is_whitespace() || ")]}*_$.\"'`>".contains(c);
    let rest = after.trim_start_matches(closing);
    let gap = rest.len() < after.len();
    let joint =
        ["and/or", "and", "or", ",", "/", "|", "&", "\\&"].iter().find_map(|joint| rest.strip_prefix(joint));
    let next = undressed(joint.unwrap_or(rest));
    let mut characters = next.chars();
    let another = characters.next().is_some_and(|c| c.is_ascii_uppercase() && c != letter);
    let ends = characters.as_str().trim_start_matches(closing);
    // "C, A is wrong" names only C.
    let listed = ends.is_empty()
        || ends.starts_with([',', '/', '|', '&'])
        || matches!(word(ends), "and" | "or")
        || word(ends).len() == 1;
    let alone = !characters.as_str().starts_with(|c: char| c.is_alphanumeric() || "-–'’".contains(c));
    (joint.is_some() || gap) && another && alone && listed
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    &text[..end]
}

/// A letter at the start of a text that stands for a choice and not for a word, and what follows it: `B`, `(B)`, `B.`,
/// `$\text{B}$`, `b)`.
fn leading_letter<'a>(text: &'a str, valid: &impl Fn(char) -> Option<char>) -> Option<(char, &'a str)> {
    let rest = undressed(text);
    let letter = rest.chars().next()?;
    let after = rest[letter.len_utf8()..].chars().next();
    let possessive =
        |c: char| "'’".contains(c) && !rest[letter.len_utf8()..].trim_matches(['\'', '’', '.']).is_empty();
    let compound =
        rest[letter.len_utf8()..].strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let alone = !compound && after.is_none_or(|c| !c.is_alphanumeric() && !possessive(c));
    // A small letter needs more than a space after it: "a" is also a word.
    let certain = letter.is_ascii_uppercase() && !(letter == 'A' && is_article(&rest[1..]))
        || after.is_none_or(|c| ")]}.*".contains(c));
    let letter = valid(letter.to_ascii_uppercase()).filter(|_| alone && certain)?;
    Some((letter, &rest[1..]))
}

/// A text without what only dresses its start.
fn undressed(text: &str) -> &str {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || "*_$({[<\"'`“".contains(c));
        let commands = ["\\boxed", "\\textbf", "\\text", "\\mathrm", "\\mathbf", "\\(", "\\["];
        let inner = commands.iter().find_map(|command| trimmed.strip_prefix(command)).unwrap_or(trimmed);
        if inner.len() == rest.len() {
            return rest;
        }
        rest = inner;
    }
}

/// "A good one": a word follows, so the letter was none.
fn is_article(after: &str) -> bool {
    let next = after.strip_prefix(' ').map_or("", word);
    let goes_on = ["because", "since", "as", "which", "with", "and", "or", "is", "due", "rather", "not"];
    next.starts_with(char::is_lowercase) && !goes_on.contains(&next)
}

/// A whole text as a choice: its letter, or its own words.
fn reads_as(text: &str, valid: &impl Fn(char) -> Option<char>, texts: &[String]) -> Option<Named> {
    named(text, valid).or_else(|| own_words(text, valid, texts).map(Some))
}

/// The choice whose own words these are, if it is only one.
fn own_words(text: &str, valid: &impl Fn(char) -> Option<char>, texts: &[String]) -> Option<char> {
    let said = plain(text);
    if said.is_empty() {
        return None;
    }
    let mut named = texts.iter().enumerate().filter(|(_, choice)| plain(choice) == said);
    match (named.next(), named.next()) {
        (Some((index, _)), None) => valid(letter(index)),
        _ => None,
    }
}

/// The letters, digits and signs of a text, in lower case.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for dress in ["\\text", "\\mathrm", "\\mathbf", "\\left", "\\right"] {
        text = text.replace(dress, "");
    }
    let kept = |c: &char| c.is_alphanumeric() || "+-/^<>=%".contains(*c);
    text.chars().filter(kept).flat_map(char::to_lowercase).collect()
}

/// A last line that is nothing but a choice: `B`, `(B)`, `**B) north**`.
fn last_line(tail: &str, valid: &impl Fn(char) -> Option<char>, texts: &[String]) -> Option<char> {
    let line = tail.trim_end().lines().next_back()?.trim();
    let bare = line.trim_matches(|c: char| !c.is_alphanumeric());
    if bare.len() == 1 {
        return valid(bare.chars().next()?.to_ascii_uppercase());
    }
    let mut characters = bare.chars();
    let (first, second) = (characters.next()?, characters.next()?);
    // "(A) is wrong, so (B) is right" names another one later.
    let only = last_parenthesised(line, valid).is_none_or(|last| last == first);
    if first.is_ascii_uppercase() && ").:".contains(second) && only && !rejects(line) {
        return valid(first).filter(|_| !names_another(first, &bare[1..]));
    }
    own_words(line, valid, texts)
}

/// The last `(B)` anywhere.
fn last_parenthesised(tail: &str, valid: &impl Fn(char) -> Option<char>) -> Option<char> {
    let bytes = tail.as_bytes();
    bytes.windows(3).rev().find_map(|window| match window {
        [b'(', letter, b')'] if letter.is_ascii_uppercase() => valid(char::from(*letter)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_an_answer() {
        let table: &[(&str, Option<char>)] = &[
            // As simple-evals asks for it.
            ("Because of this.\n\nAnswer: B", Some('B')),
            ("Answer: $B$", Some('B')),
            ("ANSWER : D", Some('D')),
            ("**Answer: C**", Some('C')),
            ("**Answer:** C", Some('C')),
            ("**Answer**: (C)", Some('C')),
            ("Answer: C) the third", Some('C')),
            ("Answer: c", Some('C')),
            ("Answer:\n\nB", Some('B')),
            (r"Answer: \boxed{B}", Some('B')),
            (r"Answer: $\text{B}$", Some('B')),
            (r"Answer: \(\mathrm{B}\)", Some('B')),
            // In words.
            ("The answer is (B).", Some('B')),
            ("The answer is B", Some('B')),
            ("the correct answer is **D**.", Some('D')),
            ("So the correct answer is: option A.", Some('A')),
            ("The best choice is C because of the rest.", Some('C')),
            ("I would go with option B", Some('B')),
            ("Therefore, Option (D) is right.", Some('D')),
            ("the answer must be A", Some('A')),
            // Boxed.
            (r"\boxed{B}", Some('B')),
            (r"\boxed{\text{B}}", Some('B')),
            (r"\boxed{\textbf{(B)}}", Some('B')),
            (r"\boxed{(B)}", Some('B')),
            (r"\boxed{B) \text{north}}", Some('B')),
            (r"\boxed{\text{north}}", Some('A')),
            (r"\boxed{2 \times 10^3}", None),
            // The choice's own text.
            ("Answer: South", Some('B')),
            ("The answer is south.", Some('B')),
            ("It points\nnorth", Some('A')),
            // The last line, or the last letter in parentheses.
            ("B", Some('B')),
            ("(B)", Some('B')),
            ("**C**", Some('C')),
            ("So it follows.\nC. east", Some('C')),
            ("(A) is too small, so it can only be (C) here", Some('C')),
            // Other words for it.
            ("Answer: <D>", Some('D')),
            ("Answer: 'D'", Some('D')),
            ("Answer：D", Some('D')),
            ("答案：D", Some('D')),
            ("Answer – D", Some('D')),
            ("Answer D", Some('D')),
            ("The answer would be D.", Some('D')),
            ("The answer is most likely B.", Some('B')),
            ("The answer to the question is B.", Some('B')),
            ("The answer, therefore, is B.", Some('B')),
            ("The answer is A because it is first", Some('A')),
            ("B is correct.", Some('B')),
            ("**B** is the correct answer.", Some('B')),
            ("Among the options, B is correct.", Some('B')),
            ("I'd go with D.", Some('D')),
            ("It must be B.", Some('B')),
            ("Statement A is correct. Statement B is not.", None),
            ("Vitamin A is the answer", None),
            ("Answer: C\n\nThe answer is A-level material", Some('C')),
            // What is said of the others is no statement.
            ("Answer: C\n\nOption A is wrong; option B has wrong units; option D is too large.", Some('C')),
            ("\\boxed{C}\n\nOption D is too big.", Some('C')),
            ("The answer is C (option D is wrong).", Some('C')),
            ("The answer is C rather than option D.", Some('C')),
            ("Answer: C, B is wrong", Some('C')),
            ("A) North is wrong because it is cold, so B", Some('B')),
            ("Option A is incorrect. Option B is incorrect. So C.", Some('C')),
            ("Option A is wrong.", None),
            ("The answer is not A.", None),
            ("The answer is not A but B.", Some('B')),
            ("The answer can't be A.", None),
            // Several letters are none.
            ("Answer: A, B", None),
            ("Answer: A/B", None),
            ("Answer: (A) and (C)", None),
            ("Answer: A B C D", None),
            ("Answer: **A** or **B**", None),
            ("The answer is A or B.", None),
            (r"\boxed{A, B}", None),
            (r"\boxed{\textbf{B} or \textbf{C}}", None),
            (r"\boxed{A/B/C/D}", None),
            // The last statement wins.
            ("Answer: A\n\nWait, no.\n\nAnswer: B", Some('B')),
            (r"\boxed{A} no, the answer is B", Some('B')),
            (r"The answer is A. Rather: \boxed{C}", Some('C')),
            ("Option A is wrong, option B is wrong. Answer: D", Some('D')),
            // Words are not letters.
            ("The answer is a good one: none.", None),
            ("The answer is A good one", None),
            ("The answer depends", None),
            ("Answer: E", None),
            ("", None),
            ("I cannot tell.", None),
        ];
        let texts: Vec<String> = ["North", "South", "East", "West"].map(String::from).to_vec();
        for (response, expected) in table {
            assert_eq!(find(response, 4, &texts), *expected, "{response:?}");
        }
    }

    #[test]
    fn texts_that_are_equal_name_no_choice() {
        let texts: Vec<String> = ["1", "2", "2", "3"].map(String::from).to_vec();
        assert_eq!(find(r"\boxed{2}", 4, &texts), None);
        assert_eq!(find(r"\boxed{3}", 4, &texts), Some('D'));
    }

    #[test]
    fn more_choices_have_more_letters() {
        assert_eq!(find("Answer: J", 10, &[]), Some('J'));
        assert_eq!(find("Answer: J", 9, &[]), None);
    }
}
