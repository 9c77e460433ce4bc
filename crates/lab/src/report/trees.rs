//! Every problem's trees as data for the page, which draws them when they are opened.
//!
//! Runs may hold gigabytes, a page may not. So entropy is thinned to the peaks of at most [`BUCKETS`] stretches, a sequence
//! brings only the text that its parent does not have, long texts lose their middle, and only the most telling problems bring
//! their trees at all. The page says what was left out.
//!
//! The text of single tokens is not on disk. Where a child leaves its parent is found by comparing their texts, so a fork
//! between tokens that begin alike is shown where the texts part.

use eager_core::Finish;
use serde::{Serialize, Serializer};

use crate::report::cells::{Cell, Score, Subject, by_id};
use crate::report::{Report, names};
use crate::run::{Sample, SampleSequence};

/// Most values of a drawn entropy.
const BUCKETS: usize = 96;
/// 64 levels of entropy, a character each.
const LEVELS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Most characters of a problem's text.
const PROBLEM: usize = 6000;
/// Characters of the parent's text shown before a branch.
const CONTEXT: usize = 48;
/// Characters shown of the two ways at a fork.
const GLIMPSE: usize = 12;

/// All that the page needs to show problems.
#[derive(Debug, Serialize)]
pub struct Data {
    subjects: Vec<SubjectData>,
}

/// What was left out to keep the page small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    pub problems: usize,
    pub with_trees: usize,
    /// Do some lack the trees of further seeds?
    pub seeds_cut: bool,
    pub texts_cut: usize,
}

#[derive(Debug, Serialize)]
struct SubjectData {
    name: String,
    methods: Vec<MethodData>,
    problems: Vec<ProblemData>,
}

#[derive(Debug, Serialize)]
struct MethodData {
    name: String,
    colour: &'static str,
    theta: Option<f32>,
    seeds: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct ProblemData {
    id: String,
    problem: Option<String>,
    gold: Option<String>,
    /// One for each method: sequences, right ones, tokens, and the share of seeds whose majority was right.
    scores: Vec<Option<(f64, f64, f64, f64)>>,
    /// For each method one for each seed, as far as they fit; empty where they were left out.
    trees: Vec<Vec<Option<TreeData>>>,
}

#[derive(Debug, Serialize)]
struct TreeData {
    /// The highest entropy: what the last level stands for.
    top: f32,
    sequences: Vec<SequenceData>,
}

#[derive(Debug, Serialize)]
struct SequenceData {
    parent: Option<usize>,
    fork_at: usize,
    tokens: usize,
    entropy: String,
    /// The entropy at which it left its parent.
    forked_at_entropy: Option<f32>,
    /// The parent's text just before.
    before: String,
    /// How its parent goes on there, and how it does.
    ways: Option<(String, String)>,
    text: Vec<Piece>,
    answer: Option<String>,
    correct: Option<bool>,
    weight: Option<f32>,
    finish: Option<Finish>,
}

/// A part of a sequence's own text.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    /// Here a child leaves.
    Fork(usize),
    /// So many characters are not here.
    Cut(usize),
}

impl Serialize for Piece {
    /// A string, a number, or a list of one number: there are many of these.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Piece::Text(text) => text.serialize(serializer),
            Piece::Fork(child) => child.serialize(serializer),
            Piece::Cut(characters) => [characters].serialize(serializer),
        }
    }
}

