//! `eager calibrate`: theta for a model, from its own entropies and a handful of problems.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use eager_core::{Method, Reallocation};
use eager_lab::calibrate::{Point, agreement, choose, grid};
use eager_lab::campaign::Campaign;
use eager_lab::judge::Kind;
use eager_lab::profiles::{Calibrated, Profiles};
use eager_lab::report::{Options, Report};
use eager_lab::run::Run;
use serde::Serialize;

use super::suite::{PickArgs, asked, open};
use super::trial::{RunArgs, Setting, Subject};
use super::{Again, grow, open_session, root, told};
use crate::args::{at_least_one, at_least_zero, sequences};
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::table::{Table, fill, width};
use crate::{Outcome, Usage, print};

#[derive(Debug, Clone, ClapArgs)]
pub struct Args {
    /// The suite to calibrate on; several, separated by commas, with --draws
    #[arg(long, value_delimiter = ',', default_value = "math500")]
    suite: Vec<String>,
    /// How many of its problems, drawn at random
    #[arg(long, alias = "examples", default_value_t = 10, value_parser = at_least_one)]
    limit: usize,
    /// Draw the problems so many times and see how often the same theta is chosen; nothing is stored
    #[arg(long, value_parser = at_least_one)]
    draws: Option<usize>,
    /// Most sequences of a prompt (the paper's M)
    #[arg(long, short = 'm', default_value_t = 32, value_parser = sequences)]
    max_sequences: usize,
    /// Thetas to try, separated by commas [default: the paper's 1.8 to 2.7 and quantiles of the model's entropies]
    #[arg(long, value_delimiter = ',', value_parser = at_least_zero, allow_negative_numbers = true)]
    theta: Vec<f32>,
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    temperature: f32,
    /// Only show what was found: do not store it
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    pick: PickArgs,
}

/// What one draw of problems came to.
#[derive(Debug, Serialize)]
struct Found {
    suite: String,
    draw: u64,
    /// How many problems were drawn; a suite may have fewer than were asked for.
    examples: usize,
    init: Vec<Point>,
    full: Vec<Point>,
    theta_init: f32,
    theta_full: f32,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.suite.len() > 1 && args.draws.is_none() {
        let why = "theta is calibrated on one suite; several are for --draws, which compares them";
        return Err(Usage(why.to_owned()).into());
    }
    if args.run.seed.len() > 1 {
        let why = "theta is calibrated with one seed; --draws repeats it with other problems";
        return Err(Usage(why.to_owned()).into());
    }
    args.theta.iter().try_for_each(|&theta| args.run.rules.check(Some(theta)))?;
    let interrupt = Interrupt::listen()?;
    let mut session = open_session(&args.run)?;
    let args = &Args { run: args.run.for_model(&session.name), ..args.clone() };
    let suites = once(&args.suite);
    let names: Vec<String> = suites.iter().map(|suite| name(suite)).collect();
    let root = root(&args.run, &format!("calibrate-{}", names.join("-")));
    let mut found = Vec::new();
    for (suite, name) in suites.iter().zip(&names) {
        for draw in 0..args.draws.unwrap_or(1) as u64 {
            let folder = match args.draws {
                Some(_) => root.join(format!("{name}-draw{draw}")),
                None => root.clone(),
            };
            let draw = args.pick.shuffle.unwrap_or(0).wrapping_add(draw);
            match one(args, &mut session, suite, draw, &folder, &interrupt)? {
                Some(one) => found.push(one),
                None => return Ok(Outcome::Interrupted),
            }
        }
    }
    if args.json {
        print(&serde_json::to_string(&found)?)?;
    } else {
        show(args, &names, &found)?;
    }
    if let ([only], None, false) = (&found[..], args.draws, args.dry_run) {
        if !only.solved_any() {
            anyhow::bail!(
                "no theta solved a single problem, so none is better than another: nothing is stored; try easier problems, or more of them"
            )
        }
        store(args, &session, only)?;
    }
    Ok(Outcome::Done)
}

impl Found {
    /// Only problems that some theta solves tell thetas apart.
    fn solved_any(&self) -> bool {
        let solved = |points: &[Point]| points.iter().any(|point| point.metrics.pass_at_k > 0.0);
        solved(&self.init) && solved(&self.full)
    }
}

