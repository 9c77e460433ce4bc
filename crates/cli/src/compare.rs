//! Methods side by side on the same prompts.

use std::time::Instant;

use eager_core::metrics::{pass_at_equal_prefixes, pass_at_equal_tokens};
use eager_core::{Judged, Method, Metrics, Outcome, Plan, Prefixes, Prompt, SurplusLimit, Tree};
use eager_grade::Grader;
use eager_grade::response::Extraction;
use eager_lab::bench::responses;
use serde::Serialize;

use crate::args::ForkingArgs;
use crate::backend::BackendError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::Session;

/// A problem, ready to be grown and graded.
#[derive(Debug)]
pub struct Task {
    pub id: String,
    pub family: String,
    pub problem: String,
    pub prompt: Prompt,
    pub grader: Grader,
    pub extraction: Extraction,
}

/// What a method did.
#[derive(Debug)]
pub struct Run {
    pub method: Method,
    pub theta: Option<f32>,
    pub outcomes: Vec<Outcome>,
    /// Parallel to `outcomes`.
    pub prefixes: Vec<Prefixes>,
    /// Over the prompts that are complete.
    pub metrics: Metrics,
    /// Fewer complete prompts than there are: it was broken off.
    pub partial: bool,
}

/// A line of the comparison.
#[derive(Debug, Serialize)]
pub struct Line {
    pub method: String,
    pub theta: Option<f32>,
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Tokens as a share of full-parallel's, where both are complete.
    pub token_share: Option<f64>,
    /// Full-parallel's pass@k with as many tokens; none when it spent fewer itself.
    pub full_parallel_at_equal_tokens: Option<f64>,
    /// The same by distinct prefixes, of the method and of full-parallel.
    pub full_parallel_at_equal_tokens_shared: Option<f64>,
}

/// A first pass that several methods have in common, with the time it took.
struct FirstPass {
    method: Method,
    theta: f32,
    trees: Vec<Tree>,
    seconds: f64,
}

/// Runs methods one after the other. Methods that begin with the same first pass share it: with the same seed it would be
/// the same again. Its time counts for each of them.
pub struct Comparison<'a> {
    pub session: &'a mut Session,
    pub tasks: &'a [Task],
    pub forking: &'a ForkingArgs,
    pub surplus: SurplusLimit,
    pub seed: u64,
    pub interrupt: &'a Interrupt,
    first: Option<FirstPass>,
}

impl<'a> Comparison<'a> {
    pub fn new(
        session: &'a mut Session,
        tasks: &'a [Task],
        (forking, surplus): (&'a ForkingArgs, SurplusLimit),
        seed: u64,
        interrupt: &'a Interrupt,
    ) -> Self {
        Comparison { session, tasks, forking, surplus, seed, interrupt, first: None }
    }

    /// Runs one method over all tasks. What was grown before an error or Ctrl-C comes back all the same.
    pub fn run(&mut self, method: Method) -> (Run, Result<(), BackendError>) {
        let theta = self.forking.theta(method, &self.session.profile);
        let plan = self.forking.plan(self.seed, theta, self.surplus);
        let prompts: Vec<Prompt> = self.tasks.iter().map(|t| t.prompt.clone()).collect();
        let (first, mut result) = self.first_pass(&plan, method, theta, &prompts);
        let (mut trees, mut seconds) = (first.trees.clone(), first.seconds);
        if trees.iter().all(is_complete) {
            self.first = Some(first);
            let begun = Instant::now();
            let judged: Vec<Judged> =
                trees.iter().zip(self.tasks).map(|(t, task)| Judged::from(&self.grade(task, t))).collect();
            let judged = |index: usize, _: &Tree| judged[index];
            let mut progress = Progress::open_ended(&format!("{method}, second pass"), self.interrupt);
            let engine = &mut self.session.engine;
            result = plan.second_pass(engine, method, &prompts, &mut trees, judged, &mut progress);
            seconds += begun.elapsed().as_secs_f64();
        }
        let outcomes: Vec<Outcome> =
            trees.iter().zip(self.tasks).map(|(t, task)| self.grade(task, t)).collect();
        let prefixes: Vec<Prefixes> = trees.iter().map(Prefixes::of_tree).collect();
        let complete = (0..trees.len()).filter(|&at| is_complete(&trees[at]));
        let (done, done_prefixes): (Vec<Outcome>, Vec<Prefixes>) =
            complete.map(|at| (outcomes[at].clone(), prefixes[at].clone())).unzip();
        let metrics = Metrics::of(&done, &done_prefixes, seconds);
        let partial = metrics.prompts < self.tasks.len();
        let theta = method.forks().then_some(theta);
        (Run { method, theta, outcomes, prefixes, metrics, partial }, result)
    }

    /// The first pass of a method, unless the method before began with the same.
    fn first_pass(
        &mut self,
        plan: &Plan,
        method: Method,
        theta: f32,
        prompts: &[Prompt],
    ) -> (FirstPass, Result<(), BackendError>) {
        let opening = method.opening();
        if let Some(known) = self.first.take().filter(|f| f.method == opening && f.theta == theta) {
            return (known, Ok(()));
        }
        let begun = Instant::now();
        let mut progress = Progress::new(&method.to_string(), prompts.len(), self.interrupt);
        let mut trees = plan.plant(prompts);
        let result = plan.first_pass(&mut self.session.engine, opening, prompts, &mut trees, &mut progress);
        (FirstPass { method: opening, theta, trees, seconds: begun.elapsed().as_secs_f64() }, result)
    }

    fn grade(&self, task: &Task, tree: &Tree) -> Outcome {
        let texts: Vec<String> = tree.ids().map(|id| self.session.label(&tree.path(id))).collect();
        grade(&task.grader, &task.extraction, tree, &texts)
    }
}

fn is_complete(tree: &Tree) -> bool {
    !tree.is_empty() && tree.live().next().is_none()
}

/// Grades the texts of a tree's sequences.
pub fn grade(grader: &Grader, extraction: &Extraction, tree: &Tree, texts: &[String]) -> Outcome {
    let finishes = tree.sequences().iter().map(|s| s.finish);
    let grades = grader.grade_all(responses(extraction, texts, finishes));
    Outcome::of(tree, grades.into_iter().map(|grade| (grade.answer, grade.correct)))
}

/// Full-parallel's run, if it is complete: the measure of the others.
pub fn full_parallel(runs: &[Run]) -> Option<&Run> {
    runs.iter().find(|r| r.method == Method::FullParallel && !r.partial)
}

/// The comparison's lines, against full-parallel where it was run.
pub fn lines(runs: &[Run]) -> Vec<Line> {
    let line = |run: &Run| {
        let full = full_parallel(runs).filter(|_| !run.partial);
        Line {
            method: run.method.to_string(),
            theta: run.theta,
            metrics: run.metrics,
            token_share: full.map(|f| run.metrics.tokens as f64 / f.metrics.tokens.max(1) as f64),
            full_parallel_at_equal_tokens: full
                .and_then(|f| pass_at_equal_tokens(&f.outcomes, run.metrics.tokens)),
            full_parallel_at_equal_tokens_shared: full
                .and_then(|f| pass_at_equal_prefixes(&f.outcomes, &f.prefixes, run.metrics.tokens_distinct)),
        }
    };
    runs.iter().map(line).collect()
}
