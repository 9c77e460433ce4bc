//! The token tree of one prompt.
//!
//! A sequence holds only the tokens it decoded itself; what came before is its parent's. So every token that was decoded
//! is in the tree exactly once, and counting tokens is adding lengths.

mod stored;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chance::Key;
use crate::entropy::{Candidate, Token};

/// A sequence's index in its tree, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeqId(pub usize);

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// It reached the length limit.
    Length,
    /// The strategy gave it up.
    Halted,
}

/// One sequence: a path from the prompt to a leaf, of which it owns the part after `fork_at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    pub parent: Option<SeqId>,
    /// Position (counted from the first generated token) of this sequence's first own token.
    pub fork_at: usize,
    pub tokens: Vec<Token>,
    /// Raw log-probability of each own token.
    #[serde(with = "crate::entropy::stored_logprob::all")]
    pub logprobs: Vec<f32>,
    /// Top-K entropy of the distribution each own token was taken from.
    pub entropy: Vec<f32>,
    /// Positions where the strategy chose the token instead of the sampler. A trainer masks these.
    pub forced: Vec<usize>,
    pub finish: Option<Finish>,
    /// Position up to which forking was last seen: its start, or just after its latest fork.
    pub last_fork: usize,
    /// Still inside the chain of thought?
    pub reasoning: bool,
    /// What its vote weighs, where the strategy says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f32>,
    pub key: Key,
}

impl Sequence {
    /// Length of the whole path, the parent's part included.
    pub fn len(&self) -> usize {
        self.fork_at + self.tokens.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_live(&self) -> bool {
        self.finish.is_none()
    }
}

/// A token that was not taken, and how likely it was at the temperature at which entropy is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Untaken {
    pub candidate: Candidate,
    pub probability: f32,
}

/// A position where a further branch could start: the tokens that were not taken there, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    pub entropy: f32,
    pub untaken: Vec<Untaken>,
}

/// All sequences of one prompt.
///
/// A tree that was written and read back is the same tree, and grows on as the first would have. JSON readers must
/// not lose bits of a number for that: `serde_json` needs its feature `float_roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::Stored")]
pub struct Tree {
    key: Key,
    #[serde(skip)]
    roots: usize,
    sequences: Vec<Sequence>,
    /// Ordered by place, not by time: the order must not depend on which sequence an engine happened to run first.
    #[serde(serialize_with = "stored::spots")]
    spots: BTreeMap<(SeqId, usize), Spot>,
}

impl Tree {
    pub fn new(key: Key) -> Self {
        Tree { key, roots: 0, sequences: Vec::new(), spots: BTreeMap::new() }
    }

    /// The key of its prompt.
    pub fn key(&self) -> Key {
        self.key
    }

    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    pub fn get(&self, id: SeqId) -> &Sequence {
        &self.sequences[id.0]
    }

