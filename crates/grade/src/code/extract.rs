//! The program in a response.
//!
//! A response is prose with code in it, or nothing but code, or the rest of a function whose head was the prompt.
//! What is tried, in this order, until one part is Python that defines the function:
//!
//! 1. fenced blocks that define the function, the last first: a model corrects itself further down. They get the
//!    prompt's imports and other functions in front of them, which models leave out and evalplus's own prompt
//!    supplies; what the block defines itself comes later and wins;
//! 2. fenced blocks that are the indented body of the function, the last first, as continuations of the prompt;
//! 3. without such a block: the response as a continuation of the prompt, if it starts with an indented line, cut
//!    where it stops being Python; otherwise the longest run of lines that is a program.
//!
//! Thoughts hold drafts and are not looked at ([`crate::response`]); of a response that was cut off, or is read strictly,
//! only blocks that were closed are. Whether a text is Python is for Python to say, so this module only lists the
//! candidates; the harness compiles them. Nothing is repaired.

use super::Problem;
use crate::response::Said;

/// A text that may be the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// From the prompt: what comes before the text.
    pub head: String,
    pub text: String,
    /// The text is not all code: the longest part of it that makes a program is meant.
    pub free: bool,
}

impl Candidate {
    /// The whole program, as far as it can be told without a Python parser.
    pub fn program(&self) -> String {
        format!("{}{}", self.head, self.text)
    }
}

/// What to try, in order. Empty if the response holds nothing that could be code.
pub(super) fn candidates(problem: &Problem, said: Said<'_>) -> Vec<Candidate> {
    let Said { text: answer, explicit } = said;
    let preamble = preamble(problem);
    let mut whole = Vec::new();
    let mut bodies = Vec::new();
    for block in fenced(answer, explicit).into_iter().rev() {
        let text = block.to_owned();
        if defines(block, &problem.entry_point) {
            whole.push(Candidate { head: preamble.to_owned(), text, free: false });
        } else if starts_indented(block) {
            bodies.push(Candidate { head: problem.prompt.clone(), text, free: false });
        }
    }
    whole.append(&mut bodies);
    if whole.is_empty() && !explicit && !answer.trim().is_empty() {
        let text = answer.to_owned();
        whole.push(if starts_indented(answer) {
            Candidate { head: continued(&problem.prompt), text: answer.trim_start().to_owned(), free: true }
        } else {
            Candidate { head: preamble.to_owned(), text, free: true }
        });
    }
    whole
}

/// The prompt up to the function that is to be written.
fn preamble(problem: &Problem) -> &str {
    let mut start = 0;
    for line in problem.prompt.split_inclusive('\n') {
        if defines(line, &problem.entry_point) {
            return &problem.prompt[..start];
        }
        start += line.len();
    }
    ""
}

/// The prompt, ready to be continued on an indented line.
fn continued(prompt: &str) -> String {
    format!("{}\n    ", prompt.trim_end())
}

/// Does a line at the left margin define this function?
fn defines(code: &str, name: &str) -> bool {
    code.lines().any(|line| {
        let definition = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
        let rest = definition.and_then(|rest| rest.trim_start().strip_prefix(name));
        rest.is_some_and(|rest| rest.trim_start().starts_with('('))
    })
}

fn starts_indented(code: &str) -> bool {
    let first = code.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| line.starts_with([' ', '\t']))
}

/// The contents of the fenced blocks of Markdown that may hold Python, in order. A block that nothing closes counts unless
/// it has to be `closed`: what there is of it may be complete.
fn fenced(text: &str, closed: bool) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, usize, bool)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start();
        let ticks = fence.bytes().take_while(|&byte| byte == b'`').count();
        let label = fence[ticks..].trim();
        match open {
            None if ticks >= 3 => {
                let label = label.split([' ', '{', ',']).next().unwrap_or_default().to_lowercase();
                let python = matches!(label.as_str(), "" | "python" | "py" | "python3");
                open = Some((at + line.len(), ticks, python));
            }
            Some((start, opened, python)) if ticks >= opened && label.is_empty() => {
                if python {
                    blocks.push(&text[start..at]);
                }
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    if let Some((start, _, true)) = open.filter(|_| !closed) {
        blocks.push(&text[start..]);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Response;

    const PROMPT: &str = "import math\n\n\ndef f(x):\n    \"\"\" Twice x. \"\"\"\n";
    const PREAMBLE: &str = "import math\n\n\n";
    const FUNCTION: &str = "def f(x):\n    return 2 * x\n";

    fn problem() -> Problem {
        let row = serde_json::json!({
            "task_id": "T/0", "prompt": PROMPT, "entry_point": "f", "canonical_solution": "    return 2 * x\n",
            "atol": 0, "base_input": [[1]], "plus_input": [],
        });
        Problem::parse(&row.to_string()).unwrap()
    }

    fn first(response: &str) -> Option<(String, bool)> {
        let said = Response::from(response).said()?;
        let all = candidates(&problem(), said);
        all.first().map(|candidate| (candidate.program(), candidate.free))
    }

    #[test]
    fn specification() {
        let whole = || Some((format!("{PREAMBLE}{FUNCTION}"), false));
        let body = || Some((format!("{PROMPT}    return 2 * x\n"), false));
        let table: Vec<(String, Option<(String, bool)>)> = vec![
            // A fenced function, labelled or not, in whatever company.
            (format!("Sure!\n```python\n{FUNCTION}```\nDone."), whole()),
            (format!("```\n{FUNCTION}```"), whole()),
            (format!("```py\n{FUNCTION}```"), whole()),
            (format!("```Python\n{FUNCTION}```"), whole()),
            (format!("````python\n{FUNCTION}````"), whole()),
            (format!("```python\ndef f(x):\n    return 1\n```\nNo:\n```python\n{FUNCTION}```"), whole()),
            (format!("```python\n{FUNCTION}```\n```python\nprint(f(2))\n```"), whole()),
            (format!("```python\n{FUNCTION}```\n```sh\ndef f(x)\n```"), whole()),
            (format!("<think>```python\ndef f(x): 0\n```</think>```python\n{FUNCTION}```"), whole()),
            // Cut off.
            (format!("```python\n{FUNCTION}"), whole()),
            // Only the body.
            ("```python\n    return 2 * x\n```".to_owned(), body()),
            ("    return 2 * x\n".to_owned(), Some((format!("{}    return 2 * x\n", PROMPT), true))),
            // No fence.
            (FUNCTION.to_owned(), Some((format!("{PREAMBLE}{FUNCTION}"), true))),
            // Nothing.
            (String::new(), None),
            (" \n".to_owned(), None),
            ("<think>```python\ndef f(x): 0\n```</think>".to_owned(), None),
        ];
        for (response, expected) in table {
            assert_eq!(first(&response), expected, "{response:?}");
        }
    }

    #[test]
    fn what_has_to_be_explicit_is_in_a_closed_block() {
        let block = format!("```python\n{FUNCTION}");
        let count = |text: &str| candidates(&problem(), Said { text, explicit: true }).len();
        assert_eq!(count(&block), 0);
        assert_eq!(count(FUNCTION), 0);
        assert_eq!(count("    return 2 * x\n"), 0);
        assert_eq!(count(&format!("{block}```\nand ```python\ndef f(")), 1);
    }

    #[test]
    fn a_longer_name_is_another_function() {
        assert!(defines("def f (x):", "f"));
        assert!(defines("x = 1\nasync def f(x): ...", "f"));
        assert!(!defines("def ff(x):", "f"));
        assert!(!defines("    def f(x):", "f"));
        assert!(!defines("# def f(x)", "f"));
    }
}