/// The problems of all subjects, and what is missing.
pub fn data(report: &Report) -> (Data, LeftOut) {
    let mut left = LeftOut::default();
    let mut subjects: Vec<SubjectData> = report.subjects().iter().map(outline).collect();
    let mut ranked: Vec<(f64, usize, usize)> = Vec::new();
    for (at, subject) in report.subjects().iter().enumerate() {
        let score = |(index, id): (usize, &String)| (interest(subject, id), at, index);
        ranked.extend(subject.problems.iter().enumerate().map(score));
    }
    left.problems = ranked.len();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let seeds = |subject: &Subject| subject.primary().map(|cell| cell.runs.len()).max().unwrap_or(0);
    let rounds = report.subjects().iter().map(seeds).max().unwrap_or(0);
    let mut bytes = 0;
    // Every problem's first seed comes before anyone's second: what does not fit is then what is missed least.
    'page: for round in 0..rounds {
        for &(_, at, index) in ranked.iter().take(report.options.trees) {
            let subject = &report.subjects()[at];
            let mut cut = 0;
            let grown = trees(subject, &subject.problems[index], round, report.options.text, &mut cut);
            bytes += serde_json::to_string(&grown).map_or(0, |text| text.len());
            if bytes > report.options.tree_bytes {
                left.seeds_cut = rounds > 1;
                break 'page;
            }
            let shown = &mut subjects[at].problems[index].trees;
            shown.resize_with(grown.len(), Vec::new);
            shown.iter_mut().zip(grown).for_each(|(seeds, tree)| seeds.extend(tree));
            left.with_trees += usize::from(round == 0);
            left.texts_cut += cut;
        }
    }
    (Data { subjects }, left)
}

/// Data that can stand inside a script element: nothing in it can end the element.
pub fn embedded(data: &Data) -> String {
    // The data is plain structs with text keys, which serialise.
    let text = serde_json::to_string(data).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// A subject with its scores, as yet without trees.
fn outline(subject: &Subject) -> SubjectData {
    let method = |cell: &Cell| MethodData {
        name: cell.label(),
        colour: names::colour(&cell.method),
        theta: cell.theta,
        seeds: cell.runs.iter().map(|run| run.manifest.seed).collect(),
    };
    let asked =
        |id: &str| subject.cells.iter().flat_map(|c| &c.runs).flat_map(|r| &r.problems).find(|p| p.id == id);
    let score = |s: &Score| (s.sequences, s.right, s.tokens, s.cons);
    let problem = |id: &String| ProblemData {
        id: id.clone(),
        problem: asked(id).map(|p| first_characters(&p.problem, PROBLEM)),
        gold: asked(id).and_then(|p| p.gold.as_deref()).map(|g| first_characters(g, PROBLEM)),
        scores: subject.primary().map(|c| c.scores.get(id).map(score)).collect(),
        trees: Vec::new(),
    };
    SubjectData {
        name: format!("{} on {}", subject.model, names::suite(&subject.suite)),
        methods: subject.primary().map(method).collect(),
        problems: subject.problems.iter().map(problem).collect(),
    }
}

/// How much there is to see: methods that disagree, sequences that disagree, and forks.
fn interest(subject: &Subject, id: &str) -> f64 {
    let scores: Vec<&Score> = subject.primary().filter_map(|c| c.scores.get(id)).collect();
    let passes = || scores.iter().map(|s| s.pass);
    let apart = passes().fold(0.0, f64::max) - passes().fold(1.0, f64::min);
    let mixed = scores.iter().map(|s| 4.0 * s.rate * (1.0 - s.rate)).fold(0.0, f64::max);
    let forked = subject.primary().filter(|c| !c.is_full_parallel()).filter_map(|c| c.scores.get(id));
    let forks = forked.map(|s| (s.sequences / 8.0).min(1.0)).fold(0.0, f64::max);
    3.0 * apart.max(0.0) + mixed + forks
}

/// A problem's tree under each method with its seed of this place: nothing where the method has no such seed, and no tree
/// where that run has not come to the problem yet.
fn trees(
    subject: &Subject,
    id: &str,
    place: usize,
    cap: usize,
    cut: &mut usize,
) -> Vec<Option<Option<TreeData>>> {
    let mut of = |cell: &Cell| {
        let run = cell.runs.get(place)?;
        Some(by_id(run).get(id).map(|sample| tree(sample, cap, cut)))
    };
    subject.primary().map(&mut of).collect()
}

fn tree(sample: &Sample, cap: usize, cut: &mut usize) -> TreeData {
    let finite = sample.sequences.iter().flat_map(|s| &s.entropy).copied().filter(|h| h.is_finite());
    let top = finite.fold(0.0, f32::max);
    let parents: Vec<Option<&SampleSequence>> = sample
        .sequences
        .iter()
        .enumerate()
        .map(|(at, s)| s.parent.filter(|&p| p < at).map(|p| &sample.sequences[p]))
        .collect();
    let starts: Vec<usize> = sample
        .sequences
        .iter()
        .zip(&parents)
        .map(|(s, parent)| parent.map_or(0, |p| common_prefix(&p.text, &s.text)))
        .collect();
    let sequence = |(at, s): (usize, &SampleSequence)| {
        let leaves = |(child, c): (usize, &SampleSequence)| {
            (c.parent == Some(at) && child > at).then_some((starts[child], child))
        };
        let mut forks: Vec<(usize, usize)> = sample.sequences.iter().enumerate().filter_map(leaves).collect();
        forks.sort_unstable();
        let parent = parents[at];
        let ways = parent.map(|p| (glimpse(&p.text[starts[at]..]), glimpse(&s.text[starts[at]..])));
        let text = pieces(&s.text, starts[at], &forks, cap);
        *cut += usize::from(text.iter().any(|p| matches!(p, Piece::Cut(_))));
        SequenceData {
            parent: parent.and(s.parent),
            fork_at: s.fork_at,
            tokens: s.tokens.len(),
            entropy: levels(&s.entropy, top),
            forked_at_entropy: parent.and(s.entropy.first().copied()).filter(|h| h.is_finite()),
            before: last_characters(&s.text[..starts[at]], CONTEXT),
            ways,
            text,
            answer: s.answer.as_deref().map(|a| first_characters(a, cap)),
            correct: s.correct,
            weight: s.weight.filter(|w| w.is_finite()),
            finish: s.finish,
        }
    };
    TreeData { top, sequences: sample.sequences.iter().enumerate().map(sequence).collect() }
}

/// Bytes that two texts have in common from the start, whole characters.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    (0..=same).rev().find(|&at| a.is_char_boundary(at) && b.is_char_boundary(at)).unwrap_or(0)
}

