//! What must hold of every server: greedy trees are those of the embedded engine, and every method ends.

use std::sync::Arc;

use eager_core::{Engine, Forking, Method, Plan, Prompt, Sampling, Sequence, Settings, Tree};
use eager_native::load::Checkpoint;
use eager_native::{Isa, Model, NativeEngine};

use crate::server::connect;

/// A server and what it serves.
pub struct Pair {
    pub url: String,
    pub checkpoint: Checkpoint,
    /// By how much two log-probabilities of one token may differ, because the engines round differently.
    pub rounding: f32,
}

pub fn embedded(checkpoint: &Checkpoint) -> NativeEngine {
    let model = Arc::new(Model::load(checkpoint, Isa::detect()).unwrap());
    let options = eager_native::Options { threads: 1, ..eager_native::Options::default() };
    NativeEngine::new(model, options).unwrap()
}

/// Ten problems, of all families and levels.
pub fn prompts(checkpoint: &Checkpoint, temperature: f32) -> Vec<Prompt> {
    let settings = settings(checkpoint, temperature);
    let prompt = |(key, problem): (u64, &eager_acorn::Problem)| {
        let text = format!("{}<|im_start|>assistant\n", question(problem));
        let tokens = checkpoint.encode_prompt(&text).unwrap().into();
        Prompt { tokens, settings: Arc::clone(&settings), key, answers: None }
    };
    (0..).zip(eager_acorn::problems().iter().step_by(6)).map(prompt).collect()
}

pub fn question(problem: &eager_acorn::Problem) -> String {
    format!("<|im_start|>user\n{}<|im_end|>\n", problem.problem)
}

pub fn settings(checkpoint: &Checkpoint, temperature: f32) -> Arc<Settings> {
    Arc::new(Settings {
        sampling: Sampling { temperature, ..Sampling::default() },
        max_tokens: 300,
        stop: checkpoint.config.stop_tokens.clone(),
        reasoning_end: checkpoint.tokenizer.token("</think>").into_iter().collect(),
        ..Settings::default()
    })
}

pub fn plan(cap: usize) -> Plan {
    Plan::new(5, Forking::new(1.0, cap))
}

pub fn grow<E: Engine>(engine: &mut E, method: Method, plan: &Plan, prompts: &[Prompt]) -> Vec<Tree> {
    let mut trees = plan.plant(prompts);
    plan.first_pass(engine, method, prompts, &mut trees, &mut ()).unwrap();
    trees
}

impl Pair {
    pub fn greedy_text_is_the_same(&self) {
        let prompts = prompts(&self.checkpoint, 0.0);
        let ours = grow(&mut embedded(&self.checkpoint), Method::FullParallel, &plan(1), &prompts);
        let theirs = grow(&mut connect(&self.url), Method::FullParallel, &plan(1), &prompts);
        let equal = ours
            .iter()
            .zip(&theirs)
            .filter(|(a, b)| a.sequences()[0].tokens == b.sequences()[0].tokens)
            .count();
        let apart = ours.iter().zip(&theirs).map(|(a, b)| apart(&a.sequences()[0], &b.sequences()[0]));
        let apart = apart.fold(0.0, f32::max);
        eprintln!("{equal} of {} texts are equal, log-probabilities to within {apart}", ours.len());
        assert!(ours.iter().zip(&theirs).all(|(a, b)| self.same_but_for_ties(a, b)));
        assert!(2 * equal > ours.len());
        assert!(apart < self.rounding);
    }

    /// With greedy continuation, forks are where the entropy says, and both engines see the same entropies.
    pub fn forks_are_at_the_same_places(&self) {
        let (prompts, plan) = (prompts(&self.checkpoint, 0.0), plan(8));
        let ours = grow(&mut embedded(&self.checkpoint), Method::EagerInit, &plan, &prompts);
        let mut engine = connect(&self.url);
        let theirs = grow(&mut engine, Method::EagerInit, &plan, &prompts);
        eprintln!("{:?}", engine.traffic().tally());
        let forks =
            |tree: &Tree| -> Vec<_> { tree.sequences().iter().map(|s| (s.parent, s.fork_at)).collect() };
        let (mut equal, mut forked) = (0, 0);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let same = forks(ours) == forks(theirs);
            equal += usize::from(same);
            forked += ours.len() - 1;
            assert!(
                same || self.is_close_call(ours, theirs, plan.forking.theta),
                "{:?}\n{:?}",
                forks(ours),
                forks(theirs)
            );
        }
        eprintln!("{equal} of {} trees fork at the same places; {forked} forks", ours.len());
        assert!(2 * equal > ours.len());
        assert!(forked > ours.len());
    }

    pub fn every_method_finishes(&self) {
        let prompts = prompts(&self.checkpoint, 0.6);
        for method in [Method::FullParallel, Method::EagerInit, Method::Esc, Method::DeepConf] {
            let mut engine = connect(&self.url);
            let trees = grow(&mut engine, method, &plan(4), &prompts);
            eprintln!("{method}: {:?}", engine.traffic().tally());
            assert!(trees.iter().all(|tree| !tree.is_empty() && tree.live().next().is_none()), "{method}");
        }
    }

    pub fn same_but_for_ties(&self, ours: &Tree, theirs: &Tree) -> bool {
        let (a, b) = (&ours.sequences()[0], &theirs.sequences()[0]);
        parting(a, b).map_or(a.tokens == b.tokens, |at| self.is_tie(a, b, at))
    }

    /// At this place both engines saw two tokens equally likely, and took one each.
    fn is_tie(&self, a: &Sequence, b: &Sequence, at: usize) -> bool {
        let (p, q) = (a.logprobs[at], b.logprobs[at]);
        eprintln!("the engines part at token {at}, with log-probabilities {p} and {q}");
        // Of two that are equally likely, neither has more than half.
        (p - q).abs() < self.rounding && p.max(q) < 0.5f32.ln() + self.rounding
    }

    /// Somewhere the trees differ by what rounding can decide: a tie, or an entropy at theta.
    fn is_close_call(&self, ours: &Tree, theirs: &Tree, theta: f32) -> bool {
        ours.sequences().iter().zip(theirs.sequences()).any(|(a, b)| {
            let mut entropies = a.entropy.iter().zip(&b.entropy);
            let splits = |(a, b): (&f32, &f32)| {
                let split = (a >= &theta) != (b >= &theta) && (a - b).abs() < self.rounding;
                if split {
                    eprintln!("the engines see entropies {a} and {b}, theta is {theta}");
                }
                split
            };
            parting(a, b).is_some_and(|at| self.is_tie(a, b, at)) || entropies.any(splits)
        })
    }
}

/// Where two greedy sequences part, if they do.
fn parting(a: &Sequence, b: &Sequence) -> Option<usize> {
    a.tokens.iter().zip(&b.tokens).position(|(a, b)| a != b)
}

/// By how much the log-probabilities differ at most, as long as the sequences are one.
fn apart(a: &Sequence, b: &Sequence) -> f32 {
    let common = parting(a, b).unwrap_or(a.tokens.len().min(b.tokens.len()));
    let differences = a.logprobs[..common].iter().zip(&b.logprobs[..common]).map(|(p, q)| (p - q).abs());
    differences.fold(0.0, f32::max)
}
