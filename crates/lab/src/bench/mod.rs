//! Runs a method over a suite, into a folder, such that it can be killed at any moment and go on.
//!
//! Every prompt that is complete is on disk before the next thing happens. Randomness is keyed by the prompt, so what is
//! decoded again after a kill comes out the same, and so does the whole run.

mod clock;
mod nursery;
mod passes;

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use eager_core::method::Standing;
use eager_core::{
    Answers, EndedPath, Engine, Finish, Judged, Key, Method, Metrics, Outcome, Plan, Prefixes, Prompt, Pulse,
    Settings, Token, Tree,
};
use sha2::{Digest, Sha256};

use eager_grade::response::{Extraction, Response};

use crate::judge::{JudgeError, Kind};
use crate::run::{Folder, RunError, Sample};
use crate::suite::fetch::hex;
use crate::suite::{self, Problem};

use nursery::{From, Nursery, Seedling};
pub use passes::Passes;
use passes::{Entry, PassLine, Place};

/// A problem, ready to be grown.
#[derive(Debug, Clone)]
pub struct Task {
    pub problem: Problem,
    pub prompt: Prompt,
    /// How answers are found in the responses.
    pub extraction: Arc<Extraction>,
    /// Nothing of it may be written in plain text: neither the problem nor responses, which quote it. Tokens are kept.
    pub secret: bool,
}

/// Spells tokens; may be asked from anywhere. It can fail where the one who knows the words is a server.
pub type Speller = Arc<dyn Fn(&[Token]) -> Result<String, Unspelled> + Send + Sync>;

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the text of a sequence cannot be had: {0}")]
pub struct Unspelled(pub String);

impl Task {
    /// Methods that look at answers while they go on (ESC, until-right) get to read them.
    pub fn new(problem: Problem, prompt: Prompt, extraction: Extraction, spell: Speller) -> Self {
        let extraction = Arc::new(extraction);
        let answers = Reader { problem: problem.clone(), extraction: Arc::clone(&extraction), spell };
        let prompt = Prompt { answers: Some(Arc::new(answers)), ..prompt };
        Task { problem, prompt, extraction, secret: false }
    }

    /// Tells this problem, as it is put to this model, from all others: what a suite and a limit decide of its tree, and what
    /// its answers are judged by.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(suite::hash([&self.problem]));
        hash.update((self.prompt.settings.max_tokens as u64).to_le_bytes());
        self.prompt.tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
        hex(&hash.finalize()[..8])
    }
}

/// Most tokens that a sequence of any of these may have.
pub fn max_tokens<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> usize {
    let longest = tasks.into_iter().map(|task| task.prompt.settings.max_tokens).max();
    longest.unwrap_or(Settings::default().max_tokens)
}

/// Reads the answers out of sequences as the problem's judge finds them.
struct Reader {
    problem: Problem,
    extraction: Arc<Extraction>,
    spell: Speller,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("problem", &self.problem.id).finish()
    }
}

impl Reader {
    fn texts(&self, paths: &[EndedPath]) -> Option<Vec<String>> {
        paths.iter().map(|path| (self.spell)(&path.tokens).ok()).collect()
    }

    fn responses<'a>(&'a self, paths: &[EndedPath], texts: &'a [String]) -> Vec<Response<'a>> {
        responses(&self.extraction, texts, paths.iter().map(|path| path.finish))
    }
}

impl Answers for Reader {
    fn answers(&self, paths: &[EndedPath]) -> Vec<Option<String>> {
        // What cannot be read has no answer. The run ends for the same reason, when it comes to write its texts down.
        let Some(texts) = self.texts(paths) else { return vec![None; paths.len()] };
        self.problem.judge.answers(&self.responses(paths, &texts))
    }

    fn right(&self, paths: &[EndedPath]) -> Vec<bool> {
        // What cannot be judged is not right. The run ends for the same reason, when it comes to grade the whole tree.
        let Some(texts) = self.texts(paths) else { return vec![false; paths.len()] };
        match self.problem.grade_all(&self.responses(paths, &texts)) {
            Ok(graded) => graded.iter().map(|grade| grade.correct == Some(true)).collect(),
            Err(_) => vec![false; paths.len()],
        }
    }
}

/// Why a run could not go on. What was finished is on disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Somebody wants it to end; what was being graded is decoded again later.
    #[error("it was stopped")]
    Stopped,
    #[error(transparent)]
    Unspelled(#[from] Unspelled),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the engine stopped: {0}")]
    Engine(Box<dyn Error + Send + Sync>),
    #[error("cannot grade {id}: {error}")]
    Judge { id: String, error: JudgeError },
}

/// Which part of a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    First,
    Second,
}

/// Looks on, and may break a run off.
pub trait Observer {
    /// A stage begins, with so many prompts, of which so many were finished before.
    fn stage(&mut self, stage: Stage, prompts: usize, finished: usize) {
        let _ = (stage, prompts, finished);
    }

