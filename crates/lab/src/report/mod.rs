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
mod picture;
pub(crate) mod plot;
mod provenance;
mod table;
mod tables;
mod trees;

pub use cells::{Cell, GradedProblem, Score, Subject};
pub use lines::{Against, EqualTokens, Line};
pub use table::{Better, Column, Entry, Row, Table};

use std::path::{Path, PathBuf};

use eager_core::Unanswered;

use crate::run::{Run, RunError, replace};
use cells::Comparison;
use lines::Draws;

/// What goes into a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Put the paper's own figures beside ours where it has the same setting.
    pub paper: bool,
    /// What sequences without an answer count for in cons@k.
    pub unanswered: Unanswered,
    /// Most problems whose trees go into the HTML.
    pub trees: usize,
    /// Most characters of one sequence's own text.
    pub text: usize,
    /// Most bytes that all trees together may take.
    pub tree_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            paper: false,
            unanswered: Unanswered::default(),
            trees: 60,
            text: 1500,
            tree_bytes: 8 << 20,
        }
    }
}

/// Where a report lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub html: PathBuf,
    pub markdown: PathBuf,
    /// The Markdown's pictures; the page has its own inside.
    pub figures: PathBuf,
}

impl Saved {
    /// The files that belong to a page by this name.
    pub fn beside(html: &Path) -> Self {
        let mut figures = html.file_stem().unwrap_or_default().to_owned();
        figures.push("-figures");
        Saved {
            html: html.to_owned(),
            markdown: html.with_extension("md"),
            figures: html.with_file_name(figures),
        }
    }

    /// The pictures' folder as seen from the Markdown.
    pub fn figures_name(&self) -> String {
        self.figures.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn put(path: &Path, text: &str) -> Result<(), RunError> {
    replace(path, |out| out.write_all(text.as_bytes()))
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
        let comparison = Comparison::new(runs, options.unanswered);
        let draws = Draws::default();
        let line = |s: &Subject, cell| Line::new(s, cell, options.unanswered, &draws);
        let of_subject = |s: &Subject| (0..s.cells.len()).map(|cell| line(s, cell)).collect();
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

    /// How the intervals were made, in a sentence.
    pub fn interval_note(&self) -> String {
        lines::interval_note(self.lines())
    }

    pub fn unanswered(&self) -> Unanswered {
        self.options.unanswered
    }

    /// What sequences without an answer count for in cons@k, as it goes on after these words.
    pub fn unanswered_note(&self) -> &'static str {
        tables::unanswered(self)
    }

    /// What a reader must know before comparing: runs that differ where they should not, or are not complete.
    pub fn warnings(&self) -> Vec<String> {
        provenance::warnings(self)
    }

    /// One self-contained page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The same without trees, with pictures that are looked for in `folder`.
    pub fn markdown(&self, folder: &str) -> String {
        markdown::document(self, folder)
    }

    /// Writes the page to `html`, and beside it the Markdown with a folder for its pictures.
    pub fn save(&self, html: &Path) -> Result<Saved, RunError> {
        let saved = Saved::beside(html);
        put(&saved.html, &self.html())?;
        let illustrations = markdown::illustrations(self);
        if !illustrations.is_empty() && !saved.figures.is_dir() {
            std::fs::create_dir(&saved.figures).map_err(RunError::io("create", &saved.figures))?;
        }
        for illustration in illustrations {
            put(&saved.figures.join(&illustration.file), &illustration.svg())?;
        }
        put(&saved.markdown, &self.markdown(&saved.figures_name()))?;
        Ok(saved)
    }

    /// Models on suites, with the cells behind the lines.
    pub fn subjects(&self) -> &[Subject<'a>] {
        &self.comparison.subjects
    }

    fn line(&self, subject: usize, cell: usize) -> &Line {
        &self.lines[subject][cell]
    }

    fn is_quotable(&self, line: &Line) -> bool {
        self.options.paper && line.unlike_paper.is_none()
    }

    fn quote(&self, line: &Line) -> Option<&'static paper::Quote> {
        self.is_quotable(line).then(|| paper::quote_any(tables::paper_setting(line))).flatten()
    }

    fn quote_from(&self, table: &str, line: &Line) -> Option<&'static paper::Quote> {
        self.is_quotable(line).then(|| paper::quote(table, tables::paper_setting(line))).flatten()
    }

    fn quote_time(&self, line: &Line) -> Option<f64> {
        self.quote_from("related", line).and_then(|q| q.seconds)
    }
}
