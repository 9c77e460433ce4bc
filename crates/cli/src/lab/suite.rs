//! Which problems: the options that all commands over suites share.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args as ClapArgs;
#[cfg(unix)]
use eager_grade::command::CommandGrader;
use eager_lab::judge::Kind;
use eager_lab::run::Asked;
use eager_lab::suite::{Fields, Request, Suite};

use crate::Usage;
use crate::args::at_least_one;

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Problems")]
pub struct SuiteArgs {
    /// aime2024, aime2025, hmmt-feb-2025, gpqa-diamond, humaneval-plus, math500, gsm8k, acorn, or a .jsonl file of your own
    #[arg(long)]
    pub suite: String,
    /// Only so many; acorn has as many as you like
    #[arg(long, value_parser = at_least_one)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub pick: PickArgs,
}

/// Which of a suite's problems, and how they are put.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Problems")]
pub struct PickArgs {
    /// Only the problems with these ids, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// In a random order, drawn with this seed
    #[arg(long)]
    pub shuffle: Option<u64>,
    /// Draw acorn's problems anew with this seed
    #[arg(long)]
    pub problem_seed: Option<u64>,
    /// A file with the prompt to use instead of the suite's: {{ problem }}, {{ choices }} and {{ id }} are filled in
    #[arg(long)]
    pub template: Option<PathBuf>,
    /// The field of your file that names a problem [default: id, or else the number of the line]
    #[arg(long)]
    pub field_id: Option<String>,
    /// The field with the problem [default: problem]
    #[arg(long)]
    pub field_problem: Option<String>,
    /// The field with the right answer [default: answer]
    #[arg(long)]
    pub field_answer: Option<String>,
    /// How answers of your file are graded: math, choice, exact, expression, command or none [default: math]
    #[arg(long)]
    pub grader: Option<Kind>,
    /// Seconds that a grading command may take
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub grader_timeout: u64,
    /// Run tested programs even where this machine cannot keep them from doing harm
    #[arg(long)]
    pub unsafe_code: bool,
    /// The grading command and its arguments, for --grader command
    #[arg(last = true)]
    pub program: Vec<OsString>,
}

impl SuiteArgs {
    pub fn open(&self) -> anyhow::Result<Suite> {
        open(&self.suite, &self.pick, self.limit)
    }
}

/// Opens a suite, or so many of its problems, and makes sure that its answers can be judged.
pub fn open(suite: &str, pick: &PickArgs, limit: Option<usize>) -> anyhow::Result<Suite> {
    let suite = Suite::open(&request(suite, pick, limit)?).map_err(|error| match error.is_usage() {
        true => Usage(error.to_string()).into(),
        false => anyhow::Error::from(error),
    })?;
    for line in suite.prepare()? {
        eprintln!("eager: {line}");
    }
    Ok(suite)
}

fn request(suite: &str, pick: &PickArgs, limit: Option<usize>) -> anyhow::Result<Request> {
    let template = match &pick.template {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the template {}", path.display()))?,
        ),
        None => None,
    };
    let usual = Fields::default();
    #[cfg(not(unix))]
    if !pick.program.is_empty() {
        return Err(
            Usage("a grading program can be run on Unix only; use another --grader here".to_owned()).into()
        );
    }
    Ok(Request {
        suite: suite.to_owned(),
        fields: Fields {
            id: pick.field_id.clone().or(usual.id),
            problem: pick.field_problem.clone().unwrap_or(usual.problem),
            answer: pick.field_answer.clone().unwrap_or(usual.answer),
            group: usual.group,
        },
        grader: pick.grader,
        #[cfg(unix)]
        command: command(pick),
        template,
        only: pick.only.clone(),
        shuffle: pick.shuffle,
        limit,
        problem_seed: pick.problem_seed,
        unsafe_code: pick.unsafe_code,
        announce: Some(|what| eprintln!("eager: {what}")),
        ..Request::default()
    })
}

/// The user's grading program, if there is one.
#[cfg(unix)]
fn command(pick: &PickArgs) -> Option<CommandGrader> {
    let (program, arguments) = pick.program.split_first()?;
    Some(CommandGrader {
        program: program.clone(),
        arguments: arguments.to_vec(),
        timeout: std::time::Duration::from_secs(pick.grader_timeout),
    })
}

/// What is written down of the problems, for people who look at the run.
pub fn asked(suite: &Suite) -> Vec<Asked> {
    if suite.secret {
        return Vec::new();
    }
    let asked = |problem: &eager_lab::suite::Problem| Asked {
        id: problem.id.clone(),
        problem: problem.text.clone(),
        gold: problem.gold.clone(),
    };
    suite.problems.iter().map(asked).collect()
}
