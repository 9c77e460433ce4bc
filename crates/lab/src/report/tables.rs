//! The tables: one of our own for each subject, and the paper's where the runs have something to put into them.

use std::collections::BTreeSet;

use eager_core::Unanswered;

use crate::report::cells::{Cell, Subject};
use crate::report::format::{count, decimal, duration, percent, plural, setting, share, signed};
use crate::report::lines::{Line, interval_note};
use crate::report::paper::{self, Quote, Setting};
use crate::report::table::{Better, Column, Entry, Row, Table};
use crate::report::{Report, names};

pub const PASS: &str = "share of problems with at least one correct sequence";
pub const CONS: &str = "share of problems whose majority answer is correct";
pub const RATE: &str = "mean over problems of the share of correct sequences; one that was given up is wrong";
pub const RATE_UNHALTED: &str = "the same without the sequences that were given up";
pub const SCORE: &str = "mean over problems of the grader's score";
pub const SEQUENCES: &str = "mean number of sequences of a problem";
pub const TOKENS: &str = "tokens decoded for the whole suite, shared beginnings once";
pub const DISTINCT: &str = "tokens had each distinct prefix of a problem's sequences been decoded once";
pub const TIES: &str = "problems whose vote is a tie, for which the answer that came first stands";
pub const SAVED: &str = "share of full-parallel's tokens that was not spent, at the same M";
pub const EQUAL_PASS: &str = "full-parallel's pass@k had it spent as many tokens";
pub const EQUAL_CONS: &str = "full-parallel's majority accuracy had it spent as many tokens";
pub const GAIN: &str = "the method's pass@k minus full-parallel's at equal tokens";
pub const SHARED_PASS: &str = "full-parallel's pass@k had it as many distinct prefixes";
pub const SHARED_GAIN: &str = "the method's pass@k minus full-parallel's at as many distinct prefixes";
pub const TIME: &str = "time to decode the whole suite";

/// All tables that the runs can fill.
pub fn all(report: &Report) -> Vec<Table> {
    let subjects = report.subjects();
    let mut tables: Vec<Table> = recap(report).into_iter().chain(budget(report)).collect();
    tables.extend((0..subjects.len()).map(|at| performance(report, at)));
    tables.extend(suites(report).into_iter().filter_map(|suite| thetas(report, &suite)));
    tables.extend(related(report));
    tables.extend(temperatures(report));
    tables
}

/// The table of every setting, where it says more than the others.
pub fn every_setting(report: &Report) -> Option<Table> {
    let lines = report.lines();
    if lines.iter().all(|l| l.primary) {
        return None;
    }
    let mut columns = vec![
        Column::words("method", "how tokens are spent"),
        Column::words("model", "what decodes"),
        Column::words("suite", "the problems"),
        Column::number("M", "most sequences of a prompt", None),
        Column::number("\u{3b8}", "entropy from which a step forks", None),
        Column::number("\u{3c4}", "sampling temperature", None),
        Column::number("seeds", "runs that differ in nothing but the seed", None),
    ];
    columns.extend(measured());
    let row = |line: &&Line| {
        let mut entries = vec![
            method_entry(line),
            Entry::words(&line.model),
            Entry::words(names::suite(&line.suite)),
            Entry::number(line.max_sequences as f64, |v| format!("{v:.0}")),
            theta_entry(line.theta),
            Entry { value: Some(line.temperature.into()), ..Entry::words(setting(line.temperature)) },
            Entry::number(line.seeds as f64, |v| format!("{v:.0}")),
        ];
        entries.extend(measured_entries(report, line));
        Row::of(entries)
    };
    let table = Table {
        title: "Every setting".to_owned(),
        columns,
        rows: lines.iter().map(row).collect(),
        sortable: true,
        ..Table::default()
    };
    Some(drop_empty_columns(table))
}

