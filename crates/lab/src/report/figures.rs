//! The paper's figures, each where the runs have the data for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::analyze::{self, PERCENTILE};
use crate::report::cells::{Cell, Subject};
use crate::report::format::{self, count, setting, share};
use crate::report::lines::{Draws, Line};
use crate::report::picture::{Legend, Picture};
use crate::report::plot::{self, Axis, Bar, Bars, Curve, Form, Mark, Stack};
use crate::report::{Report, names};
use crate::statistics::{Estimate, mean};

/// A picture with what belongs to it.
#[derive(Debug, Clone)]
pub struct Figure {
    pub title: String,
    pub caption: String,
    pub picture: Picture,
    pub legend: Legend,
}

pub fn all(report: &Report) -> Vec<Figure> {
    let mut figures = methods(report);
    for (at, subject) in report.subjects().iter().enumerate() {
        figures.extend(pareto(report, at, subject));
        figures.extend(thetas(report, at, subject));
        figures.extend(temperatures(report, at, subject));
        figures.extend(correlation(report, subject));
    }
    figures.retain(|f| !f.picture.is_empty());
    figures
}

fn place(subject: &Subject) -> String {
    format!("{} on {}", subject.model, names::suite(&subject.suite))
}

fn bar(line: &Line, estimate: Estimate, form: fn(f64) -> String) -> Bar {
    Bar {
        colour: names::colour(&line.method),
        value: estimate.value,
        interval: estimate.interval,
        label: form(estimate.value),
    }
}

/// A legend of the methods of some lines, each once.
fn legend<'l>(lines: impl IntoIterator<Item = &'l Line>) -> Legend {
    let mut legend = Legend::new();
    for line in lines {
        let entry = (names::colour(&line.method), names::method(&line.method));
        if !legend.contains(&entry) {
            legend.push(entry);
        }
    }
    legend
}

/// Values in words, for those who cannot see the picture.
fn spoken<'l>(lines: impl IntoIterator<Item = &'l Line>, value: impl Fn(&Line) -> Option<String>) -> String {
    let said = lines.into_iter().filter_map(|l| Some(format!("{} {}", names::method(&l.method), value(l)?)));
    said.collect::<Vec<_>>().join(", ")
}

/// Tokens and pass rate of each method: a pair of figures for each model.
fn methods(report: &Report) -> Vec<Figure> {
    let mut by_model: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, subject) in report.subjects().iter().enumerate() {
        if subject.primary.len() > 1 {
            by_model.entry(&subject.model).or_default().push(at);
        }
    }
    let figures = by_model.into_iter().flat_map(|(model, subjects)| {
        let lines = |at: usize| report.subjects()[at].primary.iter().map(move |&cell| report.line(at, cell));
        let every: Vec<&Line> = subjects.iter().flat_map(|&at| lines(at)).collect();
        let one = |title: &str,
                   of: fn(&Line) -> Option<Estimate>,
                   form: fn(f64) -> String,
                   axis: fn(Vec<f64>) -> Axis,
                   caption: &str| {
            let groups: Vec<Bars> = subjects
                .iter()
                .map(|&at| Bars {
                    name: names::suite(&report.subjects()[at].suite).to_owned(),
                    bars: lines(at).filter_map(|l| Some(bar(l, of(l)?, form))).collect(),
                })
                .collect();
            let tops = groups.iter().flat_map(|g| &g.bars).map(|b| b.interval.map_or(b.value, |i| i.high));
            let axis = axis(tops.collect());
            let alt = format!(
                "{title}, {model}: {}",
                spoken(every.iter().copied(), |l| of(l).map(|e| form(e.value)))
            );
            Figure {
                title: format!("{title}, {model}"),
                caption: caption.to_owned(),
                picture: plot::bars(&axis, &groups, &alt),
                legend: legend(every.iter().copied()),
            }
        };
        let per_problem = |l: &Line| l.tokens.map(|t| t.scaled(1.0 / l.problems.max(1) as f64));
        [
            one(
                "Tokens by method",
                per_problem,
                count,
                |tops| Axis::from_zero("tokens per problem", tops, Form::Own(count)),
                "Fewer is cheaper. Lines span the 95% interval.",
            ),
            one(
                "Pass rate by method",
                |l| l.pass_rate,
                share,
                |_| Axis::bar_share("pass rate"),
                "The share of sequences that are right.",
            ),
        ]
    });
    figures.collect()
}

