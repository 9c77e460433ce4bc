//! A language model as a pure function of the path.
//!
//! Its distributions are hashed from the prompt and the path, so an engine and a transcription of the paper can ask the
//! same question and get the same answer without sharing any state. Some of them are exact on purpose: a fair coin has
//! an entropy of ln 2 to the last bit, a certainty one of 0. That is where `>=` and `>` part.

use std::hash::{DefaultHasher, Hash, Hasher};

use eager_core::{Candidate, SeqId, Token, Tree};

/// The token that ends a sequence.
pub const END: Token = 0;
/// The tokens that close the chain of thought, where a case has a marker of one or two tokens.
pub const MARKER: [Token; 2] = [1, 2];
const VOCABULARY: Token = 8;

/// One number for a value, the same in every run.
pub fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A number in [0, 1) for a value.
fn uniform(value: impl Hash) -> f64 {
    (hash(value) >> 11) as f64 / (1u64 << 53) as f64
}

/// A distribution that leaves the second token no chance.
fn certain([first, second]: [Token; 2]) -> [Candidate; 2] {
    [Candidate { token: first, logprob: 0.0 }, Candidate { token: second, logprob: -200.0 }]
}

/// Where the sampler gets its random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// From the root's number and the path's tokens: what a transcription without keys can repeat.
    FromPath,
    /// From the key of the sequence, as real engines do.
    FromKey,
}

#[derive(Debug, Clone)]
pub struct Script {
    pub seed: u64,
    /// How far apart the logits are: the entropies of a blunt script are high, those of a sharp one low.
    pub sharpness: f64,
    /// After about this many tokens the end becomes likely.
    pub patience: f64,
    pub draws: Draws,
}

impl Script {
    /// The distribution of the next token: all tokens that may come, best first.
    pub fn candidates(&self, prompt: &[Token], path: &[Token]) -> Vec<Candidate> {
        let here = hash((self.seed, prompt, path));
        let two = || {
            let first = (hash((here, "first")) % u64::from(VOCABULARY)) as Token;
            let step = 1 + (hash((here, "second")) % u64::from(VOCABULARY - 1)) as Token;
            [first, (first + step) % VOCABULARY]
        };
        // Spread over all tokens most of the time, else over exactly two or one.
        match hash((here, "mood")) % 16 {
            0 | 1 => two().map(|token| Candidate { token, logprob: 0.5f32.ln() }).into(),
            2 => certain(two()).into(),
            3 => certain(two())[..1].into(),
            _ => self.spread(here, path, self.sharpness_at(prompt, here)),
        }
    }

    /// Half of the prompts are easy, and every path has its easy and its hard steps.
    fn sharpness_at(&self, prompt: &[Token], here: u64) -> f64 {
        let easy = if hash((self.seed, prompt, "easy")).is_multiple_of(2) { 5.0 } else { 1.0 };
        easy * 2.0 * uniform((here, "sharpness")) * self.sharpness
    }

    /// Hashed logits over the whole vocabulary.
    fn spread(&self, here: u64, path: &[Token], sharpness: f64) -> Vec<Candidate> {
        let logit = |token: Token| {
            let wanted = match token {
                END => path.len() as f64 - self.patience,
                t if t == MARKER[1] && path.last() == Some(&MARKER[0]) => 2.0,
                _ => 0.0,
            };
            wanted + sharpness * uniform((here, token))
        };
        let total: f64 = (0..VOCABULARY).map(|t| logit(t).exp()).sum();
        let candidate = |token| Candidate { token, logprob: (logit(token) - total.ln()) as f32 };
        let mut all: Vec<Candidate> = (0..VOCABULARY).map(candidate).collect();
        all.sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
        all
    }

    /// The token that the number `chance` draws from a distribution.
    fn draw(candidates: &[Candidate], chance: f64) -> Candidate {
        let mut below = 0.0;
        let hit = candidates.iter().find(|c| {
            below += f64::from(c.logprob).exp();
            chance < below
        });
        *hit.unwrap_or(&candidates[0])
    }

    /// The token that the path of the `root`-th root draws next, where draws come from the path.
    pub fn sampled(&self, prompt: &[Token], root: usize, path: &[Token]) -> Candidate {
        let chance = uniform((self.seed, prompt, root, path, "draw"));
        Self::draw(&self.candidates(prompt, path), chance)
    }

    /// The token that a sequence of a tree draws next.
    pub fn sampled_by(&self, prompt: &[Token], tree: &Tree, id: SeqId) -> Candidate {
        let path = tree.path(id);
        match self.draws {
            Draws::FromPath => self.sampled(prompt, root_of(tree, id), &path),
            Draws::FromKey => {
                let chance = tree.get(id).key.uniform(path.len());
                Self::draw(&self.candidates(prompt, &path), chance)
            }
        }
    }
}

/// Which of the tree's roots a sequence grew from: the first, the second, ...
pub fn root_of(tree: &Tree, id: SeqId) -> usize {
    match tree.get(id).parent {
        Some(parent) => root_of(tree, parent),
        None => tree.sequences()[..id.0].iter().filter(|s| s.parent.is_none()).count(),
    }
}
