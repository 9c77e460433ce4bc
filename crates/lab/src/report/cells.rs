//! The comparison before it is drawn: runs grouped into cells, and cells into subjects.
//!
//! A **cell** is one setting: a model, a suite, a method and its parameters. Runs that differ in nothing but the seed are
//! one cell. A **subject** is a model on a suite: what methods can be compared on. Models and suites are told apart by their
//! hashes, so runs over different problems never meet in one comparison, whatever their names.

use std::collections::{BTreeMap, BTreeSet};

use eager_core::{Outcome, Prefixes, Unanswered};
use serde_json::Value;

use crate::campaign::is_of_method;
use crate::report::names;
use crate::run::{Manifest, Parameters, Run, Sample};

/// One problem under one setting, averaged over seeds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Score {
    /// Is the right answer known? Otherwise the first three are no numbers of use.
    pub graded: bool,
    /// Share of seeds that solved it.
    pub pass: f64,
    /// Share of seeds whose majority was right.
    pub cons: f64,
    pub rate: f64,
    /// Without the sequences that were given up: where there are none, `rate`.
    pub rate_unhalted: f64,
    pub halted: bool,
    /// Mean of what the grader says, where it gives scores.
    pub score: Option<f64>,
    pub sequences: f64,
    pub right: f64,
    pub tokens: f64,
    /// Tokens, had each distinct prefix been decoded once.
    pub distinct: f64,
    /// Share of seeds whose vote is a tie.
    pub tied: f64,
    pub seconds: f64,
}

/// One problem of one run: what the metrics need of its sequences.
#[derive(Debug, Clone)]
pub struct GradedProblem {
    pub outcome: Outcome,
    pub prefixes: Prefixes,
}

impl Score {
    fn of(
        sample: &Sample,
        GradedProblem { outcome, prefixes }: &GradedProblem,
        unanswered: Unanswered,
    ) -> Self {
        let sequences = outcome.sequences() as f64;
        Score {
            graded: sample.sequences.iter().any(|s| s.correct.is_some()),
            pass: f64::from(outcome.solved()),
            cons: f64::from(outcome.consensus(unanswered)),
            rate: outcome.pass_rate(),
            rate_unhalted: outcome.pass_rate_unhalted(),
            halted: outcome.halted.contains(&true),
            score: outcome.score(),
            sequences,
            right: outcome.right() as f64,
            tokens: outcome.tokens as f64,
            distinct: prefixes.distinct() as f64,
            tied: f64::from(outcome.is_tied()),
            seconds: sample.seconds,
        }
    }

    fn average(scores: &[Score]) -> Self {
        let mean = |of: fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / scores.len() as f64;
        Score {
            graded: scores.iter().any(|s| s.graded),
            pass: mean(|s| s.pass),
            cons: mean(|s| s.cons),
            rate: mean(|s| s.rate),
            rate_unhalted: mean(|s| s.rate_unhalted),
            halted: scores.iter().any(|s| s.halted),
            score: scores.iter().any(|s| s.score.is_some()).then(|| mean(|s| s.score.unwrap_or(0.0))),
            sequences: mean(|s| s.sequences),
            right: mean(|s| s.right),
            tokens: mean(|s| s.tokens),
            distinct: mean(|s| s.distinct),
            tied: mean(|s| s.tied),
            seconds: mean(|s| s.seconds),
        }
    }
}

/// One setting and everything that was run under it.
#[derive(Debug)]
pub struct Cell<'a> {
    pub method: String,
    pub theta: Option<f32>,
    pub max_sequences: usize,
    pub temperature: f32,
    /// What else sets it apart from a cell with the same method, theta, M and temperature.
    pub variant: Option<String>,
    /// One for each seed, by seed.
    pub runs: Vec<&'a Run>,
    /// For each run, its problems by id.
    pub graded: Vec<BTreeMap<&'a str, GradedProblem>>,
    pub scores: BTreeMap<String, Score>,
}

