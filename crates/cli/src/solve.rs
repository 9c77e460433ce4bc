//! `eager solve`: one problem, its tree, the votes and what it cost.

use std::fmt::Write;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args as ClapArgs;
use eager_core::vote::{Votes, tied};
use eager_core::{Judged, Method, Outcome as Graded, Prompt, SurplusLimit, Token, Tree};
use eager_grade::Grader;
use eager_lab::run::Sample;
use eager_lab::theta::FoundTheta;
use serde::Serialize;

use crate::args::{ChatArgs, EngineArgs, ExtractArgs, ForkingArgs, RemoteArgs, SamplingArgs, at_least_one};
use crate::compare::grade;
use crate::interrupt::Interrupt;
use crate::picture::{self, Detail};
use crate::progress::Progress;
use crate::session::Session;
use crate::{Outcome, Usage, print, theta};

/// Answers listed with their votes.
const SHOWN: usize = 10;

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The problem; - reads it from standard input
    problem: String,
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the Hugging Face hub, such as
    /// Qwen/Qwen3-4B [default: the embedded acorn]
    #[arg(long)]
    model: Option<PathBuf>,
    /// full-parallel, eager-init, eager-adapt, eager, esc, deepconf, until-right or two-stage; eager-adapt and eager take /regrow, /rerun or /rerun-literal
    #[arg(long, default_value = "eager-init")]
    method: Method,
    /// The right answer, if it is known: marks right sequences; eager, until-right and two-stage need it
    #[arg(long)]
    answer: Option<String>,
    /// Most tokens of one sequence [default: 32768, or what the context leaves]
    #[arg(long, value_parser = at_least_one)]
    max_tokens: Option<usize>,
    /// Show the whole text of every sequence
    #[arg(long)]
    full: bool,
    /// Print one JSON object instead of the tree
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chat: ChatArgs,
    #[command(flatten)]
    extract: ExtractArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    forking: ForkingArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub fn run(mut args: Args) -> anyhow::Result<Outcome> {
    if args.problem == "-" {
        args.problem = read_problem()?;
    }
    let args = &args;
    if args.problem.trim().is_empty() {
        return Err(Usage("the problem is empty; give its text in quotes".to_owned()).into());
    }
    if args.method.needs_labels() && args.answer.is_none() {
        let method = args.method;
        let why = format!("{method} decides by the right answer: give --answer, or use --method eager-adapt");
        return Err(Usage(why).into());
    }
    args.forking.rules.check(args.forking.theta)?;
    let interrupt = Interrupt::listen()?;
    let sequences = Some(args.forking.max_sequences);
    let mut session = Session::open(args.model.as_deref(), &args.engine, &args.remote, sequences)?;
    session.use_profile(args.forking.rules.tree.profile.as_deref())?;
    let tokens = session.encode(args.problem.trim(), &args.chat)?;
    let grader = Grader::Math { gold: args.answer.clone().unwrap_or_default() };
    let extraction = session.extraction(&tokens, args.extract.extract)?;
    let prompt = Prompt {
        answers: Some(session.reader(&grader, &extraction)),
        ..session.prompt(
            tokens,
            args.problem.trim(),
            args.max_tokens,
            args.sampling.settings(),
            &args.forking.rules,
        )?
    };
    let prompts = [prompt];
    let ControlFlow::Continue(found) = find_theta(args, &mut session, &prompts, &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let theta = found.map_or_else(|| args.forking.theta(args.method, &session.profile), |found| found.theta);
    // One prompt is the whole set: its first pass leaves it what is missing to M.
    let plan = args.forking.plan(args.sampling.seed, theta, SurplusLimit::Nothing);

    let begun = Instant::now();
    let mut progress = Progress::new(&args.method.to_string(), 1, &interrupt);
    let mut trees = plan.plant(&prompts);
    let mut grown = plan.first_pass(&mut session.engine, args.method, &prompts, &mut trees, &mut progress);
    if grown.is_ok() && !interrupt.asked() {
        let texts = session.texts(&trees[0])?;
        let judged = Judged::from(&grade(&grader, &extraction, &trees[0], &texts));
        let engine = &mut session.engine;
        grown = plan.second_pass(engine, args.method, &prompts, &mut trees, |_, _| judged, &mut progress);
    }
    drop(progress);
    // Even when it failed in the end, what was generated is shown.
    let tree = &trees[0];
    if grown.is_ok() || tree.tokens_generated() > 0 {
        let seconds = begun.elapsed().as_secs_f64();
        let graded = grade(&grader, &extraction, tree, &session.texts(tree)?);
        let solution = Solution {
            found_theta: found,
            ..Solution::new(args, &session, &prompts[0].tokens, graded, tree, seconds)?
        };
        let shown = if args.json {
            serde_json::to_string(&solution)?
        } else {
            solution.describe(args, &session, tree)?
        };
        print(&shown)?;
        if let Some(notice) = &solution.notice {
            eprintln!("eager: {notice}");
        }
    }
    if let Some(traffic) = session.engine.traffic() {
        eprintln!("eager: {traffic}");
    }
    grown?;
    Ok(if interrupt.asked() { Outcome::Interrupted } else { Outcome::Done })
}

/// The problem on standard input.
fn read_problem() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        eprintln!("eager: reading the problem from the keyboard; end it with Ctrl-D");
    }
    std::io::read_to_string(std::io::stdin()).context("cannot read the problem from standard input")
}

