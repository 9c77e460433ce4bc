//! Methods side by side on the same prompts.

use std::time::Instant;

use anyhow::Result;
use eager_acorn::Family;
use eager_core::metrics::pass_at_equal_tokens;
use eager_core::{Method, Metrics, Outcome, Plan, Prompt, Tree};
use eager_grade::Grader;
use serde::Serialize;

use crate::args::ForkingArgs;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::Session;

/// A problem, ready to be grown and graded.
#[derive(Debug)]
pub struct Task {
    pub id: String,
    pub family: Family,
    pub problem: String,
    pub prompt: Prompt,
    pub grader: Grader,
}

/// What a method did.
#[derive(Debug)]
pub struct Run {
    pub method: Method,
    pub theta: Option<f32>,
    pub trees: Vec<Tree>,
    pub outcomes: Vec<Outcome>,
    pub metrics: Metrics,
}

/// A line of the comparison.
#[derive(Debug, Serialize)]
pub struct Line {
    pub method: String,
    pub theta: Option<f32>,
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Tokens as a share of full-parallel's.
    pub token_share: Option<f64>,
    /// Full-parallel's pass@k with as many tokens; none when it spent fewer itself.
    pub full_parallel_at_equal_tokens: Option<f64>,
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
    pub seed: u64,
    pub interrupt: &'a Interrupt,
    first: Option<FirstPass>,
}

/// A method that was broken off.
#[derive(Debug, Clone, Copy)]
pub struct BrokenOff {
    pub method: Method,
    /// Prompts that were complete by then.
    pub complete: usize,
}

impl<'a> Comparison<'a> {
    pub fn new(
        session: &'a mut Session,
        tasks: &'a [Task],
        forking: &'a ForkingArgs,
        seed: u64,
        interrupt: &'a Interrupt,
    ) -> Self {
        Comparison { session, tasks, forking, seed, interrupt, first: None }
    }

    /// Runs one method over all tasks.
    pub fn run(&mut self, method: Method) -> Result<Result<Run, BrokenOff>> {
        let theta = self.forking.theta(method, &self.session.profile);
        let plan = self.forking.plan(self.seed, theta);
        let prompts: Vec<Prompt> = self.tasks.iter().map(|t| t.prompt.clone()).collect();
        let mut progress = Progress::new(format!("{method:<18}"), prompts.len(), self.interrupt);

        let opening = if method == Method::FullParallel { method } else { Method::EagerInit };
        let first = self.first.take().filter(|f| f.method == opening && f.theta == theta);
        let first = match first {
            Some(known) => known,
            None => {
                let begun = Instant::now();
                let mut trees = plan.plant(&prompts);
                plan.first_pass(&mut self.session.engine, opening, &prompts, &mut trees, &mut progress)?;
                FirstPass { method: opening, theta, trees, seconds: begun.elapsed().as_secs_f64() }
            }
        };
        let broken = |progress: &Progress| BrokenOff { method, complete: progress.complete };
        if self.interrupt.asked() {
            return Ok(Err(broken(&progress)));
        }
        let (trees, seconds) = self.second_pass(&plan, method, &prompts, &first, &mut progress)?;
        if self.interrupt.asked() {
            return Ok(Err(broken(&progress)));
        }
        let seconds = first.seconds + seconds;
        self.first = Some(first);
        let outcomes: Vec<Outcome> =
            trees.iter().zip(self.tasks).map(|(t, task)| self.grade(task, t)).collect();
        let metrics = Metrics::of(&outcomes, seconds);
        let theta = (method != Method::FullParallel).then_some(theta);
        Ok(Ok(Run { method, theta, trees, outcomes, metrics }))
    }

    fn second_pass(
        &mut self,
        plan: &Plan,
        method: Method,
        prompts: &[Prompt],
        first: &FirstPass,
        progress: &mut Progress,
    ) -> Result<(Vec<Tree>, f64)> {
        let begun = Instant::now();
        let solved: Vec<bool> =
            first.trees.iter().zip(self.tasks).map(|(tree, task)| self.grade(task, tree).solved()).collect();
        let solved = |index: usize, _: &Tree| solved[index];
        let mut trees = first.trees.clone();
        plan.second_pass(&mut self.session.engine, method, prompts, &mut trees, solved, progress)?;
        Ok((trees, begun.elapsed().as_secs_f64()))
    }

    fn grade(&self, task: &Task, tree: &Tree) -> Outcome {
        grade(self.session, &task.grader, tree)
    }
}

/// Grades every sequence of a tree.
pub fn grade(session: &Session, grader: &Grader, tree: &Tree) -> Outcome {
    let grades = tree.ids().map(|id| grader.grade(&session.text(&tree.path(id))));
    let (answers, correct) = grades.map(|g| (g.answer, g.correct)).unzip();
    Outcome { answers, correct, tokens: tree.tokens_generated() }
}

/// The comparison's lines, against full-parallel where it was run.
pub fn lines(runs: &[Run]) -> Vec<Line> {
    let full = runs.iter().find(|r| r.method == Method::FullParallel);
    let line = |run: &Run| Line {
        method: run.method.to_string(),
        theta: run.theta,
        metrics: run.metrics,
        token_share: full.map(|f| run.metrics.tokens as f64 / f.metrics.tokens.max(1) as f64),
        full_parallel_at_equal_tokens: full
            .and_then(|f| pass_at_equal_tokens(&f.outcomes, run.metrics.tokens)),
    };
    runs.iter().map(line).collect()
}