    /// How many sequences there are, live and finished.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    pub fn ids(&self) -> impl Iterator<Item = SeqId> + use<> {
        (0..self.sequences.len()).map(SeqId)
    }

    pub fn live(&self) -> impl Iterator<Item = SeqId> + '_ {
        self.ids().filter(|&id| self.get(id).is_live())
    }

    /// Tokens decoded: every node once.
    pub fn tokens_generated(&self) -> usize {
        self.sequences.iter().map(|s| s.tokens.len()).sum()
    }

    /// The sequence and its ancestors, each with the position where the path leaves it.
    fn lineage(&self, id: SeqId) -> impl Iterator<Item = (SeqId, usize)> + '_ {
        let next = |&(id, _): &(SeqId, usize)| {
            let sequence = self.get(id);
            sequence.parent.map(|parent| (parent, sequence.fork_at))
        };
        std::iter::successors(Some((id, self.get(id).len())), next)
    }

    /// The whole path of a sequence, gathered with `own` from the part that each ancestor contributes.
    fn gather<T: Copy>(&self, id: SeqId, own: impl Fn(&Sequence) -> &[T]) -> Vec<T> {
        let part = |(id, end)| {
            let sequence = self.get(id);
            &own(sequence)[..end - sequence.fork_at]
        };
        let parts: Vec<&[T]> = self.lineage(id).map(part).collect();
        parts.into_iter().rev().flatten().copied().collect()
    }

    /// Every generated token from the prompt to the end of the sequence.
    pub fn path(&self, id: SeqId) -> Vec<Token> {
        self.gather(id, |s| &s.tokens)
    }

    /// Does the path of a sequence end with these tokens? Asked while it grows, so it is not gathered for that.
    pub(crate) fn ends_with(&self, id: SeqId, tokens: &[Token]) -> bool {
        let part = |(id, end)| {
            let sequence = self.get(id);
            &sequence.tokens[..end - sequence.fork_at]
        };
        let backwards = self.lineage(id).flat_map(|at| part(at).iter().rev());
        backwards.take(tokens.len()).eq(tokens.iter().rev())
    }

    /// The entropy at every position of the path.
    pub fn entropies(&self, id: SeqId) -> Vec<f32> {
        self.gather(id, |s| &s.entropy)
    }

    /// The raw log-probability of every token of the path.
    pub fn logprobs(&self, id: SeqId) -> Vec<f32> {
        self.gather(id, |s| &s.logprobs)
    }

    /// What each sequence's vote weighs; nothing when all weigh the same.
    pub fn weights(&self) -> Vec<f32> {
        if self.sequences.iter().all(|s| s.weight.is_none()) {
            return Vec::new();
        }
        self.sequences.iter().map(|s| s.weight.unwrap_or(1.0)).collect()
    }

    /// Which sequences were given up; nothing when none was.
    pub fn halted(&self) -> Vec<bool> {
        let halted: Vec<bool> = self.sequences.iter().map(|s| s.finish == Some(Finish::Halted)).collect();
        if halted.contains(&true) { halted } else { Vec::new() }
    }

    /// How many leading tokens two paths share because one was forked from the other, or both from a third.
    pub fn common(&self, a: SeqId, b: SeqId) -> usize {
        let ours: Vec<(SeqId, usize)> = self.lineage(a).collect();
        let meets = |(id, end): (SeqId, usize)| ours.iter().find(|o| o.0 == id).map(|o| o.1.min(end));
        self.lineage(b).find_map(meets).unwrap_or(0)
    }

    /// Positions worth regrowing from, in order of place.
    pub fn spots(&self) -> impl Iterator<Item = (SeqId, usize, &Spot)> {
        self.spots.iter().map(|(&(id, at), spot)| (id, at, spot))
    }

    pub(crate) fn sequence_mut(&mut self, id: SeqId) -> &mut Sequence {
        &mut self.sequences[id.0]
    }

    pub(crate) fn remember(&mut self, id: SeqId, at: usize, spot: Spot) {
        self.spots.insert((id, at), spot);
    }

    /// Marks a remembered candidate as taken.
    pub(crate) fn take(&mut self, id: SeqId, at: usize, token: Token) {
        if let Some(spot) = self.spots.get_mut(&(id, at)) {
            spot.untaken.retain(|u| u.candidate.token != token);
        }
    }

    /// Takes the tree out of its place, which keeps an empty one.
    pub(crate) fn uproot(&mut self) -> Tree {
        let empty = Tree::new(self.key);
        std::mem::replace(self, empty)
    }

    pub(crate) fn plant(&mut self) -> SeqId {
        let id = self.add(None, 0, self.key.root(self.roots), true);
        self.roots += 1;
        id
    }

    /// A new sequence that leaves `parent` at position `at` with `token`. Its first token is pushed by the caller.
    pub(crate) fn branch(&mut self, parent: SeqId, at: usize, token: Token, reasoning: bool) -> SeqId {
        // A position before the parent's own part belongs to one of its ancestors.
        let mut owner = parent;
        while let (true, Some(above)) = (at < self.get(owner).fork_at, self.get(owner).parent) {
            owner = above;
        }
        let key = self.get(owner).key.branch(at, token);
        self.add(Some(owner), at, key, reasoning)
    }

    fn add(&mut self, parent: Option<SeqId>, fork_at: usize, key: Key, reasoning: bool) -> SeqId {
        self.sequences.push(Sequence {
            parent,
            fork_at,
            tokens: Vec::new(),
            logprobs: Vec::new(),
            entropy: Vec::new(),
            forced: Vec::new(),
            finish: None,
            last_fork: fork_at,
            reasoning,
            weight: None,
            key,
        });
        SeqId(self.sequences.len() - 1)
    }
}
