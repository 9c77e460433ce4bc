//! The numbers of a cell, each with its interval.
//!
//! A comparison with full-parallel is made on the problems that both have, so a run that was broken off is compared on what
//! it holds.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use eager_core::metrics::{consensus_at_share, passes_at_share, share_of_prefixes, share_of_tokens};
use eager_core::{Outcome, Prefixes, Unanswered};
use serde::Serialize;

use crate::report::cells::{Cell, GradedProblem, Score, Subject};
use crate::report::paper;
use crate::statistics::{Bootstrap, Estimate, FEW, Interval, IntervalKind, RESAMPLES};

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
    /// Without the sequences that the method gave up; `None` where it gave up none.
    pub pass_rate_unhalted: Option<Estimate>,
    /// Mean over problems of the grader's scores, where it gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Estimate>,
    /// Sequences of one prompt.
    pub sequences: Option<Estimate>,
    /// Tokens of the whole suite.
    pub tokens: Option<Estimate>,
    /// The same, had each distinct prefix of a problem's sequences been decoded once.
    pub tokens_distinct: Option<Estimate>,
    /// Problems whose vote is a tie.
    pub ties: f64,
    /// Of the whole suite.
    pub seconds: f64,
    /// Against full-parallel with the same M and sampling, where there is one.
    pub against: Option<Against>,
    /// Against full-parallel had it spent as many tokens; `None` where it spent fewer itself.
    pub equal_tokens: Option<EqualTokens>,
    /// The same by distinct prefixes, of the method and of full-parallel.
    pub equal_tokens_shared: Option<EqualTokens>,
    /// Model and suite as runs name them, where `model` and `suite` are for people.
    #[serde(skip)]
    pub(super) plain: (String, String),
    /// In what the setting differs from the paper's, if it does.
    #[serde(skip)]
    pub(super) unlike_paper: Option<String>,
}

/// A method beside full-parallel, on the problems that both have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Against {
    /// Share of full-parallel's tokens that was not spent; negative where more was.
    pub saved: Option<Estimate>,
    /// The same where each distinct prefix of a problem's sequences is counted once, on both sides.
    pub saved_distinct: Option<Estimate>,
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

    fn share(&self, values: &[f64]) -> Option<Estimate> {
        self.of(values.len()).share(values)
    }
}

impl Line {
    pub fn new(subject: &Subject, index: usize, unanswered: Unanswered, draws: &Draws) -> Self {
        let cell = &subject.cells[index];
        let all: Vec<&Score> = cell.scores.values().collect();
        let mean = |value: fn(&Score) -> f64| draws.mean(&all.iter().map(|s| value(s)).collect::<Vec<_>>());
        let graded: Vec<&Score> = all.iter().copied().filter(|s| s.graded).collect();
        let share =
            |value: fn(&Score) -> f64| draws.share(&graded.iter().map(|s| value(s)).collect::<Vec<_>>());
        let richest = subject.richest_full_parallel(cell).filter(|_| !cell.is_full_parallel());
        let equal = |cost: Cost| EqualTokens::new(cell, richest?, cost, unanswered, draws);
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
            pass_at_k: share(|s| s.pass),
            cons_at_k: share(|s| s.cons),
            pass_rate: share(|s| s.rate),
            pass_rate_unhalted: graded.iter().any(|s| s.halted).then(|| share(|s| s.rate_unhalted)).flatten(),
            score: draws.share(&graded.iter().filter_map(|s| s.score).collect::<Vec<_>>()),
            sequences: mean(|s| s.sequences),
            tokens: mean(|s| s.tokens).map(|e| e.scaled(all.len() as f64)),
            tokens_distinct: mean(|s| s.distinct).map(|e| e.scaled(all.len() as f64)),
            ties: all.iter().map(|s| s.tied).sum(),
            seconds: all.iter().map(|s| s.seconds).sum(),
            against: subject
                .full_parallel(cell)
                .filter(|_| !cell.is_full_parallel())
                .map(|full| Against::new(cell, full, draws)),
            equal_tokens: equal(Cost::Decoded),
            equal_tokens_shared: equal(Cost::Distinct),
            plain: subject.plain.clone(),
            unlike_paper: paper::difference(subject, cell),
        }
    }

    pub fn is_full_parallel(&self) -> bool {
        self.method == crate::report::names::FULL_PARALLEL
    }

    /// The intervals of all its shares and their differences.
    fn intervals(&self) -> impl Iterator<Item = Interval> {
        let equal = [self.equal_tokens, self.equal_tokens_shared].into_iter().flatten();
        let equal = equal.flat_map(|e| [e.pass_at_k, e.cons_at_k, e.pass_gain, e.cons_gain]);
        let against = self.against.into_iter().flat_map(|a| [a.pass_at_k, a.cons_at_k]);
        let own = [self.pass_at_k, self.cons_at_k, self.pass_rate];
        own.into_iter().chain(against).chain(equal).flatten().filter_map(|estimate| estimate.interval)
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
            draws.of(graded.len()).share_difference(&ours, &theirs)
        };
        let saved = |value: fn(&Score) -> f64| {
            let (ours, theirs) = column(&pairs, value);
            let spent = draws.of(pairs.len()).ratio(&ours, &theirs)?.scaled(-1.0);
            let rest = |i: Interval| Interval { low: 1.0 + i.low, high: 1.0 + i.high, ..i };
            Some(Estimate { value: 1.0 + spent.value, interval: spent.interval.map(rest) })
        };
        Against {
            saved: saved(|s| s.tokens),
            saved_distinct: saved(|s| s.distinct),
            pass_at_k: difference(|s| s.pass),
            cons_at_k: difference(|s| s.cons),
        }
    }
}

