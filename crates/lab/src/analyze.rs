//! Does a high peak of entropy mean a hard problem? The paper's correlation figure.

use eager_core::entropy::peak_entropy;

use crate::report::names;
use crate::report::plot::{self, Axis, Form};
use crate::run::{Run, Sample};
use crate::statistics::Estimate;

/// One problem of one run: how high its entropy peaked, and how often it was solved.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Point {
    pub id: String,
    /// Mean over its sequences.
    pub peak_entropy: f64,
    pub pass_rate: f64,
}

/// The paper's percentile.
pub const PERCENTILE: f64 = 99.9;

/// A point for every prompt of a run that has tokens.
pub fn points(run: &Run, percent: f64) -> Vec<Point> {
    run.samples.iter().filter_map(|sample| point(sample, percent)).collect()
}

fn point(sample: &Sample, percent: f64) -> Option<Point> {
    let peaks: Vec<f64> = (0..sample.sequences.len())
        .filter_map(|index| peak_entropy(&sample.path(index, |sequence| &sequence.entropy), percent))
        .collect();
    let outcome = sample.outcome();
    (!peaks.is_empty()).then(|| Point {
        id: sample.id.clone(),
        peak_entropy: peaks.iter().sum::<f64>() / peaks.len() as f64,
        pass_rate: outcome.right() as f64 / outcome.sequences() as f64,
    })
}

/// The scatter of a run's points, as a picture by itself.
pub fn scatter(method: &str, points: &[Point], r: Option<Estimate>) -> String {
    let dots: Vec<(f64, f64)> = points.iter().map(|p| (p.peak_entropy, p.pass_rate)).collect();
    let said = r.map_or(String::new(), |r| format!(", r = {:.2}", r.value));
    let alt = format!("Peak entropy against pass rate of {} problems{said}", dots.len());
    let x = Axis::over("peak entropy (nats)", dots.iter().map(|d| d.0), Form::Plain);
    let y = Axis::share("pass rate");
    plot::scatter(&x, &y, names::colour(method), &dots, &alt).alone(&Vec::new())
}