fn mark(line: &Line, x: f64, y: Option<Estimate>, label: String) -> Option<Mark> {
    let y = y?;
    (x.is_finite() && y.value.is_finite())
        .then_some(Mark { x, y: y.value, interval: y.interval, label })
        .filter(|_| line.problems > 0)
}

fn reaches(curves: &[Curve]) -> impl Iterator<Item = f64> + '_ {
    let points = curves.iter().flat_map(|c| &c.points);
    points.flat_map(|p| [p.y, p.interval.map_or(p.y, |i| i.low), p.interval.map_or(p.y, |i| i.high)])
}

/// pass@k against tokens as M grows.
fn pareto(report: &Report, at: usize, subject: &Subject) -> Option<Figure> {
    let first = subject.primary().next()?;
    let mut curves = Vec::new();
    let mut shown = Vec::new();
    for main in subject.primary() {
        let like = |c: &Cell| {
            c.method == main.method
                && c.theta == main.theta
                && c.variant == main.variant
                && c.samples_like(first)
        };
        let lines: Vec<&Line> = (0..subject.cells.len())
            .filter(|&i| like(&subject.cells[i]))
            .map(|i| report.line(at, i))
            .collect();
        if lines.len() < 2 {
            continue;
        }
        let point = |l: &&Line| {
            let tokens = l.tokens?.value / l.problems.max(1) as f64;
            mark(
                l,
                tokens,
                l.pass_at_k.map(|e| Estimate { interval: None, ..e }),
                format!("{}", l.max_sequences),
            )
        };
        curves.push(Curve {
            colour: names::colour(&main.method),
            points: lines.iter().filter_map(point).collect(),
            joined: true,
        });
        shown.extend(lines);
    }
    if curves.is_empty() {
        return None;
    }
    let x = Axis::from_zero(
        "tokens per problem",
        curves.iter().flat_map(|c| c.points.iter().map(|p| p.x)),
        Form::Own(count),
    );
    let y = Axis::share_over("pass@k", reaches(&curves));
    let said = |l: &Line| {
        Some(format!(
            "M {}: pass@k {}, {} tokens",
            l.max_sequences,
            share(l.pass_at_k?.value),
            count(l.tokens?.value)
        ))
    };
    let alt = format!(
        "pass@k against tokens as M grows, {}: {}",
        place(subject),
        spoken(shown.iter().copied(), said)
    );
    Some(Figure {
        title: format!("What M buys, {}", place(subject)),
        caption: "Each mark is an M. Further up and to the left is better.".to_owned(),
        picture: plot::curves(&x, &y, &curves, &[], &alt),
        legend: legend(shown),
    })
}

