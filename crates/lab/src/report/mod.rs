//! Any number of runs as one document: tables, pictures, and every problem's tree.
//!
//! `cells` groups runs into what can be compared, `lines` puts numbers with intervals on them, and everything after that
//! only draws: `tables` and `figures` say what is shown, `html` and `markdown` in which form. All numbers come from the
//! finished prompts of the runs and from nothing else, so whoever has the folders can make the report again.

mod cells;
mod figures;
mod format;
mod headline;
mod html;
mod lines;
mod markdown;
pub(crate) mod names;
mod paper;
pub(crate) mod plot;
mod provenance;
mod table;
mod tables;
mod trees;

pub use cells::{Cell, Score, Subject};
pub use lines::{Against, EqualTokens, Line};
pub use table::{Better, Column, Entry, Row, Table};

use crate::run::Run;
use cells::Comparison;
use lines::Draws;

/// What goes into a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Put the paper's own figures beside ours where it has the same setting.
    pub paper: bool,
    /// Most problems whose trees go into the HTML.
    pub trees: usize,
    /// Most characters of one sequence's own text.
    pub text: usize,
    /// Most bytes that all trees together may take.
    pub tree_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { paper: false, trees: 60, text: 1500, tree_bytes: 8 << 20 }
    }
}

/// A comparison of runs, ready to be written.
#[derive(Debug)]
pub struct Report<'a> {
    runs: &'a [Run],
    options: Options,
    comparison: Comparison<'a>,
    /// For each subject, a line for each of its cells.
    lines: Vec<Vec<Line>>,
    draws: Draws,
}

impl<'a> Report<'a> {
    pub fn new(runs: &'a [Run], options: Options) -> Self {
        let comparison = Comparison::new(runs);
        let draws = Draws::default();
        let of_subject = |s: &Subject| (0..s.cells.len()).map(|cell| Line::new(s, cell, &draws)).collect();
        let lines = comparison.subjects.iter().map(of_subject).collect();
        Report { runs, options, comparison, lines, draws }
    }

    /// Every setting with its numbers, by model, suite and method. `primary` marks the lines of the main tables.
    pub fn lines(&self) -> Vec<&Line> {
        self.lines.iter().flatten().collect()
    }

    /// The tables that the runs can fill, as they are drawn.
    pub fn tables(&self) -> Vec<Table> {
        tables::all(self)
    }

    /// What came out, in a sentence or two for each model and suite.
    pub fn headline(&self) -> Vec<String> {
        headline::sentences(self)
    }

    /// What a reader must know before comparing: runs that differ where they should not, or are not complete.
    pub fn warnings(&self) -> Vec<String> {
        provenance::warnings(self)
    }

    /// One self-contained page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    pub fn markdown(&self) -> String {
        markdown::document(self)
    }

    /// Models on suites, with the cells behind the lines.
    pub fn subjects(&self) -> &[Subject<'a>] {
        &self.comparison.subjects
    }

    fn line(&self, subject: usize, cell: usize) -> &Line {
        &self.lines[subject][cell]
    }

    fn quote(&self, line: &Line) -> Option<&'static paper::Quote> {
        self.options.paper.then(|| paper::quote_any(tables::paper_setting(line))).flatten()
    }

    fn quote_from(&self, table: &str, line: &Line) -> Option<&'static paper::Quote> {
        self.options.paper.then(|| paper::quote(table, tables::paper_setting(line))).flatten()
    }

    fn quote_time(&self, line: &Line) -> Option<f64> {
        self.quote_from("related", line).and_then(|q| q.seconds)
    }
}
