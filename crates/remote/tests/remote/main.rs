//! The engine against a server of our own, which decodes a made-up model and breaks down on demand.

mod connect;
mod faults;
mod fleet;
mod model;
mod prefixes;
mod reference;
mod rules;
mod server;
mod trees;
mod way;

use std::sync::Arc;
use std::time::Duration;

use eager_core::strategy::{FullParallel, Init};
use eager_core::{Forest, Forking, Grove, Key, Sampling, Settings, Strategy, TokenRules, Tree};
use eager_remote::{Options, Patience};

/// Makes the strategy of a grove.
type Plant = fn() -> Box<dyn Strategy>;

fn parallel() -> Box<dyn Strategy> {
    Box::new(FullParallel { sequences: 3 })
}

fn forking() -> Box<dyn Strategy> {
    Box::new(Init::new(Forking::new(2.2, 8)))
}

/// A list of groves, and those that came back.
#[derive(Default)]
struct List {
    waiting: Vec<Grove>,
    back: Vec<Grove>,
}

impl Forest for List {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.waiting.pop()
    }

    fn done(&mut self, grove: Grove) {
        self.back.push(grove);
    }
}

impl List {
    /// The trees in the order of their prompts.
    fn trees(mut self) -> Vec<Tree> {
        self.back.sort_by_key(|grove| grove.id);
        self.back.into_iter().map(Grove::into_tree).collect()
    }
}

fn groves(prompts: usize, temperature: f32, strategy: Plant) -> List {
    ruled(prompts, temperature, strategy, &TokenRules::NONE)
}

fn ruled(prompts: usize, temperature: f32, strategy: Plant, rules: &TokenRules) -> List {
    let (stop, rules) = (rules.ends(&[model::END]), rules.clone());
    let sampling = Sampling { temperature, top_p: 1.0, top_k: 0, min_p: 0.0 };
    let settings = Settings { sampling, rules, max_tokens: 40, stop, ..Settings::default() };
    let settings = Arc::new(settings);
    let grove = |id: usize| {
        let prompt: Arc<[u32]> = vec![1, 2, id as u32 + 3].into();
        Grove::new(id, Key::prompt(7, id as u64), prompt, Arc::clone(&settings), strategy())
    };
    List { waiting: (0..prompts).rev().map(grove).collect(), back: Vec::new() }
}

/// Everything in a hurry.
fn options() -> Options {
    let ms = Duration::from_millis;
    let patience = Patience {
        connect: ms(1000),
        quiet: ms(150),
        first: ms(3000),
        stall: ms(600),
        give_up: ms(3000),
        pause: ms(5),
        rest: ms(50),
    };
    Options { patience, streams: Some(16), ..Options::default() }
}
