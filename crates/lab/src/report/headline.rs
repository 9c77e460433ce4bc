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

/// What can be said of each subject: how the strongest method did and, where there is one subject only, the thriftiest.
pub fn sentences(report: &Report) -> Vec<String> {
    let subjects = report.subjects();
    if subjects.iter().all(|s| s.problems.is_empty()) {
        return vec!["No prompt is finished yet.".to_owned()];
    }
    (0..subjects.len()).flat_map(|at| of_subject(report, at)).collect()
}

fn of_subject(report: &Report, at: usize) -> Vec<String> {
    let subject = &report.subjects()[at];
    let lines: Vec<&Line> = subject.primary.iter().map(|&cell| report.line(at, cell)).collect();
    // With one subject, the title has said which.
    let place = match report.subjects() {
        [_] => String::new(),
        _ => format!("{} on {}: ", subject.model, names::suite(&subject.suite)),
    };
    // EAGer is what the report is about; other methods speak up only where it was not run.
    let compared: Vec<&Line> = lines.iter().copied().filter(|l| l.against.is_some()).collect();
    let ours: Vec<&Line> = compared.iter().copied().filter(|l| l.method.starts_with("eager")).collect();
    let compared = if ours.is_empty() { compared } else { ours };
    let value = |e: Option<Estimate>| e.map_or(f64::NEG_INFINITY, |e| e.value);
    let saved = |l: &&&Line| value(l.against.and_then(|a| a.saved));
    let solved = |l: &&&Line| value(l.pass_at_k);
    let order = |a: f64, b: f64| a.total_cmp(&b);
    // Of equals the first, which is the simplest.
    let thriftiest = compared.iter().rev().max_by(|a, b| order(saved(a), saved(b)));
    let strongest =
        compared.iter().rev().max_by(|a, b| order(solved(a), solved(b)).then(order(saved(a), saved(b))));
    let (Some(thriftiest), Some(strongest)) = (thriftiest, strongest) else {
        let said = |l: &&Line| Some((names::method(&l.method), with_interval(&l.pass_at_k?, share)));
        let alone = lines.first().and_then(said);
        return alone.map(|(name, pass)| format!("{place}{name} has pass@k {pass}.")).into_iter().collect();
    };
    let mut sentences = vec![format!("{place}{}", against(strongest))];
    if names::base(&strongest.method) == "eager" {
        sentences.extend(with_labels(&lines));
    }
    if report.subjects().len() == 1 && !std::ptr::eq(*thriftiest, *strongest) {
        sentences.push(against(thriftiest));
    }
    sentences
}

/// What else the labels buy that full EAGer knows.
fn with_labels(lines: &[&Line]) -> Option<String> {
    let said = |line: &&Line| {
        let (pass, saved) = (line.pass_at_k?, line.against.and_then(|a| a.saved)?);
        let (name, spent) = (names::method(&line.method), percent(1.0 - saved.value));
        Some(format!("{name} has pass@k {} with {spent} of full-parallel's tokens", share(pass.value)))
    };
    let samplers = lines.iter().filter(|line| ["until-right", "two-stage"].contains(&line.method.as_str()));
    let said: Vec<String> = samplers.filter_map(said).collect();
    (!said.is_empty()).then(|| format!("With the labels that it knows, {}.", list(&said)))
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
        let said = with_interval(&difference, signed);
        text.push_str(&match verdict(&difference) {
            Verdict::Same => match interval(&difference, signed) {
                Some(interval) => format!(", at the same pass@k (difference {interval})"),
                None => ", at the same pass@k".to_owned(),
            },
            Verdict::Better => format!(", and solved more: pass@k {said}"),
            Verdict::Worse => format!(", and solved less: pass@k {said}"),
            Verdict::Unsure => format!(", with a difference in pass@k that may be chance: {said}"),
        });
    }
    text.push('.');
    if let Some(saved) = against.and_then(|a| a.saved_distinct) {
        let (saved, how) = if saved.value >= 0.0 { (saved, "fewer") } else { (saved.scaled(-1.0), "more") };
        let saved = with_interval(&saved, percent);
        text.push_str(&format!(
            " With each distinct prefix counted once, it has {saved} {how} than full-parallel."
        ));
    }
    if let Some((then, gain)) = line.equal_tokens.and_then(|e| Some((e.pass_at_k?, e.pass_gain?))) {
        let verdict = match verdict(&gain) {
            Verdict::Same => "the same",
            Verdict::Better => "which is less",
            Verdict::Worse => "which is more",
            Verdict::Unsure => "a difference that may be chance",
        };
        text.push_str(&format!(
            " The same tokens would have brought full-parallel a pass@k of {}, {verdict}: {}.",
            share(then.value),
            with_interval(&gain, signed)
        ));
    }
    text
}

enum Verdict {
    Same,
    Better,
    Worse,
    Unsure,
}

/// What may be said of a difference. A bound that reads as zero is zero.
fn verdict(difference: &Estimate) -> Verdict {
    const READS_AS_ZERO: f64 = 0.0005;
    match difference.interval {
        Some(i) if i.low >= READS_AS_ZERO => Verdict::Better,
        Some(i) if i.high <= -READS_AS_ZERO => Verdict::Worse,
        _ if difference.value.abs() < READS_AS_ZERO => Verdict::Same,
        _ => Verdict::Unsure,
    }
}

fn with_interval(estimate: &Estimate, form: fn(f64) -> String) -> String {
    match interval(estimate, form) {
        Some(interval) => format!("{} ({interval})", form(estimate.value)),
        None => form(estimate.value),
    }
}