/// pass@k and tokens against theta.
fn thetas(report: &Report, at: usize, subject: &Subject) -> Vec<Figure> {
    let Some(first) = subject.primary().next() else { return Vec::new() };
    let here = |c: &Cell| c.max_sequences == first.max_sequences && c.temperature == first.temperature;
    let mut by_method: BTreeMap<(usize, &str), Vec<&Line>> = BTreeMap::new();
    for (index, cell) in subject.cells.iter().enumerate().filter(|(_, c)| here(c) && c.theta.is_some()) {
        by_method
            .entry((names::method_rank(&cell.method), &cell.method))
            .or_default()
            .push(report.line(at, index));
    }
    by_method.retain(|_, lines| lines.iter().any(|l| l.theta != lines[0].theta));
    if by_method.is_empty() {
        return Vec::new();
    }
    let full = subject.cells.iter().position(|c| c.is_full_parallel() && here(c)).map(|i| report.line(at, i));
    let one = |title: &str, label: &str, of: fn(&Line) -> Option<Estimate>, form: fn(f64) -> String| {
        let curve = |((_, method), lines): (&(usize, &str), &Vec<&Line>)| Curve {
            colour: names::colour(method),
            points: lines.iter().filter_map(|l| mark(l, f64::from(l.theta?), of(l), String::new())).collect(),
            joined: true,
        };
        let curves: Vec<Curve> = by_method.iter().map(curve).collect();
        let rules: Vec<(f64, &'static str)> =
            full.and_then(|l| Some((of(l)?.value, names::colour(&l.method)))).into_iter().collect();
        let values = || reaches(&curves).chain(rules.iter().map(|r| r.0));
        let y = if label == "pass@k" {
            Axis::share_over(label, values())
        } else {
            Axis::from_zero(label, values(), Form::Own(form))
        };
        let xs = curves.iter().flat_map(|c| c.points.iter().map(|p| p.x));
        let x = Axis::over("\u{3b8}", xs, Form::Plain);
        let lines = || by_method.values().flatten().copied();
        let said = |l: &Line| Some(format!("at \u{3b8} {}: {}", setting(l.theta?), form(of(l)?.value)));
        let alt = format!("{title}, {}: {}", place(subject), spoken(lines(), said));
        Figure {
            title: format!("{title}, {}", place(subject)),
            caption: "A lower \u{3b8} forks more often. Dashed: full parallel.".to_owned(),
            picture: plot::curves(&x, &y, &curves, &rules, &alt),
            legend: legend(lines().chain(full)),
        }
    };
    let per_problem = |l: &Line| l.tokens.map(|t| t.scaled(1.0 / l.problems.max(1) as f64));
    vec![
        one("pass@k by \u{3b8}", "pass@k", |l| l.pass_at_k, share),
        one("Tokens by \u{3b8}", "tokens per problem", per_problem, count),
    ]
}

/// pass@k and cons@k at each temperature.
fn temperatures(report: &Report, at: usize, subject: &Subject) -> Vec<Figure> {
    let Some(first) = subject.primary().next() else { return Vec::new() };
    let main: BTreeSet<(&str, Option<u32>)> =
        subject.primary().map(|c| (c.method.as_str(), c.theta.map(f32::to_bits))).collect();
    let here = |c: &Cell| {
        c.max_sequences == first.max_sequences
            && main.contains(&(c.method.as_str(), c.theta.map(f32::to_bits)))
    };
    let lines: Vec<&Line> =
        (0..subject.cells.len()).filter(|&i| here(&subject.cells[i])).map(|i| report.line(at, i)).collect();
    let warm: BTreeSet<u32> = lines.iter().map(|l| l.temperature.to_bits()).collect();
    if warm.len() < 2 {
        return Vec::new();
    }
    // Methods that were run at one temperature only have nothing to say here.
    let everywhere = |l: &&Line| {
        warm.iter().all(|t| {
            lines.iter().any(|o| o.method == l.method && o.theta == l.theta && o.temperature.to_bits() == *t)
        })
    };
    let lines: Vec<&Line> = lines.iter().copied().filter(|l| everywhere(l)).collect();
    let one = |label: &str, of: fn(&Line) -> Option<Estimate>| {
        let group = |bits: &u32| Bars {
            name: format!("\u{3c4} = {}", setting(f32::from_bits(*bits))),
            bars: lines
                .iter()
                .filter(|l| l.temperature.to_bits() == *bits)
                .filter_map(|l| Some(bar(l, of(l)?, share)))
                .collect(),
        };
        let groups: Vec<Bars> = warm.iter().map(group).collect();
        let said = |l: &Line| Some(format!("at \u{3c4} {}: {}", setting(l.temperature), share(of(l)?.value)));
        let alt =
            format!("{label} by temperature, {}: {}", place(subject), spoken(lines.iter().copied(), said));
        Figure {
            title: format!("{label} by temperature, {}", place(subject)),
            caption: "Lines span the 95% interval.".to_owned(),
            picture: plot::bars(&Axis::bar_share(label), &groups, &alt),
            legend: legend(lines.iter().copied()),
        }
    };
    if lines.is_empty() {
        Vec::new()
    } else {
        vec![one("pass@k", |l| l.pass_at_k), one("cons@k", |l| l.cons_at_k)]
    }
}

/// Peak entropy and pass rate of each problem, averaged over seeds.
fn peaks(cell: &Cell) -> Vec<(f64, f64)> {
    let mut seen: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for point in cell.runs.iter().flat_map(|run| analyze::points(run, PERCENTILE)) {
        seen.entry(point.id).or_default().push(point.peak_entropy);
    }
    let pair = |(id, peaks): (String, Vec<f64>)| {
        let score = cell.scores.get(&id).filter(|s| s.graded)?;
        Some((mean(&peaks)?, score.rate))
    };
    seen.into_iter().filter_map(pair).collect()
}

/// Two digits, with a real minus.
fn minus(value: f64) -> String {
    format!("{value:.2}").replace('-', "\u{2212}")
}

/// Is the model unsure where it fails?
fn correlation(report: &Report, subject: &Subject) -> Option<Figure> {
    let cell = subject.method(names::FULL_PARALLEL).or_else(|| subject.primary().next())?;
    let points = peaks(cell);
    if points.len() < 3 {
        return None;
    }
    let r = correlate(&points, &report.draws);
    let said = match r {
        Some(r) => {
            let interval = format::interval(&r, minus).map(|i| format!(" ({i})")).unwrap_or_default();
            format!("Pearson's r = {}{interval}", minus(r.value))
        }
        None => "All problems are alike in one of the two, so there is no correlation".to_owned(),
    };
    let x = Axis::before_zero("peak entropy (nats)", points.iter().map(|p| p.0), Form::Plain);
    let alt =
        format!("Peak entropy against pass rate of {} problems, {}: {said}", points.len(), place(subject));
    Some(Figure {
        title: format!("Peak entropy and pass rate, {}", place(subject)),
        caption: format!(
            "{said}. A dot is a problem under {}: the mean entropy above the {PERCENTILE}th percentile of its sequences.",
            cell.label()
        ),
        picture: plot::scatter(&x, &Axis::share("pass rate"), names::colour(&cell.method), &points, &alt),
        legend: Vec::new(),
    })
}

fn correlate(points: &[(f64, f64)], draws: &Draws) -> Option<Estimate> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    draws.of(points.len()).pearson(&x, &y)
}