/// A theta for a model that has none, where one is needed; `Break` when it was interrupted.
fn find_theta(
    args: &Args,
    session: &mut Session,
    prompts: &[Prompt],
    interrupt: &Interrupt,
) -> anyhow::Result<ControlFlow<(), Option<FoundTheta>>> {
    if args.forking.theta.is_some() || !args.method.forks() || session.profile.is_calibrated() {
        return Ok(ControlFlow::Continue(None));
    }
    let temperature = args.sampling.temperature;
    let calibration = theta::calibration(args.model.as_deref(), &args.remote, &args.chat, temperature);
    theta::find(session, prompts, &calibration, interrupt)
}

/// The outcome as a line of a run's `samples.jsonl`, with the votes.
#[derive(Debug, Serialize)]
struct Solution {
    model: String,
    method: String,
    answer: Option<String>,
    /// Why the answer means nothing, where the model knows no questions of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
    votes: Vec<Votes>,
    /// Its tokens are beside those of the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    found_theta: Option<FoundTheta>,
    #[serde(flatten)]
    sample: Sample,
    #[serde(skip)]
    graded: Graded,
}

impl Solution {
    fn new(
        args: &Args,
        session: &Session,
        prompt: &[Token],
        graded: Graded,
        tree: &Tree,
        seconds: f64,
    ) -> anyhow::Result<Self> {
        let texts = session.texts(tree)?;
        let votes = graded.votes();
        let (id, known) = (args.problem.trim().to_owned(), args.answer.is_some());
        let sample = Sample {
            seconds,
            saturated: tree.len() >= args.forking.max_sequences,
            ..Sample::new(id, prompt.len(), tree, &graded, known, texts)
        };
        Ok(Solution {
            model: session.name.clone(),
            method: args.method.to_string(),
            answer: votes.first().map(|v| v.answer.clone()),
            notice: session.notice(args.problem.trim()),
            votes,
            found_theta: None,
            sample,
            graded,
        })
    }

    fn describe(&self, args: &Args, session: &Session, tree: &Tree) -> Result<String, std::fmt::Error> {
        let detail = if args.full { Detail::Full } else { Detail::Brief };
        let mut out = picture::draw(tree, &self.graded, detail, &|tokens| session.label(tokens));
        let voters: usize = self.votes.iter().map(|v| v.count).sum();
        out.push('\n');
        for votes in self.votes.iter().take(SHOWN) {
            let tie = if votes.tied { "  (tie)" } else { "" };
            writeln!(out, "{:>4} of {voters}  {}{tie}", votes.count, votes.answer)?;
        }
        if self.votes.len() > SHOWN {
            writeln!(out, "     and {} more answers", self.votes.len() - SHOWN)?;
        }
        match &self.answer {
            Some(answer) => writeln!(out, "\nanswer: {answer}{}", tie(&self.votes))?,
            None => writeln!(out, "no sequence gave an answer")?,
        }
        // What the same sequences would have cost without sharing their common beginnings.
        let apart: usize = tree.sequences().iter().map(|s| s.len()).sum();
        write!(
            out,
            "cost: {} tokens decoded for {} sequence{} ({apart} if each were decoded alone), {:.1} s",
            self.sample.tokens_generated,
            self.sample.sequences_total,
            if self.sample.sequences_total == 1 { "" } else { "s" },
            self.sample.seconds
        )?;
        if let Some(FoundTheta { tokens, .. }) = self.found_theta {
            write!(out, "; {tokens} more were decoded to find theta")?;
        }
        Ok(out)
    }
}

/// What is to be said of an answer that did not win alone.
fn tie(votes: &[Votes]) -> String {
    match tied(votes).len() {
        0 => String::new(),
        many => format!(" (the first of {many} answers that tie)"),
    }
}
