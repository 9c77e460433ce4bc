//! The graders behind one door.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use eager_grade::response::{Extract, Extraction};
use eager_grade::{Grade, Grader};
use serde_json::{Value, json};

use super::line::Line;
use super::{Args, Kind};

/// Grades lines of one kind.
#[derive(Debug)]
pub enum Judge {
    /// By looking at the text.
    Text(Kind),
    #[cfg(unix)]
    Code(Box<eager_grade::code::CodeGrader>),
    #[cfg(unix)]
    Command(eager_grade::command::CommandGrader),
}

/// What was found.
#[derive(Debug)]
pub enum Verdict {
    Text(Grade),
    #[cfg(unix)]
    Code(eager_grade::code::Verdict),
    #[cfg(unix)]
    Command(eager_grade::command::Score),
    /// The grader failed, not the answer. Those that can fail run programs.
    #[cfg_attr(not(unix), allow(dead_code))]
    Failed(String),
}

impl Judge {
    #[cfg(unix)]
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        use eager_grade::code::{CodeGrader, Problem};
        use eager_grade::command::CommandGrader;
        use eager_grade::sandbox::{Limits, Policy, Python, Sandbox};

        if args.kind != Kind::Command && !args.program.is_empty() {
            return Err(crate::Usage("a program after -- goes with --grader command".to_owned()).into());
        }
        match args.kind {
            Kind::Code => {
                let path = match &args.problems {
                    Some(path) => path.clone(),
                    None => eager_lab::suite::source::file("HumanEvalPlus-v0.1.10.jsonl.gz")?,
                };
                let problems = Problem::load(&path)?;
                let policy = if args.unsafe_code { Policy::AcceptMissing } else { Policy::RequireAll };
                let sandbox = Sandbox::new(Python::find()?, Limits::default(), policy)?;
                for line in sandbox.describe() {
                    eprintln!("eager: {line}");
                }
                Ok(Judge::Code(Box::new(CodeGrader::new(sandbox, problems))))
            }
            Kind::Command => {
                let Some((program, arguments)) = args.program.split_first() else {
                    let why = "--grader command needs a program: eager grade --grader command -- PROGRAM [ARGUMENTS]";
                    return Err(crate::Usage(why.to_owned()).into());
                };
                Ok(Judge::Command(CommandGrader {
                    program: program.clone(),
                    arguments: arguments.to_vec(),
                    timeout: std::time::Duration::from_secs_f64(args.timeout),
                }))
            }
            kind => Ok(Judge::Text(kind)),
        }
    }

    #[cfg(not(unix))]
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        match args.kind {
            Kind::Code | Kind::Command => {
                bail!("--grader code and --grader command run programs, and that works on Unix only")
            }
            kind => Ok(Judge::Text(kind)),
        }
    }

    /// An error is a line that makes no sense; a grader that fails is a verdict.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub fn judge(&self, line: &Line, extract: Extract, cancel: &AtomicBool) -> anyhow::Result<Verdict> {
        // No response is a wrong one.
        let text = line.text("pred")?.unwrap_or_default();
        let extraction = Extraction { opened: line.thinking()?, extract, ..Extraction::default() };
        let response = extraction.response(&text, line.is_complete()?);
        Ok(match self {
            Judge::Text(kind) => Verdict::Text(grader(*kind, line)?.grade(response)),
            #[cfg(unix)]
            Judge::Code(grader) => {
                // Samples as other tools write them name the problem so.
                let key = if line.has("gold") { "gold" } else { "task_id" };
                let id = line.text(key)?.context("\"gold\" should be the id of a problem")?;
                match grader.grade_unless(&id, response.said(), cancel) {
                    Ok(verdict) => Verdict::Code(verdict),
                    Err(error) => Verdict::Failed(error.to_string()),
                }
            }
            #[cfg(unix)]
            Judge::Command(grader) => match grader.grade_unless(&line.problem()?, &text, cancel) {
                Ok(score) => Verdict::Command(score),
                Err(error) => Verdict::Failed(error.to_string()),
            },
        })
    }
}

/// The grader of a line.
fn grader(kind: Kind, line: &Line) -> anyhow::Result<Grader> {
    if kind == Kind::Expression {
        return expression(line);
    }
    let gold = line.text("gold")?.context("\"gold\" should be the right answer")?;
    if kind != Kind::Choice {
        return Ok(Grader::Math { gold });
    }
    let choices = match line.get("choices")? {
        Some(choices) => serde_json::from_value(choices).context("\"choices\" should be a list of texts")?,
        None => Vec::new(),
    };
    let mut letters = gold.trim().trim_matches(['(', ')']).chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter.is_ascii_alphabetic() => {
            Ok(Grader::Choice { gold: letter.to_ascii_uppercase(), choices })
        }
        _ => bail!("\"gold\" should be one letter, not {gold:?}"),
    }
}

fn expression(line: &Line) -> anyhow::Result<Grader> {
    let gold = line.get("gold")?.context("it has no \"gold\"")?;
    let whole = |value: &Value| match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    };
    let (target, numbers) = match &gold {
        Value::Object(gold) => (gold.get("target").and_then(whole), gold.get("numbers").cloned()),
        gold => (whole(gold), line.get("numbers")?),
    };
    let numbers = numbers.and_then(|numbers| serde_json::from_value(numbers).ok());
    match (target, numbers) {
        (Some(target), Some(numbers)) => Ok(Grader::Expression { numbers, target }),
        _ => bail!("\"gold\" should be {{\"numbers\": [1, 2, 3], \"target\": 6}}, all of them whole numbers"),
    }
}

impl Verdict {
    pub fn correct(&self) -> Option<bool> {
        match self {
            Verdict::Text(grade) => Some(grade.correct),
            #[cfg(unix)]
            Verdict::Code(verdict) => Some(verdict.correct()),
            #[cfg(unix)]
            Verdict::Command(score) => Some(score.correct()),
            Verdict::Failed(_) => None,
        }
    }

    /// What is added to a line.
    pub fn fields(&self, explain: bool) -> Vec<(&'static str, Value)> {
        let mut fields = vec![("correct", json!(self.correct()))];
        match self {
            Verdict::Text(grade) if explain => fields.push(("answer", json!(grade.answer))),
            Verdict::Text(_) => {}
            #[cfg(unix)]
            Verdict::Code(verdict) => {
                if explain {
                    let detail =
                        json!({ "base": verdict.base.to_string(), "plus": verdict.plus.to_string() });
                    fields.push(("detail", detail));
                }
            }
            #[cfg(unix)]
            Verdict::Command(score) => {
                fields.push(("score", json!(score.score)));
                if explain {
                    fields.push(("answer", json!(score.answer)));
                }
            }
            Verdict::Failed(error) => fields.push(("error", json!(error))),
        }
        fields
    }
}