/// Sequences of each problem, and how many are right: one figure for each method.
pub fn problems(report: &Report, at: usize) -> Vec<Figure> {
    let subject = &report.subjects()[at];
    // From easy to hard, as full-parallel or else the first method finds them.
    let judge = subject.method(names::FULL_PARALLEL).or_else(|| subject.primary().next());
    let Some(judge) = judge.filter(|_| subject.problems.len() > 1) else { return Vec::new() };
    let mut order: Vec<&String> = subject.problems.iter().collect();
    let rate = |id: &String| judge.scores.get(id).map_or(-1.0, |s| s.rate);
    order.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let most = subject.primary().flat_map(|c| c.scores.values().map(|s| s.sequences)).fold(1.0, f64::max);
    let axis = Axis::from_zero("sequences", [most], Form::Plain);
    let figure = |cell: &Cell| {
        let stack = |id: &&String| {
            cell.scores
                .get(*id)
                .map_or(Stack { whole: 0.0, solid: 0.0 }, |s| Stack { whole: s.sequences, solid: s.right })
        };
        let stacks: Vec<Stack> = order.iter().map(stack).collect();
        let colour = names::colour(&cell.method);
        let solved = stacks.iter().filter(|s| s.solid > 0.0).count();
        let all: f64 = stacks.iter().map(|s| s.whole).sum();
        let alt = format!(
            "Sequences of each problem under {}, {}: {} in all, {solved} of {} problems with one that is right",
            cell.label(),
            place(subject),
            count(all),
            stacks.len()
        );
        Figure {
            title: cell.label(),
            caption: String::new(),
            picture: plot::columns(&axis, colour, &stacks, &alt),
            legend: Vec::new(),
        }
    };
    subject.primary().map(figure).filter(|f| !f.picture.is_empty()).collect()
}
