//! Does this program do what was asked? HumanEval+ as evalplus judges it, with programs that may cheat.
//!
//! A response passes if its program returns, on every input, what the reference solution returns, within a second
//! of processor time or four times what the reference takes. The same is what Python's `==` takes for the same;
//! where floats are expected or the problem states a tolerance, it is also what has the same type and length and
//! is close by `numpy.allclose` with a relative tolerance of 1e-7. Of `find_zero`, any root will do. The original
//! inputs (`base`) and those that evalplus added (`plus`) are judged apart; the usual "plus" score wants both.
//!
//! Programs have the standard library of the Python that runs them, and nothing else: no numpy. Hashing is not
//! random, so a verdict does not change from one time to the next.
//!
//! # Why a verdict cannot be forged
//!
//! The program shares an interpreter with the harness that calls it, and Python has no walls inside a process: a
//! program can patch the harness, walk its frames, end the process or write to its pipe. So nothing worth stealing
//! or forging is there. The process holds the program and the inputs. It reports outputs, as plain data in a strict
//! format; this side of the pipe knows the expected ones, compares, and measures time. A program that takes over
//! the harness has gained the right to say what its outputs are, which it had from the start. To pass it must say
//! the right ones for hundreds of inputs, and the [sandbox](crate::sandbox) leaves it no place to look them up.
//! An output is never asked whether it equals anything: its class stays behind, only its data crosses.
//!
//! The program ending early, in whatever way, is a failure; so is an answer that is malformed, too long or late.
//!
//! # Agreement with evalplus
//!
//! `EAGER_DATA=… python3 crates/grade/tests/evalplus/compare.py` installs evalplus 0.3.1 beside this grader and has
//! both judge two mutants of each reference solution (an integer off by one, a comparison turned around): 306 of
//! 306 verdicts agree, 289 of them that the mutant is wrong. Deviations by design, none of which the mutants touch:
//! time is processor time, not time passed; hashes are not random; numpy is not there; an output has to be plain
//! data or equal to it; nested lists must agree in shape; and what a program does to its arguments does not change
//! what is asked of its result.
//!
//! # Many at once
//!
//! [`CodeGrader::grade_all`] grades a stream of samples with a bounded number of workers (half of the cores, unless
//! told otherwise), each with one child at low priority, so that an engine on the same machine keeps its pace.

mod behaviour;
mod conversation;
mod equality;
mod extract;
mod marshal;
mod problem;
mod reference;
mod trial;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ordered::{Ordered, ordered};
use crate::response::{Response, Said};
use crate::sandbox::{Sandbox, SandboxError};
use reference::Reference;
use trial::Trial;

pub use problem::Problem;

/// Why there is no verdict. None of these is the tested program's doing.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error("cannot read the problems in {path}: {reason}")]
    Data { path: String, reason: String },
    #[error("there is no problem {id}; the grader knows those of the file it was given")]
    Unknown { id: String },
    #[error(
        "the reference solution of {id} failed: {reason}; is this file HumanEval+, and Python 3.8 or later?"
    )]
    Reference { id: String, reason: String },
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("grading was cancelled")]
    Cancelled,
}

/// How a program did on one set of inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    Pass,
    /// A wrong output or an exception, on this input of the set; or no program, or one that does not load.
    Fail {
        input: Option<usize>,
        reason: String,
    },
    Timeout {
        input: Option<usize>,
        reason: String,
    },
    /// The program broke off, or broke the harness.
    Error {
        input: Option<usize>,
        reason: String,
    },
}

impl Outcome {
    pub fn passed(&self) -> bool {
        matches!(self, Self::Pass)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, input, reason) = match self {
            Self::Pass => return f.write_str("pass"),
            Self::Fail { input, reason } => ("fail", input, reason),
            Self::Timeout { input, reason } => ("timeout", input, reason),
            Self::Error { input, reason } => ("error", input, reason),
        };
        match input {
            Some(input) => write!(f, "{word} on input {input}: {reason}"),
            None => write!(f, "{word}: {reason}"),
        }
    }
}

/// The verdict on one response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The program that was found, if one was.
    pub program: Option<String>,
    /// Equal for programs with the same outputs on the base inputs: what votes count. `None` where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    pub base: Outcome,
    pub plus: Outcome,
}

impl Verdict {
    /// Right on all inputs.
    pub fn correct(&self) -> bool {
        self.base.passed() && self.plus.passed()
    }
}

/// Grades responses to the problems of one file.
#[derive(Debug)]
pub struct CodeGrader {
    sandbox: Sandbox,
    problems: Vec<Problem>,
    numbers: HashMap<String, usize>,
    /// Computed when first needed, by whoever needs it first; the others wait.
    references: Vec<Mutex<Option<Arc<Reference>>>>,
    workers: usize,
}

impl CodeGrader {
    pub fn new(sandbox: Sandbox, problems: Vec<Problem>) -> Self {
        let numbers = problems.iter().enumerate().map(|(number, problem)| (problem.id.clone(), number));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            sandbox,
            numbers: numbers.collect(),
            references: problems.iter().map(|_| Mutex::default()).collect(),
            problems,
            workers: (cores / 2).max(1),
        }
    }

    /// How many programs run at the same time; at least one.
    pub fn with_workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// How many programs run at the same time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The program that a response seems to give, without a look at whether it compiles: nothing is run.
    pub fn program<'a>(&self, id: &str, response: impl Into<Response<'a>>) -> Option<String> {
        let problem = &self.problems[*self.numbers.get(id)?];
        let said = response.into().said()?;
        extract::candidates(problem, said).first().map(extract::Candidate::program)
    }

    /// Grades one response, on this thread.
    pub fn grade<'a>(&self, id: &str, response: impl Into<Response<'a>>) -> Result<Verdict, CodeError> {
        self.grade_unless(id, response.into().said(), &AtomicBool::new(false))
    }

    /// Grades samples, each a problem's id and a response, and yields the verdicts in order as they come. Dropped before its
    /// end, it kills the programs that run.
    pub fn grade_all<S>(self: &Arc<Self>, samples: S) -> Ordered<(String, String), Result<Verdict, CodeError>>
    where
        S: IntoIterator<Item = (String, String)>,
        S::IntoIter: Send + 'static,
    {
        let grader = Arc::clone(self);
        ordered(self.workers, samples.into_iter(), move |(id, response): (String, String), cancel| {
            grader.grade_unless(&id, Response::from(&response).said(), cancel)
        })
    }

    /// Grades what one response says, unless `cancel` becomes true before it is done.
    pub fn grade_unless(
        &self,
        id: &str,
        said: Option<Said<'_>>,
        cancel: &AtomicBool,
    ) -> Result<Verdict, CodeError> {
        let number = *self.numbers.get(id).ok_or_else(|| CodeError::Unknown { id: id.to_owned() })?;
        let problem = &self.problems[number];
        let reference = {
            // A panic while computing leaves nothing half done, so a poisoned lock is as good as any.
            let mut slot = self.references[number].lock().unwrap_or_else(PoisonError::into_inner);
            match &*slot {
                Some(reference) => Arc::clone(reference),
                None => {
                    let reference = Arc::new(Reference::compute(&self.sandbox, problem, cancel)?);
                    Arc::clone(slot.insert(reference))
                }
            }
        };
        let candidates = said.map(|said| extract::candidates(problem, said)).unwrap_or_default();
        let trial =
            Trial { sandbox: &self.sandbox, problem, reference: &reference, candidates: &candidates, cancel };
        trial.verdict()
    }
}