fn performance(report: &Report, at: usize) -> Table {
    let subject = &report.subjects()[at];
    let lines: Vec<&Line> = subject.primary.iter().map(|&cell| report.line(at, cell)).collect();
    let mut columns = vec![
        Column::words("method", "how tokens are spent"),
        Column::number("\u{3b8}", "entropy from which a step forks", None),
    ];
    columns.extend(measured());
    let row = |line: &&Line| {
        let mut entries = vec![method_entry(line), theta_entry(line.theta)];
        entries.extend(measured_entries(report, line));
        Row::of(entries)
    };
    let first = lines.first();
    let mut note = format!("In cons@k, sequences without an answer {}.", unanswered(report));
    if lines.iter().any(|l| l.equal_tokens.is_some()) {
        note.push_str(
            " Equal tokens: what full-parallel makes of the tokens that the method used. Shared: the same for engines that \
             decode each distinct prefix once, by the distinct prefixes of both.",
        );
    }
    if first.is_some_and(|l| l.is_full_parallel())
        && lines
            .iter()
            .any(|l| l.against.is_some() && (l.equal_tokens.is_none() || l.equal_tokens_shared.is_none()))
    {
        note.push_str(" A dash there means that the method has more of them than full-parallel.");
    }
    let intervals = interval_note(lines.iter().copied());
    if !intervals.is_empty() {
        note.push(' ');
        note.push_str(&intervals);
    }
    let mut table = Table {
        title: format!("{} on {}", subject.model, names::suite(&subject.suite)),
        note: note.trim().to_owned(),
        groups: vec![
            (String::new(), 8),
            ("tokens".to_owned(), 3),
            ("full-parallel at equal tokens".to_owned(), 3),
            ("at equal tokens, shared".to_owned(), 2),
            (String::new(), 1),
        ],
        columns,
        rows: lines.iter().map(row).collect(),
        sortable: true,
    };
    if let Some(line) = first {
        let seeds = lines.iter().map(|l| l.seeds).max().unwrap_or(1);
        let problems = plural(subject.problems.len(), "problem");
        let (m, temperature) = (line.max_sequences, setting(line.temperature));
        table
            .title
            .push_str(&format!(": M {m}, \u{3c4} {temperature}, {problems}, {}", plural(seeds, "seed")));
    }
    drop_empty_columns(table).mark_best()
}

fn measured() -> Vec<Column> {
    vec![
        Column::number("pass@k", PASS, Some(Better::More)),
        Column::number("cons@k", CONS, Some(Better::More)),
        Column::number("ties", TIES, None),
        Column::number("pass rate", RATE, Some(Better::More)),
        Column::number("unhalted", RATE_UNHALTED, None),
        Column::number("score", SCORE, Some(Better::More)),
        Column::number("sequences", SEQUENCES, None),
        Column::number("tokens", TOKENS, Some(Better::Less)),
        Column::number("distinct", DISTINCT, None),
        Column::number("saved", SAVED, None),
        Column::number("pass@k then", EQUAL_PASS, None),
        Column::number("majority then", EQUAL_CONS, None),
        Column::number("gain", GAIN, None),
        Column::number("pass@k then", SHARED_PASS, None),
        Column::number("gain", SHARED_GAIN, None),
        Column::number("time", TIME, None),
    ]
}

fn measured_entries(report: &Report, line: &Line) -> Vec<Entry> {
    let quote = report.quote(line);
    let quoted = |of: fn(&Quote) -> Option<f64>| quote.and_then(of);
    let (equal, shared) = (line.equal_tokens, line.equal_tokens_shared);
    vec![
        Entry::estimate(line.pass_at_k, share).quoting(quoted(|q| q.pass_at_k), two),
        Entry::estimate(line.cons_at_k, share).quoting(quoted(|q| q.cons_at_k), two),
        ties_entry(line),
        Entry::estimate(line.pass_rate, share).quoting(quoted(|q| q.pass_rate), two),
        Entry::estimate(line.pass_rate_unhalted, share),
        Entry::estimate(line.score, share),
        Entry::estimate(line.sequences, decimal).quoting(quoted(|q| q.sequences), decimal),
        Entry::estimate(line.tokens, count).quoting(quoted(|q| q.tokens), as_printed),
        Entry::estimate(line.tokens_distinct, count),
        Entry::estimate(line.against.and_then(|a| a.saved), percent).quoting(quoted(Quote::saved), percent),
        Entry::estimate(equal.and_then(|e| e.pass_at_k), share),
        Entry::estimate(equal.and_then(|e| e.cons_at_k), share),
        Entry::estimate(equal.and_then(|e| e.pass_gain), signed),
        Entry::estimate(shared.and_then(|e| e.pass_at_k), share),
        Entry::estimate(shared.and_then(|e| e.pass_gain), signed),
        Entry::number(line.seconds, duration).quoting(report.quote_time(line), duration),
    ]
}