    /// A prompt's tree is complete for this stage, in which so many of its tokens were decoded.
    fn grown(&mut self, tree: &Tree, decoded: usize) {
        let _ = (tree, decoded);
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let _ = pulse;
        ControlFlow::Continue(())
    }
}

impl Observer for () {}

/// What runs need that is the same for all of them.
pub struct Bench<'a, E> {
    pub engine: &'a mut E,
    pub tasks: &'a [Task],
    /// Spells tokens.
    pub spell: Speller,
    pub pace: Pace,
}

/// How many prompts at a time, and when to stop.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Prompts that grow at a time: the most that a kill can lose.
    pub at_once: usize,
    /// Ends a run even while programs are being graded, which an observer cannot.
    pub stop: Arc<AtomicBool>,
}

impl Pace {
    /// So many at a time, to the end.
    pub fn new(at_once: usize) -> Self {
        Pace { at_once, stop: Arc::default() }
    }
}

impl<E> fmt::Debug for Bench<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("tasks", &self.tasks.len()).field("pace", &self.pace).finish()
    }
}

impl<E: Engine> Bench<'_, E> {
    /// Runs a method to its end, or until the observer breaks it off. `passes` keeps the first pass where a second is to come
    /// or others want to share it.
    pub fn run(
        &mut self,
        folder: &mut Folder,
        plan: &Plan,
        method: Method,
        passes: Option<&mut Passes>,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, BenchError> {
        let flow = match passes {
            Some(passes) => self.through_passes(folder, plan, method, passes, observer)?,
            None => self.directly(folder, plan, method, observer)?,
        };
        if flow.is_continue() {
            sort(folder, self.tasks)?;
        }
        Ok(flow)
    }

    /// One pass whose trees go straight into the folder.
    fn directly(
        &mut self,
        folder: &mut Folder,
        plan: &Plan,
        method: Method,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, BenchError> {
        let waiting: VecDeque<Seedling> =
            self.openings(plan, method, |at| folder.has(&self.tasks[at].problem.id));
        observer.stage(Stage::First, self.tasks.len(), self.tasks.len() - waiting.len());
        let (tasks, spell, cap) = (self.tasks, Arc::clone(&self.spell), plan.forking.cap);
        let stop = Arc::clone(&self.pace.stop);
        let mut grown = |index: usize, tree: Tree, seconds: f64| {
            let task: &Task = &tasks[index];
            let texts = texts(&tree, &spell)?;
            let graded = grade(task, &tree, &texts, &stop)?;
            Ok(folder.append(&sample(task, &tree, &graded, seconds, cap, texts))?)
        };
        self.grow(waiting, &mut grown, observer)
    }

    /// A first pass into `passes`, and the second pass where the method has one.
    fn through_passes(
        &mut self,
        folder: &mut Folder,
        plan: &Plan,
        method: Method,
        passes: &mut Passes,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, BenchError> {
        let (tasks, spell, cap) = (self.tasks, Arc::clone(&self.spell), plan.forking.cap);
        let stop = Arc::clone(&self.pace.stop);
        let fingerprints: Vec<String> = tasks.iter().map(Task::fingerprint).collect();
        let waiting = self.openings(plan, method, |at| passes.has(&fingerprints[at]));
        observer.stage(Stage::First, tasks.len(), tasks.len() - waiting.len());
        let mut grown = |index: usize, tree: Tree, seconds: f64| {
            let task: &Task = &tasks[index];
            let graded = grade(task, &tree, &texts(&tree, &spell)?, &stop)?;
            let (id, fingerprint) = (task.problem.id.clone(), fingerprints[index].clone());
            let entry = Entry { id, fingerprint, seconds, graded };
            Ok(passes.append(&PassLine { entry, tree })?)
        };
        if self.grow(waiting, &mut grown, observer)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }

        let first: Vec<(Entry, Place)> = fingerprints.iter().filter_map(|print| passes.find(print)).collect();
        let standing = |((entry, _), task): (&(Entry, Place), &Task)| Standing {
            key: Key::prompt(plan.seed, task.prompt.key),
            sequences: entry.graded.sequences(),
            finished: true,
            judged: Judged::from(&entry.graded),
        };
        let standings: Vec<Standing> = first.iter().zip(tasks).map(standing).collect();
        let extra = plan.extra(method, &standings);
        let granted = |index: usize| method.has_second_pass().then(|| extra[index]);
        // Where problems were added, what the others saved is shared out anew: only what was granted the same may stay.
        let grants: HashMap<&str, Option<usize>> =
            first.iter().enumerate().map(|(index, (entry, _))| (entry.id.as_str(), granted(index))).collect();
        folder.retain(|sample| grants.get(sample.id.as_str()) == Some(&sample.granted))?;
        let mut waiting = VecDeque::new();
        for (index, (entry, place)) in first.iter().enumerate() {
            let task = &tasks[index];
            match extra[index] {
                _ if folder.has(&entry.id) => {}
                1.. => waiting.push_back(Seedling {
                    index,
                    prompt: task.prompt.clone(),
                    from: From::Place(place.clone()),
                    strategy: plan.reallocate(method, standings[index].sequences, extra[index]),
                }),
                0 => {
                    let tree = place.tree()?;
                    let texts = texts(&tree, &spell)?;
                    let sample = sample(task, &tree, &entry.graded, entry.seconds, cap, texts);
                    folder.append(&Sample { granted: granted(index), ..sample })?;
                }
            }
        }
        if waiting.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let chosen = extra.iter().filter(|&&extra| extra > 0).count();
        observer.stage(Stage::Second, chosen, chosen - waiting.len());
        let mut grown = |index: usize, tree: Tree, seconds: f64| {
            let task: &Task = &tasks[index];
            let texts = texts(&tree, &spell)?;
            let graded = grade(task, &tree, &texts, &stop)?;
            let seconds = first[index].0.seconds + seconds;
            let sample = sample(task, &tree, &graded, seconds, cap, texts);
            Ok(folder.append(&Sample { granted: granted(index), ..sample })?)
        };
        self.grow(waiting, &mut grown, observer)
    }

    /// The prompts that have not been through the first pass.
    fn openings(&self, plan: &Plan, method: Method, has: impl Fn(usize) -> bool) -> VecDeque<Seedling> {
        let missing = self.tasks.iter().enumerate().filter(|&(index, _)| !has(index));
        let seedling = |(index, task): (usize, &Task)| Seedling {
            index,
            prompt: task.prompt.clone(),
            from: From::Seed(plan.seed),
            strategy: plan.opening(method, &task.prompt),
        };
        missing.map(seedling).collect()
    }

    fn grow(
        &mut self,
        waiting: VecDeque<Seedling>,
        grown: &mut dyn FnMut(usize, Tree, f64) -> Result<(), BenchError>,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, BenchError> {
        let mut nursery = Nursery::new(waiting, self.pace.at_once, grown, observer);
        let result = self.engine.grow(&mut nursery);
        // What failed here made the engine stop, so it comes first.
        let flow = nursery.end()?;
        result.map_err(|error| BenchError::Engine(Box::new(error)))?;
        Ok(flow)
    }
}

/// Puts the lines of a run into the order of its tasks.
pub(crate) fn sort(folder: &mut Folder, tasks: &[Task]) -> Result<(), RunError> {
    let ids: Vec<String> = tasks.iter().map(|task| task.problem.id.clone()).collect();
    folder.sort(&ids)
}

/// The text of every sequence.
fn texts(tree: &Tree, spell: &Speller) -> Result<Vec<String>, Unspelled> {
    tree.ids().map(|id| spell(&tree.path(id))).collect()
}

/// Texts with how they ended. What a limit or a method ended has an answer only where it says so.
pub fn responses<'a>(
    extraction: &'a Extraction,
    texts: &'a [String],
    finishes: impl Iterator<Item = Option<Finish>>,
) -> Vec<Response<'a>> {
    let ended = texts.iter().zip(finishes);
    ended.map(|(text, finish)| extraction.response(text, finish == Some(Finish::Stop))).collect()
}

