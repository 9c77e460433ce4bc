//! Methods: a strategy for every prompt and, for EAGer, a second pass over the prompts that deserve it.
//!
//! The second pass needs the whole set of prompts: only then is it known what the easy ones saved.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use crate::budget::{self, SurplusLimit};
use crate::chance::Key;
use crate::engine::{Engine, Forest, Pulse};
use crate::entropy::Token;
use crate::grove::{Grove, Settings};
use crate::metrics::Outcome;
use crate::strategy::{
    DeepConf, DeepConfOptions, Esc, EscOptions, Forking, FullParallel, Init, Regrow, Regrowing, Strategy,
    UntilRight,
};
use crate::tree::Tree;
use crate::vote::Answers;

/// How a second pass spends its budget on a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reallocation {
    /// Algorithm 1 again from the prompt; the new sequences are appended, up to M + b in all. Our reading of the paper.
    Rerun,
    /// The letter of Algorithm 2: up to M + b *new* sequences, where the limit on the surplus is one over all prompts.
    RerunLiteral,
    /// Ours: new branches from where the first pass was unsure; nothing is decoded twice.
    Regrow,
}

/// A way to spend tokens on a set of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    FullParallel,
    EagerInit,
    /// The saved budget goes to the prompts that reached the cap: no labels needed.
    EagerAdapt(Reallocation),
    /// The saved budget goes to the prompts without a correct answer.
    Eager(Reallocation),
    /// Early-stopping self-consistency: window after window, until one agrees.
    Esc,
    /// DeepConf online: sequences that lose confidence are given up.
    DeepConf,
    /// One sample after the other, until one is right.
    UntilRight,
    /// A few samples for every prompt, the rest of M for those that none of them solved.
    TwoStage,
}

impl Method {
    pub const ALL: [Method; 12] = [
        Method::FullParallel,
        Method::EagerInit,
        Method::EagerAdapt(Reallocation::Rerun),
        Method::EagerAdapt(Reallocation::RerunLiteral),
        Method::EagerAdapt(Reallocation::Regrow),
        Method::Eager(Reallocation::Rerun),
        Method::Eager(Reallocation::RerunLiteral),
        Method::Eager(Reallocation::Regrow),
        Method::Esc,
        Method::DeepConf,
        Method::UntilRight,
        Method::TwoStage,
    ];

    pub fn reallocation(self) -> Option<Reallocation> {
        match self {
            Method::EagerAdapt(how) | Method::Eager(how) => Some(how),
            _ => None,
        }
    }

    /// Does it go on when the first pass is over for all prompts?
    pub fn has_second_pass(self) -> bool {
        self.reallocation().is_some() || self == Method::TwoStage
    }

    /// Does it decide by which sequences are right? Then its counterparts are those that do so too.
    pub fn needs_labels(self) -> bool {
        matches!(self, Method::Eager(_) | Method::UntilRight | Method::TwoStage)
    }

    /// The method that ends where this one's second pass begins: the same for all that only differ in how they go on.
    pub fn opening(self) -> Method {
        if self.reallocation().is_some() { Method::EagerInit } else { self }
    }

    /// Does entropy decide anything? To the other methods theta means nothing.
    pub fn forks(self) -> bool {
        self.opening() == Method::EagerInit
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Method::FullParallel => "full-parallel",
            Method::EagerInit => "eager-init",
            Method::EagerAdapt(_) => "eager-adapt",
            Method::Eager(_) => "eager",
            Method::Esc => "esc",
            Method::DeepConf => "deepconf",
            Method::UntilRight => "until-right",
            Method::TwoStage => "two-stage",
        };
        let how = match self.reallocation() {
            Some(Reallocation::Rerun) => "/rerun",
            Some(Reallocation::RerunLiteral) => "/rerun-literal",
            Some(Reallocation::Regrow) => "/regrow",
            None => "",
        };
        f.pad(&format!("{name}{how}"))
    }
}

/// No method has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown method '{0}'; use full-parallel, eager-init, eager-adapt, eager, esc, deepconf, until-right or two-stage; eager-adapt and eager take /regrow, /rerun or /rerun-literal"
)]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    /// A name that does not say how it reallocates means `regrow`.
    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let exact = Method::ALL.into_iter().find(|m| m.to_string() == name);
        exact
            .or_else(|| Method::ALL.into_iter().find(|m| m.to_string() == format!("{name}/regrow")))
            .ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// A prompt to grow.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub tokens: Arc<[Token]>,
    pub settings: Arc<Settings>,
    /// What the randomness of this prompt is keyed by, beside the seed.
    pub key: u64,
    /// Who reads the answers out of its sequences; ESC and until-right cannot stop early without.
    pub answers: Option<Arc<dyn Answers>>,
}

