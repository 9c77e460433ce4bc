//! Who says whether the responses to a problem are right.
//!
//! A [`Judge`] knows all that it needs of its problem: the gold answer, the tests, or the user's program. It judges the
//! responses of a prompt together, because votes count answers as strings: two answers that say the same must be
//! spelled the same, and only a look at all of them can see to that. Where a judgement costs a process, equal responses
//! are judged once.
//!
//! A response that cannot be read is wrong. A judge that cannot work (no Python, no sandbox, a grading program that
//! crashes) is a [`JudgeError`] and never looks like wrong answers.

#[cfg(unix)]
use std::collections::HashMap;
use std::fmt;
#[cfg(unix)]
use std::hash::Hash;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
#[cfg(unix)]
use std::sync::atomic::Ordering;
#[cfg(unix)]
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(unix)]
use std::task::Poll;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use eager_grade::code::{self, CodeError, CodeGrader};
#[cfg(unix)]
use eager_grade::command::{CommandError, CommandGrader};
#[cfg(unix)]
use eager_grade::ordered::{Ordered, ordered};
use eager_grade::response::Response;
#[cfg(unix)]
use eager_grade::response::Said;
#[cfg(unix)]
use eager_grade::sandbox::{Limits, Policy, Python, Sandbox, SandboxError};
use eager_grade::{Grader, math};
use serde::{Deserialize, Serialize};

/// How often a judge that waits for programs looks whether it is to stop.
#[cfg(unix)]
const GLANCE: Duration = Duration::from_millis(100);

/// The kinds of judges, by the names that `--grader` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Mathematics, compared by meaning.
    Math,
    /// A letter.
    Choice,
    /// The same number, or the same text.
    Exact,
    /// An expression of given numbers that makes a target.
    Expression,
    /// A program, run against tests.
    Code,
    /// Whatever a program of the user's says.
    Command,
    /// Nobody knows the right answer.
    None,
}

impl Kind {
    pub const ALL: [Self; 7] =
        [Self::Math, Self::Choice, Self::Exact, Self::Expression, Self::Code, Self::Command, Self::None];

    pub fn name(self) -> &'static str {
        match self {
            Self::Math => "math",
            Self::Choice => "choice",
            Self::Exact => "exact",
            Self::Expression => "expression",
            Self::Code => "code",
            Self::Command => "command",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no grader '{0}'; there are math, choice, exact, expression, code, command and none")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// Judges the responses to one problem.
#[derive(Debug, Clone)]
pub enum Judge {
    /// A look at the text is enough.
    Text(Grader),
    /// The response holds a program, which is run against the tests of the problem with this id.
    #[cfg(unix)]
    Code { programs: Arc<Programs>, id: String },
    /// A program of the user's is asked, and told this of the problem.
    #[cfg(unix)]
    Command { grader: Arc<CommandGrader>, problem: serde_json::Value },
    /// The right answer is not known. Answers are found as in mathematics, so that votes can be counted.
    None,
}

/// The verdict on one response.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graded {
    /// What the response's vote is for: equal strings are equal answers. `None` where it gives no answer.
    pub answer: Option<String>,
    /// `None` where nobody knows.
    pub correct: Option<bool>,
    /// From 0 to 1, where a program of the user's says so.
    pub score: Option<f64>,
}

/// A judge that could not judge.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[cfg(unix)]
    #[error("programs cannot be judged: {0}")]
    Code(#[from] CodeError),
    #[cfg(unix)]
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("judging was stopped, as asked")]
    Stopped,
}

