//! `eager grade`: is each of these answers right?
//!
//! Lines of JSON come in on standard input and go out on standard output, in the same order and with everything they held,
//! each with `correct` added. Lines are graded by several threads, and each is printed as soon as it and all before it are
//! done, so the command can sit in a pipe or serve a program that sends one line and waits for its answer.

mod judge;
mod line;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use clap::{Args as ClapArgs, ValueEnum};
use eager_grade::ordered::{Ordered, ordered};
use eager_grade::response::Extract;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{ExtractArgs, at_least_one};
use crate::interrupt::Interrupt;
use crate::{Outcome, print};

use judge::Judge;
use line::Line;

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Mathematics, compared by meaning: "gold" is the right answer in LaTeX or plain
    Math,
    /// Multiple choice: "gold" is a letter; "choices" may list the texts
    Choice,
    /// A program, run against the tests of HumanEval+: "gold" or "task_id" is the problem's id, such as HumanEval/0
    Code,
    /// A countdown expression: "gold" is {"numbers": [...], "target": n}, or the target with "numbers" beside it
    Expression,
    /// Whatever the program after `--` says: it gets {"problem", "response"} on stdin and answers with a score
    Command,
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Each line of standard input is a JSON object with \"gold\" and \"pred\", the whole response. It is printed \
with \"correct\" added.\n\nOnly what follows a chain of thought is looked at. \"thinking\": true says that the prompt had opened one already. \
\"finish\": \"length\" says that the response was cut off: it has an answer only in a box, a statement such as \"the answer is \
5\", or a closed block of code. Both may be left out.\n\nExample: echo '{\"gold\": \"1/2\", \"pred\": \"so it is \\\\boxed{0.5}\"}' | eager grade --grader math"
)]
pub struct Args {
    /// What the answers are
    #[arg(long = "grader", alias = "kind", value_enum)]
    kind: Kind,
    /// Lines to grade [default: standard input]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    extract: ExtractArgs,
    /// Add what the verdict rests on: the "answer" that was found, or the "detail" of what a program did wrong
    #[arg(long)]
    explain: bool,
    /// How many lines are graded at a time [default: one for each processor, half of that for code]
    #[arg(long, value_parser = at_least_one)]
    workers: Option<usize>,
    /// The problems that code is tested on [default: HumanEvalPlus-v0.1.10.jsonl.gz in the data folder]
    #[arg(long, value_name = "FILE")]
    problems: Option<PathBuf>,
    /// Run code even where this machine cannot keep it from doing harm
    #[arg(long)]
    unsafe_code: bool,
    /// Seconds that a grading program may take for one answer
    #[arg(long = "grader-timeout", alias = "timeout", value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    timeout: f64,
    /// The program that grades, with its arguments, for --grader command
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("must be a number of seconds, more than 0 and at most a day".to_owned()),
    }
}

/// How often Ctrl-C is looked for while no line comes.
const GLANCE: Duration = Duration::from_millis(200);

/// Lines that are handed to a thread together: judging one takes microseconds, waking a thread takes longer.
const TOGETHER: usize = 64;

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let judge = Judge::new(args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.unwrap_or(if args.kind == Kind::Code { (cores / 2).max(1) } else { cores });
    let input: Box<dyn Read + Send> = match &args.input {
        Some(path) => {
            Box::new(std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?)
        }
        None => {
            if std::io::stdin().is_terminal() {
                eprintln!("eager: reading lines of JSON from the keyboard; end them with Ctrl-D");
            }
            Box::new(std::io::stdin())
        }
    };
    let slow = matches!(args.kind, Kind::Code | Kind::Command);
    let lines = Lines { input: BufReader::new(input), number: 0, most: if slow { 1 } else { TOGETHER } };
    let (extract, explain) = (args.extract.extract, args.explain);
    let mut graded = ordered(workers, lines, move |some: Vec<Numbered>, cancel| {
        some.into_iter().map(|line| one(&judge, line, extract, explain, cancel)).collect::<Vec<_>>()
    });
    let result = show(&mut graded, &interrupt);
    // A thread may be waiting for a line that never comes; one that runs a program should end it.
    graded.abandon(Duration::from_secs(2));
    result
}