/// Grades every sequence of a tree.
fn grade(task: &Task, tree: &Tree, texts: &[String], stop: &AtomicBool) -> Result<Outcome, BenchError> {
    let responses = responses(&task.extraction, texts, tree.sequences().iter().map(|s| s.finish));
    let verdicts = task.problem.grade_all_unless(&responses, stop).map_err(|error| match error {
        JudgeError::Stopped => BenchError::Stopped,
        // Elsewhere there is no judge that can fail.
        #[cfg(unix)]
        error => BenchError::Judge { id: task.problem.id.clone(), error },
    })?;
    let scores = verdicts.iter().filter_map(|verdict| verdict.score).collect();
    let grades = verdicts.into_iter().map(|verdict| (verdict.answer, verdict.correct.unwrap_or(false)));
    Ok(Outcome { scores, ..Outcome::of(tree, grades) })
}

fn sample(
    task: &Task,
    tree: &Tree,
    graded: &Outcome,
    seconds: f64,
    cap: usize,
    texts: Vec<String>,
) -> Sample {
    let (id, known) = (task.problem.id.clone(), task.problem.judge.kind() != Kind::None);
    let mut sample = Sample::new(id, task.prompt.tokens.len(), tree, graded, known, texts);
    sample.seconds = seconds;
    sample.saturated = tree.len() >= cap;
    if task.secret {
        sample.sequences.iter_mut().for_each(|sequence| sequence.text.clear());
    }
    sample
}

/// What came out of a run, from its samples alone.
pub fn metrics(samples: &[Sample]) -> Metrics {
    let outcomes: Vec<Outcome> = samples.iter().map(Sample::outcome).collect();
    let prefixes: Vec<Prefixes> = samples.iter().map(Sample::prefixes).collect();
    Metrics::of(&outcomes, &prefixes, samples.iter().map(|s| s.seconds).sum())
}
