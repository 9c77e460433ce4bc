//! The paper's Algorithms 1 and 2, written down as they stand: loops over steps and over the active set, whole paths
//! copied at every fork, nothing shared and nothing clever. It uses none of the crate's trees, groves and strategies.
//!
//! Where the paper leaves a choice, the settled one is taken, each at a line that says so.

mod baselines;

pub use baselines::{deepconf, esc};

use eager_core::strategy::CapRule;
use eager_core::{Candidate, Forking, Key, Settings, Token};

use crate::scripted::{Case, Script};

/// One sequence `y`.
#[derive(Debug, Clone)]
pub struct Path {
    /// The whole path: a twin has a copy of what came before it.
    pub tokens: Vec<Token>,
    pub parent: Option<usize>,
    pub fork_at: usize,
    /// Positions at or after `fork_at` where the token was chosen and not sampled.
    pub forced: Vec<usize>,
    /// Steps since the last fork, or the start.
    since: usize,
}

/// A step that forked, was refused or came close, and the tokens that it left with their probabilities.
#[derive(Debug, Clone)]
pub struct Remembered {
    pub path: usize,
    pub at: usize,
    pub entropy: f64,
    pub untaken: Vec<(Token, f64)>,
}

/// The set Y of one prompt, in order of creation.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    pub paths: Vec<Path>,
    pub remembered: Vec<Remembered>,
}

/// What Algorithm 1 is given, apart from theta and M.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub script: &'a Script,
    pub prompt: &'a [Token],
    /// Which attempt at this prompt it is: each draws other numbers.
    pub root: usize,
    pub settings: &'a Settings,
    pub forking: &'a Forking,
}