impl<'a> Cell<'a> {
    fn new(runs: Vec<&'a Run>, unanswered: Unanswered) -> Self {
        let Manifest { method, parameters, .. } = &runs[0].manifest;
        let mut seen: BTreeMap<&str, Vec<Score>> = BTreeMap::new();
        let mut graded = Vec::new();
        for run in &runs {
            let mut problems = BTreeMap::new();
            for (id, sample) in by_id(run) {
                let one = GradedProblem { outcome: sample.outcome(), prefixes: sample.prefixes() };
                seen.entry(id).or_default().push(Score::of(sample, &one, unanswered));
                problems.insert(id, one);
            }
            graded.push(problems);
        }
        Cell {
            method: method.clone(),
            theta: parameters.theta,
            max_sequences: parameters.max_sequences,
            temperature: parameters.temperature,
            variant: None,
            scores: seen.into_iter().map(|(id, s)| (id.to_owned(), Score::average(&s))).collect(),
            graded,
            runs,
        }
    }

    pub fn parameters(&self) -> &'a Parameters {
        &self.runs[0].manifest.parameters
    }

    pub fn is_full_parallel(&self) -> bool {
        self.method == names::FULL_PARALLEL
    }

    /// Does every run hold every problem?
    pub fn is_complete(&self) -> bool {
        self.runs.iter().all(|r| r.samples.len() >= r.manifest.suite.problems)
    }

    /// The method, with what sets the cell apart from the others of its method.
    pub fn label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} ({variant})", names::method(&self.method)),
            None => names::method(&self.method),
        }
    }

    /// Same prompts and same sampling, so that the difference is the method's.
    pub fn samples_like(&self, other: &Cell<'a>) -> bool {
        let sampling = |p: &Parameters| (p.temperature, p.top_p, p.top_k, p.min_p, p.max_tokens);
        let asked = |p: &'a Parameters| p.options.iter().filter(|(name, _)| !is_of_method(name));
        let (ours, theirs) = (self.parameters(), other.parameters());
        sampling(ours) == sampling(theirs) && asked(ours).eq(asked(theirs))
    }
}

/// A model on a suite.
#[derive(Debug)]
pub struct Subject<'a> {
    /// For people: with the beginning of its hash, where another model has the same name.
    pub model: String,
    /// The same of the suite.
    pub suite: String,
    /// What to look either up by: the names as runs have them.
    pub plain: (String, String),
    /// By method, then theta, M and temperature.
    pub cells: Vec<Cell<'a>>,
    /// Indices of the cells to compare methods by: one for each method and variant, all at one M and temperature.
    pub primary: Vec<usize>,
    /// Every problem that any run holds, in the order of the fullest run.
    pub problems: Vec<String>,
}

impl<'a> Subject<'a> {
    pub fn primary(&self) -> impl Iterator<Item = &Cell<'a>> + Clone {
        self.primary.iter().map(|&i| &self.cells[i])
    }

    /// The primary cell of a method, by the name it has without `/rerun` or `/regrow`. Of several, the one that is the
    /// paper's.
    pub fn method(&self, base: &str) -> Option<&Cell<'a>> {
        let of_base = || self.primary().filter(|c| names::base(&c.method) == base);
        // Of the paper's text there is a letter (`/rerun-literal`) and our reading of it.
        let papers = |c: &&Cell| c.method == base || c.method == format!("{base}/rerun");
        let literal = || of_base().find(|c| !c.method.ends_with("/regrow"));
        of_base().find(papers).or_else(literal).or_else(|| of_base().next())
    }

    /// The full-parallel cell to hold another against: same sampling, and the same M.
    pub fn full_parallel(&self, like: &Cell<'a>) -> Option<&Cell<'a>> {
        self.cells
            .iter()
            .find(|c| c.is_full_parallel() && c.samples_like(like) && c.max_sequences == like.max_sequences)
    }

    /// The full-parallel cell that knows most about what other numbers of samples would have brought.
    pub fn richest_full_parallel(&self, like: &Cell<'a>) -> Option<&Cell<'a>> {
        let fits = |c: &&Cell| c.is_full_parallel() && c.samples_like(like);
        self.cells.iter().filter(fits).max_by_key(|c| (c.is_complete(), c.max_sequences, c.runs.len()))
    }
}

/// All that was run.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub subjects: Vec<Subject<'a>>,
    /// Runs that say what another already says.
    pub repeated: Vec<&'a Run>,
}

