//! A response, and the part of it that can hold an answer.
//!
//! Models think before they speak, and a thought is no answer: a number that was tried and dropped looks like any other.
//! So where a response, or the end of its prompt, opens a chain of thought, only what follows the first mark that closes
//! it is looked at, and where nothing closes it there is no answer. A later mark is text. Without an opening, a lone
//! closing mark ends thoughts that the prompt began, unless it stands in code: there it is text too. That code excuses
//! only what closes, or whoever begins as a program would have thoughts for an answer.
//!
//! A response that was cut off has not concluded either, whatever number stands at its end. It has an answer only where
//! it says so: in a box, in "the answer is …", in a block of code that was closed. [`Extract::Strict`] asks that of all.
//!
//! ```
//! use eager_grade::response::{Extraction, Response};
//!
//! let said = |text| Response::from(text).said().map(|said| said.text);
//! assert_eq!(said("<think>perhaps 5</think>It is 6."), Some("It is 6."));
//! assert_eq!(said("<think>perhaps 5"), None);
//! let opened = Extraction { opened: true, ..Extraction::default() };
//! assert!(opened.response("perhaps 5", true).said().is_none());
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The marks around a chain of thought. gpt-oss's channels are known besides these, to everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThoughtMark {
    open: Cow<'static, str>,
    close: Cow<'static, str>,
}

/// What gpt-oss puts before the name of a channel: thoughts are in `analysis` and `commentary`, the answer is in `final`.
const CHANNEL: &str = "<|channel|>";
const FINAL: &str = "<|channel|>final";
/// What it puts before the text of a channel.
const MESSAGE: &str = "<|message|>";

impl ThoughtMark {
    /// `<think>` and `</think>`, which most models use.
    pub const THINK: Self = Self { open: Cow::Borrowed("<think>"), close: Cow::Borrowed("</think>") };

    /// The marks of a model that closes its thoughts with this: `</think>`, `[/THINK]`, `<|END_THINKING|>`. Where nothing
    /// is known, and for gpt-oss, whose channels need no telling, those of most models.
    pub fn closed_by(close: &str) -> Self {
        let open = match close {
            _ if close.contains('/') => close.replacen('/', "", 1),
            _ if close.contains("END") => close.replacen("END", "START", 1),
            _ => return Self::THINK,
        };
        Self { open: open.into(), close: close.to_owned().into() }
    }

    /// Does a prompt that ends like this leave the thoughts to be gone on with?
    pub fn opened_by(&self, prompt: &str) -> bool {
        let end = prompt.trim_end();
        let end = end.strip_suffix(MESSAGE).map_or(end, str::trim_end);
        let in_channel = end.rfind(CHANNEL).is_some_and(|at| {
            let name = &end[at + CHANNEL.len()..];
            !name.is_empty() && name.chars().all(char::is_alphanumeric) && name != "final"
        });
        end.ends_with(&*self.open) || in_channel
    }

    /// What follows the first mark that closes the thoughts.
    fn after_close<'a>(&self, text: &'a str) -> Option<&'a str> {
        let close = text.find(&*self.close);
        match text.find(FINAL).filter(|at| close.is_none_or(|close| *at < close)) {
            Some(at) => Some(without_heading(&text[at + FINAL.len()..])),
            None => close.map(|at| &text[at + self.close.len()..]),
        }
    }
}

/// The text of a channel, of which only the name was read.
fn without_heading(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(MESSAGE).map_or(text, |at| &text[at + MESSAGE.len()..])
}

impl Default for ThoughtMark {
    fn default() -> Self {
        Self::THINK
    }
}

/// What counts as an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extract {
    /// What a complete response ends in, too: its last number, its last line, a program outside a block.
    #[default]
    Lenient,
    /// A box, a statement ("the answer is …", "Answer: B"), a closed block of code.
    Strict,
}

impl Extract {
    pub fn name(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Extract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no '{0}'; use lenient or strict")]
pub struct UnknownExtract(String);

impl FromStr for Extract {
    type Err = UnknownExtract;

    fn from_str(name: &str) -> Result<Self, UnknownExtract> {
        let found = [Self::Lenient, Self::Strict].into_iter().find(|extract| extract.name() == name);
        found.ok_or_else(|| UnknownExtract(name.to_owned()))
    }
}

/// How the responses to one prompt are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extraction {
    pub mark: ThoughtMark,
    /// The prompt ended inside the thoughts: see [`ThoughtMark::opened_by`].
    pub opened: bool,
    pub extract: Extract,
}

/// What is known of a response where nobody says more.
static NOTHING_KNOWN: Extraction =
    Extraction { mark: ThoughtMark::THINK, opened: false, extract: Extract::Lenient };

impl Extraction {
    /// A response to this prompt; `complete` where the model ended it.
    pub fn response<'a>(&'a self, text: &'a str, complete: bool) -> Response<'a> {
        Response { text, complete, extraction: self }
    }
}

/// A response with all that decides which part of it can hold an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    pub text: &'a str,
    /// The model ended it; neither a limit nor a method did.
    pub complete: bool,
    pub extraction: &'a Extraction,
}

