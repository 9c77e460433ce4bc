//! `eager report`: tables and pictures of any set of runs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use eager_core::Unanswered;
use eager_lab::report::{Line, Options, Report};
use eager_lab::statistics::{Estimate, Interval};

use super::find;
use crate::table::{Table, fill, width};
use crate::{Outcome, Usage, print};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Folders of runs, or folders that hold some
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// The HTML file to write, with the Markdown and its figures beside it [default: report.html in the first folder]
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Print the Markdown instead of the table
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// What goes into a report, and how it counts.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// How many problems' trees the report holds
    #[arg(long, default_value_t = 40)]
    pub trees: usize,
    /// Put the paper's figures beside those of the same setting in the report, and say which have none, and why
    #[arg(long)]
    pub paper: bool,
    /// What sequences without an answer count for in cons@k
    #[arg(long, value_enum, default_value_t = UnansweredArg::Ignored)]
    pub unanswered: UnansweredArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnansweredArg {
    /// Nothing
    Ignored,
    /// All of them together are one answer, which is wrong
    Wrong,
}

impl ReportArgs {
    pub fn options(&self) -> Options {
        let unanswered = match self.unanswered {
            UnansweredArg::Ignored => Unanswered::Ignored,
            UnansweredArg::Wrong => Unanswered::Wrong,
        };
        Options { paper: self.paper, unanswered, trees: self.trees, ..Options::default() }
    }
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.out.as_ref().is_some_and(|out| out.extension().is_some_and(|extension| extension == "md")) {
        let why = "--out names the HTML file; the Markdown is written beside it with the ending .md";
        return Err(Usage(why.to_owned()).into());
    }
    let runs = find(&args.folders)?;
    let report = Report::new(&runs, args.report.options());
    // The first that is one: what is no folder has been left out.
    let folder = args.folders.iter().find(|folder| folder.is_dir()).unwrap_or(&args.folders[0]);
    let html = args.out.clone().unwrap_or_else(|| folder.join("report.html"));
    let saved = report.save(&html)?;
    eprintln!("eager: {} and {} are the report", saved.html.display(), saved.markdown.display());
    if args.json {
        print(&json(&report)?)?;
    } else if args.markdown {
        print(&report.markdown(&saved.figures_name()))?;
    } else {
        print(&table(&report))?;
    }
    Ok(Outcome::Done)
}

/// What stands in a column of that name.
pub const SHARED: &str = "equal distinct: full-parallel's pass@k at as many distinct prefixes (-: fewer).";

/// A column of the table: its name, and what a line has there.
type Column = (&'static str, fn(&Line) -> String);

/// What sets runs apart. What is the same for all lines is said once, above the table.
const AXES: [Column; 5] = [
    ("model", |line| line.model.clone()),
    ("suite", |line| line.suite.clone()),
    ("M", |line| line.max_sequences.to_string()),
    ("temperature", |line| line.temperature.to_string()),
    ("variant", |line| line.variant.clone().unwrap_or_default()),
];

/// The pass rate without the sequences that were given up: for comparisons where some were.
const UNHALTED: &str = "unhalted";

/// The figures that a narrow terminal can do without, the first of them first.
const SPARE: [&str; 10] = [
    "seconds",
    "ties",
    "sequences",
    UNHALTED,
    "pass rate",
    "theta",
    "distinct",
    "equal distinct",
    "cons@k",
    "equal tokens",
];

const FIGURES: [Column; 14] = [
    ("theta", |line| line.theta.map_or("-".to_owned(), |theta| theta.to_string())),
    ("pass@k", |line| estimate(line.pass_at_k)),
    ("cons@k", |line| estimate(line.cons_at_k)),
    ("ties", |line| if line.ties > 0.0 { format!("{:.1}", line.ties) } else { "-".to_owned() }),
    ("pass rate", |line| estimate(line.pass_rate)),
    (UNHALTED, |line| estimate(line.pass_rate_unhalted)),
    ("score", |line| estimate(line.score)),
    ("sequences", |line| line.sequences.map_or("-".to_owned(), |e| format!("{:.1}", e.value))),
    ("tokens", |line| line.tokens.map_or("-".to_owned(), |e| format!("{:.0}", e.value))),
    ("distinct", |line| line.tokens_distinct.map_or("-".to_owned(), |e| format!("{:.0}", e.value))),
    ("saved", |line| {
        let saved = line.against.and_then(|against| against.saved);
        saved.map_or("-".to_owned(), |e| format!("{:.1}%", 100.0 * e.value))
    }),
    ("equal tokens", |line| estimate(line.equal_tokens.and_then(|equal| equal.pass_at_k))),
    ("equal distinct", |line| estimate(line.equal_tokens_shared.and_then(|equal| equal.pass_at_k))),
    ("seconds", |line| format!("{:.1}", line.seconds)),
];

/// The comparison's lines for a terminal, and below them how they were counted.
pub fn table(report: &Report<'_>) -> String {
    let lines = report.lines();
    let Some(first) = lines.first() else { return "no runs".to_owned() };
    let differs = |column: &&Column| lines.iter().any(|line| column.1(line) != column.1(first));
    let (own, same): (Vec<&Column>, Vec<&Column>) = AXES.iter().partition(differs);
    let said = same.iter().map(|(name, value)| format!("{name} {}", value(first)));
    let mut said: Vec<String> = said.filter(|text| !text.ends_with(' ')).collect();
    said.push(format!("problems {}  seeds {}", first.problems, first.seeds));
    let is_there = |column: &&Column| lines.iter().any(|line| column.1(line) != "-");
    let columns: Vec<&Column> = own.into_iter().chain(FIGURES.iter().filter(is_there)).collect();
    let header: Vec<&str> = ["method"].into_iter().chain(columns.iter().map(|(name, _)| *name)).collect();
    let mut table = Table::new(&header).sparing(&SPARE);
    for line in lines {
        let part = if line.complete { String::new() } else { format!(" ({} problems)", line.problems) };
        let mut row = vec![format!("{}{part}", line.method)];
        row.extend(columns.iter().map(|(_, value)| value(line)));
        table.add_row(row);
    }
    let mut notes = vec![report.interval_note()];
    notes.push(format!("cons@k: sequences without an answer {}.", report.unanswered_note()));
    if report.lines().iter().any(|line| line.equal_tokens_shared.is_some()) {
        notes.push(SHARED.to_owned());
    }
    let warnings = report.warnings().into_iter().map(|warning| format!("Note: {warning}"));
    let below = [notes.join(" ")].into_iter().chain(warnings).flat_map(|text| fill(&text, width()));
    format!("{}\n{table}\n{}", said.join("  "), below.collect::<Vec<_>>().join("\n"))
}

/// A figure with its interval below it.
fn estimate(estimate: Option<Estimate>) -> String {
    match estimate {
        Some(Estimate { value, interval: Some(Interval { low, high, .. }) }) => {
            format!("{value:.3}\n{low:.3}-{high:.3}")
        }
        Some(Estimate { value, interval: None }) => format!("{value:.3}"),
        None => "-".to_owned(),
    }
}

pub fn json(report: &Report<'_>) -> serde_json::Result<String> {
    #[derive(serde::Serialize)]
    struct Everything<'a> {
        methods: Vec<&'a Line>,
        /// What sequences without an answer count for in `cons_at_k`.
        unanswered: &'static str,
        warnings: Vec<String>,
    }
    let unanswered = report.unanswered().name();
    serde_json::to_string(&Everything { methods: report.lines(), unanswered, warnings: report.warnings() })
}