/// The options that all methods share.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// `cap` is the paper's M.
    pub forking: Forking,
    /// How much of what the first pass saved a second may spend.
    pub surplus: SurplusLimit,
    pub adapt_to: AdaptTo,
    pub regrowing: Regrowing,
    pub esc: EscOptions,
    pub deepconf: DeepConfOptions,
    /// Samples of two-stage's first stage; `None`: a quarter of the cap M.
    pub first_stage: Option<usize>,
}

/// Where a prompt stands after the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The prompt's, under the seed of the plan.
    pub key: Key,
    pub sequences: usize,
    /// Nothing of it was broken off.
    pub finished: bool,
    pub judged: Judged,
}

/// What the answers of a prompt's sequences came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// One is correct; only full EAGer and two-stage ask.
    pub solved: bool,
    /// None was given by more than half of the sequences; only EAGer-adapt asks, when told to.
    pub divided: bool,
}

impl From<&Outcome> for Judged {
    fn from(outcome: &Outcome) -> Self {
        Judged { solved: outcome.solved(), divided: outcome.is_divided() }
    }
}

/// Which prompts EAGer-adapt spends on. None of these needs a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdaptTo {
    /// The paper's: those that reached the cap.
    #[default]
    Saturated,
    /// Ours: those whose sequences do not agree on an answer, however few they are.
    Divided,
}

/// Watches a pass: gets every tree as it is done, and may end the pass.
pub trait Watch {
    /// The tree of prompt `index` came back, complete unless the pass was ended.
    fn grown(&mut self, index: usize, tree: &Tree) {
        let _ = (index, tree);
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let _ = pulse;
        ControlFlow::Continue(())
    }
}

/// Watches nothing.
impl Watch for () {}

impl Plan {
    /// The defaults, but for the seed and where to fork.
    pub fn new(seed: u64, forking: Forking) -> Self {
        let (regrowing, esc, deepconf) = Default::default();
        Plan {
            seed,
            forking,
            surplus: SurplusLimit::EachPrompt(budget::SURPLUS),
            adapt_to: AdaptTo::default(),
            regrowing,
            esc,
            deepconf,
            first_stage: None,
        }
    }

    /// Samples of two-stage's first stage: one at least, M at most.
    pub fn first_stage(&self) -> usize {
        let cap = self.forking.cap;
        self.first_stage.unwrap_or(cap / 4).clamp(1, cap.max(1))
    }

    /// A tree for each prompt, with nothing in it yet.
    pub fn plant(&self, prompts: &[Prompt]) -> Vec<Tree> {
        prompts.iter().map(|p| Tree::new(Key::prompt(self.seed, p.key))).collect()
    }

    /// The first pass: every prompt from nothing. Methods without a second pass end here.
    ///
    /// An error leaves in `trees` what was grown until then; so does the watch when it ends the pass.
    pub fn first_pass<E: Engine>(
        &self,
        engine: &mut E,
        method: Method,
        prompts: &[Prompt],
        trees: &mut [Tree],
        watch: &mut dyn Watch,
    ) -> Result<(), E::Error> {
        let strategy = |index: usize| Some(self.opening(method, &prompts[index]));
        engine.grow(&mut Pass { prompts, trees, strategy, next: 0, watch })
    }

    /// The second pass, for the methods that have one: Algorithm 2's, or two-stage's. `judged` says what the answers of a prompt came to. A
    /// tree that the first pass left unfinished stays as it is.
    pub fn second_pass<E: Engine>(
        &self,
        engine: &mut E,
        method: Method,
        prompts: &[Prompt],
        trees: &mut [Tree],
        judged: impl Fn(usize, &Tree) -> Judged,
        watch: &mut dyn Watch,
    ) -> Result<(), E::Error> {
        if !method.has_second_pass() {
            return Ok(());
        }
        let standing = |(index, tree): (usize, &Tree)| Standing {
            key: tree.key(),
            sequences: tree.len(),
            finished: tree.live().next().is_none(),
            judged: judged(index, tree),
        };
        let standings: Vec<Standing> = trees.iter().enumerate().map(standing).collect();
        let extra = self.extra(method, &standings);
        let strategy =
            |i: usize| (extra[i] > 0).then(|| self.reallocate(method, standings[i].sequences, extra[i]));
        engine.grow(&mut Pass { prompts, trees, strategy, next: 0, watch })
    }

