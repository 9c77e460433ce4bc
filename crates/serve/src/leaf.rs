//! A grown tree as its sequences: what each says, how it ended, and how the tree came to it.

use eager_core::entropy::peak_entropy;
use eager_core::vote::{Votes, weighted_tally};
use eager_core::{Finish, SeqId, Token, Tree};
use serde::Serialize;

use crate::growth::{Cut, Seed, full_parallel, full_samples, grade, share_left};
use crate::request::Vote;

/// The percentile from which entropies count as peaks: the paper's.
const PEAK: f64 = 99.9;

/// One sequence, complete by itself.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub id: SeqId,
    pub text: String,
    /// Its tokens from the prompt on, without the one that ended it.
    pub tokens: Vec<Token>,
    pub logprobs: Vec<f32>,
    /// In OpenAI's words.
    pub reason: &'static str,
    pub told: LeafTold,
}

/// What is told of a sequence to those who know EAGer.
#[derive(Debug, Clone, Serialize)]
pub struct LeafTold {
    pub index: usize,
    pub parent: Option<usize>,
    /// Position of its first own token.
    pub fork_at: usize,
    /// Tokens of its whole path.
    pub tokens: usize,
    pub entropy: EntropyTold,
    /// Positions of its path whose token the method chose instead of the sampler.
    pub forced: Vec<usize>,
    /// stop, length, halted by the method, or cut off with the request.
    pub finish: &'static str,
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<bool>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct EntropyTold {
    pub mean: f64,
    pub max: f64,
    /// Mean of the highest thousandth.
    pub peak: f64,
}

/// What is told of a request to those who know EAGer.
#[derive(Debug, Clone, Serialize)]
pub struct Told {
    pub method: String,
    pub theta: Option<f64>,
    pub seed: u64,
    pub tokens_decoded: usize,
    /// What the same sequences would have cost if each were decoded by itself, under its old name and its new one.
    pub tokens_full_parallel: usize,
    pub tokens_apart: usize,
    /// What `n` samples of each prompt would have cost, each as long as its sequences are on the mean.
    pub tokens_full_samples: usize,
    /// The shares of the last two that were not spent.
    pub shared: f64,
    pub saved: f64,
    pub sequences: usize,
    pub forks: usize,
    /// Why there is less than was asked for: time, or shutdown.
    pub cut: Option<&'static str>,
    /// Why the answer means nothing, where the model knows no questions of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// For each prompt, its answers with the most votes first.
    pub votes: Vec<Vec<Votes>>,
    pub choices: Vec<LeafTold>,
}

/// The sequences of all prompts of a request, and what is told of them.
#[derive(Debug, Clone)]
pub struct Harvest {
    pub leaves: Vec<Leaf>,
    pub told: Told,
}

impl Harvest {
    /// Reads all texts and answers. This is work: not for a thread that serves others.
    pub fn new(seed: &Seed, trees: &[Tree], cut: Option<Cut>) -> Self {
        let mut leaves = Vec::new();
        let mut votes = Vec::new();
        // Answers are only looked for where somebody wants to know: most requests do not.
        let wants_answers = seed.ask.eager;
        for (prompt, tree) in trees.iter().enumerate() {
            let mut own: Vec<Leaf> = tree.ids().map(|id| leaf(seed, tree, id, prompt * seed.ask.n)).collect();
            if wants_answers {
                votes.push(read_answers(seed, prompt, tree, &mut own));
            }
            if seed.ask.vote == Vote::Majority {
                keep_majority(&mut own, votes.last());
            }
            leaves.extend(own);
        }
        let decoded = trees.iter().map(Tree::tokens_generated).sum();
        let apart = trees.iter().map(full_parallel).sum();
        let of_tree = |tree: &Tree| full_samples(full_parallel(tree), tree.len(), seed.ask.n);
        let samples = trees.iter().map(of_tree).sum();
        let told = Told {
            method: seed.ask.method.to_string(),
            theta: seed.ask.method.forks().then(|| plain(seed.plan.forking.theta)),
            seed: seed.plan.seed,
            tokens_decoded: decoded,
            tokens_full_parallel: apart,
            tokens_apart: apart,
            tokens_full_samples: samples,
            shared: share_left(decoded, apart),
            saved: share_left(decoded, samples),
            sequences: trees.iter().map(Tree::len).sum(),
            forks: trees.iter().flat_map(Tree::sequences).filter(|s| s.parent.is_some()).count(),
            cut: cut.map(Cut::name),
            notice: seed.notice(),
            votes,
            choices: leaves.iter().map(|leaf| leaf.told.clone()).collect(),
        };
        Harvest { leaves, told }
    }
}

fn leaf(seed: &Seed, tree: &Tree, id: SeqId, first: usize) -> Leaf {
    let sequence = tree.get(id);
    let (mut tokens, mut logprobs) = (tree.path(id), tree.logprobs(id));
    let length = tokens.len();
    if tokens.last().is_some_and(|&last| seed.ends(last)) {
        tokens.pop();
        logprobs.pop();
    }
    let (text, stopped) = seed.text(&tokens);
    let (reason, finish) = finish_words(sequence.finish, stopped);
    let told = LeafTold {
        index: first + id.0,
        parent: sequence.parent.map(|parent| first + parent.0),
        fork_at: sequence.fork_at,
        tokens: length,
        entropy: summary(&tree.entropies(id)),
        forced: forced(tree, id),
        finish,
        answer: None,
        correct: None,
    };
    Leaf { id, text, tokens, logprobs, reason, told }
}

/// How a sequence ended, in OpenAI's words and in ours.
pub fn finish_words(finish: Option<Finish>, stopped: bool) -> (&'static str, &'static str) {
    match finish {
        _ if stopped => ("stop", "stop"),
        Some(Finish::Stop) => ("stop", "stop"),
        Some(Finish::Length) => ("length", "length"),
        Some(Finish::Halted) => ("length", "halted"),
        None => ("length", "cut"),
    }
}

/// The number that a person would write: 0.3, and not the nearest float's 0.30000001192092896.
pub fn plain(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

fn summary(entropies: &[f32]) -> EntropyTold {
    let count = entropies.len().max(1) as f64;
    EntropyTold {
        mean: entropies.iter().map(|&e| f64::from(e)).sum::<f64>() / count,
        max: entropies.iter().copied().fold(0.0, f32::max).into(),
        peak: peak_entropy(entropies, PEAK).unwrap_or(0.0),
    }
}

/// The forced positions of a whole path: its own, and its ancestors' before it left them.
fn forced(tree: &Tree, id: SeqId) -> Vec<usize> {
    let mut all = Vec::new();
    let (mut at, mut end) = (Some(id), usize::MAX);
    while let Some(id) = at {
        let sequence = tree.get(id);
        all.extend(sequence.forced.iter().copied().filter(|&position| position < end));
        (at, end) = (sequence.parent, sequence.fork_at);
    }
    all.sort_unstable();
    all
}

/// Finds what the sequences of a prompt answer, and counts.
fn read_answers(seed: &Seed, prompt: usize, tree: &Tree, leaves: &mut [Leaf]) -> Vec<Votes> {
    let graded = grade(seed, prompt, tree);
    let known = seed.ask.answer.is_some();
    for (at, leaf) in leaves.iter_mut().enumerate() {
        leaf.told.answer = graded.answers[at].clone();
        leaf.told.correct = known.then_some(graded.correct[at]);
    }
    let weight = |at: usize| graded.weights.get(at).copied().unwrap_or(1.0);
    weighted_tally(leaves.iter().enumerate().map(|(at, leaf)| (leaf.told.answer.as_deref(), weight(at))))
}

/// Leaves one sequence: the first that gives the answer with most votes; without any answer, the first.
fn keep_majority(leaves: &mut Vec<Leaf>, votes: Option<&Vec<Votes>>) {
    let winner = votes.and_then(|votes| votes.first()).map(|votes| votes.answer.as_str());
    let gives = |leaf: &Leaf| winner.is_some() && leaf.told.answer.as_deref() == winner;
    let at = leaves.iter().position(gives).unwrap_or(0);
    if at < leaves.len() {
        leaves.swap(0, at);
        leaves.truncate(1);
    }
}
