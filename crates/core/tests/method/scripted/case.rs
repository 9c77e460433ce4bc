//! Random cases: a script, the options of the method, and a few prompts.

use std::f32::consts::LN_2;
use std::sync::Arc;

use eager_core::strategy::{CapRule, Preference};
use eager_core::{Finish, Forking, Method, Plan, Prompt, Sampling, Settings, Token, Tree, Watch};
use proptest::prelude::*;

use super::engine::{Order, Schedule, ScriptedEngine};
use super::model::{Draws, END, MARKER, Script};

#[derive(Debug, Clone)]
pub struct Case {
    pub script: Script,
    pub settings: Settings,
    pub forking: Forking,
    pub preference: Preference,
    pub wave: usize,
    pub prompts: usize,
}

impl Case {
    /// The one place where a plan is made.
    pub fn plan(&self) -> Plan {
        Plan {
            seed: self.script.seed,
            forking: self.forking.clone(),
            preference: self.preference,
            wave: self.wave,
        }
    }

    pub fn prompts(&self) -> Vec<Prompt> {
        let settings = Arc::new(self.settings.clone());
        let prompt = |i| Prompt { tokens: self.prompt(i).into(), settings: settings.clone(), key: i as u64 };
        (0..self.prompts).map(prompt).collect()
    }

    /// The tokens of a prompt: its number, which is all that a script needs to tell prompts apart.
    pub fn prompt(&self, index: usize) -> [Token; 1] {
        [index as Token]
    }

    /// The trees before any pass.
    pub fn nothing(&self) -> Vec<Tree> {
        self.plan().plant(&self.prompts())
    }

    pub fn draws(mut self, draws: Draws) -> Self {
        self.script.draws = draws;
        self
    }

    pub fn first_pass(&self, method: Method, schedule: Schedule, watch: &mut dyn Watch) -> Vec<Tree> {
        let mut engine = ScriptedEngine::new(&self.script, schedule);
        let mut trees = self.nothing();
        self.plan()
            .first_pass(&mut engine, method, &self.prompts(), &mut trees, watch)
            .unwrap_or_else(|e| match e {});
        self.check_run(&engine, schedule);
        trees
    }

    /// The second pass; which prompts are solved is told by the tokens of their paths.
    pub fn second_pass(
        &self,
        method: Method,
        schedule: Schedule,
        first: &[Tree],
        watch: &mut dyn Watch,
    ) -> Vec<Tree> {
        let mut engine = ScriptedEngine::new(&self.script, schedule);
        let solved = |_: usize, tree: &Tree| tree.ids().any(|id| is_answer(&tree.path(id)));
        let mut trees = first.to_vec();
        self.plan()
            .second_pass(&mut engine, method, &self.prompts(), &mut trees, solved, watch)
            .unwrap_or_else(|e| match e {});
        self.check_run(&engine, schedule);
        trees
    }

    /// What the strategies promise: with all sequences in step nothing ever waits, and nothing waits that need not be
    /// in order.
    fn check_run(&self, engine: &ScriptedEngine<'_>, schedule: Schedule) {
        if schedule.order == Order::InStep || !self.forking.in_order {
            assert_eq!(engine.waits, 0);
        }
    }

    /// How a complete path ended.
    pub fn finish(&self, path: &[Token]) -> Option<Finish> {
        if path.last() == Some(&END) {
            Some(Finish::Stop)
        } else {
            (path.len() >= self.settings.max_tokens).then_some(Finish::Length)
        }
    }
}

/// Does this path give the right answer? Few do: a set of prompts should have some with none.
pub fn is_answer(path: &[Token]) -> bool {
    path.iter().sum::<Token>() % 17 == 3
}

/// Entropies that a script's steps straddle: none, nearly none, exactly that of a coin (as theta, and as 0.8 theta),
/// anything, and out of reach.
fn thetas() -> impl Strategy<Value = f32> {
    let relaxed_to_a_coin =
        (0..16).map(|i| f32::from_bits((LN_2 / 0.8).to_bits() - 8 + i)).find(|t| 0.8 * t == LN_2);
    prop_oneof![
        1 => Just(0.0f32),
        1 => Just(1e-6f32),
        2 => Just(LN_2),
        2 => Just(relaxed_to_a_coin.expect("products with 0.8 leave out no float of this size")),
        6 => 0.3f32..1.4,
        1 => Just(f32::INFINITY),
    ]
}

fn forkings() -> impl Strategy<Value = Forking> {
    let rule = prop_oneof![Just(CapRule::All), Just(CapRule::Live)];
    let window = prop_oneof![Just(0usize), 1usize..6];
    (thetas(), 1usize..=8, rule, window, any::<bool>()).prop_map(
        |(theta, cap, cap_rule, window, everywhere)| Forking {
            cap_rule,
            window,
            everywhere,
            ..Forking::new(theta, cap)
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let top_k = prop_oneof![1 => Just(1usize), 2 => Just(2), 3 => Just(3), 6 => Just(20)];
    let temperature = prop_oneof![Just(0.0f32), Just(0.6), Just(1.0)];
    let entropy_temperature = prop_oneof![Just(None), Just(None), Just(Some(1.0f32)), Just(Some(2.0))];
    let lengths = prop_oneof![1 => 1usize..4, 8 => 4usize..=24];
    (top_k, temperature, entropy_temperature, lengths, 0usize..=2).prop_map(
        |(top_k, temperature, entropy_temperature, max_tokens, marker)| Settings {
            sampling: Sampling { temperature, ..Sampling::default() },
            top_k,
            entropy_temperature,
            max_tokens,
            stop: vec![END],
            reasoning_end: MARKER[..marker].to_vec(),
        },
    )
}

/// Cases with up to `prompts` prompts. Draws come from the paths.
pub fn cases(prompts: usize) -> impl Strategy<Value = Case> {
    let script = (any::<u64>(), 0.5f64..5.0, 6.0f64..24.0).prop_map(|(seed, sharpness, patience)| Script {
        seed,
        sharpness,
        patience,
        draws: Draws::FromPath,
    });
    let preference = prop_oneof![
        Just(Preference::Likely),
        Just(Preference::Unsure),
        Just(Preference::Both),
        Just(Preference::Early)
    ];
    (script, settings(), forkings(), preference, 1usize..5, 1..=prompts).prop_map(
        |(script, settings, forking, preference, wave, prompts)| Case {
            script,
            settings,
            forking,
            preference,
            wave,
            prompts,
        },
    )
}

/// How often a property is tried. Failures are not kept in files: a case prints all that it takes to repeat it.
pub fn often() -> ProptestConfig {
    ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() }
}