    /// The strategy of the first pass over a prompt.
    pub fn opening(&self, method: Method, prompt: &Prompt) -> Box<dyn Strategy> {
        let cap = self.forking.cap;
        match method {
            Method::FullParallel => Box::new(FullParallel { sequences: cap }),
            Method::EagerInit | Method::EagerAdapt(_) | Method::Eager(_) => {
                Box::new(Init::new(self.forking.clone()))
            }
            Method::Esc => Box::new(Esc::new(self.esc, cap, prompt.answers.clone())),
            Method::DeepConf => Box::new(DeepConf::new(self.deepconf, cap, prompt.answers.clone())),
            Method::UntilRight => Box::new(UntilRight::new(cap, prompt.answers.clone())),
            Method::TwoStage => Box::new(FullParallel { sequences: self.first_stage() }),
        }
    }

    /// How many sequences a second pass may add to each prompt.
    pub fn extra(&self, method: Method, standings: &[Standing]) -> Vec<usize> {
        let missing = |standing: &Standing| match self.chooses(method, standing) {
            true => self.forking.cap.saturating_sub(standing.sequences),
            false => 0,
        };
        match method.reallocation() {
            Some(how) => self.reallocated(method, how, standings),
            None => standings.iter().map(missing).collect(),
        }
    }

    /// What the others saved, shared among the prompts that the method chooses.
    fn reallocated(&self, method: Method, how: Reallocation, standings: &[Standing]) -> Vec<usize> {
        let cap = self.forking.cap;
        let mut extra = vec![0; standings.len()];
        let counts: Vec<usize> = standings.iter().map(|s| s.sequences).collect();
        let surplus = budget::surplus(cap, &counts);
        if surplus == 0 {
            return extra;
        }
        let chosen: Vec<usize> =
            (0..standings.len()).filter(|&i| self.chooses(method, &standings[i])).collect();
        let lots: Vec<u64> = chosen.iter().map(|&i| standings[i].key.lot()).collect();
        let literal = how == Reallocation::RerunLiteral && self.surplus != SurplusLimit::Nothing;
        let limit = if literal { self.surplus.over_all() } else { self.surplus };
        for (&i, share) in chosen.iter().zip(budget::shares(surplus, cap, limit, &lots)) {
            let there = if literal { 0 } else { counts[i] };
            extra[i] = cap.saturating_add(share).saturating_sub(there);
        }
        extra
    }

    /// Is the budget of a second pass for a prompt like this?
    fn chooses(&self, method: Method, standing: &Standing) -> bool {
        let deserves = match (method, self.adapt_to) {
            (Method::Eager(_) | Method::TwoStage, _) => !standing.judged.solved,
            (Method::EagerAdapt(_), AdaptTo::Saturated) => standing.sequences >= self.forking.cap,
            (Method::EagerAdapt(_), AdaptTo::Divided) => standing.judged.divided,
            _ => false,
        };
        standing.finished && deserves
    }

    /// Another pass over one prompt that has `sequences` and may have `extra` more.
    pub fn reallocate(&self, method: Method, sequences: usize, extra: usize) -> Box<dyn Strategy> {
        let mut forking = self.forking.clone();
        match method.reallocation() {
            None => Box::new(FullParallel { sequences: extra }),
            Some(Reallocation::Regrow) => Box::new(Regrow::new(forking, self.regrowing, extra)),
            Some(Reallocation::Rerun | Reallocation::RerunLiteral) => {
                if sequences < forking.cap {
                    forking.theta = forking.relaxed_theta();
                }
                forking.cap = extra;
                Box::new(Init::new(forking))
            }
        }
    }
}

/// One pass over a list of prompts, as the forest that an engine grows: those for which there is a strategy.
struct Pass<'a, S> {
    prompts: &'a [Prompt],
    trees: &'a mut [Tree],
    strategy: S,
    next: usize,
    watch: &'a mut dyn Watch,
}