/// The peaks of at most [`BUCKETS`] stretches, a character each.
fn levels(entropy: &[f32], top: f32) -> String {
    let buckets = entropy.len().min(BUCKETS);
    let level = |at: usize| {
        let stretch = &entropy[at * entropy.len() / buckets..(at + 1) * entropy.len() / buckets];
        let peak = stretch.iter().copied().filter(|h| h.is_finite()).fold(0.0, f32::max);
        let share = if top > 0.0 { peak / top } else { 0.0 };
        char::from(LEVELS[((share * 63.0).round() as usize).min(63)])
    };
    (0..buckets).map(level).collect()
}

/// The text from `start`, with marks where children leave it. Of a long text the beginning and the end are kept.
fn pieces(text: &str, start: usize, forks: &[(usize, usize)], cap: usize) -> Vec<Piece> {
    let own = &text[start..];
    let total = own.chars().count();
    let gap = (total > cap).then(|| {
        let head = nth_character(own, cap * 3 / 5);
        let tail = nth_character(own, total - cap * 2 / 5);
        (start + head, start + tail)
    });
    let mut out = Vec::new();
    let put = |from: usize, to: usize, out: &mut Vec<Piece>| {
        let mut text_piece = |from: usize, to: usize| {
            if from < to {
                out.push(Piece::Text(text[from..to].to_owned()));
            }
        };
        match gap {
            Some((head, tail)) => {
                text_piece(from, to.min(head));
                text_piece(from.max(tail), to);
            }
            None => text_piece(from, to),
        }
    };
    let mut at = start;
    let mut told = gap.is_none();
    for (place, child) in forks.iter().copied().map(|(p, c)| (p, Some(c))).chain([(text.len(), None)]) {
        let place = place.max(at);
        if let Some((head, tail)) = gap.filter(|(head, _)| !told && place >= *head) {
            put(at, head, &mut out);
            out.push(Piece::Cut(text[head..tail].chars().count()));
            told = true;
            at = at.max(head);
        }
        put(at, place, &mut out);
        out.extend(child.map(Piece::Fork));
        at = place;
    }
    out
}

