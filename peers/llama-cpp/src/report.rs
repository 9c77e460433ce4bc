//! What was found: the record for a file, and tables for a reader.

use serde::Serialize;

use crate::setting::Setting;
use crate::workload::Workload;

/// Everything one run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The name of the model's file, without the folder it happened to be in.
    pub model: String,
    pub threads: u16,
    pub llama_build: String,
    pub scouting: Vec<Scouted>,
    pub rows: Vec<Row>,
    pub busy: Vec<Kept>,
}

/// What one setting of llama.cpp reached in a few steps of a workload.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scouted {
    pub workload: &'static str,
    pub setting: Setting,
    pub tokens_per_second: f64,
}

/// The full measurements of a workload, one figure per round.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub workload: Workload,
    pub setting: Setting,
    /// Tokens per second; empty when our engine was not measured.
    pub eager: Vec<f64>,
    /// The share of the machine's bound that our engine reached; empty without `--peaks`.
    pub share_of_bound: Vec<f64>,
    pub llama: Vec<f64>,
    /// `eager / llama` of the same round, minutes apart at most, so that a slow spell of the machine is in
    /// both or in neither.
    pub ratio: Vec<f64>,
}

/// The speed of one engine alone and next to a process that wants a core for itself, one figure per round.
#[derive(Debug, Serialize)]
pub struct Kept {
    pub engine: &'static str,
    pub quiet: Vec<f64>,
    pub busy: Vec<f64>,
    pub share: Vec<f64>,
}

impl Report {
    /// The tables of whatever was measured.
    pub fn tables(&self) -> String {
        let mut parts = vec![scouting(&self.scouting)];
        if !self.rows.is_empty() {
            parts.push(rows(&self.rows));
        }
        if !self.busy.is_empty() {
            parts.push(busy(&self.busy));
        }
        parts.join("\n")
    }
}

fn scouting(scouted: &[Scouted]) -> String {
    let lines = scouted.iter().map(|found| {
        let best = best(scouted.iter().filter(|other| other.workload == found.workload));
        let mark = if best.is_some_and(|best| best.setting == found.setting) { "best" } else { "" };
        vec![found.workload.into(), number(found.tokens_per_second), mark.into(), found.setting.to_string()]
    });
    table(&["scouting", "tokens/s", "", "llama.cpp setting"], lines)
}

fn rows(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let [ratio, least, most] = spread(&row.ratio).map(|value| format!("{value:.2}"));
        let eager = number(median(&row.eager));
        let llama = number(median(&row.llama));
        let bound = percent(median(&row.share_of_bound));
        let line = [row.name.clone(), eager, llama, ratio, least, most, bound, row.setting.to_string()];
        line.map(|cell| if cell.starts_with("NaN") { "-".into() } else { cell }).to_vec()
    });
    let header =
        ["workload", "eager t/s", "llama.cpp t/s", "ratio", "min", "max", "of bound", "llama.cpp setting"];
    table(&header, lines)
}

fn busy(kept: &[Kept]) -> String {
    let lines = kept.iter().map(|kept| {
        let [share, least, most] = spread(&kept.share).map(percent);
        let (quiet, busy) = (number(median(&kept.quiet)), number(median(&kept.busy)));
        vec![kept.engine.into(), quiet, busy, share, least, most, String::new()]
    });
    table(&["engine", "quiet t/s", "busy t/s", "kept", "min", "max", ""], lines)
}

/// The fastest of what was scouted.
pub fn best<'a>(scouted: impl Iterator<Item = &'a Scouted>) -> Option<&'a Scouted> {
    scouted.max_by(|a, b| a.tokens_per_second.total_cmp(&b.tokens_per_second))
}

/// Entry by entry, `above / below`.
pub fn quotients(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

/// The middle value, or the mean of the middle two; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[upper],
        _ => f64::midpoint(sorted[upper - 1], sorted[upper]),
    }
}

/// Median, least and greatest value.
fn spread(values: &[f64]) -> [f64; 3] {
    let least = values.iter().copied().fold(f64::NAN, f64::min);
    let most = values.iter().copied().fold(f64::NAN, f64::max);
    [median(values), least, most]
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// Aligned columns: words to the left, which are in the first and the last, and numbers to the right.
fn table(header: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let header = header.iter().map(ToString::to_string).collect();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(lines).collect();
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            let is_word = column == 0 || column + 1 == columns;
            if is_word { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn columns_line_up() {
        let lines =
            [vec!["a".into(), "1.0".into(), "x".into()], vec!["bcd".into(), "22.0".into(), "y".into()]];
        assert_eq!(table(&["n", "t", "s"], lines.into_iter()), "n       t  s\na     1.0  x\nbcd  22.0  y\n");
    }
}
