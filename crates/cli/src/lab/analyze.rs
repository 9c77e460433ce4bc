//! `eager analyze`: peak entropy against pass rate, the paper's correlation figure.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args as ClapArgs;
use eager_lab::analyze::{PERCENTILE, Point, points, scatter};
use eager_lab::run::Run;
use eager_lab::statistics::{Bootstrap, Estimate};
use serde::Serialize;

use super::find;
use crate::table::Table;
use crate::{Outcome, Usage, print};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Folders of runs, or folders that hold some
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// The percentile of a sequence's entropies from which they count as its peak
    #[arg(long, default_value_t = PERCENTILE, value_parser = percentile)]
    percentile: f64,
    /// The SVG file to write [default: correlation.svg in each run's folder]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

fn percentile(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("must be from 0 to 100".to_owned()) }
}

#[derive(Debug, Serialize)]
struct Correlation {
    run: String,
    method: String,
    prompts: usize,
    percentile: f64,
    /// Pearson's r with its interval.
    r: Option<Estimate>,
    points: Vec<Point>,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runs = find(&args.folders)?;
    let correlations: Vec<Correlation> = runs.iter().map(|run| correlation(run, args.percentile)).collect();
    if correlations.iter().all(|c| c.r.is_none()) {
        let why = "nothing to correlate: at least three graded problems, of which not all are solved equally often, are needed";
        return Err(Usage(why.to_owned()).into());
    }
    if args.out.is_some() && runs.len() > 1 {
        return Err(Usage(format!("--out names one picture, and there are {} runs", runs.len())).into());
    }
    for (run, c) in runs.iter().zip(&correlations) {
        let svg = args.out.clone().unwrap_or_else(|| run.folder.join("correlation.svg"));
        let picture = scatter(&c.method, &c.points, c.r);
        std::fs::write(&svg, picture).with_context(|| format!("cannot write {}", svg.display()))?;
        eprintln!("eager: {} is the picture", svg.display());
    }
    if args.json {
        print(&serde_json::to_string(&correlations)?)?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["run", "method", "prompts", "r", "95% interval"]);
    for c in &correlations {
        let interval = c.r.and_then(|r| r.interval);
        table.add_row([
            c.run.clone(),
            c.method.clone(),
            c.prompts.to_string(),
            c.r.map_or("-".to_owned(), |r| format!("{:.3}", r.value)),
            interval.map_or("-".to_owned(), |i| format!("{:.3} to {:.3}", i.low, i.high)),
        ]);
    }
    print(&table.to_string())?;
    print(&format!(
        "r: mean peak entropy of a problem's sequences (from the {}th percentile) against its pass rate",
        args.percentile
    ))?;
    Ok(Outcome::Done)
}

fn correlation(run: &Run, percentile: f64) -> Correlation {
    let points = points(run, percentile);
    let (peaks, rates): (Vec<f64>, Vec<f64>) = points.iter().map(|p| (p.peak_entropy, p.pass_rate)).unzip();
    Correlation {
        run: run.folder.display().to_string(),
        method: run.manifest.method.clone(),
        prompts: points.len(),
        percentile,
        r: Bootstrap::new(points.len()).pearson(&peaks, &rates),
        points,
    }
}