/// What a response says outside its thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Said<'a> {
    pub text: &'a str,
    /// Only what is explicitly said to be the answer is one.
    pub explicit: bool,
}

impl<'a> Response<'a> {
    /// What it says; `None` where it is all thoughts.
    pub fn said(&self) -> Option<Said<'a>> {
        let Extraction { mark, opened, extract } = self.extraction;
        let text = match (opened, first_mark(mark, self.text)) {
            (true, _) => mark.after_close(self.text)?,
            (false, Some(at)) => mark.after_close(&self.text[at..])?,
            (false, None) => self.text,
        };
        Some(Said { text: without_end(text), explicit: !self.complete || *extract == Extract::Strict })
    }
}

/// A complete response to a prompt that opened nothing.
impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Response<'a> {
    fn from(text: &'a T) -> Self {
        NOTHING_KNOWN.response(text.as_ref(), true)
    }
}

impl<'a> From<&Response<'a>> for Response<'a> {
    fn from(response: &Response<'a>) -> Self {
        *response
    }
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Said<'a> {
    fn from(text: &'a T) -> Self {
        Said { text: text.as_ref(), explicit: false }
    }
}

/// A text without the marks that end a turn, which are no part of what is said.
fn without_end(text: &str) -> &str {
    let mut rest = text;
    loop {
        let end = rest.trim_end();
        let mark = end.strip_suffix("</s>").or_else(|| {
            let inner = end.strip_suffix("|>").or_else(|| end.strip_suffix("｜>"))?;
            let at = inner.rfind(['<', '>', '\n', ' '])?;
            (inner[at..].starts_with("<|") || inner[at..].starts_with("<｜")).then_some(&inner[..at])
        });
        match mark {
            Some(before) => rest = before,
            None => return rest,
        }
    }
}

/// Where the first mark stands that is no text: one that opens the thoughts, or one outside code that closes them.
fn first_mark(mark: &ThoughtMark, text: &str) -> Option<usize> {
    if ![&*mark.open, &*mark.close, CHANNEL].iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let mut code = Code::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        code.read(line);
        if let Some(at) = mark_in_line(mark, line, &code) {
            return Some(start + at);
        }
        start += line.len();
    }
    None
}

/// The first mark in a line that is neither quoted nor excused by the code around it.
fn mark_in_line(mark: &ThoughtMark, line: &str, code: &Code) -> Option<usize> {
    let marks = [&*mark.open, CHANNEL, &*mark.close];
    let quoted = |at: usize, end: usize| {
        let quotes = line[..at].chars().next_back().zip(line[end..].chars().next());
        matches!(quotes, Some(('`', '`') | ('"', '"') | ('\'', '\'') | ('“', '”')))
    };
    let mut at = 0;
    while at < line.len() {
        let Some(mark) = marks.iter().find(|mark| line.as_bytes()[at..].starts_with(mark.as_bytes())) else {
            at += 1;
            continue;
        };
        let end = at + mark.len();
        let closes = *mark == marks[2];
        let text = quoted(at, end) || (closes && code.excuses(at));
        let literal = if closes { None } else { code.literal_end(line, at, marks[2]) };
        at = match literal {
            Some(literal) => literal,
            None if text => end,
            None => return Some(at),
        };
    }
    None
}

/// How far before a mark the string begins that it stands in, at most, in bytes.
const STRING: usize = 200;

/// Which lines of a response are code, as far as one can tell from the lines before.
#[derive(Debug, Default)]
struct Code {
    /// What opened the block of code that this line is in, and how often it stands there: three backticks or more, or `~`.
    fence: Option<(char, usize)>,
    /// A program outside a block has begun, and no prose came after it.
    begun: bool,
    /// Where a comment may begin in the line.
    comment: Option<usize>,
    /// How much white space the line begins with, in bytes.
    indent: usize,
    /// The line is indented, or begins a program.
    statement: bool,
    /// Some line so far was not empty.
    first_seen: bool,
}

