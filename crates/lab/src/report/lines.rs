//! The numbers of a cell, each with its interval.
//!
//! A comparison with full-parallel is made on the problems that both have, so a run that was broken off is compared on what
//! it holds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use eager_core::Outcome;
use eager_core::metrics::{consensus_at_equal_tokens, passes_at_equal_tokens};
use serde::Serialize;

use crate::report::cells::{Cell, Score, Subject, by_id};
use crate::run::Run;
use crate::statistics::{Bootstrap, Estimate};

/// A line of a table: a setting and what came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub model: String,
    pub suite: String,
    /// As `--method` takes it.
    pub method: String,
    /// What else sets the line apart from one with the same method, theta, M and temperature.
    pub variant: Option<String>,
    pub theta: Option<f32>,
    pub max_sequences: usize,
    pub temperature: f32,
    pub seeds: usize,
    pub problems: usize,
    /// Does every run hold every problem of its suite?
    pub complete: bool,
    /// One of the cells by which methods are compared: at the M, temperature and theta that the tables show.
    pub primary: bool,
    /// `None` where the right answers are not known; so are the next two.
    pub pass_at_k: Option<Estimate>,
    pub cons_at_k: Option<Estimate>,
    pub pass_rate: Option<Estimate>,
    /// Sequences of one prompt.
    pub sequences: Option<Estimate>,
    /// Tokens of the whole suite.
    pub tokens: Option<Estimate>,
    /// Of the whole suite.
    pub seconds: f64,
    /// Against full-parallel with the same M and sampling, where there is one.
    pub against: Option<Against>,
    /// Against full-parallel had it spent as many tokens; `None` where it spent fewer itself.
    pub equal_tokens: Option<EqualTokens>,
}

/// A method beside full-parallel, on the problems that both have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Against {
    /// Share of full-parallel's tokens that was not spent; negative where more was.
    pub saved: Option<Estimate>,
    /// pass@k minus full-parallel's.
    pub pass_at_k: Option<Estimate>,
    pub cons_at_k: Option<Estimate>,
}

/// What full-parallel makes of the same tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EqualTokens {
    /// Full-parallel's pass@k.
    pub pass_at_k: Option<Estimate>,
    /// Full-parallel's majority accuracy.
    pub cons_at_k: Option<Estimate>,
    /// The method's pass@k minus full-parallel's.
    pub pass_gain: Option<Estimate>,
    pub cons_gain: Option<Estimate>,
}

/// Draws of problems, made once for each number of problems.
#[derive(Debug, Default)]
pub struct Draws(RefCell<BTreeMap<usize, Rc<Bootstrap>>>);

impl Draws {
    pub fn of(&self, problems: usize) -> Rc<Bootstrap> {
        Rc::clone(self.0.borrow_mut().entry(problems).or_insert_with(|| Rc::new(Bootstrap::new(problems))))
    }

    fn mean(&self, values: &[f64]) -> Option<Estimate> {
        self.of(values.len()).mean(values)
    }
}

impl Line {
    pub fn new(subject: &Subject, index: usize, draws: &Draws) -> Self {
        let cell = &subject.cells[index];
        let all: Vec<&Score> = cell.scores.values().collect();
        let graded: Vec<&Score> = all.iter().copied().filter(|s| s.graded).collect();
        let mean = |of: &[&Score], value: fn(&Score) -> f64| {
            draws.mean(&of.iter().map(|s| value(s)).collect::<Vec<_>>())
        };
        Line {
            model: subject.model.clone(),
            suite: subject.suite.clone(),
            method: cell.method.clone(),
            variant: cell.variant.clone(),
            theta: cell.theta,
            max_sequences: cell.max_sequences,
            temperature: cell.temperature,
            seeds: cell.runs.len(),
            problems: all.len(),
            complete: cell.is_complete(),
            primary: subject.primary.contains(&index),
            pass_at_k: mean(&graded, |s| s.pass),
            cons_at_k: mean(&graded, |s| s.cons),
            pass_rate: mean(&graded, |s| s.rate),
            sequences: mean(&all, |s| s.sequences),
            tokens: mean(&all, |s| s.tokens).map(|e| e.scaled(all.len() as f64)),
            seconds: all.iter().map(|s| s.seconds).sum(),
            against: subject
                .full_parallel(cell)
                .filter(|_| !cell.is_full_parallel())
                .map(|full| Against::new(cell, full, draws)),
            equal_tokens: subject
                .richest_full_parallel(cell)
                .filter(|_| !cell.is_full_parallel())
                .and_then(|full| EqualTokens::new(cell, full, draws)),
        }
    }