/// The paper's tokens, whose unit is in doubt.
fn as_printed(value: f64) -> String {
    value.to_string()
}

/// What sequences without an answer count for, as it goes on after "sequences without an answer".
pub fn unanswered(report: &Report) -> &'static str {
    match report.options.unanswered {
        Unanswered::Ignored => "are ignored",
        Unanswered::Wrong => "count together as one answer, which is wrong",
    }
}

fn ties_entry(line: &Line) -> Entry {
    match line.ties > 0.0 {
        true if line.seeds > 1 => Entry::number(line.ties, decimal),
        true => Entry::number(line.ties, count),
        false => Entry::none(),
    }
}

/// The paper prints two digits; more would claim what it does not say.
fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn method_entry(line: &Line) -> Entry {
    let mut text = names::method(&line.method);
    if let Some(variant) = &line.variant {
        text.push_str(&format!(" ({variant})"));
    }
    if !line.complete {
        text.push_str(&format!(", {} problems so far", line.problems));
    }
    Entry::words(text).coloured(names::colour(&line.method))
}

fn theta_entry(theta: Option<f32>) -> Entry {
    theta.map_or_else(Entry::none, |t| Entry { value: Some(t.into()), ..Entry::words(setting(t)) })
}

/// Takes out columns in which no row has anything.
fn drop_empty_columns(mut table: Table) -> Table {
    let empty = Entry::none().text;
    let kept: Vec<bool> = (0..table.columns.len())
        .map(|at| {
            table.rows.is_empty()
                || table.rows.iter().any(|r| r.entries.get(at).is_some_and(|e| e.text != empty))
        })
        .collect();
    let mut begins = 0;
    for (_, span) in &mut table.groups {
        let left = kept[begins..begins + *span].iter().filter(|k| **k).count();
        begins += *span;
        *span = left;
    }
    table.groups.retain(|(_, span)| *span > 0);
    let mut at = kept.iter();
    table.columns.retain(|_| *at.next().unwrap_or(&true));
    for row in &mut table.rows {
        let mut at = kept.iter();
        row.entries.retain(|_| *at.next().unwrap_or(&true));
    }
    table
}

/// The suites of all subjects, in order, each once.
fn suites(report: &Report) -> Vec<String> {
    let mut suites = distinct(report.subjects().iter().map(|s| s.suite.clone()));
    suites.sort_by_key(|suite| names::suite_rank(suite));
    suites
}

fn models(report: &Report) -> Vec<String> {
    distinct(report.subjects().iter().map(|s| s.model.clone()))
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|n| seen.insert(n.clone())).collect()
}

/// The numbers of the cell that stands for a method, in one of the paper's tables. A method's name may leave open how it
/// reallocates.
fn entries(
    report: &Report,
    model: &str,
    suite: &str,
    method: &str,
    table: &str,
    of: &[Measure],
) -> Vec<Entry> {
    let found = report.subjects().iter().position(|s| s.model == model && s.suite == suite);
    let line = found.and_then(|at| {
        let subject = &report.subjects()[at];
        let exact = subject.primary().find(|c| c.method == method);
        let cell = exact.or_else(|| subject.method(method))?;
        let index = subject.cells.iter().position(|c| std::ptr::eq(c, cell))?;
        Some(report.line(at, index))
    });
    measures(report, line, table, of)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    Pass,
    Cons,
    Rate,
    Tokens,
    Sequences,
    Time,
}

