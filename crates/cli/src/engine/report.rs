//! What a benchmark found, as tables or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use eager_native::bench::Peaks;
use serde::Serialize;

use super::race::Timing;
use super::workload::{Timed, Workload};
use crate::args::KvArg;
use crate::table::Table;

#[derive(Debug, Serialize)]
pub struct Report {
    pub model: String,
    /// That of the workload with the most rows; those with few may have another.
    pub kernel: String,
    pub threads: usize,
    pub workloads: Vec<Line>,
    pub skipped: Vec<Skipped>,
    /// `None` where the engine does not say.
    pub fork_microseconds: f64,
    /// What a page of its own costs the twin that writes first.
    pub page_copy_microseconds: f64,
    pub peaks: Option<Peaks>,
}

/// A workload that this model cannot run.
#[derive(Debug, Serialize)]
pub struct Skipped {
    pub name: &'static str,
    pub why: String,
}

#[derive(Debug, Serialize)]
pub struct Line {
    #[serde(flatten)]
    workload: Workload,
    kernel: String,
    kv: &'static str,
    seconds: f64,
    /// Steps while the clock ran.
    steps: usize,
    /// Tokens decoded while the clock ran.
    decoded_tokens: usize,
    /// Decoded ones; of a prefill, those of the prompt.
    tokens_per_second: f64,
    step_milliseconds: f64,
    /// Most bytes of keys and values, as a multiple of what the distinct tokens need.
    kv_overhead: f64,
    /// Share of the time.
    phases: BTreeMap<&'static str, f64>,
    /// The least seconds that this could take on this machine.
    bound_seconds: Option<f64>,
    share_of_bound: Option<f64>,
    /// The phases in the engine's order.
    #[serde(skip)]
    order: Vec<&'static str>,
}

impl Line {
    pub fn new(
        workload: Workload,
        kernel: String,
        kv: KvArg,
        timing: Timing,
        kv_overhead: f64,
        bound: Option<f64>,
    ) -> Self {
        let Timing { seconds, steps, decoded, phases } = timing;
        let tokens = match workload.timed {
            Timed::Decoding => decoded,
            Timed::Prefill => workload.prompt(),
        };
        Line {
            workload,
            kernel,
            kv: kv.name(),
            seconds,
            steps,
            decoded_tokens: decoded,
            tokens_per_second: tokens as f64 / seconds,
            step_milliseconds: 1e3 * seconds / steps as f64,
            kv_overhead,
            order: phases.iter().map(|(name, _)| *name).collect(),
            phases: phases.into_iter().collect(),
            bound_seconds: bound,
            share_of_bound: bound.map(|bound| bound / seconds),
        }
    }
}

impl Report {
    pub fn describe(&self) -> String {
        let Report { model, threads, .. } = self;
        let plural = if *threads == 1 { "" } else { "s" };
        let mut out = format!("{model}, {threads} thread{plural}\n{}", self.speeds());
        let mut add = |table: Option<Table>| {
            if let Some(table) = table {
                let _ = write!(out, "\n\n{table}");
            }
        };
        add(self.phases());
        add(self.peaks.as_ref().map(peaks));
        let _ = write!(
            out,
            "

a fork takes {:.2} microseconds, and copying the page it happens in {:.1}",
            self.fork_microseconds, self.page_copy_microseconds
        );
        out
    }

    fn speeds(&self) -> Table {
        let mut header = vec![
            "workload",
            "branches",
            "shared",
            "private",
            "own",
            "tokens",
            "kernel",
            "KV",
            "tokens/s",
            "ms/step",
            "KV overhead",
        ];
        if self.peaks.is_some() {
            header.push("share of bound");
        }
        let mut table = Table::new(&header).sparing(&[
            "KV",
            "kernel",
            "private",
            "KV overhead",
            "own",
            "tokens",
            "ms/step",
            "shared",
        ]);
        for line in &self.workloads {
            let Workload { name, branches, shared, private, own, tokens, .. } = line.workload;
            let mut row = vec![name.to_owned()];
            row.extend([branches, shared, private, own, tokens].map(|count| count.to_string()));
            row.extend([&line.kernel, line.kv].map(str::to_owned));
            row.push(format!("{:.1}", line.tokens_per_second));
            row.push(format!("{:.2}", line.step_milliseconds));
            row.push(format!("{:.3}", line.kv_overhead));
            row.extend(line.share_of_bound.map(percent));
            table.add_row(row);
        }
        table
    }

    /// Where the time went, if the engine says so.
    fn phases(&self) -> Option<Table> {
        let mut names: Vec<&'static str> = Vec::new();
        for name in self.workloads.iter().flat_map(|line| &line.order) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return None;
        }
        let mut table = Table::new(&[&["share of a step"], &names[..], &["other"]].concat());
        for line in &self.workloads {
            let share = |name: &&str| line.phases.get(name).copied().unwrap_or(0.0);
            let other = (1.0 - names.iter().map(share).sum::<f64>()).max(0.0);
            let mut row = vec![line.workload.name.to_owned()];
            row.extend(names.iter().map(share).chain([other]).map(percent));
            table.add_row(row);
        }
        Some(table)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn peaks(peaks: &Peaks) -> Table {
    let mut table = Table::new(&["this machine at its best", peaks.instructions]);
    let mut add = |name: &str, value: String| table.add_row([name.to_owned(), value]);
    add("float multiply-adds", format!("{:.0} Gop/s", peaks.float_gops));
    add("16-bit dot products", format!("{:.0} Gop/s", peaks.int16_gops));
    if let Some(gops) = peaks.tiles_gops {
        add("16-bit products on the matrix unit", format!("{gops:.0} Gop/s"));
    }
    add("8-bit dot products", format!("{:.0} Gop/s", peaks.int8_gops));
    add("reading memory", format!("{:.1} GB/s", peaks.memory_gbs));
    table
}
