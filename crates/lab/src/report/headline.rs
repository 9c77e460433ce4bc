//! What came out, in words.

use std::collections::BTreeSet;

use crate::report::cells::Subject;
use crate::report::format::{interval, list, percent, plural, setting, share, signed};
use crate::report::lines::Line;
use crate::report::{Report, names};
use crate::statistics::Estimate;

/// What was run, as pairs of a name and what there is of it.
pub fn inventory(report: &Report) -> Vec<(&'static str, String)> {
    let subjects = report.subjects();
    let cells = || subjects.iter().flat_map(|s| &s.cells);
    let distinct = |of: Vec<String>| {
        let mut seen = BTreeSet::new();
        let kept: Vec<String> = of.into_iter().filter(|v| seen.insert(v.clone())).collect();
        list(&kept)
    };
    let numbers = |mut of: Vec<f32>| {
        of.sort_by(f32::total_cmp);
        distinct(of.into_iter().map(setting).collect())
    };
    let suite = |s: &Subject| format!("{} ({})", names::suite(&s.suite), plural(s.problems.len(), "problem"));
    let seeds: BTreeSet<u64> = cells().flat_map(|c| c.runs.iter().map(|r| r.manifest.seed)).collect();
    vec![
        ("models", distinct(subjects.iter().map(|s| s.model.clone()).collect())),
        ("suites", distinct(subjects.iter().map(suite).collect())),
        ("methods", distinct(cells().map(|c| names::method(&c.method)).collect())),
        ("M", numbers(cells().map(|c| c.max_sequences as f32).collect())),
        ("\u{3b8}", numbers(cells().filter_map(|c| c.theta).collect())),
        ("temperature", numbers(cells().map(|c| c.temperature).collect())),
        ("seeds", list(&seeds.iter().map(u64::to_string).collect::<Vec<_>>())),
        ("runs", report.runs.len().to_string()),
    ]
    .into_iter()
    .filter(|(_, what)| !what.is_empty())
    .collect()
}

/// A sentence or two for each subject in which something can be compared.
pub fn sentences(report: &Report) -> Vec<String> {
    let subjects = report.subjects();
    if subjects.iter().all(|s| s.problems.is_empty()) {
        return vec!["No prompt is finished yet.".to_owned()];
    }
    (0..subjects.len()).filter_map(|at| of_subject(report, at)).collect()
}

fn of_subject(report: &Report, at: usize) -> Option<String> {
    let subject = &report.subjects()[at];
    let lines: Vec<&Line> = subject.primary.iter().map(|&cell| report.line(at, cell)).collect();
    let place = format!("{} on {}", subject.model, names::suite(&subject.suite));
    // The methods that were compared; what saved most, and what solved most.
    let compared: Vec<&Line> = lines.iter().copied().filter(|l| l.against.is_some()).collect();
    let value = |e: Option<Estimate>| e.map_or(f64::NEG_INFINITY, |e| e.value);
    let saved = |l: &&&Line| value(l.against.and_then(|a| a.saved));
    let solved = |l: &&&Line| value(l.pass_at_k);
    let order = |a: f64, b: f64| a.total_cmp(&b);
    let thriftiest = compared.iter().max_by(|a, b| order(saved(a), saved(b)));
    let strongest =
        compared.iter().max_by(|a, b| order(solved(a), solved(b)).then(order(saved(a), saved(b))));
    let (Some(thriftiest), Some(strongest)) = (thriftiest, strongest) else {
        let first = lines.first()?;
        let pass = first.pass_at_k?;
        let name = names::method(&first.method);
        return Some(format!("{place}: {name} has pass@k {}.", with_interval(&pass, share)));
    };
    let mut text = format!("{place}: {}", against(strongest));
    if !std::ptr::eq(*thriftiest, *strongest) {
        text.push(' ');
        text.push_str(&against(thriftiest));
    }
    Some(text)
}

/// One method beside full-parallel.
fn against(line: &Line) -> String {
    let name = names::method(&line.method);
    let against = line.against.as_ref();
    let mut text = match against.and_then(|a| a.saved) {
        Some(saved) if saved.value >= 0.0 => {
            format!("{name} decoded {} fewer tokens than full-parallel", with_interval(&saved, percent))
        }
        Some(saved) => {
            format!(
                "{name} decoded {} more tokens than full-parallel",
                with_interval(&saved.scaled(-1.0), percent)
            )
        }
        None => format!("{name} was compared with full-parallel"),
    };
    if let Some(difference) = against.and_then(|a| a.pass_at_k) {
        let sure = difference.interval.is_some_and(|i| !i.contains(0.0));
        let said = with_interval(&difference, signed);
        text.push_str(&match (sure, difference.value) {
            (_, 0.0) => ", at the same pass@k".to_owned(),
            (true, v) if v > 0.0 => format!(", and solved more: pass@k {said}"),
            (true, _) => format!(", and solved less: pass@k {said}"),
            (false, _) => format!(", with a difference in pass@k that may be chance: {said}"),
        });
    }
    text.push('.');
    if let Some(gain) = line.equal_tokens.and_then(|e| e.pass_gain) {
        let sure = gain.interval.is_some_and(|i| !i.contains(0.0));
        let verdict = match (sure, gain.value > 0.0) {
            (false, _) => "no sure difference from",
            (true, true) => "better than",
            (true, false) => "worse than",
        };
        text.push_str(&format!(
            " With equal tokens that is {verdict} full-parallel: {}.",
            with_interval(&gain, signed)
        ));
    }
    text
}

fn with_interval(estimate: &Estimate, form: fn(f64) -> String) -> String {
    match interval(estimate, form) {
        Some(interval) => format!("{} ({interval})", form(estimate.value)),
        None => form(estimate.value),
    }
}