impl Measure {
    fn column(self) -> Column {
        let (name, meaning, better) = match self {
            Measure::Pass => ("p@k", PASS, Better::More),
            Measure::Cons => ("c@k", CONS, Better::More),
            Measure::Rate => ("PR", RATE, Better::More),
            Measure::Tokens => ("#T", TOKENS, Better::Less),
            Measure::Sequences => ("#S", SEQUENCES, Better::Less),
            Measure::Time => ("time", TIME, Better::Less),
        };
        Column::number(name, meaning, Some(better))
    }
}

fn measures(report: &Report, line: Option<&Line>, table: &str, of: &[Measure]) -> Vec<Entry> {
    let Some(line) = line else { return of.iter().map(|_| Entry::none()).collect() };
    let quote = report.quote_from(table, line);
    let entry = |measure: &Measure| match measure {
        Measure::Pass => Entry::estimate(line.pass_at_k, share).quoting(quote.and_then(|q| q.pass_at_k), two),
        Measure::Cons => Entry::estimate(line.cons_at_k, share).quoting(quote.and_then(|q| q.cons_at_k), two),
        Measure::Rate => Entry::estimate(line.pass_rate, share).quoting(quote.and_then(|q| q.pass_rate), two),
        Measure::Tokens => {
            Entry::estimate(line.tokens, count).quoting(quote.and_then(|q| q.tokens), as_printed)
        }
        Measure::Sequences => {
            Entry::estimate(line.sequences, decimal).quoting(quote.and_then(|q| q.sequences), decimal)
        }
        Measure::Time => {
            Entry::number(line.seconds, duration).quoting(quote.and_then(|q| q.seconds), duration)
        }
    };
    of.iter().map(entry).collect()
}

/// The paper's performance table: models and methods down, suites across.
fn recap(report: &Report) -> Option<Table> {
    if report.subjects().len() < 2 {
        return None;
    }
    const OF: [Measure; 3] = [Measure::Pass, Measure::Cons, Measure::Rate];
    let (suites, models) = (suites(report), models(report));
    let mut rows = Vec::new();
    for model in &models {
        rows.push(Row::heading(model));
        for method in methods(report, |s| s.model == *model) {
            let mut row = vec![Entry::words(names::method(&method)).coloured(names::colour(&method))];
            row.extend(suites.iter().flat_map(|suite| entries(report, model, suite, &method, "recap", &OF)));
            rows.push(Row::of(row));
        }
    }
    let mut columns = vec![Column::words("sampling", "how tokens are spent")];
    columns.extend(suites.iter().flat_map(|_| OF.map(Measure::column)));
    let mut groups = vec![(String::new(), 1)];
    groups.extend(suites.iter().map(|s| (names::suite(s).to_owned(), OF.len())));
    let title = "Performance by model and suite".to_owned();
    Some(Table { title, groups, columns, rows, ..Table::default() }.mark_best())
}

/// The methods that were compared, in order.
fn methods(report: &Report, of: impl Fn(&Subject) -> bool) -> Vec<String> {
    let cells = report.subjects().iter().filter(|s| of(s)).flat_map(|s| s.primary());
    let mut methods: Vec<&str> = cells.map(|c| c.method.as_str()).collect();
    methods.sort_by_key(|m| (names::method_rank(m), *m));
    methods.dedup();
    methods.into_iter().map(str::to_owned).collect()
}