impl<'a> Comparison<'a> {
    pub fn new(runs: &'a [Run], unanswered: Unanswered) -> Self {
        let mut repeated = Vec::new();
        let mut groups: BTreeMap<SubjectKey, Vec<&'a Run>> = BTreeMap::new();
        for run in runs {
            groups.entry(SubjectKey::of(run)).or_default().push(run);
        }
        let labels = Labels::of(&groups);
        let subjects = groups.into_iter().map(|(key, runs)| {
            let (model, suite) = labels.of_subject(&key);
            let cells = cells(runs, unanswered, &mut repeated);
            let plain = (key.model.1, key.suite.1);
            let (primary, problems) = (primary(&cells, &plain.0), problem_order(&cells));
            Subject { primary, problems, model, suite, plain, cells }
        });
        let subjects = subjects.collect();
        Comparison { subjects, repeated }
    }
}

/// A run's finished prompts by id. A prompt that is there twice counts once, as it was written last.
pub fn by_id(run: &Run) -> BTreeMap<&str, &Sample> {
    run.samples.iter().map(|s| (s.id.as_str(), s)).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SubjectKey {
    model: (usize, String, String),
    suite: (usize, String, String),
}

impl SubjectKey {
    fn of(run: &Run) -> Self {
        let Manifest { model, suite, .. } = &run.manifest;
        SubjectKey {
            model: (names::model_rank(&model.name), model.name.clone(), model.hash.clone()),
            suite: (names::suite_rank(&suite.name), suite.name.clone(), suite.hash.clone()),
        }
    }
}

/// Names for people: the beginning of the hash joins the name only where the name is not enough.
struct Labels {
    models: BTreeMap<String, BTreeSet<String>>,
    suites: BTreeMap<String, BTreeSet<String>>,
}

impl Labels {
    fn of(groups: &BTreeMap<SubjectKey, Vec<&Run>>) -> Self {
        let mut labels = Labels { models: BTreeMap::new(), suites: BTreeMap::new() };
        for SubjectKey { model, suite } in groups.keys() {
            labels.models.entry(model.1.clone()).or_default().insert(model.2.clone());
            labels.suites.entry(suite.1.clone()).or_default().insert(suite.2.clone());
        }
        labels
    }

    fn of_subject(&self, key: &SubjectKey) -> (String, String) {
        let label = |known: &BTreeMap<String, BTreeSet<String>>, name: &str, hash: &str| {
            let plain = known.get(name).is_none_or(|hashes| hashes.len() < 2);
            if plain { name.to_owned() } else { format!("{name} #{}", names::short_hash(hash)) }
        };
        (label(&self.models, &key.model.1, &key.model.2), label(&self.suites, &key.suite.1, &key.suite.2))
    }
}

/// Everything that makes a setting, in the order in which tables list it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CellKey {
    rank: usize,
    method: String,
    /// Bits of numbers that are not negative are in the order of the numbers.
    theta: Option<u32>,
    max_sequences: usize,
    temperature: u32,
    other: String,
}

impl CellKey {
    fn of(run: &Run) -> Self {
        let Manifest { method, parameters, .. } = &run.manifest;
        CellKey {
            rank: names::method_rank(method),
            method: method.clone(),
            theta: parameters.theta.map(f32::to_bits),
            max_sequences: parameters.max_sequences,
            temperature: parameters.temperature.to_bits(),
            other: Value::Object(other_parameters(parameters).into_iter().collect()).to_string(),
        }
    }
}

/// The parameters that have no column of their own.
fn other_parameters(parameters: &Parameters) -> BTreeMap<String, Value> {
    let mut all = parameters.options.clone();
    // A switch that is off may be younger than a run that does not have it.
    all.retain(|_, value| *value != Value::Bool(false));
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put("second pass", parameters.second_pass.clone().map_or(Value::Null, Value::from));
    put("max-tokens", parameters.max_tokens.into());
    put("top-p", number(parameters.top_p));
    put("top-k", parameters.top_k.into());
    put("min-p", number(parameters.min_p));
    put("entropy-top-k", parameters.entropy_top_k.into());
    put("entropy-temperature", parameters.entropy_temperature.map_or(Value::Null, number));
    all
}

