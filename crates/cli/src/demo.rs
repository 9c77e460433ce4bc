//! `eager demo`: every method on the embedded model and its problems.

use clap::Args as ClapArgs;
use eager_acorn::Family;
use eager_core::{Method, Metrics, Outcome as Graded, Prompt, Reallocation};
use eager_grade::response::Extract;
use eager_lab::judge::Judge;
use eager_lab::suite::{Problem, Request, Suite};
use serde::Serialize;

use crate::args::{BudgetArgs, ChatArgs, EngineArgs, ForkingArgs, RemoteArgs, SamplingArgs, at_least_one};
use crate::compare::{Comparison, Line, Run, Task, full_parallel, grade, lines};
use crate::interrupt::Interrupt;
use crate::lab::report::SHARED;
use crate::picture::{self, Detail};
use crate::progress::Progress;
use crate::session::Session;
use crate::table::{Table, fill, width};
use crate::{Outcome, Usage, print};

/// Sampling, what others do to spend less (without labels, then with), and EAGer in its ways.
const SHOWN: [Method; 10] = [
    Method::FullParallel,
    Method::Esc,
    Method::DeepConf,
    Method::UntilRight,
    Method::TwoStage,
    Method::EagerInit,
    Method::EagerAdapt(Reallocation::Rerun),
    Method::EagerAdapt(Reallocation::Regrow),
    Method::Eager(Reallocation::Rerun),
    Method::Eager(Reallocation::Regrow),
];

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// How many problems: up to the 60 fixed ones, spread over families and levels; more are all generated
    #[arg(long, alias = "problems", default_value_t = 15, value_parser = at_least_one)]
    limit: usize,
    /// Only the problems with these ids, separated by commas, such as c5-1,a5-2
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The methods to compare, separated by commas; /rerun-literal as well [default: all the others]
    #[arg(long, alias = "methods", value_delimiter = ',')]
    method: Vec<Method>,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    forking: ForkingArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.forking.rules.check(args.forking.theta)?;
    let interrupt = Interrupt::listen()?;
    let mut session = Session::open(None, &args.engine, &RemoteArgs::default(), None)?;
    session.use_profile(args.forking.rules.tree.profile.as_deref())?;
    let tasks = tasks(args, &session)?;
    let forking = (&args.forking, args.budget.limit());
    let mut comparison = Comparison::new(&mut session, &tasks, forking, args.sampling.seed, &interrupt);
    let (mut runs, mut result) = (Vec::new(), Ok(()));
    let methods = if args.method.is_empty() { &SHOWN[..] } else { &args.method };
    for &method in methods {
        let (run, ended) = comparison.run(method);
        runs.push(run);
        result = ended;
        if result.is_err() || interrupt.asked() {
            break;
        }
    }
    let whole = result.is_ok() && !interrupt.asked();
    if args.json {
        print_json(args, &tasks, &runs)?;
    } else {
        print(&table(&lines(&runs), tasks.len()).to_string())?;
        if full_parallel(&runs).is_some() {
            print(&fill(SHARED, width()).join("\n"))?;
        }
        if let (true, Some(full)) = (whole, full_parallel(&runs)) {
            print(&format!("\n{}\n", families(&tasks, &runs, full)))?;
            print(&picture(args, &mut session, &tasks, full, &interrupt)?)?;
        }
    }
    result?;
    if whole {
        return Ok(Outcome::Done);
    }
    if let Some(last) = runs.last() {
        let (done, all) = (last.metrics.prompts, tasks.len());
        eprintln!("eager: interrupted during {}, with {done} of {all} prompts complete", last.method);
    }
    Ok(Outcome::Interrupted)
}

/// The problems of this demo, ready to be grown.
fn tasks(args: &Args, session: &Session) -> anyhow::Result<Vec<Task>> {
    let limit = args.only.is_empty().then_some(args.limit);
    let request = Request { only: args.only.clone(), limit, ..Request::new("acorn") };
    let suite = Suite::open(&request).map_err(|error| Usage(error.to_string()))?;
    suite.problems.into_iter().map(|problem| task(problem, args, session)).collect()
}