/// The paper's budget table: what reallocating brings, suites down, models across.
fn budget(report: &Report) -> Option<Table> {
    const METHODS: [(&str, &str); 4] =
        [("full-parallel", "FP"), ("eager-init", "init"), ("eager-adapt", "adapt"), ("eager", "full")];
    let reallocates = |s: &Subject| ["eager-adapt", "eager"].iter().any(|base| s.method(base).is_some());
    if report.subjects().iter().filter(|s| reallocates(s)).count() < 2 {
        return None;
    }
    let models = models(report);
    let mut rows = Vec::new();
    for suite in suites(report) {
        rows.push(Row::heading(names::suite(&suite)));
        for (measure, name) in [(Measure::Pass, "p@k"), (Measure::Tokens, "#T")] {
            let mut row = vec![Entry::words(name)];
            for model in &models {
                let one = |base| entries(report, model, &suite, base, "budget", &[measure]);
                row.extend(METHODS.iter().flat_map(|(base, _)| one(base)));
            }
            rows.push(Row::of(row));
        }
    }
    let mut columns = vec![Column::words("", "what is measured")];
    columns.extend(
        models.iter().flat_map(|_| METHODS.map(|(_, name)| Column::number(name, "pass@k, or tokens", None))),
    );
    let mut groups = vec![(String::new(), 1)];
    groups.extend(models.iter().map(|m| (m.clone(), METHODS.len())));
    let title = "What reallocating the saved budget brings".to_owned();
    let note =
        "FP is full-parallel. Where adapt and full were run both ways, rerun stands here, which is our reading of the paper."
            .to_owned();
    Some(Table { title, note, groups, columns, rows, ..Table::default() })
}

const COMPLETE: [Measure; 5] =
    [Measure::Pass, Measure::Cons, Measure::Rate, Measure::Tokens, Measure::Sequences];

/// The paper's complete table for one suite: thetas down, models across.
fn thetas(report: &Report, suite: &str) -> Option<Table> {
    let subjects: Vec<(usize, &Subject)> =
        report.subjects().iter().enumerate().filter(|(_, s)| s.suite == suite).collect();
    let swept = |s: &Subject| {
        let cells: Vec<&Cell> = s.cells.iter().filter(|c| at_primary_setting(s, c)).collect();
        cells.iter().any(|c| cells.iter().any(|d| c.method == d.method && c.theta != d.theta))
    };
    if !subjects.iter().any(|(_, s)| swept(s)) {
        return None;
    }
    let columns_of = |(at, subject): (usize, &Subject), key: &ThetaKey| {
        let here = |c: &Cell| at_primary_setting(subject, c) && theta_key(c) == *key;
        let line = subject.cells.iter().position(here).map(|cell| report.line(at, cell));
        measures(report, line, "complete", &COMPLETE)
    };
    let keys: BTreeSet<ThetaKey> = subjects
        .iter()
        .flat_map(|(_, s)| s.cells.iter().filter(|c| at_primary_setting(s, c)).map(theta_key))
        .collect();
    let row = |key: &ThetaKey| {
        let mut row = theta_key_entries(key);
        row.extend(subjects.iter().flat_map(|&s| columns_of(s, key)));
        Row::of(row)
    };
    let mut columns = theta_key_columns();
    columns.extend(subjects.iter().flat_map(|_| COMPLETE.map(Measure::column)));
    let mut groups = vec![(String::new(), 2)];
    groups.extend(subjects.iter().map(|(_, s)| (s.model.clone(), COMPLETE.len())));
    let title = format!("Every \u{3b8} on {}", names::suite(suite));
    let rows = keys.iter().map(row).collect();
    Some(Table { title, groups, columns, rows, sortable: true, ..Table::default() }.mark_best())
}

/// A row of a table over theta: method's rank, method, and the bits of theta, which are in its order.
type ThetaKey = (usize, String, Option<u32>);

fn theta_key(cell: &Cell) -> ThetaKey {
    (names::method_rank(&cell.method), cell.method.clone(), cell.theta.map(f32::to_bits))
}

fn theta_key_entries((_, method, theta): &ThetaKey) -> Vec<Entry> {
    vec![
        Entry::words(names::method(method)).coloured(names::colour(method)),
        theta_entry(theta.map(f32::from_bits)),
    ]
}

fn theta_key_columns() -> Vec<Column> {
    vec![
        Column::words("method", "how tokens are spent"),
        Column::number("\u{3b8}", "entropy from which a step forks", None),
    ]
}