impl Code {
    fn read(&mut self, line: &str) {
        let text = line.trim();
        if let Some(mark) = text.chars().next().filter(|mark| matches!(mark, '`' | '~')) {
            let length = text.len() - text.trim_start_matches(mark).len();
            match self.fence {
                None if length >= 3 => self.fence = Some((mark, length)),
                Some((opened, least)) if opened == mark && length >= least && length == text.len() => {
                    self.fence = None;
                }
                _ => {}
            }
        }
        if text.is_empty() {
            return;
        }
        // The rest of a function whose head was the prompt begins with an indented line.
        let continues = !self.first_seen && (line.starts_with("    ") || line.starts_with('\t'));
        let begins = begins_program(line);
        self.comment = line.find('#');
        self.indent = line.len() - line.trim_start().len();
        self.statement = begins || line.starts_with([' ', '\t']);
        self.begun = continues || begins || (self.begun && !is_prose(line));
        self.first_seen = true;
    }

    /// Is a mark at this place of the line, which was read last, a part of code?
    fn excuses(&self, at: usize) -> bool {
        let in_comment = self.comment.is_some_and(|comment| comment < at);
        self.fence.is_some() || (self.begun && (self.statement || in_comment) && self.indent < at)
    }

    /// Where the string ends that a mark at this place opens thoughts in and closes them too, such as the `"<think>.*?</think>"`
    /// of a program that takes thoughts out of texts.
    fn literal_end(&self, line: &str, at: usize, close: &str) -> Option<usize> {
        let near = &line.as_bytes()[at.saturating_sub(STRING)..at];
        let quote = near.iter().rfind(|byte| matches!(byte, b'"' | b'\''))?;
        let end = at + line[at..].find(char::from(*quote)).filter(|_| self.excuses(at))?;
        line[at..end].contains(close).then_some(end)
    }
}

/// Does a line at the margin start a program, or a part of one?
fn begins_program(line: &str) -> bool {
    let (statement, _) = line.split_once('#').unwrap_or((line, ""));
    let words: Vec<&str> = statement.split_whitespace().take(3).collect();
    match words.as_slice() {
        _ if line.starts_with([' ', '\t']) => false,
        ["import", ..] => {
            let modules = statement.trim_start().trim_start_matches("import").split(',');
            modules
                .map(|module| module.split_whitespace().collect::<Vec<_>>())
                .all(|module| matches!(module.as_slice(), [_] | [_, "as", _]))
        }
        ["from", _, "import"] | ["async", "def", ..] => true,
        ["def" | "class", name, ..] => name.contains(['(', ':']),
        [first, ..] => first.starts_with('@'),
        [] => false,
    }
}