fn nth_character(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

fn first_characters(text: &str, n: usize) -> String {
    let end = nth_character(text, n);
    if end < text.len() { format!("{}\u{2026}", &text[..end]) } else { text.to_owned() }
}

fn last_characters(text: &str, n: usize) -> String {
    let skip = text.chars().count().saturating_sub(n);
    if skip > 0 { format!("\u{2026}{}", &text[nth_character(text, skip)..]) } else { text.to_owned() }
}

/// The first word, or the first few characters of it.
fn glimpse(text: &str) -> String {
    let mut word = false;
    let mut out = String::new();
    for c in text.chars().take(GLIMPSE) {
        if word && c.is_whitespace() {
            break;
        }
        word |= !c.is_whitespace();
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_shows_where_its_children_leave() {
        let text = "0123456789";
        let whole = pieces(text, 2, &[(4, 7), (8, 9)], 100);
        let text_piece = |t: &str| Piece::Text(t.to_owned());
        assert_eq!(
            whole,
            [text_piece("23"), Piece::Fork(7), text_piece("4567"), Piece::Fork(9), text_piece("89")]
        );
        let cut = pieces(text, 0, &[(1, 1), (5, 5)], 5);
        assert_eq!(
            cut,
            [
                text_piece("0"),
                Piece::Fork(1),
                text_piece("12"),
                Piece::Cut(5),
                Piece::Fork(5),
                text_piece("89")
            ]
        );
    }

    #[test]
    fn entropy_is_thinned_to_its_peaks() {
        let mut entropy = vec![0.0; 9600];
        entropy[4321] = 2.0;
        let drawn = levels(&entropy, 2.0);
        assert_eq!((drawn.len(), drawn.find('_')), (BUCKETS, Some(43)));
        assert_eq!(levels(&[1.0, 0.0], 1.0), "_A");
        assert_eq!(levels(&[], 0.0), "");
        assert_eq!(levels(&[f32::NAN, 0.0], 0.0), "AA");
    }

    #[test]
    fn a_glimpse_is_a_word() {
        for (text, seen) in
            [("the answer", "the"), ("\n\nso we", "\n\nso"), ("incomprehensible", "incomprehens"), ("", "")]
        {
            assert_eq!(glimpse(text), seen);
        }
    }

    proptest! {
        #[test]
        fn pieces_hold_the_text_or_say_how_much_is_missing(
            text in "[a-zé\u{1F333}]{0,60}", cap in 0usize..50, forks in prop::collection::vec(0usize..60, 0..6),
        ) {
            let mut forks: Vec<(usize, usize)> =
                forks.into_iter().enumerate().map(|(i, at)| (nth_character(&text, at), i)).collect();
            forks.sort_unstable();
            let pieces = pieces(&text, 0, &forks, cap);
            let kept: usize = pieces.iter().map(|p| match p {
                Piece::Text(text) => text.chars().count(),
                Piece::Cut(characters) => *characters,
                Piece::Fork(_) => 0,
            }).sum();
            prop_assert_eq!(kept, text.chars().count());
            prop_assert_eq!(pieces.iter().filter(|p| matches!(p, Piece::Fork(_))).count(), forks.len());
            prop_assert!(pieces.iter().filter(|p| matches!(p, Piece::Cut(_))).count() <= 1);
        }

        #[test]
        fn common_prefixes_end_between_characters(a in "[aé\u{1F333}]{0,12}", b in "[aé\u{1F333}]{0,12}") {
            let slow = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum::<usize>();
            prop_assert_eq!(common_prefix(&a, &b), slow);
        }
    }
}