impl Judge {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Text(Grader::Math { .. }) => Kind::Math,
            Self::Text(Grader::Choice { .. }) => Kind::Choice,
            Self::Text(Grader::Exact { .. }) => Kind::Exact,
            Self::Text(Grader::Expression { .. }) => Kind::Expression,
            #[cfg(unix)]
            Self::Code { .. } => Kind::Code,
            #[cfg(unix)]
            Self::Command { .. } => Kind::Command,
            Self::None => Kind::None,
        }
    }

    /// Makes sure that the judge can work, before hours are spent on responses for it. What it has to say about that,
    /// as lines for a person.
    pub fn prepare(&self) -> Result<Vec<String>, JudgeError> {
        match self {
            #[cfg(unix)]
            Self::Code { programs, .. } => Ok(programs.grader()?.sandbox().describe()),
            _ => Ok(Vec::new()),
        }
    }

    /// Judges all responses of a prompt, unless `stop` becomes true before it is done: programs that hang take their time.
    /// The verdicts come in the order of the responses.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub fn grade_all_unless(
        &self,
        responses: &[Response<'_>],
        stop: &AtomicBool,
    ) -> Result<Vec<Graded>, JudgeError> {
        match self {
            Self::Text(grader) => Ok(grader
                .grade_all(responses)
                .into_iter()
                .map(|grade| Graded { answer: grade.answer, correct: Some(grade.correct), score: None })
                .collect()),
            #[cfg(unix)]
            Self::Code { programs, id } => run_programs(&programs.grader()?, id, responses, stop),
            #[cfg(unix)]
            Self::Command { grader, problem } => ask(grader, problem, responses, stop),
            Self::None => Ok(found(responses).map(|answer| Graded { answer, ..Graded::default() }).collect()),
        }
    }

    /// The answers alone: what responses would vote for, as far as it can be told while others are still decoded. Nothing is
    /// run for it, so programs are compared by their text. What cannot be read is no answer.
    pub fn answers(&self, responses: &[Response<'_>]) -> Vec<Option<String>> {
        match self {
            Self::Text(grader) => grader.grade_all(responses).into_iter().map(|grade| grade.answer).collect(),
            #[cfg(unix)]
            Self::Code { programs, id } => {
                let grader = programs.grader().ok();
                let program = |response| grader.as_ref()?.program(id, response);
                let trimmed = |text: String| text.trim_end().to_owned();
                responses.iter().map(|response| program(response).map(trimmed)).collect()
            }
            #[cfg(unix)]
            Self::Command { .. } => found(responses).collect(),
            Self::None => found(responses).collect(),
        }
    }
}