/// The probabilities of the candidates at a temperature, renormalised.
pub fn softmax(top: &[Candidate], temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = top.iter().map(|c| (f64::from(c.logprob) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

pub fn entropy(probabilities: &[f64]) -> f64 {
    let mut sum = 0.0;
    for &p in probabilities {
        if p > 0.0 {
            sum -= p * p.ln();
        }
    }
    sum
}

/// The temperature of the distribution whose entropy is measured. Settled: that of the sampler unless another is asked
/// for, and 1 for a greedy sampler.
pub fn measured_at(settings: &Settings) -> f64 {
    match (settings.entropy_temperature, settings.sampling.temperature) {
        (Some(asked), _) => asked.into(),
        (None, 0.0) => 1.0,
        (None, sampled) => sampled.into(),
    }
}

/// Has this path closed its chain of thought?
pub fn closed(path: &[Token], marker: &[Token]) -> bool {
    !marker.is_empty() && (0..path.len()).any(|i| path[i..].starts_with(marker))
}

/// Settled: forks happen inside the chain of thought, and within `window` tokens of the last fork or the start.
pub fn is_watched(path: &[Token], since: usize, settings: &Settings, forking: &Forking) -> bool {
    let inside = forking.everywhere || !closed(path, &settings.reasoning_end);
    inside && (forking.window == 0 || since < forking.window)
}

fn ends(path: &Path, settings: &Settings) -> bool {
    path.tokens.last().is_some_and(|t| settings.stop.contains(t)) || path.tokens.len() == settings.max_tokens
}

/// Algorithm 1.
pub fn algorithm_1(input: Input<'_>, theta: f32, cap: usize) -> Generated {
    let settings = input.settings;
    let first = Path { tokens: Vec::new(), parent: None, fork_at: 0, forced: Vec::new(), since: 0 };
    let mut all = Generated { paths: vec![first], remembered: Vec::new() };
    let mut active = vec![0];
    for _t in 1..=settings.max_tokens {
        if active.is_empty() {
            break;
        }
        for y in active.clone() {
            let room = match input.forking.cap_rule {
                // Settled: live and finished sequences count together.
                CapRule::All => all.paths.len() < cap,
                // The letter of the paper: |A| < M.
                CapRule::Live => active.len() < cap,
            };
            let twin = extend(&mut all, y, input, theta, room);
            active.extend(twin);
            // The paper looks only at y; a twin may be ended by its first token, too.
            for moved in [Some(y), twin].into_iter().flatten().filter(|&i| ends(&all.paths[i], settings)) {
                active.retain(|&other| other != moved);
            }
        }
    }
    all
}

/// One pass through the inner loop: `y` gets a token, and a twin where it forks.
fn extend(all: &mut Generated, y: usize, input: Input<'_>, theta: f32, room: bool) -> Option<usize> {
    let (settings, forking) = (input.settings, input.forking);
    let path = all.paths[y].clone();
    let at = path.tokens.len();
    let candidates = input.script.candidates(input.prompt, &path.tokens);
    let top = &candidates[..settings.top_k.min(candidates.len())];
    let probabilities = softmax(top, measured_at(settings));
    let entropy = entropy(&probabilities);
    // A step with one candidate has no second token to fork into.
    let watched = is_watched(&path.tokens, path.since, settings, forking) && top.len() >= 2;

    // Settled: the paper knows no least distance of forks, and 0 asks for none. A path that never forked may at once.
    let fresh = path.parent.is_none() && path.forced.is_empty();
    let spaced = fresh || path.since >= forking.spacing;

    let fork = watched && spaced && entropy as f32 >= theta && room;
    let taken = if fork {
        vec![top[0].token, top[1].token]
    } else {
        vec![input.script.sampled(input.prompt, input.root, &path.tokens).token]
    };
    if watched && entropy as f32 >= forking.relax * theta {
        let left = top.iter().zip(&probabilities).filter(|(c, _)| !taken.contains(&c.token));
        let untaken = left.map(|(c, &p)| (c.token, p)).collect();
        all.remembered.push(Remembered { path: y, at, entropy, untaken });
    }

    if fork {
        let mut twin = Path { parent: Some(y), fork_at: at, forced: vec![at], since: 0, ..path };
        twin.tokens.push(taken[1]);
        all.paths.push(twin);
        all.paths[y].forced.push(at);
    }
    all.paths[y].tokens.push(taken[0]);
    all.paths[y].since = if fork { 0 } else { all.paths[y].since + 1 };
    fork.then(|| all.paths.len() - 1)
}

/// Algorithm 1 for one prompt of a case.
pub fn init(case: &Case, prompt: usize) -> Generated {
    algorithm_1(input(case, &case.prompt(prompt), 0), case.forking.theta, case.forking.cap)
}

fn input<'a>(case: &'a Case, prompt: &'a [Token], root: usize) -> Input<'a> {
    Input { script: &case.script, prompt, root, settings: &case.settings, forking: &case.forking }
}

/// Full-parallel sampling: M paths that know nothing of each other.
pub fn full_parallel(case: &Case, prompt: usize) -> Generated {
    let never = Forking { theta: f32::INFINITY, ..case.forking.clone() };
    let prompt = case.prompt(prompt);
    let mut all = Generated::default();
    for root in 0..case.forking.cap {
        let input = Input { forking: &never, ..input(case, &prompt, root) };
        all.paths.extend(algorithm_1(input, f32::INFINITY, 1).paths);
    }
    all
}

/// One path that knows nothing of the others, until the model, the length or `halts` ends it.
fn sampled_path(case: &Case, prompt: usize, root: usize, halts: impl Fn(&[Token]) -> bool) -> Path {
    let prompt = case.prompt(prompt);
    let mut path = Path { tokens: Vec::new(), parent: None, fork_at: 0, forced: Vec::new(), since: 0 };
    while !ends(&path, &case.settings) {
        path.tokens.push(case.script.sampled(&prompt, root, &path.tokens).token);
        if halts(&path.tokens) {
            break;
        }
    }
    path
}

/// The set I of Algorithm 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// EAGer-adapt: the prompts that reached the cap.
    Saturated,
    /// EAGer: the prompts with no correct answer.
    Failing,
}

/// What Section 3.2, its equation and Algorithm 2 can be read to say, by the rows of the documents' table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// 1. A prompt gets b_i new sequences; at most 2M over all prompts.
    OnlyTheShare,
    /// 2. A prompt's total is M + b_i; at most 2M over all prompts.
    TotalOverAll,
    /// 3. A prompt gets M + b_i new sequences; at most 2M over all prompts. The letter of Algorithm 2.
    NewOverAll,
    /// 4. A prompt's total is M + b_i; at most 2M for each prompt. Ours.
    TotalEach,
    /// 5. A prompt gets M + b_i new sequences; at most 2M for each prompt.
    NewEach,
    /// 6. A prompt's total is M + b_i, and there is no 2M.
    TotalUnlimited,
}

impl Reading {
    pub const ALL: [Reading; 6] = [
        Reading::OnlyTheShare,
        Reading::TotalOverAll,
        Reading::NewOverAll,
        Reading::TotalEach,
        Reading::NewEach,
        Reading::TotalUnlimited,
    ];

    /// b, of a surplus over so many prompts in I.
    pub fn budget(self, m: usize, surplus: usize, chosen: usize) -> usize {
        match self {
            Reading::OnlyTheShare | Reading::TotalOverAll | Reading::NewOverAll => surplus.min(2 * m),
            Reading::TotalEach | Reading::NewEach => surplus.min(2 * m * chosen),
            Reading::TotalUnlimited => surplus,
        }
    }

    /// What a prompt with so many sequences may add beside its share.
    pub fn beside(self, m: usize, count: usize) -> usize {
        match self {
            Reading::OnlyTheShare => 0,
            Reading::TotalOverAll | Reading::TotalEach | Reading::TotalUnlimited => m.saturating_sub(count),
            Reading::NewOverAll | Reading::NewEach => m,
        }
    }
}

/// How many sequences every prompt of a case may add; 0 for those that are not in I.
pub fn allot(case: &Case, reading: Reading, counts: &[usize], in_i: &[bool]) -> Vec<usize> {
    let m = case.forking.cap;
    let theoretical = m * counts.len();
    let actual: usize = counts.iter().sum();
    let mut may_add = vec![0; counts.len()];
    let mut members: Vec<usize> = (0..counts.len()).filter(|&i| in_i[i]).collect();
    // Under the rule |A| < M there may be more sequences than M |D|: then nothing was saved.
    if theoretical <= actual || members.is_empty() {
        return may_add;
    }
    for &i in &members {
        may_add[i] = reading.beside(m, counts[i]);
    }
    // Settled: evenly, what does not divide as the prompts' keys and the seed say.
    members.sort_by_key(|&i| Key::prompt(case.script.seed, i as u64).lot());
    for n in 0..reading.budget(m, theoretical - actual, members.len()) {
        may_add[members[n % members.len()]] += 1;
    }
    // Under the rule |A| < M a prompt may have more than M sequences, which its total counts.
    for &i in members.iter().filter(|&&i| counts[i] > m && reading.beside(m, counts[i]) == 0) {
        may_add[i] = may_add[i].saturating_sub(counts[i] - m);
    }
    may_add
}

/// Which prompts Algorithm 2 reallocates to.
pub fn choose(case: &Case, paths: &[Vec<Vec<Token>>], chosen: Chosen) -> Vec<bool> {
    let in_i = |all: &Vec<Vec<Token>>| match chosen {
        Chosen::Saturated => all.len() >= case.forking.cap,
        Chosen::Failing => !all.iter().any(|path| crate::scripted::is_answer(path)),
    };
    paths.iter().map(in_i).collect()
}

/// Algorithm 2, for all prompts of a case.
pub fn algorithm_2(case: &Case, reading: Reading, chosen: Chosen) -> Vec<Generated> {
    let mut all: Vec<Generated> = (0..case.prompts).map(|i| init(case, i)).collect();
    let paths: Vec<Vec<Vec<Token>>> =
        all.iter().map(|g| g.paths.iter().map(|p| p.tokens.clone()).collect()).collect();
    let counts: Vec<usize> = all.iter().map(|g| g.paths.len()).collect();
    let may_add = allot(case, reading, &counts, &choose(case, &paths, chosen));
    for i in 0..case.prompts {
        if may_add[i] == 0 {
            continue;
        }
        let theta = case.forking.theta;
        let theta = if counts[i] < case.forking.cap { case.forking.relax * theta } else { theta };
        let prompt = case.prompt(i);
        let again = algorithm_1(input(case, &prompt, 1), theta, may_add[i]);
        append(&mut all[i], again);
    }
    all
}

/// Appends new sequences; what points at a sequence by its number moves along.
fn append(all: &mut Generated, again: Generated) {
    let before = all.paths.len();
    let shifted = |p: Path| Path { parent: p.parent.map(|i| i + before), ..p };
    all.paths.extend(again.paths.into_iter().map(shifted));
    let shifted = |r: Remembered| Remembered { path: r.path + before, ..r };
    all.remembered.extend(again.remembered.into_iter().map(shifted));
}