/// An f32 as it was written: 0.95, not 0.949999988079071.
fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn cells<'a>(runs: Vec<&'a Run>, unanswered: Unanswered, repeated: &mut Vec<&'a Run>) -> Vec<Cell<'a>> {
    let mut groups: BTreeMap<CellKey, BTreeMap<u64, &'a Run>> = BTreeMap::new();
    for run in runs {
        let seeds = groups.entry(CellKey::of(run)).or_default();
        match seeds.get(&run.manifest.seed) {
            Some(known) if known.samples.len() >= run.samples.len() => repeated.push(run),
            Some(_) => repeated.extend(seeds.insert(run.manifest.seed, run)),
            None => {
                seeds.insert(run.manifest.seed, run);
            }
        }
    }
    let cell = |seeds: BTreeMap<u64, &'a Run>| Cell::new(seeds.into_values().collect(), unanswered);
    let mut cells: Vec<Cell> = groups.into_values().map(cell).collect();
    name_variants(&mut cells);
    cells
}

/// Says of cells that look alike in every column what they differ in.
fn name_variants(cells: &mut [Cell]) {
    let key =
        |c: &Cell| (c.method.clone(), c.theta.map(f32::to_bits), c.max_sequences, c.temperature.to_bits());
    for alike in cells.chunk_by_mut(|a, b| key(a) == key(b)).filter(|alike| alike.len() > 1) {
        let all: Vec<BTreeMap<String, Value>> =
            alike.iter().map(|c| other_parameters(c.parameters())).collect();
        let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
        let differ = |name: &&String| all.iter().any(|p| p.get(*name) != all[0].get(*name));
        let differing: Vec<&String> = names.into_iter().filter(differ).collect();
        for (cell, own) in alike.iter_mut().zip(&all) {
            let said = differing.iter().map(|name| match own.get(*name) {
                Some(Value::String(text)) if *name == "second pass" => text.clone(),
                Some(Value::String(text)) => format!("{name} {text}"),
                Some(Value::Null) | None => format!("no {name}"),
                Some(value) => format!("{name} {value}"),
            });
            cell.variant = Some(said.collect::<Vec<_>>().join(", "));
        }
    }
}

/// The cells to compare methods by. M and temperature are those under which most methods were run (then the larger M, then
/// the lower temperature); theta is the model's own for each method, or else the one with the most runs.
fn primary(cells: &[Cell], model: &str) -> Vec<usize> {
    let mut settings: BTreeMap<(usize, u32), BTreeSet<&str>> = BTreeMap::new();
    for cell in cells {
        settings.entry((cell.max_sequences, cell.temperature.to_bits())).or_default().insert(&cell.method);
    }
    let best = settings.iter().max_by_key(|((m, t), methods)| (methods.len(), *m, std::cmp::Reverse(*t)));
    let Some((&setting, _)) = best else { return Vec::new() };
    let here = |c: &Cell| (c.max_sequences, c.temperature.to_bits()) == setting;
    let mut chosen: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
    let worth = |c: &Cell| (names::is_own_theta(model, &c.method, c.theta), c.runs.len());
    for (index, cell) in cells.iter().enumerate().filter(|(_, c)| here(c)) {
        let known = chosen.entry((&cell.method, cell.variant.as_deref())).or_insert(index);
        if worth(cell) > worth(&cells[*known]) {
            *known = index;
        }
    }
    let mut chosen: Vec<usize> = chosen.into_values().collect();
    chosen.sort_unstable();
    chosen
}

fn problem_order(cells: &[Cell]) -> Vec<String> {
    let runs = || cells.iter().flat_map(|c| &c.runs);
    let fullest = runs().max_by_key(|r| r.problems.len().max(r.samples.len()));
    let asked = fullest.into_iter().flat_map(|r| r.problems.iter().map(|p| &p.id));
    let sampled = fullest.into_iter().chain(runs()).flat_map(|r| r.samples.iter().map(|s| &s.id));
    let held: BTreeSet<&String> = runs().flat_map(|r| r.samples.iter().map(|s| &s.id)).collect();
    let mut seen = BTreeSet::new();
    asked.chain(sampled).filter(|id| held.contains(id) && seen.insert(id.as_str())).cloned().collect()
}
