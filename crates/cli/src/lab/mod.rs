//! The commands of the lab: methods over suites, and what can be learnt from their runs.

pub mod analyze;
pub mod bench;
pub mod calibrate;
mod left;
pub mod report;
mod suite;
pub mod sweep;
mod theta;
mod trial;
mod watch;

use std::path::{Path, PathBuf};

use eager_core::Method;
use eager_lab::bench::{BenchError, Pace};
use eager_lab::campaign::{Campaign, Trial};
use eager_lab::judge::Kind;
use eager_lab::report::Report;
use eager_lab::run::{Found, Run, RunError};
use eager_lab::suite::Suite;

use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::{Outcome, Usage, print};
use trial::{RunArgs, Subject};
use watch::Show;

/// A mistake in what was asked for ends as one.
fn told(error: RunError) -> anyhow::Error {
    if error.is_usage() { Usage(error.to_string()).into() } else { error.into() }
}

/// The runs in these folders. Those that cannot be read are named and left out, as long as there are others.
fn find(folders: &[PathBuf]) -> anyhow::Result<Vec<Run>> {
    let Found { runs, left_out } = Run::find(folders);
    let reasons: Vec<String> = left_out.iter().map(RunError::to_string).collect();
    if runs.is_empty() {
        anyhow::bail!(reasons.join("; "))
    }
    for why in reasons {
        eprintln!("eager: left out: {why}");
    }
    Ok(runs)
}

/// Refuses methods that go by which samples are right where nobody knows: they would be full-parallel by another name.
fn know_labels(methods: &[Method], suite: &Suite) -> Result<(), Usage> {
    let stops = methods.iter().find(|method| matches!(method, Method::UntilRight | Method::TwoStage));
    let unknown = suite.problems.iter().all(|problem| problem.judge.kind() == Kind::None);
    match stops.filter(|_| unknown) {
        Some(method) => Err(Usage(format!(
            "{method} decides by the right answers, and nobody knows those of these problems; name a suite or a --grader that does"
        ))),
        None => Ok(()),
    }
}

fn open_session(args: &RunArgs) -> anyhow::Result<Session> {
    let mut session = Session::open(args.model.as_deref(), &args.engine, &args.remote, None)?;
    session.use_profile(args.rules.tree.profile.as_deref())?;
    Ok(session)
}

/// Where the runs go: what `--out` says, or a new folder.
fn root(args: &RunArgs, suite: &str) -> PathBuf {
    let fresh = || {
        let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
        Path::new("runs").join(format!("{suite}-{now}"))
    };
    args.out.clone().unwrap_or_else(fresh)
}

/// How a campaign is shown when it is over.
#[derive(Debug, Clone, Copy)]
struct Ending {
    json: bool,
    again: Again,
}

/// What goes on with a folder that is named with `--out`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// The command with `--resume`: it does not take up what it was not told to.
    Resume,
    /// The same command: it never runs again what is there.
    Same,
}

/// Runs a campaign to its end and shows what came out, also of what was broken off.
fn conclude(
    mut subject: Subject<'_>,
    args: &RunArgs,
    root: &Path,
    trials: Vec<Trial>,
    resume: bool,
    ending: Ending,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let mut campaign = Campaign::open(root, trials, &suite::asked(&subject.suite), resume).map_err(told)?;
    let whole = grow(&mut campaign, &mut subject, args, root, ending.again, "", interrupt)?;
    let runs = find(&[root.to_owned()])?;
    let report = Report::new(&runs, args.report.options());
    let saved = report.save(&campaign.report())?;
    eprintln!("eager: {} is the report", saved.html.display());
    if ending.json {
        print(&report::json(&report)?)?;
    } else {
        print(&report::table(&report))?;
    }
    Ok(if whole { Outcome::Done } else { Outcome::Interrupted })
}

/// Runs what is missing. Says how to go on when it ends early. `of_what` is for [`Show::new`].
fn grow(
    campaign: &mut Campaign,
    subject: &mut Subject<'_>,
    args: &RunArgs,
    root: &Path,
    again: Again,
    of_what: &'static str,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    let spell = subject.session.speller();
    let pace = Pace { at_once: args.at_once, stop: interrupt.flag() };
    let mut show = Show::new(campaign, of_what, interrupt);
    let result = campaign.run(&mut subject.session.engine, &spell, &pace, &mut show);
    drop(show);
    if let Some(traffic) = subject.session.engine.traffic() {
        eprintln!("eager: {traffic}");
    }
    let resume = if again == Again::Resume { " --resume" } else { "" };
    let again =
        format!("what is finished is in {}; the same command with --out {0}{resume} goes on", root.display());
    match result {
        Ok(flow) if flow.is_continue() => Ok(true),
        Ok(_) => {
            eprintln!("eager: interrupted; {again}");
            Ok(false)
        }
        Err(BenchError::Run(error)) if error.is_usage() => Err(told(error)),
        Err(BenchError::Run(error)) => Err(anyhow::Error::from(error).context(again)),
        Err(error) => Err(anyhow::Error::from(error).context(again)),
    }
}
