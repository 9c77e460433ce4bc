//! Does a high peak of entropy mean a hard problem? The paper's correlation figure.

use eager_core::entropy::peak_entropy;

use crate::run::{Run, Sample};

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