/// Is a line at the margin a sentence rather than a statement of a program? Two words in a row are, but for keywords.
fn is_prose(line: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|c| c.is_alphabetic() || ",.!?'’".contains(c));
    let keyword = |word: &str| {
        matches!(word, "for" | "if" | "elif" | "while" | "with" | "assert" | "return" | "raise" | "del")
    };
    let mut words = line.split_whitespace();
    !line.starts_with([' ', '\t'])
        && words.next().is_some_and(|word| is_word(word) && !keyword(word))
        && words.next().is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    static OPENED: Extraction =
        Extraction { mark: ThoughtMark::THINK, opened: true, extract: Extract::Lenient };

    fn said(text: &str, opened: bool) -> Option<&str> {
        let extraction = if opened { &OPENED } else { &NOTHING_KNOWN };
        extraction.response(text, true).said().map(|said| said.text)
    }

    #[test]
    fn what_is_said() {
        let table: &[(&str, Option<&str>)] = &[
            ("It is 5.", Some("It is 5.")),
            ("<think>a</think>b", Some("b")),
            ("\n <think>a", None),
            ("Well. <think>a</think>b", Some("b")),
            ("\\boxed{1} <think>a", None),
            // The first close counts; a later one is text.
            ("<think>a</think>b </think> c", Some("b </think> c")),
            ("<think>a <think> b</think>c", Some("c")),
            ("<think>`</think>` ends it</think>c", Some("` ends it</think>c")),
            // Nobody opened it, but somebody must have.
            ("a</think>b", Some("b")),
            ("he said 'a</think>It's b", Some("It's b")),
            ("don't</think>it's", Some("it's")),
            ("</think>\n    b", Some("\n    b")),
            // In code it is text.
            ("```\nx.split('</think>')\n```", Some("```\nx.split('</think>')\n```")),
            ("```\n# </think>\n```", Some("```\n# </think>\n```")),
            ("the mark `</think>` ends it", Some("the mark `</think>` ends it")),
            ("say \"<think>\" first", Some("say \"<think>\" first")),
            ("f'</think>'", Some("f'</think>'")),
            ("    # </think>\n    return 1", Some("    # </think>\n    return 1")),
            ("def f(x):\n    # </think>\n    return 1", Some("def f(x):\n    # </think>\n    return 1")),
            ("```\nx\n```\na</think>b", Some("b")),
            ("~~~python\n# </think>\n~~~", Some("~~~python\n# </think>\n~~~")),
            (
                "import os, sys\ndef f(x):\n    x # no </think> here",
                Some("import os, sys\ndef f(x):\n    x # no </think> here"),
            ),
            (
                "Sure:\n\ndef f(x):\n    x # the </think> mark",
                Some("Sure:\n\ndef f(x):\n    x # the </think> mark"),
            ),
            ("import os as o\nx = 1 # </think>", Some("import os as o\nx = 1 # </think>")),
            ("def f(x):\n    x\n</think>\nb", Some("\nb")),
            ("def f(x):\n    x\nWait, no.\n  - 5</think>b", Some("b")),
            ("import taxes, not duties # 1</think>b", Some("b")),
            (
                "```\nre.sub(r'<think>.*?</think>', '', s)\n```",
                Some("```\nre.sub(r'<think>.*?</think>', '', s)\n```"),
            ),
            // What opens the thoughts does so in code, too.
            ("```\n'<think>a' </think>b", Some("b")),
            ("    <think>a", None),
            ("@<think>a", None),
            ("```\n<think>a", None),
            ("```\nx = 1 # <think>a", None),
            ("'<think>we don't", None),
            ("def f(x):\n    <|channel|>analysis<|message|>a", None),
            ("```\n<think>a</think>b", Some("b")),
            // gpt-oss.
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
                Some("b"),
            ),
            ("<|channel|>analysis<|message|>a \\boxed{1}", None),
            ("<|channel|>final<|message|>b", Some("b")),
            (
                "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>b",
                Some("b"),
            ),
            // What ends a turn is not said.
            ("b<|im_end|>\n", Some("b")),
            ("b<｜end▁of▁sentence｜>", Some("b")),
            ("|x|>3 if a <|x|>", Some("|x|>3 if a ")),
            ("a |> b|>", Some("a |> b|>")),
            ("", Some("")),
        ];
        for (text, expected) in table {
            assert_eq!(said(text, false), *expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_said_after_a_prompt_that_opened_the_thoughts() {
        let table: &[(&str, Option<&str>)] = &[
            ("a 204", None),
            ("a</think>b", Some("b")),
            ("a</think>b</think>c", Some("b</think>c")),
            ("`</think>`c", Some("`c")),
            ("a<|end|><|start|>assistant<|channel|>final<|message|>b", Some("b")),
        ];
        for (text, expected) in table {
            assert_eq!(said(text, true), *expected, "{text:?}");
        }
    }

    #[test]
    fn other_marks() {
        for (close, open) in [
            ("[/THINK]", "[THINK]"),
            ("<|END_THINKING|>", "<|START_THINKING|>"),
            ("◁/think▷", "◁think▷"),
            ("<|channel|>final", "<think>"),
        ] {
            let extraction = Extraction { mark: ThoughtMark::closed_by(close), ..Extraction::default() };
            assert_eq!(extraction.mark.open, open);
            let text = format!("{open}a");
            assert_eq!(extraction.response(&text, true).said(), None, "{text}");
            let close = if open == "<think>" { "</think>" } else { close };
            let text = format!("{open}a{close}b");
            assert_eq!(extraction.response(&text, true).said().unwrap().text, "b", "{text}");
        }
    }

    #[test]
    fn what_a_prompt_opens() {
        let think = ThoughtMark::THINK;
        assert!(think.opened_by("<｜Assistant｜><think>\n"));
        assert!(think.opened_by("<|start|>assistant<|channel|>analysis<|message|>"));
        for closed in [
            "<think>\n\n</think>\n\n",
            "what is <think>?",
            "<|start|>assistant<|channel|>final<|message|>",
            "",
        ] {
            assert!(!think.opened_by(closed), "{closed:?}");
        }
        assert!(ThoughtMark::closed_by("[/THINK]").opened_by("[/INST][THINK]"));
    }

    #[test]
    fn what_is_cut_off_or_read_strictly_must_be_explicit() {
        let strict = Extraction { extract: Extract::Strict, ..Extraction::default() };
        for (extraction, complete, explicit) in
            [(&NOTHING_KNOWN, true, false), (&NOTHING_KNOWN, false, true), (&strict, true, true)]
        {
            assert_eq!(extraction.response("5", complete).said().unwrap().explicit, explicit);
        }
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        for part in
            ["'</think>", "`", "<|", "'</think>'", "```\n", "|>", "<|channel|>", "<|x|>", "# </think>"]
        {
            for before in ["", "import os; # ' \"", "    '"] {
                let text = before.to_owned() + &part.repeat(300_000);
                let begun = std::time::Instant::now();
                let _ = said(&text, false);
                assert!(begun.elapsed().as_secs() < 2, "{before}{part:?}");
            }
        }
    }
}