/// The answers of responses to a problem whose right answer is not known.
fn found(responses: &[Response<'_>]) -> impl Iterator<Item = Option<String>> {
    // Without a gold answer to compare with, its verdicts mean nothing; the spellings do.
    math::grade_all("", responses).into_iter().map(|grade| grade.answer)
}

/// Things without repetitions, and for each of the given ones the place of its equal among them.
#[cfg(unix)]
fn distinct<T: Copy + Eq + Hash>(things: impl Iterator<Item = T>) -> (Vec<T>, Vec<usize>) {
    let mut places = HashMap::new();
    let mut once = Vec::new();
    let place = |thing: T| {
        *places.entry(thing).or_insert_with(|| {
            once.push(thing);
            once.len() - 1
        })
    };
    let which = things.map(place).collect();
    (once, which)
}

/// Runs the program of each response. Programs that do the same vote together, for the first of them.
#[cfg(unix)]
fn run_programs(
    grader: &Arc<CodeGrader>,
    id: &str,
    responses: &[Response<'_>],
    stop: &AtomicBool,
) -> Result<Vec<Graded>, JudgeError> {
    // Programs are not looked for in thoughts, so responses that differ only there hold the same program.
    let (once, which) = distinct(responses.iter().map(Response::said));
    let once: Vec<_> =
        once.into_iter().map(|said| said.map(|said| (said.text.to_owned(), said.explicit))).collect();
    let (programs, id) = (Arc::clone(grader), id.to_owned());
    let work = move |said: Option<(String, bool)>, cancel: &_| {
        let said = said.as_ref().map(|(text, explicit)| Said { text, explicit: *explicit });
        programs.grade_unless(&id, said, cancel)
    };
    // One program has one verdict, even where two responses hold it and the machine was busy during one of the runs.
    let mut known: HashMap<String, (Option<String>, bool)> = HashMap::new();
    let mut named: HashMap<String, String> = HashMap::new();
    let graded = |verdict: code::Verdict| {
        let found = (verdict.behaviour.clone(), verdict.correct());
        let Some(program) = verdict.program.map(|program| program.trim_end().to_owned()) else {
            return Graded { correct: Some(false), ..Graded::default() };
        };
        let (behaviour, correct) = known.entry(program.clone()).or_insert(found).clone();
        let answer = behaviour.map(|behaviour| named.entry(behaviour).or_insert(program).clone());
        Graded { answer, correct: Some(correct), ..Graded::default() }
    };
    let verdicts = all(ordered(grader.workers(), once.into_iter(), work), stop)?;
    let verdicts: Vec<Graded> = verdicts.into_iter().map(graded).collect();
    Ok(which.into_iter().map(|place| verdicts[place].clone()).collect())
}

/// Asks the user's program about each response, several at a time.
#[cfg(unix)]
fn ask(
    grader: &Arc<CommandGrader>,
    problem: &serde_json::Value,
    responses: &[Response<'_>],
    stop: &AtomicBool,
) -> Result<Vec<Graded>, JudgeError> {
    let (once, which) = distinct(responses.iter().map(|response| response.text));
    let once: Vec<String> = once.into_iter().map(str::to_owned).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (grader, problem) = (Arc::clone(grader), problem.clone());
    let work = move |response: String, cancel: &_| grader.grade_unless(&problem, &response, cancel);
    let workers = cores.min(once.len().max(1));
    let scores = all(ordered(workers, once.into_iter(), work), stop)?;
    // A program that tells no answer leaves the votes to what is boxed.
    let said = which.into_iter().map(|place| &scores[place]);
    let graded = said.zip(found(responses)).map(|(score, found)| Graded {
        answer: score.answer.clone().or(found),
        correct: Some(score.correct()),
        score: Some(score.score),
    });
    Ok(graded.collect())
}

/// All results, unless one is an error or it is to stop. Dropped early, the stream ends the programs that still run.
#[cfg(unix)]
fn all<T, R, E>(mut results: Ordered<T, Result<R, E>>, stop: &AtomicBool) -> Result<Vec<R>, JudgeError>
where
    JudgeError: From<E>,
{
    let mut all = Vec::new();
    loop {
        match results.next_within(GLANCE) {
            Poll::Ready(Some(result)) => all.push(result?),
            Poll::Ready(None) => return Ok(all),
            Poll::Pending => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(JudgeError::Stopped);
        }
    }
}

/// The problems of a file with their tests, and what runs programs against them. That is made when it is first needed:
/// a suite can be looked at on a machine that has no Python.
#[cfg(unix)]
#[derive(Debug)]
pub struct Programs {
    state: Mutex<State>,
    /// SHA-256 of the file: other tests are another judge.
    hash: String,
    policy: Policy,
}

#[cfg(unix)]
#[derive(Debug)]
enum State {
    Waiting(Vec<code::Problem>),
    Ready(Arc<CodeGrader>),
}

#[cfg(unix)]
impl Programs {
    /// `hash` is the SHA-256 of the file that the problems are from.
    pub fn new(problems: Vec<code::Problem>, hash: String, policy: Policy) -> Self {
        Self { state: Mutex::new(State::Waiting(problems)), hash, policy }
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    fn grader(&self) -> Result<Arc<CodeGrader>, JudgeError> {
        // The state is replaced in one go, so a panic elsewhere leaves it whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let grader = match &mut *state {
            State::Ready(grader) => return Ok(Arc::clone(grader)),
            State::Waiting(problems) => {
                let sandbox = self.sandbox().map_err(CodeError::from)?;
                Arc::new(CodeGrader::new(sandbox, std::mem::take(problems)))
            }
        };
        *state = State::Ready(Arc::clone(&grader));
        Ok(grader)
    }

    fn sandbox(&self) -> Result<Sandbox, SandboxError> {
        Sandbox::new(Python::find()?, Limits::default(), self.policy)
    }
}