/// A line and its number, or why there is none.
type Numbered = (usize, std::io::Result<Vec<u8>>);

/// Grades one line: the line to print, and whether the answer is right; `None` where the grader failed.
fn one(
    judge: &Judge,
    (number, bytes): Numbered,
    extract: Extract,
    explain: bool,
    cancel: &AtomicBool,
) -> anyhow::Result<(String, Option<bool>)> {
    let place = || format!("line {number} of the input");
    // What is no UTF-8 is no answer either, but the line is a line all the same.
    let bytes = bytes.with_context(place)?;
    let mut line = Line::parse(&String::from_utf8_lossy(&bytes)).with_context(place)?;
    let verdict = judge.judge(&line, extract, cancel).with_context(place)?;
    let correct = verdict.correct();
    line.add(&verdict, explain);
    Ok((line.to_string(), correct))
}

/// Some graded lines, up to the first that makes no sense.
type Graded = Vec<anyhow::Result<(String, Option<bool>)>>;

/// Prints lines as they come, and at the end how many there were.
fn show(graded: &mut Ordered<Vec<Numbered>, Graded>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} graded, {per_sec}  {elapsed}") {
        bar.set_style(style);
    }
    // Lines on a terminal are progress enough.
    if !std::io::stdout().is_terminal() {
        bar.enable_steady_tick(GLANCE);
    }
    let mut count = Count::default();
    loop {
        let some = match graded.next_within(GLANCE) {
            Poll::Ready(Some(some)) => some,
            Poll::Ready(None) => break,
            Poll::Pending => Vec::new(),
        };
        let mut text = String::new();
        let mut stop = None;
        for line in some {
            match line {
                Ok((line, correct)) => {
                    count.add(correct);
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(error) => {
                    stop = Some(error);
                    break;
                }
            }
        }
        bar.set_position(count.lines());
        if !text.is_empty() {
            print(text.trim_end_matches('\n'))?;
        }
        if let Some(error) = stop {
            bar.finish_and_clear();
            return Err(error.context(format!("{count}; then")));
        }
        if interrupt.asked() {
            bar.finish_and_clear();
            eprintln!("eager: interrupted: {count}");
            return Ok(Outcome::Interrupted);
        }
    }
    bar.finish_and_clear();
    eprintln!("eager: {count}");
    if count.failed > 0 {
        anyhow::bail!(
            "{} lines could not be graded; they have \"correct\": null and an \"error\"",
            count.failed
        );
    }
    Ok(Outcome::Done)
}

#[derive(Debug, Default)]
struct Count {
    right: u64,
    wrong: u64,
    failed: u64,
}

impl Count {
    fn add(&mut self, correct: Option<bool>) {
        match correct {
            Some(true) => self.right += 1,
            Some(false) => self.wrong += 1,
            None => self.failed += 1,
        }
    }

    fn lines(&self) -> u64 {
        self.right + self.wrong + self.failed
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} right, {} wrong", self.right, self.wrong)?;
        if self.failed > 0 { write!(f, ", {} not graded", self.failed) } else { Ok(()) }
    }
}

/// The lines of the input, several at a time where they are there already.
struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    number: usize,
    most: usize,
}

impl Iterator for Lines {
    type Item = Vec<Numbered>;

    fn next(&mut self) -> Option<Vec<Numbered>> {
        let mut some = Vec::new();
        // Waits for the first line only.
        while some.is_empty() || (some.len() < self.most && self.input.buffer().contains(&b'\n')) {
            let mut line = Vec::new();
            let read = self.input.read_until(b'\n', &mut line);
            self.number += 1;
            match read {
                Ok(0) => break,
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => some.push((self.number, Ok(line))),
                Err(error) => {
                    some.push((self.number, Err(error)));
                    break;
                }
            }
        }
        (!some.is_empty()).then_some(some)
    }
}
