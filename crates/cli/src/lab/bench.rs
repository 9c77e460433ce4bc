//! `eager bench`: methods over a suite, into run folders.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::path::Path;

use clap::Args as ClapArgs;
use eager_core::Method;
use eager_lab::campaign::Trial;
use eager_lab::run::{Run, read_manifest};

use super::suite::SuiteArgs;
use super::theta::found;
use super::trial::{RunArgs, Setting, Subject};
use super::{Again, Ending, conclude, know_labels, open_session, root};
use crate::args::{at_least_zero, sequences};
use crate::interrupt::Interrupt;
use crate::{Outcome, Usage};

#[derive(Debug, Clone, ClapArgs)]
pub struct Args {
    /// full-parallel, eager-init, eager-adapt, eager, esc, deepconf, until-right, two-stage, separated by commas; eager-adapt and eager take
    /// /regrow, /rerun or /rerun-literal
    #[arg(long, value_delimiter = ',', default_value = "full-parallel,eager-init,eager-adapt,eager")]
    method: Vec<Method>,
    /// Go on with the runs in --out
    #[arg(long)]
    resume: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Most sequences of a prompt (the paper's M)
    #[arg(long, short = 'm', default_value_t = 32, value_parser = sequences)]
    max_sequences: usize,
    /// Entropy, in nats, from which a step forks [default: what suits the model]
    #[arg(long, value_parser = at_least_zero, allow_negative_numbers = true)]
    theta: Option<f32>,
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    temperature: f32,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    suite: SuiteArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.resume && args.run.out.is_none() {
        return Err(Usage("--resume goes on with the runs of a folder: name it with --out".to_owned()).into());
    }
    args.run.rules.check(args.theta)?;
    let suite = args.suite.open()?;
    know_labels(&args.method, &suite)?;
    let interrupt = Interrupt::listen()?;
    let mut session = open_session(&args.run)?;
    let args = &Args { run: args.run.for_model(&session.name), ..args.clone() };
    let mut subject = Subject::new(&mut session, suite, &args.run)?;
    let tasks = subject.tasks(&args.run, args.temperature)?;
    let root = root(&args.run, &subject.suite.name);
    let mut found_theta = None;
    if args.theta.is_none() && args.method.iter().any(|method| method.forks()) {
        match found(&mut subject, &args.run, args.temperature, &tasks, &root, args.resume, &interrupt)? {
            ControlFlow::Continue(found) => found_theta = found,
            ControlFlow::Break(()) => return Ok(Outcome::Interrupted),
        }
    }
    let mut trials: Vec<Trial> = Vec::new();
    for &seed in &args.run.seed {
        for &method in &args.method {
            let Args { theta, max_sequences, temperature, .. } = *args;
            let setting = Setting { method, theta, max_sequences, temperature, seed, found: found_theta };
            // The model's own theta may be out of reach as well.
            args.run.rules.check(subject.theta(&setting))?;
            let trial = subject.trial(&args.run, &setting, name(args, &root, &setting), &tasks);
            // What is asked for twice is one run.
            if trials.iter().all(|known| known.manifest != trial.manifest) {
                trials.push(trial);
            }
        }
    }
    let ending = Ending { json: args.json, again: Again::Resume };
    conclude(subject, &args.run, &root, trials, args.resume, ending, &interrupt)
}

/// A run's folder below the campaign's; none where it is the only one. A run that is there already keeps its name, whatever
/// is asked for beside it this time.
fn name(args: &Args, root: &Path, setting: &Setting) -> String {
    let plain = setting.plain_name();
    let seeded = format!("{plain}_seed{}", setting.seed);
    let is_there = |name: &&String| {
        let begun = read_manifest(&root.join(name.as_str()));
        begun.is_ok_and(|begun| begun.is_some_and(|begun| begun.seed == setting.seed))
    };
    if let Some(known) = [&seeded, &plain].into_iter().find(is_there) {
        return known.clone();
    }
    match (distinct(&args.method), distinct(&args.run.seed)) {
        (1, 1) if !Run::are_below(root) => String::new(),
        (_, 1) => plain,
        _ => seeded,
    }
}

fn distinct<T: Eq + Hash>(values: &[T]) -> usize {
    values.iter().collect::<HashSet<_>>().len()
}
