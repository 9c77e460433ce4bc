//! One prompt while its tree grows: the meeting point of engine and strategy.
//!
//! An engine asks a grove what to decode ([`Grove::next_order`]), decodes, and offers every token with its candidates
//! ([`Grove::offer`]). The grove measures the entropy, lets the strategy decide, writes the outcome into the tree and
//! tells the engine how the sequence goes on. Engines never see a method; strategies never see an engine.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::chance::Key;
use crate::entropy::{Candidate, Token, renormalised, top_entropy};
use crate::strategy::{Start, Step, Strategy, Verdict};
use crate::token_rules::TokenRules;
use crate::tree::{Finish, SeqId, Spot, Tree, Untaken};

/// How the engine draws a token where the strategy does not choose one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 takes the most likely token.
    pub temperature: f32,
    /// Keep the most likely tokens that together hold this much probability; 1 keeps all.
    pub top_p: f32,
    /// Keep this many tokens; 0 keeps all.
    pub top_k: usize,
    /// Drop tokens less likely than this share of the most likely one; 0 keeps all.
    pub min_p: f32,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.6, top_p: 0.95, top_k: 0, min_p: 0.0 }
    }
}

/// What is fixed for a prompt before it is decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub sampling: Sampling,
    /// What else makes tokens likely or not. [`Settings::stop`] has the ends that follow from them.
    pub rules: TokenRules,
    /// Candidates that enter the entropy.
    pub top_k: usize,
    /// Temperature of the distribution whose entropy is measured; `None`: the sampling temperature, or 1 when greedy.
    pub entropy_temperature: Option<f32>,
    /// Most tokens of one sequence.
    pub max_tokens: usize,
    /// Tokens that end a sequence.
    pub stop: Vec<Token>,
    /// The tokens that close the chain of thought; empty: the whole response counts as reasoning.
    pub reasoning_end: Vec<Token>,
}

/// The paper's K.
pub const TOP_K: usize = 20;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sampling: Sampling::default(),
            rules: TokenRules::default(),
            top_k: TOP_K,
            entropy_temperature: None,
            max_tokens: 32_768,
            stop: Vec::new(),
            reasoning_end: Vec::new(),
        }
    }
}

impl Settings {
    /// The temperature at which entropy is measured. A greedy distribution is a point, which would hide every doubt.
    pub fn measured_at(&self) -> f32 {
        let sampled_at = if self.sampling.temperature > 0.0 { self.sampling.temperature } else { 1.0 };
        self.entropy_temperature.unwrap_or(sampled_at)
    }
}

/// One decoding step of one sequence, as the engine saw it.
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    /// The most likely tokens, best first.
    pub top: &'a [Candidate],
    /// The token that the sampler drew.
    pub sampled: Candidate,
}

/// How a sequence goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This token was appended; decode the one after it.
    Feed(Token),
    /// The sequence ended.
    Done,
    /// Not decided yet: offer the same step again once the other sequences of this grove have moved.
    Wait,
}

/// A prompt, its tree so far, and the strategy that grows it.
#[derive(Debug)]
pub struct Grove {
    /// The caller's name for it, such as the index of the prompt.
    pub id: usize,
    prompt: Arc<[Token]>,
    settings: Arc<Settings>,
    tree: Tree,
    strategy: Box<dyn Strategy>,
    orders: VecDeque<SeqId>,
}

impl Grove {
    pub fn new(
        id: usize,
        key: Key,
        prompt: Arc<[Token]>,
        settings: Arc<Settings>,
        strategy: Box<dyn Strategy>,
    ) -> Self {
        Self::resume(id, prompt, settings, Tree::new(key), strategy)
    }

    /// Goes on with a tree that was grown before.
    pub fn resume(
        id: usize,
        prompt: Arc<[Token]>,
        settings: Arc<Settings>,
        tree: Tree,
        strategy: Box<dyn Strategy>,
    ) -> Self {
        let mut grove = Grove { id, prompt, settings, tree, strategy, orders: VecDeque::new() };
        let starts = grove.strategy.begin(&grove.tree);
        grove.start(starts);
        grove
    }