    pub fn is_full_parallel(&self) -> bool {
        self.method == crate::report::names::FULL_PARALLEL
    }
}

/// The problems that two cells have in common, with both scores.
fn common<'c>(ours: &'c Cell, theirs: &'c Cell) -> Vec<(&'c str, &'c Score, &'c Score)> {
    let pair = |(id, ours): (&'c String, &'c Score)| Some((id.as_str(), ours, theirs.scores.get(id)?));
    ours.scores.iter().filter_map(pair).collect()
}

impl Against {
    fn new(cell: &Cell, full: &Cell, draws: &Draws) -> Self {
        let pairs = common(cell, full);
        let graded: Vec<_> = pairs.iter().copied().filter(|(_, a, b)| a.graded && b.graded).collect();
        let column = |of: &[(&str, &Score, &Score)], value: fn(&Score) -> f64| -> (Vec<f64>, Vec<f64>) {
            of.iter().map(|(_, ours, theirs)| (value(ours), value(theirs))).unzip()
        };
        let difference = |value: fn(&Score) -> f64| {
            let (ours, theirs) = column(&graded, value);
            draws.of(graded.len()).difference(&ours, &theirs)
        };
        let (ours, theirs) = column(&pairs, |s| s.tokens);
        let share = draws.of(pairs.len()).ratio(&ours, &theirs);
        Against {
            saved: share.map(|share| {
                let spent = share.scaled(-1.0);
                Estimate {
                    value: 1.0 + spent.value,
                    interval: spent
                        .interval
                        .map(|i| crate::statistics::Interval { low: 1.0 + i.low, high: 1.0 + i.high }),
                }
            }),
            pass_at_k: difference(|s| s.pass),
            cons_at_k: difference(|s| s.cons),
        }
    }
}

impl EqualTokens {
    /// Seeds are paired: each full-parallel run gets the tokens that the method spent with the same seed, or on average
    /// where there is no such run.
    fn new(cell: &Cell, full: &Cell, draws: &Draws) -> Option<Self> {
        let pairs = common(cell, full);
        let graded: Vec<_> = pairs.into_iter().filter(|(_, a, b)| a.graded && b.graded).collect();
        let ids: Vec<&str> = graded.iter().map(|(id, ..)| *id).collect();
        let (mut pass, mut cons) = (Vec::new(), Vec::new());
        for run in &full.runs {
            let outcomes = outcomes(run, &ids)?;
            let tokens = spent_with_seed(cell, run.manifest.seed, &ids);
            pass.push(passes_at_equal_tokens(&outcomes, tokens)?);
            cons.push(consensus_at_equal_tokens(&outcomes, tokens)?);
        }
        let bootstrap = draws.of(ids.len());
        let ours = |value: fn(&Score) -> f64| -> Vec<f64> {
            graded.iter().map(|(_, ours, _)| value(ours)).collect()
        };
        let pass = over_seeds(&pass, ids.len());
        let cons = over_seeds(&cons, ids.len());
        Some(EqualTokens {
            pass_at_k: bootstrap.mean(&pass),
            pass_gain: bootstrap.difference(&ours(|s| s.pass), &pass),
            cons_at_k: bootstrap.mean(&cons),
            cons_gain: bootstrap.difference(&ours(|s| s.cons), &cons),
        })
    }
}

/// The outcomes of these problems; `None` where the run does not hold all.
fn outcomes(run: &Run, ids: &[&str]) -> Option<Vec<Outcome>> {
    let samples = by_id(run);
    ids.iter().map(|id| samples.get(id).map(|s| s.outcome())).collect()
}

fn spent_with_seed(cell: &Cell, seed: u64, ids: &[&str]) -> usize {
    let same = cell.runs.iter().find(|r| r.manifest.seed == seed).and_then(|r| outcomes(r, ids));
    match same {
        Some(outcomes) => outcomes.iter().map(|o| o.tokens).sum(),
        None => {
            ids.iter().filter_map(|id| cell.scores.get(*id)).map(|s| s.tokens).sum::<f64>().round() as usize
        }
    }
}

/// The average over seeds, problem by problem.
fn over_seeds(seeds: &[Vec<f64>], problems: usize) -> Vec<f64> {
    let mean = |at: usize| seeds.iter().map(|s| s[at]).sum::<f64>() / seeds.len() as f64;
    (0..problems).map(mean).collect()
}