/// Is the cell at the M and temperature at which methods are compared?
fn at_primary_setting(subject: &Subject, cell: &Cell) -> bool {
    let setting = |c: &Cell| (c.max_sequences, c.temperature);
    subject.primary().next().is_some_and(|p| setting(p) == setting(cell))
}

/// The paper's related approaches: measures down, methods across.
fn related(report: &Report) -> Option<Table> {
    let others = |s: &Subject| ["esc", "deepconf"].iter().any(|base| s.method(base).is_some());
    if report.subjects().iter().filter(|s| others(s)).count() < 2 {
        return None;
    }
    let methods = methods(report, others);
    let mut rows = Vec::new();
    for subject in report.subjects().iter().filter(|s| others(s)) {
        rows.push(Row::heading(format!("{} on {}", subject.model, names::suite(&subject.suite))));
        for (measure, name) in [
            (Measure::Pass, "pass@k"),
            (Measure::Rate, "pass rate"),
            (Measure::Tokens, "tokens"),
            (Measure::Time, "time"),
        ] {
            let mut row = vec![Entry::words(name)];
            let one = |method: &String| {
                entries(report, &subject.model, &subject.suite, method, "related", &[measure])
            };
            row.extend(methods.iter().flat_map(one));
            rows.push(Row::of(row));
        }
    }
    let mut columns = vec![Column::words("", "what is measured")];
    columns.extend(
        methods.iter().map(|method| Column::number(&names::method(method), "how tokens are spent", None)),
    );
    Some(Table { title: "Related approaches".to_owned(), columns, rows, ..Table::default() })
}

/// The paper's temperature table for each subject: thetas down, temperatures across.
fn temperatures(report: &Report) -> Vec<Table> {
    let table = |(at, subject): (usize, &Subject)| {
        let m = subject.primary().next()?.max_sequences;
        let cells: Vec<(usize, &Cell)> =
            subject.cells.iter().enumerate().filter(|(_, c)| c.max_sequences == m).collect();
        let warm: BTreeSet<u32> = cells.iter().map(|(_, c)| c.temperature.to_bits()).collect();
        if warm.len() < 2 {
            return None;
        }
        let at_all = |key: &ThetaKey| cells.iter().filter(|(_, c)| theta_key(c) == *key).count() > 1;
        let keys: BTreeSet<ThetaKey> = cells.iter().map(|(_, c)| theta_key(c)).filter(at_all).collect();
        let row = |key: &ThetaKey| {
            let mut row = theta_key_entries(key);
            for bits in &warm {
                let here =
                    |(_, c): &&(usize, &Cell)| c.temperature.to_bits() == *bits && theta_key(c) == *key;
                let line = cells.iter().find(here).map(|(cell, _)| report.line(at, *cell));
                row.extend(measures(report, line, "temperature", &COMPLETE));
            }
            Row::of(row)
        };
        let mut columns = theta_key_columns();
        columns.extend(warm.iter().flat_map(|_| COMPLETE.map(Measure::column)));
        let mut groups = vec![(String::new(), 2)];
        let name = |bits: &u32| (format!("\u{3c4} = {}", setting(f32::from_bits(*bits))), COMPLETE.len());
        groups.extend(warm.iter().map(name));
        let title = format!("Temperature: {} on {}", subject.model, names::suite(&subject.suite));
        let rows: Vec<Row> = keys.iter().map(row).collect();
        (!rows.is_empty()).then(|| Table { title, groups, columns, rows, ..Table::default() }.mark_best())
    };
    report.subjects().iter().enumerate().filter_map(table).collect()
}

/// What to look a line up by in the paper.
pub fn paper_setting(line: &Line) -> Setting<'_> {
    paper::Setting {
        model: &line.plain.0,
        suite: &line.plain.1,
        method: &line.method,
        theta: line.theta,
        temperature: line.temperature,
        max_sequences: line.max_sequences,
    }
}