    pub fn prompt(&self) -> &[Token] {
        &self.prompt
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn into_tree(self) -> Tree {
        self.tree
    }

    /// The next sequence to decode. Its path so far (whatever it inherits from its parent, and its first token when it
    /// is a branch) is in the tree.
    pub fn next_order(&mut self) -> Option<SeqId> {
        self.orders.pop_front()
    }

    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Nothing is live and nothing is to be started.
    pub fn is_done(&self) -> bool {
        self.orders.is_empty() && self.tree.live().next().is_none()
    }

    /// Hands over the step that decoded the next token of a live sequence, and learns how it goes on. Forks appear as
    /// orders.
    pub fn offer(&mut self, id: SeqId, decoded: &Decoded<'_>) -> Next {
        let top = &decoded.top[..decoded.top.len().min(self.settings.top_k)];
        let at = self.tree.get(id).len();
        let entropy = top_entropy(top, self.settings.measured_at());
        let step = Step { at, top, sampled: decoded.sampled, entropy };
        match self.strategy.decide(&self.tree, id, &step) {
            Verdict::Wait => return Next::Wait,
            Verdict::Keep => self.push(id, step.sampled, entropy),
            Verdict::Remember => {
                self.remember(id, &step, &[step.sampled.token]);
                self.push(id, step.sampled, entropy);
            }
            Verdict::Fork { first, second } => {
                self.remember(id, &step, &[first.token, second.token]);
                let twin = self.tree.branch(id, at, second.token, self.tree.get(id).reasoning);
                for (sequence, token) in [(id, first), (twin, second)] {
                    self.push(sequence, token, entropy);
                    let sequence = self.tree.sequence_mut(sequence);
                    sequence.forced.push(at);
                    sequence.last_fork = at + 1;
                }
                self.announce(twin);
            }
            Verdict::Halt => {
                self.push(id, step.sampled, entropy);
                self.tree.sequence_mut(id).finish.get_or_insert(Finish::Halted);
            }
        }
        if self.tree.get(id).is_live() {
            let token = self.tree.get(id).tokens.last().copied();
            // `push` has just appended one.
            token.map_or(Next::Done, Next::Feed)
        } else {
            self.ended(id);
            Next::Done
        }
    }

    fn remember(&mut self, id: SeqId, step: &Step<'_>, taken: &[Token]) {
        let probabilities = renormalised(step.top, self.settings.measured_at());
        // A token without any chance is no place to start from.
        let possible = step.top.iter().zip(probabilities).filter(|(c, _)| c.logprob > f32::NEG_INFINITY);
        let untaken = possible.filter(|(c, _)| !taken.contains(&c.token));
        let untaken = untaken.map(|(&candidate, p)| Untaken { candidate, probability: p as f32 }).collect();
        self.tree.remember(id, step.at, Spot { entropy: step.entropy, untaken });
    }

    /// Appends a token and ends the sequence where the token or the length says so.
    fn push(&mut self, id: SeqId, token: Candidate, entropy: f32) {
        let sequence = self.tree.sequence_mut(id);
        sequence.tokens.push(token.token);
        sequence.logprobs.push(token.logprob);
        sequence.entropy.push(entropy);
        if self.settings.stop.contains(&token.token) {
            sequence.finish = Some(Finish::Stop);
        } else if sequence.len() >= self.settings.max_tokens {
            sequence.finish = Some(Finish::Length);
        }
        let end = &self.settings.reasoning_end;
        // Only a path that has just received the marker's last token can have closed its reasoning.
        if sequence.reasoning && end.last() == Some(&token.token) && self.tree.ends_with(id, end) {
            self.tree.sequence_mut(id).reasoning = false;
        }
    }

    /// A new sequence is either work for the engine or, when its first token ended it, news for the strategy.
    fn announce(&mut self, id: SeqId) {
        if self.tree.get(id).is_live() {
            self.orders.push_back(id);
        } else {
            self.ended(id);
        }
    }

    fn ended(&mut self, id: SeqId) {
        let starts = self.strategy.ended(&self.tree, id);
        for (id, weight) in self.strategy.weights() {
            self.tree.sequence_mut(id).weight = Some(weight);
        }
        self.start(starts);
    }

    fn start(&mut self, starts: Vec<Start>) {
        // All are in the tree before any is announced: a strategy that is told of an early end must see its siblings.
        let begun: Vec<SeqId> = starts.into_iter().map(|start| self.begin(start)).collect();
        for id in begun {
            self.announce(id);
        }
    }

    fn begin(&mut self, start: Start) -> SeqId {
        match start {
            Start::Root => self.tree.plant(),
            Start::Branch { from, at, token, entropy } => {
                self.tree.take(from, at, token.token);
                let reasoning = self.reasoning_at(from, at);
                let id = self.tree.branch(from, at, token.token, reasoning);
                self.push(id, token, entropy);
                let sequence = self.tree.sequence_mut(id);
                sequence.forced.push(at);
                sequence.last_fork = at + 1;
                id
            }
        }
    }

    /// Was the path of `id` still reasoning before position `at`?
    fn reasoning_at(&self, id: SeqId, at: usize) -> bool {
        let end = &self.settings.reasoning_end;
        let path = self.tree.path(id);
        end.is_empty() || !path[..at.min(path.len())].windows(end.len()).any(|w| w == end)
    }
}