/// How the intervals of these lines were made, in a sentence.
pub fn interval_note<'l>(lines: impl IntoIterator<Item = &'l Line>) -> String {
    let kinds: BTreeSet<IntervalKind> =
        lines.into_iter().flat_map(Line::intervals).map(|interval| interval.kind).collect();
    let drawn = format!("the percentile bootstrap over problems ({RESAMPLES} draws)");
    match (kinds.contains(&IntervalKind::Bootstrap), kinds.iter().any(|k| *k != IntervalKind::Bootstrap)) {
        (false, false) => String::new(),
        (true, false) => format!("95% intervals by {drawn}."),
        (false, true) => format!(
            "95% intervals of shares are Wilson's over problems (of differences, Newcombe's), all others by {drawn}."
        ),
        (true, true) => format!(
            "95% intervals by {drawn}; where a share is 0 or 1, where no problem differs, or for fewer than {FEW} problems, \
             Wilson's over problems (of differences, Newcombe's)."
        ),
    }
}

/// What counts as a token when methods get equally many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// What was decoded.
    Decoded,
    /// Each distinct prefix of a problem's sequences once.
    Distinct,
}

impl Cost {
    fn of_score(self, score: &Score) -> f64 {
        match self {
            Cost::Decoded => score.tokens,
            Cost::Distinct => score.distinct,
        }
    }

    fn of_run(self, problems: &[&GradedProblem]) -> usize {
        let of = |graded: &&GradedProblem| match self {
            Cost::Decoded => graded.outcome.tokens,
            Cost::Distinct => graded.prefixes.distinct(),
        };
        problems.iter().map(of).sum()
    }
}

impl EqualTokens {
    /// Seeds are paired: each full-parallel run gets the tokens that the method spent with the same seed, or on average
    /// where there is no such run.
    fn new(cell: &Cell, full: &Cell, cost: Cost, unanswered: Unanswered, draws: &Draws) -> Option<Self> {
        let pairs = common(cell, full);
        let graded: Vec<_> = pairs.into_iter().filter(|(_, a, b)| a.graded && b.graded).collect();
        let ids: Vec<&str> = graded.iter().map(|(id, ..)| *id).collect();
        let (mut pass, mut cons) = (Vec::new(), Vec::new());
        for (run, problems) in full.runs.iter().zip(&full.graded) {
            let problems = of_problems(problems, &ids)?;
            let tokens = spent_with_seed(cell, run.manifest.seed, &ids, cost);
            let outcomes: Vec<Outcome> = problems.iter().map(|g| g.outcome.clone()).collect();
            let share = match cost {
                Cost::Decoded => share_of_tokens(&outcomes, tokens)?,
                Cost::Distinct => {
                    let prefixes: Vec<Prefixes> = problems.iter().map(|g| g.prefixes.clone()).collect();
                    share_of_prefixes(&prefixes, tokens)?
                }
            };
            pass.push(passes_at_share(&outcomes, share));
            cons.push(consensus_at_share(&outcomes, share, unanswered));
        }
        let bootstrap = draws.of(ids.len());
        let ours = |value: fn(&Score) -> f64| -> Vec<f64> {
            graded.iter().map(|(_, ours, _)| value(ours)).collect()
        };
        let pass = over_seeds(&pass, ids.len());
        let cons = over_seeds(&cons, ids.len());
        Some(EqualTokens {
            pass_at_k: bootstrap.share(&pass),
            pass_gain: bootstrap.share_difference(&ours(|s| s.pass), &pass),
            cons_at_k: bootstrap.share(&cons),
            cons_gain: bootstrap.share_difference(&ours(|s| s.cons), &cons),
        })
    }
}

/// These problems of a run; `None` where it does not hold all.
fn of_problems<'g>(
    run: &'g BTreeMap<&'g str, GradedProblem>,
    ids: &[&'g str],
) -> Option<Vec<&'g GradedProblem>> {
    ids.iter().map(|id| run.get(id)).collect()
}

fn spent_with_seed(cell: &Cell, seed: u64, ids: &[&str], cost: Cost) -> usize {
    let mut runs = cell.runs.iter().zip(&cell.graded);
    let same = runs.find(|(run, _)| run.manifest.seed == seed).and_then(|(_, run)| of_problems(run, ids));
    match same {
        Some(problems) => cost.of_run(&problems),
        None => {
            let scores = ids.iter().filter_map(|id| cell.scores.get(*id));
            scores.map(|score| cost.of_score(score)).sum::<f64>().round() as usize
        }
    }
}

/// The average over seeds, problem by problem.
fn over_seeds(seeds: &[Vec<f64>], problems: usize) -> Vec<f64> {
    let mean = |at: usize| seeds.iter().map(|s| s[at]).sum::<f64>() / seeds.len() as f64;
    (0..problems).map(mean).collect()
}