/// A suite's name for folders and tables: a file may lie anywhere.
fn name(suite: &str) -> String {
    Path::new(suite).file_name().map_or(suite.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Each value once, in the order given.
fn once<T: PartialEq + Clone>(values: &[T]) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for value in values {
        if !once.contains(value) {
            once.push(value.clone());
        }
    }
    once
}

/// Calibrates on one draw of problems; `None` when it was interrupted. What a folder holds already is not run again.
fn one(
    args: &Args,
    session: &mut Session,
    suite: &str,
    draw: u64,
    folder: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Found>> {
    let pick = PickArgs { shuffle: Some(draw), ..args.pick.clone() };
    let suite = open(suite, &pick, Some(args.limit))?;
    if suite.problems.iter().all(|problem| problem.judge.kind() == Kind::None) {
        let why = "theta is chosen by how many problems are solved, and nobody knows the right answers of these; name a suite or a --grader that does";
        return Err(Usage(why.to_owned()).into());
    }
    let asked = asked(&suite);
    let mut subject = Subject::new(session, suite, &args.run)?;
    let tasks = subject.tasks(&args.run, args.temperature)?;
    // What to name when it is to go on: draws are folders of one that was named.
    let root = args.draws.and(folder.parent()).unwrap_or(folder);
    let run = |subject: &mut Subject<'_>, settings: &[Setting], of_what: &'static str| {
        let trial = |setting: &Setting| {
            let name = setting.full_name(subject.theta(setting));
            subject.trial(&args.run, setting, name, &tasks)
        };
        let trials: Vec<_> = settings.iter().map(trial).collect();
        let folders: Vec<PathBuf> = trials.iter().map(|trial| trial.folder(folder)).collect();
        let mut campaign = Campaign::open(folder, trials, &asked, true).map_err(told)?;
        if !grow(&mut campaign, subject, &args.run, root, Again::Same, of_what, interrupt)? {
            return Ok(None);
        }
        let runs: Result<Vec<Run>, _> = folders.iter().map(|folder| Run::read(folder)).collect();
        anyhow::Ok(Some(runs.map_err(told)?))
    };
    let seed = args.run.seed.first().copied().unwrap_or(0);
    let setting = |method, theta| Setting {
        method,
        theta,
        max_sequences: args.max_sequences,
        temperature: args.temperature,
        seed,
        found: None,
    };
    // How many thetas are tried is not known before.
    let first = [setting(Method::FullParallel, None)];
    let Some(full_parallel) = run(&mut subject, &first, " before thetas are tried")? else {
        return Ok(None);
    };
    let thetas = if args.theta.is_empty() { grid(&entropies(&full_parallel)) } else { once(&args.theta) };
    let methods = [Method::EagerInit, Method::Eager(Reallocation::Regrow)];
    let mut points: [Vec<Point>; 2] = Default::default();
    let settings: Vec<Setting> =
        methods.into_iter().flat_map(|m| thetas.iter().map(move |&t| setting(m, Some(t)))).collect();
    let of_what = if args.draws.is_some() { " of this draw" } else { "" };
    let Some(runs) = run(&mut subject, &settings, of_what)? else { return Ok(None) };
    for (setting, run) in settings.iter().zip(&runs) {
        let metrics = eager_lab::bench::metrics(&run.samples);
        let of = usize::from(setting.method != Method::EagerInit);
        points[of].extend(setting.theta.map(|theta| Point { theta, metrics }));
    }
    let everything: Vec<Run> = full_parallel.into_iter().chain(runs).collect();
    let report = Report::new(&everything, Options { trees: 0, ..Options::default() });
    let saved = report.save(&folder.join("report.html"))?;
    eprintln!("eager: {} has the picture", saved.html.display());
    let [init, full] = points;
    // The grid is never empty.
    let theta = |points: &[Point]| choose(points).map_or(0.0, |point| point.theta);
    let (theta_init, theta_full) = (theta(&init), theta(&full));
    let (suite, examples) = (subject.suite.name.clone(), subject.suite.problems.len());
    Ok(Some(Found { suite, draw, examples, init, full, theta_init, theta_full }))
}

/// The entropy of every step of these runs.
fn entropies(runs: &[Run]) -> Vec<f32> {
    let sequences = runs.iter().flat_map(|run| &run.samples).flat_map(|sample| &sample.sequences);
    sequences.flat_map(|sequence| sequence.entropy.iter().copied()).collect()
}

fn show(args: &Args, suites: &[String], found: &[Found]) -> anyhow::Result<()> {
    if args.draws.is_some() {
        let mut table = Table::new(&["suite", "eager-init", "eager"]);
        for suite in suites {
            let of = |theta: fn(&Found) -> f32| {
                let chosen: Vec<f32> = found.iter().filter(|f| f.suite == *suite).map(theta).collect();
                let all = chosen.len();
                let counts =
                    agreement(&chosen).into_iter().map(|(theta, n)| format!("{n}/{all} chose {theta}"));
                counts.collect::<Vec<_>>().join(", ")
            };
            table.add_row([suite.clone(), of(|f| f.theta_init), of(|f| f.theta_full)]);
        }
        return Ok(print(&table.to_string())?);
    }
    for found in found {
        let mut table = Table::new(&[
            "theta",
            "init pass@k",
            "init sequences",
            "init tokens",
            "eager pass@k",
            "eager tokens",
            "",
        ]);
        for (init, full) in found.init.iter().zip(&found.full) {
            let mark = match (init.theta == found.theta_init, full.theta == found.theta_full) {
                (true, true) => "both",
                (true, false) => "eager-init, eager-adapt",
                (false, true) => "eager",
                (false, false) => "",
            };
            table.add_row([
                init.theta.to_string(),
                format!("{:.3}", init.metrics.pass_at_k),
                init.metrics.sequences.to_string(),
                init.metrics.tokens.to_string(),
                format!("{:.3}", full.metrics.pass_at_k),
                full.metrics.tokens.to_string(),
                mark.to_owned(),
            ]);
        }
        print(&table.to_string())?;
        let rule = "of the thetas that solve as many problems as the best, the one with the fewest tokens";
        let (init, full) = (found.theta_init, found.theta_full);
        let chosen = format!("theta {init} for eager-init and eager-adapt, {full} for eager: {rule}");
        print(&fill(&chosen, width()).join("\n"))?;
    }
    Ok(())
}

fn store(args: &Args, session: &Session, found: &Found) -> anyhow::Result<()> {
    let Some(place) = Profiles::place() else {
        anyhow::bail!("there is no configuration folder to store this in; name a file in EAGER_PROFILES")
    };
    let calibrated = Calibrated {
        name: session.name.clone(),
        theta_init: found.theta_init,
        theta_full: found.theta_full,
        suite: found.suite.clone(),
        examples: found.examples,
        max_sequences: args.max_sequences,
        temperature: args.temperature,
        seed: args.run.seed.first().copied().unwrap_or(0),
    };
    Profiles::store(&place, session.hash()?, calibrated).map_err(told)?;
    eprintln!("eager: stored in {}; later commands use it for this model", place.display());
    Ok(())
}
