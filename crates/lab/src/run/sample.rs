//! One line of `samples.jsonl`: a finished prompt with its whole tree.
//!
//! A child's arrays hold only what it decoded itself; the shared beginning is its parent's. So the tokens of all sequences
//! together are what was decoded, and every number of a report can be computed again from these lines.

use eager_core::{Finish, Outcome, Prefixes, SeqId, Token, Tree};
use serde::{Deserialize, Serialize};

/// A finished prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub id: String,
    pub prompt_tokens: usize,
    pub sequences: Vec<SampleSequence>,
    pub tokens_generated: usize,
    pub sequences_total: usize,
    /// Did it reach the cap?
    pub saturated: bool,
    /// Its share of the run's time: prompts are decoded together, so each is charged for its tokens. The shares of all lines
    /// add up to the time the run took.
    pub seconds: f64,
    /// Sequences that a second pass was granted; `None` for methods that have no second pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleSequence {
    pub tokens: Vec<Token>,
    /// `null` stands for the log-probability of an impossible token: JSON has no infinity.
    #[serde(with = "eager_core::entropy::stored_logprob::all")]
    pub logprobs: Vec<f32>,
    pub entropy: Vec<f32>,
    /// Index of the sequence it branched off, if it did.
    pub parent: Option<usize>,
    /// Position of its first own token.
    pub fork_at: usize,
    /// Positions whose token the method chose instead of the sampler. A trainer masks these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<usize>,
    /// `None` where the run was broken off.
    pub finish: Option<Finish>,
    /// The whole response, the parent's part included; empty for suites whose texts may not be written down.
    pub text: String,
    pub answer: Option<String>,
    /// `None` where the right answer is not known.
    pub correct: Option<bool>,
    /// From 0 to 1, where the grader gives scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What its vote counts; 1 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f32>,
}

impl Sample {
    /// A tree as a line. `known` says that the right answer is known; `texts` are those of the sequences' whole paths.
    pub fn new(
        id: String,
        prompt_tokens: usize,
        tree: &Tree,
        graded: &Outcome,
        known: bool,
        texts: Vec<String>,
    ) -> Self {
        let sequence = |(id, text): (SeqId, String)| {
            let sequence = tree.get(id);
            SampleSequence {
                tokens: sequence.tokens.clone(),
                logprobs: sequence.logprobs.clone(),
                entropy: sequence.entropy.clone(),
                parent: sequence.parent.map(|parent| parent.0),
                fork_at: sequence.fork_at,
                forced: sequence.forced.clone(),
                finish: sequence.finish,
                text,
                answer: graded.answers[id.0].clone(),
                correct: known.then_some(graded.correct[id.0]),
                score: graded.scores.get(id.0).copied(),
                weight: sequence.weight,
            }
        };
        Sample {
            id,
            prompt_tokens,
            sequences: tree.ids().zip(texts).map(sequence).collect(),
            tokens_generated: tree.tokens_generated(),
            sequences_total: tree.len(),
            saturated: false,
            seconds: 0.0,
            granted: None,
        }
    }

    /// What the metrics need of it.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            answers: self.sequences.iter().map(|s| s.answer.clone()).collect(),
            correct: self.sequences.iter().map(|s| s.correct.unwrap_or(false)).collect(),
            weights: self.weights(),
            halted: self.sequences.iter().map(|s| s.finish == Some(Finish::Halted)).collect(),
            scores: self.sequences.iter().filter_map(|s| s.score).collect(),
            tokens: self.sequences.iter().map(|s| s.tokens.len()).sum(),
        }
    }

    /// The distinct prefixes of its sequences.
    pub fn prefixes(&self) -> Prefixes {
        Prefixes::of((0..self.sequences.len()).map(|at| self.path(at, |s| &s.tokens)).collect())
    }

    /// What votes count; empty where all count the same.
    fn weights(&self) -> Vec<f32> {
        let weighted = self.sequences.iter().any(|s| s.weight.is_some());
        let weights = self.sequences.iter().map(|s| s.weight.unwrap_or(1.0));
        if weighted { weights.collect() } else { Vec::new() }
    }

    /// A value for every position of a sequence's path, from what each ancestor holds.
    pub fn path<T: Copy>(&self, index: usize, own: impl Fn(&SampleSequence) -> &[T]) -> Vec<T> {
        let mut parts: Vec<&[T]> = Vec::new();
        let (mut at, mut end) = (Some(index), usize::MAX);
        // A file may have been edited: a parent comes before its child, which also ends the loop.
        while let Some(sequence) = at.and_then(|at| self.sequences.get(at)) {
            let values = own(sequence);
            parts.push(&values[..end.saturating_sub(sequence.fork_at).min(values.len())]);
            end = sequence.fork_at;
            at = sequence.parent.filter(|&parent| Some(parent) < at);
        }
        parts.into_iter().rev().flatten().copied().collect()
    }
}
