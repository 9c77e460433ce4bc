//! Random cases: a script, the options of the method, and a few prompts.

use std::f32::consts::LN_2;
use std::sync::Arc;

use eager_core::budget::SURPLUS;
use eager_core::strategy::{CapRule, Preference};
use eager_core::{
    Answers, DeepConfOptions, EndedPath, EscOptions, Finish, Forking, Judged, Method, Plan, Prompt,
    Regrowing, Sampling, Settings, SurplusLimit, Token, Tree, Watch,
};
use proptest::prelude::*;

use super::engine::{Order, Schedule, ScriptedEngine};
use super::model::{Draws, END, MARKER, Script};

#[derive(Debug, Clone)]
pub struct Case {
    pub script: Script,
    pub settings: Settings,
    pub forking: Forking,
    pub surplus: SurplusLimit,
    pub regrowing: Regrowing,
    pub esc: EscOptions,
    pub deepconf: DeepConfOptions,
    pub first_stage: Option<usize>,
    pub prompts: usize,
    /// Does anybody read answers while the prompts grow?
    pub reads_answers: bool,
}

/// Reads answers as the last token but the end says; some paths give none.
#[derive(Debug)]
struct LastToken;

impl Answers for LastToken {
    fn answers(&self, paths: &[EndedPath]) -> Vec<Option<String>> {
        paths.iter().map(|path| answer(&path.tokens).map(|token| token.to_string())).collect()
    }

    fn right(&self, paths: &[EndedPath]) -> Vec<bool> {
        paths.iter().map(|path| is_answer(&path.tokens)).collect()
    }
}

/// The answer that a path gives. Few differ, so that small windows often agree.
pub fn answer(path: &[Token]) -> Option<Token> {
    let last = path.iter().rev().find(|&&t| t != END)?;
    (*last != MARKER[0]).then_some(last % 3)
}

impl Case {
    /// The one place where a plan is made.
    pub fn plan(&self) -> Plan {
        Plan {
            surplus: self.surplus,
            regrowing: self.regrowing,
            esc: self.esc,
            deepconf: self.deepconf,
            first_stage: self.first_stage,
            ..Plan::new(self.script.seed, self.forking.clone())
        }
    }

    pub fn prompts(&self) -> Vec<Prompt> {
        let settings = Arc::new(self.settings.clone());
        let prompt = |i| Prompt {
            tokens: self.prompt(i).into(),
            settings: settings.clone(),
            key: i as u64,
            answers: self.reads_answers.then(|| Arc::new(LastToken) as Arc<dyn Answers>),
        };
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
        let judged = |_: usize, tree: &Tree| Judged {
            solved: tree.ids().any(|id| is_answer(&tree.path(id))),
            divided: false,
        };
        let mut trees = first.to_vec();
        self.plan()
            .second_pass(&mut engine, method, &self.prompts(), &mut trees, judged, watch)
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
    let spacing = prop_oneof![4 => Just(0usize), 1 => 1usize..4];
    (thetas(), 1usize..=8, rule, window, any::<bool>(), spacing).prop_map(
        |(theta, cap, cap_rule, window, everywhere, spacing)| Forking {
            cap_rule,
            window,
            everywhere,
            spacing,
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
            ..Settings::default()
        },
    )
}

fn regrowings() -> impl Strategy<Value = Regrowing> {
    let first = proptest::sample::select(vec![
        Preference::Likely,
        Preference::Unsure,
        Preference::Both,
        Preference::Early,
        Preference::Late,
        Preference::Path,
        Preference::Fresh,
    ]);
    let spacing = prop_oneof![2 => Just(0usize), 1 => 1usize..6];
    let candidates = prop_oneof![2 => Just(0usize), 1 => 2usize..4];
    let least = prop_oneof![2 => Just(0.0f32), 1 => 0.01f32..0.4];
    (first, 1usize..5, spacing, candidates, least).prop_map(|(first, wave, spacing, candidates, least)| {
        Regrowing { first, wave, spacing, candidates, least }
    })
}

fn escs() -> impl Strategy<Value = EscOptions> {
    let some = || prop_oneof![Just(None), (1usize..4).prop_map(Some)];
    (some(), some()).prop_map(|(window, windows)| EscOptions { window, windows })
}

fn deepconfs() -> impl Strategy<Value = DeepConfOptions> {
    let warmup = prop_oneof![Just(None), (1usize..5).prop_map(Some)];
    let keep = prop_oneof![Just(0.9), Just(0.1), Just(0.5), 0.0..=1.0];
    let window = prop_oneof![Just(None), (1usize..8).prop_map(Some)];
    (warmup, keep, window, any::<bool>()).prop_map(|(warmup, keep, window, consensus)| DeepConfOptions {
        warmup,
        keep,
        window,
        consensus,
    })
}

/// Cases with up to `prompts` prompts. Draws come from the paths.
pub fn cases(prompts: usize) -> impl Strategy<Value = Case> {
    let script = (any::<u64>(), 0.5f64..5.0, 6.0f64..24.0).prop_map(|(seed, sharpness, patience)| Script {
        seed,
        sharpness,
        patience,
        draws: Draws::FromPath,
    });
    let first_stage = prop_oneof![Just(None), (1usize..9).prop_map(Some)];
    (script, settings(), forkings(), regrowings(), escs(), (deepconfs(), first_stage), 1..=prompts).prop_map(
        |(script, settings, forking, regrowing, esc, (deepconf, first_stage), prompts)| Case {
            script,
            settings,
            forking,
            surplus: SurplusLimit::EachPrompt(SURPLUS),
            regrowing,
            esc,
            deepconf,
            first_stage,
            prompts,
            reads_answers: true,
        },
    )
}

/// How often a property is tried. Failures are not kept in files: a case prints all that it takes to repeat it.
pub fn often() -> ProptestConfig {
    ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() }
}
