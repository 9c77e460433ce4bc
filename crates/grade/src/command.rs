//! A user's own grader: any program that reads a problem and a response and answers with a score.
//!
//! The program is started once for each response. It gets one line of JSON on its standard input,
//! `{"problem": …, "response": "…"}`, and answers on its standard output with one of
//!
//! - `{"score": 0.5}`, from 0 to 1, perhaps with an `"answer"` for votes;
//! - `{"correct": true}`, likewise;
//! - a bare number from 0 to 1, or `true` or `false`.
//!
//! If there are several lines, the last that is not blank counts, so that a program may say what it is doing.
//! Whatever else happens (it cannot be started, crashes, ends with another status than 0, answers something else,
//! too much or too late) is an error that names the program: a broken grader must not look like wrong answers.
//!
//! The program is the user's own and is not locked in. But it is kept to its time: on a timeout, and after its end,
//! what is left of its process group is killed.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitStatus};
use serde::Deserialize;

use crate::process::{Leash, Pipes, describe};

/// The longest output that is still an answer, with whatever is said before it.
const LONGEST: usize = 1 << 20;
/// How often a program that has closed its pipes is asked whether it has ended.
const GLANCE: Duration = Duration::from_millis(5);

/// A program that grades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandGrader {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub timeout: Duration,
}

/// What it said.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// From 0 to 1.
    pub score: f64,
    /// The answer that it found in the response, if it told.
    pub answer: Option<String>,
}

impl Score {
    pub fn correct(&self) -> bool {
        self.score >= 1.0
    }
}

/// A grader that did not grade.
#[derive(Debug, thiserror::Error)]
#[error("the grading program `{program}` {failure}")]
pub struct CommandError {
    pub program: String,
    pub failure: Failure,
}

/// What went wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("could not be run: {0}")]
    Start(#[from] std::io::Error),
    #[error("did not answer within {0:?}; speed it up or give it more time")]
    Timeout(Duration),
    #[error("{end}{complaints}")]
    Crash { end: String, complaints: Complaints },
    #[error("wrote more than {LONGEST} bytes; it should write its score and little else")]
    TooLong,
    #[error("was stopped, as asked")]
    Cancelled,
    #[error(
        "answered {answer:?}; it should answer {{\"score\": 0 to 1}}, {{\"correct\": true or false}}, a number from 0 to 1, true or false{complaints}"
    )]
    Answer { answer: String, complaints: Complaints },
}

/// The end of what a program wrote to its standard error; nothing, if it wrote nothing.
#[derive(Debug)]
pub struct Complaints(pub String);

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; its last words: {}", self.0) }
    }
}

impl CommandGrader {
    /// Grades one response to a problem, which may be any JSON.
    pub fn grade(&self, problem: &serde_json::Value, response: &str) -> Result<Score, CommandError> {
        self.grade_unless(problem, response, &AtomicBool::new(false))
    }

    /// Grades one response, unless `cancel` becomes true before it is done.
    pub fn grade_unless(
        &self,
        problem: &serde_json::Value,
        response: &str,
        cancel: &AtomicBool,
    ) -> Result<Score, CommandError> {
        let run = || {
            let (pipes, end) = self.exchange(problem, response, cancel)?;
            let complaints = Complaints(pipes.complaints.text());
            if end.exit_status() != Some(0) {
                return Err(Failure::Crash { end: describe(Some(end)), complaints });
            }
            parse(&pipes.received)
                .ok_or_else(|| Failure::Answer { answer: last_line(&pipes.received), complaints })
        };
        run()
            .map_err(|failure| CommandError { program: self.program.to_string_lossy().into_owned(), failure })
    }

    /// Runs the program to its end: what it wrote, and how it ended.
    fn exchange(
        &self,
        problem: &serde_json::Value,
        response: &str,
        cancel: &AtomicBool,
    ) -> Result<(Pipes, WaitStatus), Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut message = serde_json::json!({ "problem": problem, "response": response }).to_string();
        message.push('\n');
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut leash = Leash::new(pid.ok_or_else(|| std::io::Error::other("it has no process number"))?);
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("it has no pipes").into());
        };
        let ends = (OwnedFd::from(input), OwnedFd::from(output), OwnedFd::from(errors));
        let mut pipes = Pipes::new(ends.0, message.into_bytes(), ends.1, ends.2)?;
        loop {
            // Its end counts, not that of its pipes: something it left behind may hold them open.
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = if pipes.silent() { Duration::ZERO } else { left.min(GLANCE) };
            pipes.turn(patience, LONGEST + 1)?;
            if pipes.received.len() > LONGEST {
                return Err(Failure::TooLong);
            }
            if let Some(end) = leash.ended() {
                drain(&mut pipes)?;
                return Ok((pipes, end));
            }
            if left.is_zero() {
                return Err(Failure::Timeout(self.timeout));
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(Failure::Cancelled);
            }
            if pipes.silent() {
                std::thread::sleep(left.min(GLANCE));
            }
        }
    }
}

/// Takes what the program had written before it ended; whoever else held its pipes has been killed.
fn drain(pipes: &mut Pipes) -> Result<(), Failure> {
    let grace = Instant::now() + Duration::from_millis(200);
    while !pipes.silent() && Instant::now() < grace {
        pipes.turn(GLANCE, LONGEST + 1)?;
        if pipes.received.len() > LONGEST {
            return Err(Failure::TooLong);
        }
    }
    Ok(())
}

/// The forms of an answer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Number(f64),
    Bool(bool),
    Score { score: f64, answer: Option<String> },
    Correct { correct: bool, answer: Option<String> },
}

fn parse(output: &[u8]) -> Option<Score> {
    let (score, answer) = match serde_json::from_str(&last_line(output)).ok()? {
        Answer::Number(score) => (score, None),
        Answer::Bool(correct) => (f64::from(u8::from(correct)), None),
        Answer::Score { score, answer } => (score, answer),
        Answer::Correct { correct, answer } => (f64::from(u8::from(correct)), answer),
    };
    (0.0..=1.0).contains(&score).then_some(Score { score, answer })
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(4096).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        type Expected = Option<(f64, Option<&'static str>)>;
        let table: &[(&str, Expected)] = &[
            ("1", Some((1.0, None))),
            ("0.25\n", Some((0.25, None))),
            ("true", Some((1.0, None))),
            ("false", Some((0.0, None))),
            (r#"{"score": 0.5}"#, Some((0.5, None))),
            (r#"{"score": 1, "answer": "42"}"#, Some((1.0, Some("42")))),
            (r#"{"correct": true, "answer": "42", "note": "ok"}"#, Some((1.0, Some("42")))),
            (r#"{"correct": false}"#, Some((0.0, None))),
            ("looking...\nstill\n0\n\n", Some((0.0, None))),
            // Not answers.
            ("", None),
            ("yes", None),
            ("1.5", None),
            ("-1", None),
            ("NaN", None),
            (r#"{"score": 2}"#, None),
            (r#"{"score": "1"}"#, None),
            (r#"{"correct": 1}"#, None),
            ("{}", None),
            ("1 1", None),
        ];
        for (output, expected) in table {
            let score = parse(output.as_bytes());
            let score = score.as_ref().map(|score| (score.score, score.answer.as_deref()));
            assert_eq!(score, *expected, "{output:?}");
        }
    }
}
