//! A token tree as text: one sequence under the other, indented where it branched off, fork tokens marked.

use std::fmt::Write;

use console::style;
use eager_core::{Finish, Outcome, SeqId, Sequence, Token, Tree};

use crate::table::width;

/// How much of a sequence's text to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The beginning and the end of what each sequence decoded itself.
    Brief,
    Full,
}

/// Characters shown at the beginning and at the end of a long text.
const HEAD: usize = 150;
const TAIL: usize = 60;

/// Draws a tree. `text` spells tokens.
pub fn draw(tree: &Tree, outcome: &Outcome, detail: Detail, text: &dyn Fn(&[Token]) -> String) -> String {
    let mut out = String::new();
    let roots: Vec<SeqId> = tree.ids().filter(|&id| tree.get(id).parent.is_none()).collect();
    // What is still to be drawn, each with the lines that run past it on the left and whether a sibling follows.
    let mut stack: Vec<(SeqId, String, bool)> =
        roots.into_iter().rev().map(|id| (id, String::new(), false)).collect();
    while let Some((id, rails, more)) = stack.pop() {
        let sequence = tree.get(id);
        let (corner, rail) = match (sequence.parent, more) {
            (None, _) => ("", ""),
            (Some(_), true) => ("├─ ", "│  "),
            (Some(_), false) => ("└─ ", "   "),
        };
        let below = format!("{rails}{rail}");
        let children = children(tree, id);
        let margin = if children.is_empty() { "   " } else { "│  " };
        let _ = writeln!(out, "{rails}{corner}{}", headline(sequence, id, outcome));
        let mut inside = false;
        for line in wrap(&body(sequence, detail, text), width().saturating_sub(below.chars().count() + 3)) {
            let _ = writeln!(out, "{below}{margin}{}", mark(&line, &mut inside));
        }
        for (place, &child) in children.iter().enumerate().rev() {
            stack.push((child, below.clone(), place + 1 < children.len()));
        }
    }
    out
}

/// In order of where they branched off.
fn children(tree: &Tree, id: SeqId) -> Vec<SeqId> {
    let mut children: Vec<SeqId> = tree.ids().filter(|&c| tree.get(c).parent == Some(id)).collect();
    children.sort_by_key(|&c| (tree.get(c).fork_at, c));
    children
}

fn headline(sequence: &Sequence, id: SeqId, outcome: &Outcome) -> String {
    let answer = outcome.answers.get(id.0).and_then(Option::as_deref);
    let right = outcome.correct.get(id.0).copied().unwrap_or(false);
    let verdict = match (sequence.finish, answer) {
        (None, _) => style("unfinished".to_owned()).dim(),
        (Some(Finish::Length), None) => style("reached the length limit".to_owned()).yellow(),
        (_, None) => style("no answer".to_owned()).dim(),
        (_, Some(answer)) if right => style(format!("{answer}  ✓")).green(),
        (_, Some(answer)) => style(answer.to_owned()).bold(),
    };
    let origin = match (sequence.parent, sequence.entropy.first()) {
        (Some(_), Some(entropy)) => format!("  forked at token {}, entropy {entropy:.2}", sequence.fork_at),
        _ => String::new(),
    };
    format!("#{} {verdict}{}", id.0, style(origin).dim())
}

/// Brackets that mark a fork token until colours are put on.
const OPEN: char = '‹';
const CLOSE: char = '›';

/// What the sequence decoded itself, on one line, with the tokens that a fork chose in brackets.
fn body(sequence: &Sequence, detail: Detail, text: &dyn Fn(&[Token]) -> String) -> String {
    let mut line = String::new();
    let mut from = 0;
    for &position in &sequence.forced {
        let at = position - sequence.fork_at;
        line += &text(&sequence.tokens[from..at]);
        let _ = write!(line, "{OPEN}{}{CLOSE}", text(&sequence.tokens[at..=at]));
        from = at + 1;
    }
    line += &text(&sequence.tokens[from..]);
    // What a model writes must not move the cursor or recolour the terminal.
    let line: String =
        line.replace('\n', "⏎").chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    let count = line.chars().count();
    if detail == Detail::Full || count <= HEAD + TAIL {
        return line;
    }
    let head: String = line.chars().take(HEAD).collect();
    let tail: String = line.chars().skip(count - TAIL).collect();
    format!("{head} … {tail}")
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(width.max(20)).map(|chunk| chunk.iter().collect()).collect()
}

/// Colours the fork tokens of a line, where there is a terminal that shows colours. A token may begin on one line and end
/// on the next: `inside` carries over.
fn mark(line: &str, inside: &mut bool) -> String {
    let mut out = String::new();
    let mut shade = |part: &str, inside: bool| {
        let part = if inside { style(part).yellow().bold() } else { style(part) };
        let _ = write!(out, "{part}");
    };
    for part in line.split_inclusive([OPEN, CLOSE]) {
        // The brackets are coloured with what they enclose.
        let (text, bracket) = match part.chars().next_back() {
            Some(bracket @ (OPEN | CLOSE)) => (&part[..part.len() - bracket.len_utf8()], Some(bracket)),
            _ => (part, None),
        };
        shade(text, *inside);
        if let Some(bracket) = bracket {
            shade(bracket.encode_utf8(&mut [0; 4]), true);
            *inside = bracket == OPEN;
        }
    }
    out
}
