//! The theta of runs for which none was given: what calibration found, what an earlier run of the folder found, or what a few
//! samples of the suite's problems show.

use std::ops::ControlFlow;
use std::path::Path;

use eager_core::Prompt;
use eager_lab::bench::Task;
use eager_lab::campaign::is_of_method;
use eager_lab::run::{Manifest, Parameters, read_manifest};
use eager_lab::theta::FoundTheta;

use super::trial::{RunArgs, Subject, prompting};
use crate::interrupt::Interrupt;
use crate::theta;

/// The theta to fork at, if the model has none of its own; `Break` when it was interrupted. `resume`: what is in the folder
/// goes on, so its theta comes before one that was calibrated since.
pub fn found(
    subject: &mut Subject<'_>,
    args: &RunArgs,
    temperature: f32,
    tasks: &[Task],
    root: &Path,
    resume: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<ControlFlow<(), Option<FoundTheta>>> {
    let calibrated = subject.session.profile.is_calibrated();
    if calibrated && !resume {
        return Ok(ControlFlow::Continue(None));
    }
    let asked = prompting(args);
    let is_alike = |run: &Manifest| {
        let options = run.parameters.options.iter().filter(|(name, _)| !is_of_method(name));
        let Parameters { top_p, top_k, min_p, entropy_top_k, entropy_temperature, .. } = run.parameters;
        (&run.model.hash, &run.suite.name) == (&subject.model.hash, &subject.suite.name)
            && (run.parameters.temperature, top_p, top_k, min_p)
                == (temperature, args.draw.top_p, args.draw.top_k, args.draw.min_p)
            && (entropy_top_k, entropy_temperature)
                == (args.rules.tree.entropy_top_k, args.rules.tree.entropy_temperature)
            && options.eq(&asked)
    };
    let recorded = begun(root).into_iter().filter(is_alike).find_map(|run| run.found_theta);
    if recorded.is_some() || calibrated {
        return Ok(ControlFlow::Continue(recorded));
    }
    let prompts: Vec<Prompt> = tasks.iter().map(|task| task.prompt.clone()).collect();
    let calibration = theta::calibration(args.model.as_deref(), &args.remote, &args.chat, temperature);
    theta::find(subject.session, &prompts, &calibration, interrupt)
}

/// What the runs of a folder were asked.
fn begun(root: &Path) -> Vec<Manifest> {
    let below = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<_> = [root.to_owned()].into_iter().chain(below).collect();
    folders.sort();
    // One that cannot be read is told of when it is to go on.
    folders.iter().filter_map(|folder| read_manifest(folder).ok().flatten()).collect()
}
