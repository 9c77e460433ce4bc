//! `eager sweep`: a method's settings against each other. Points that are there already are not run again.

use std::ops::ControlFlow;
use std::path::Path;

use clap::Args as ClapArgs;
use eager_core::Method;
use eager_lab::campaign::Trial;
use eager_lab::theta::FoundTheta;

use super::suite::SuiteArgs;
use super::theta::found;
use super::trial::{RunArgs, Setting, Subject, Vary, suffix};
use super::{Again, Ending, conclude, know_labels, open_session, root};
use crate::Outcome;
use crate::args::{at_least_zero, sequences};
use crate::interrupt::Interrupt;

#[derive(Debug, Clone, ClapArgs)]
pub struct Args {
    /// The methods, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "full-parallel,eager-init,eager-adapt,eager")]
    method: Vec<Method>,
    /// Thetas, separated by commas [default: what suits the model]
    #[arg(long, value_delimiter = ',', value_parser = at_least_zero, allow_negative_numbers = true)]
    theta: Vec<f32>,
    /// Caps on the sequences of a prompt, separated by commas
    #[arg(long, short = 'm', value_delimiter = ',', default_value = "32", value_parser = sequences)]
    max_sequences: Vec<usize>,
    /// Temperatures, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.6",
        value_parser = at_least_zero,
        allow_negative_numbers = true
    )]
    temperature: Vec<f32>,
    /// Another option to vary, as in regrow-first=likely,path; may be given several times
    #[arg(long)]
    vary: Vec<Vary>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    suite: SuiteArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.theta.iter().try_for_each(|&theta| args.run.rules.check(Some(theta)))?;
    let suite = args.suite.open()?;
    know_labels(&args.method, &suite)?;
    let interrupt = Interrupt::listen()?;
    let mut session = open_session(&args.run)?;
    let args = &Args { run: args.run.for_model(&session.name), ..args.clone() };
    let mut subject = Subject::new(&mut session, suite, &args.run)?;
    let root = root(&args.run, &format!("sweep-{}", subject.suite.name));
    let Some(trials) = trials(args, &mut subject, &root, &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    // A folder that holds some of these points already spares us those.
    conclude(
        subject,
        &args.run,
        &root,
        trials,
        true,
        Ending { json: args.json, again: Again::Same },
        &interrupt,
    )
}

/// What entropies depend on: the temperature, the candidates, and the temperature of their distribution.
type Measured = (f32, usize, Option<f32>);

/// Every point once: theta means nothing to methods that do not fork. `None` when it was interrupted.
fn trials(
    args: &Args,
    subject: &mut Subject<'_>,
    root: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Vec<Trial>>> {
    let forks = args.theta.is_empty() && args.method.iter().any(|method| method.forks());
    let mut known: Vec<(Measured, Option<FoundTheta>)> = Vec::new();
    let thetas: Vec<Option<f32>> =
        if args.theta.is_empty() { vec![None] } else { args.theta.iter().copied().map(Some).collect() };
    let mut trials: Vec<Trial> = Vec::new();
    for (variation, run) in args.run.variants(&args.vary)? {
        for &temperature in &args.temperature {
            let tasks = subject.tasks(&run, temperature)?;
            let measured = (temperature, run.rules.tree.entropy_top_k, run.rules.tree.entropy_temperature);
            let found = match known.iter().find(|(key, _)| *key == measured) {
                _ if !forks => None,
                Some((_, found)) => *found,
                None => match found(subject, &run, temperature, &tasks, root, false, interrupt)? {
                    ControlFlow::Break(()) => return Ok(None),
                    ControlFlow::Continue(found) => {
                        known.push((measured, found));
                        found
                    }
                },
            };
            for setting in settings(args, &thetas, temperature) {
                let setting = Setting { found, ..setting };
                // The model's own theta may be out of reach as well, and so may one in a variation.
                run.rules.check(subject.theta(&setting))?;
                let trial = subject.trial(&run, &setting, String::new(), &tasks);
                // What a variation does not change is one run.
                if trials.iter().all(|known| known.manifest != trial.manifest) {
                    let name =
                        setting.full_name(subject.theta(&setting)) + &suffix(&variation, &trial.manifest);
                    trials.push(Trial { name, ..trial });
                }
            }
        }
    }
    Ok(Some(trials))
}

fn settings(args: &Args, thetas: &[Option<f32>], temperature: f32) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &seed in &args.run.seed {
        for &max_sequences in &args.max_sequences {
            for &method in &args.method {
                for &theta in thetas {
                    let found = None;
                    settings.push(Setting { method, theta, max_sequences, temperature, seed, found });
                }
            }
        }
    }
    settings
}