impl<S: Fn(usize) -> Option<Box<dyn Strategy>>> Forest for Pass<'_, S> {
    fn next(&mut self, _idle: bool) -> Option<Grove> {
        while let Some(prompt) = self.prompts.get(self.next) {
            let index = self.next;
            self.next += 1;
            if let Some(strategy) = (self.strategy)(index) {
                let tree = self.trees[index].uproot();
                return Some(Grove::resume(
                    index,
                    prompt.tokens.clone(),
                    prompt.settings.clone(),
                    tree,
                    strategy,
                ));
            }
        }
        None
    }

    fn done(&mut self, grove: Grove) {
        let index = grove.id;
        let tree = grove.into_tree();
        self.watch.grown(index, &tree);
        self.trees[index] = tree;
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        self.watch.pulse(pulse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_known_by_its_name() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        let cases = [
            ("esc", Method::Esc),
            ("deepconf", Method::DeepConf),
            ("until-right", Method::UntilRight),
            ("two-stage", Method::TwoStage),
            ("eager", Method::Eager(Reallocation::Regrow)),
            ("eager-adapt", Method::EagerAdapt(Reallocation::Regrow)),
        ];
        for (name, method) in cases {
            assert_eq!(name.parse(), Ok(method));
        }
        let refused = "esc/regrow".parse::<Method>().unwrap_err().to_string();
        for method in Method::ALL {
            let name = method.to_string();
            let name = name.split('/').next().unwrap_or_default();
            assert!(refused.contains(name), "{name} is missing from: {refused}");
        }
    }

    #[test]
    fn methods_that_fork_open_alike() {
        for method in Method::ALL {
            assert_eq!(method.forks(), method.to_string().starts_with("eager"), "{method}");
            let opening = if method.forks() { Method::EagerInit } else { method };
            assert_eq!(method.opening(), opening);
        }
    }

    #[test]
    fn who_gets_what_the_others_saved() {
        let standing = |prompt, sequences, solved, divided| Standing {
            key: Key::prompt(0, prompt),
            sequences,
            finished: true,
            judged: Judged { solved, divided },
        };
        let broken_off = Standing { finished: false, ..standing(3, 8, false, true) };
        let standings = [
            standing(0, 1, true, false),
            standing(1, 8, true, false),
            standing(2, 3, false, true),
            broken_off,
        ];
        let mut plan = Plan::new(0, Forking::new(0.5, 8));
        // 32 sequences were allowed and 20 used.
        let [rerun, literal, regrow] =
            [Reallocation::Rerun, Reallocation::RerunLiteral, Reallocation::Regrow];
        for how in [rerun, regrow] {
            assert_eq!(plan.extra(Method::EagerAdapt(how), &standings), [0, 12, 0, 0]);
            assert_eq!(plan.extra(Method::Eager(how), &standings), [0, 0, 8 + 12 - 3, 0]);
        }
        assert_eq!(plan.extra(Method::EagerAdapt(literal), &standings), [0, 8 + 12, 0, 0]);
        assert_eq!(plan.extra(Method::EagerInit, &standings), [0; 4]);
        plan.adapt_to = AdaptTo::Divided;
        assert_eq!(plan.extra(Method::EagerAdapt(regrow), &standings), [0, 0, 8 + 12 - 3, 0]);
        plan.surplus = SurplusLimit::EachPrompt(1);
        assert_eq!(plan.extra(Method::EagerAdapt(regrow), &standings), [0, 0, 8 + 8 - 3, 0]);
        // A prompt by itself never has more than M.
        plan.surplus = SurplusLimit::Nothing;
        for how in [rerun, literal, regrow] {
            assert_eq!(plan.extra(Method::Eager(how), &standings[2..3]), [8 - 3]);
        }
    }

    #[test]
    fn the_first_stage_is_a_quarter_unless_told() {
        let first_stage =
            |asked, cap| Plan { first_stage: asked, ..Plan::new(0, Forking::new(0.5, cap)) }.first_stage();
        assert_eq!(
            [first_stage(None, 32), first_stage(None, 3), first_stage(Some(5), 32), first_stage(Some(99), 8)],
            [8, 1, 5, 8]
        );
    }

    #[test]
    fn a_share_of_nothing_leaves_what_is_missing() {
        let standing = |prompt, sequences| Standing {
            key: Key::prompt(0, prompt),
            sequences,
            finished: true,
            judged: Judged::default(),
        };
        let plan = Plan::new(0, Forking::new(0.5, 8));
        let method = Method::Eager(Reallocation::Rerun);
        // Two sequences were saved and three prompts fail.
        let mut extra = plan.extra(method, &[standing(0, 6), standing(1, 8), standing(2, 8)]);
        assert!(extra[0] >= 2, "{extra:?}");
        extra[0] -= 2;
        assert_eq!(extra.iter().sum::<usize>(), 2);
        // Nothing was saved.
        assert_eq!(plan.extra(method, &[standing(0, 8), standing(1, 8)]), [0, 0]);
    }
}