fn task(problem: Problem, args: &Args, session: &Session) -> anyhow::Result<Task> {
    let Problem { id, text, message, group, judge, .. } = problem;
    let Judge::Text(grader) = judge else {
        anyhow::bail!("{id} is judged by {}, and the demo looks at texts only", judge.kind())
    };
    let tokens = session.encode(&message, &ChatArgs::default())?;
    let extraction = session.extraction(&tokens, Extract::default())?;
    let prompt = Prompt {
        answers: Some(session.reader(&grader, &extraction)),
        ..session.prompt(tokens, &id, None, args.sampling.settings(), &args.forking.rules)?
    };
    Ok(Task { id, family: group.unwrap_or_default(), problem: text, prompt, grader, extraction })
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn table(lines: &[Line], prompts: usize) -> Table {
    let mut table = Table::new(&[
        "method",
        "theta",
        "pass@k",
        "cons@k",
        "pass rate",
        "sequences",
        "tokens",
        "distinct",
        "saved",
        "equal tokens",
        "equal distinct",
        "seconds",
    ])
    .sparing(&["seconds", "pass rate", "sequences", "theta", "cons@k", "equal distinct", "distinct"]);
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for line in lines {
        let m = &line.metrics;
        let broken_off =
            if m.prompts < prompts { format!(" ({} prompts)", m.prompts) } else { String::new() };
        table.add_row([
            format!("{}{broken_off}", line.method),
            or_dash(line.theta.map(|t| format!("{t}"))),
            format!("{:.3}", m.pass_at_k),
            format!("{:.3}", m.cons_at_k),
            format!("{:.3}", m.pass_rate),
            m.sequences.to_string(),
            m.tokens.to_string(),
            m.tokens_distinct.to_string(),
            or_dash(line.token_share.map(|share| percent(1.0 - share))),
            or_dash(line.full_parallel_at_equal_tokens.map(|p| format!("{p:.3}"))),
            or_dash(line.full_parallel_at_equal_tokens_shared.map(|p| format!("{p:.3}"))),
            format!("{:.1}", m.seconds),
        ]);
    }
    table
}

/// Where each method stands on each family: pass@k, and tokens against full-parallel's.
fn families(tasks: &[Task], runs: &[Run], full: &Run) -> Table {
    let mut header = vec!["pass@k (tokens)"];
    header.extend(Family::ALL.map(Family::name));
    let mut table = Table::new(&header);
    let of = |run: &Run, family: Family| {
        let outcomes =
            run.outcomes.iter().zip(tasks).filter(|(_, t)| t.family == family.name()).map(|(o, _)| o.clone());
        Metrics::of(&outcomes.collect::<Vec<_>>(), &[], 0.0)
    };
    for run in runs {
        let mut row = vec![run.method.to_string()];
        for family in Family::ALL {
            let (ours, full) = (of(run, family), of(full, family));
            let share = ours.tokens as f64 / full.tokens.max(1) as f64;
            row.push(format!("{:.3} ({:>6})", ours.pass_at_k, percent(share)));
        }
        table.add_row(row);
    }
    table
}

/// Sequences of the tree that is drawn.
const DRAWN: usize = 5;

/// A small tree of the hardest problem that full-parallel solved at all.
fn picture(
    args: &Args,
    session: &mut Session,
    tasks: &[Task],
    full: &Run,
    interrupt: &Interrupt,
) -> anyhow::Result<String> {
    let solved = (0..tasks.len()).filter(|&at| full.outcomes[at].solved());
    let Some(at) = solved.min_by_key(|&at| full.outcomes[at].right()) else { return Ok(String::new()) };
    let task = &tasks[at];
    let theta = args.forking.theta(Method::EagerInit, &session.profile);
    let mut plan = args.forking.plan(args.sampling.seed, theta, args.budget.limit());
    plan.forking.cap = DRAWN.min(plan.forking.cap);
    let prompts = [task.prompt.clone()];
    let mut trees = plan.plant(&prompts);
    let mut progress = Progress::new("a tree to look at", 1, interrupt);
    plan.first_pass(&mut session.engine, Method::EagerInit, &prompts, &mut trees, &mut progress)?;
    drop(progress);
    let outcome = grade(&task.grader, &task.extraction, &trees[0], &session.texts(&trees[0])?);
    let drawn = picture::draw(&trees[0], &outcome, Detail::Brief, &|tokens| session.label(tokens));
    let (right, all) = (full.outcomes[at].right(), full.outcomes[at].sequences());
    let (Task { id, problem, .. }, cap) = (task, plan.forking.cap);
    let title = format!(
        "{problem}\n{id}: right in {right} of {all} full-parallel samples; here with at most {cap} sequences"
    );
    Ok(format!("{title}\n\n{drawn}"))
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    max_sequences: usize,
    problems: usize,
    methods: Vec<Line>,
    outcomes: Vec<ProblemReport>,
}

/// How each method fared on one problem, in the order of `methods`.
#[derive(Serialize)]
struct ProblemReport {
    id: String,
    right: Vec<usize>,
    sequences: Vec<usize>,
    tokens: Vec<usize>,
}

fn print_json(args: &Args, tasks: &[Task], runs: &[Run]) -> anyhow::Result<()> {
    let outcomes = tasks.iter().enumerate().map(|(at, task)| {
        let each = |of: fn(&Graded) -> usize| runs.iter().map(|r| of(&r.outcomes[at])).collect();
        ProblemReport {
            id: task.id.clone(),
            right: each(Graded::right),
            sequences: each(Graded::sequences),
            tokens: each(|o| o.tokens),
        }
    });
    let report = Report {
        seed: args.sampling.seed,
        max_sequences: args.forking.max_sequences,
        problems: tasks.len(),
        methods: lines(runs),
        outcomes: outcomes.collect(),
    };
    Ok(print(&serde_json::to_string(&report)?)?)
}
