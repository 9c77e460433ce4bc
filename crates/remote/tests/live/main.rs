//! A real llama-server beside the embedded engine, with the same model.
//!
//! Needs a Python with xllamacpp, which `tests/live/install` provides and EAGER_TEST_XLLAMACPP names.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use eager_core::{Engine, Forking, Method, Plan, Prompt, Sampling, Sequence, Settings, Tree};
use eager_native::load::Checkpoint;
use eager_native::{Isa, Model, NativeEngine};
use eager_remote::{Options, RemoteEngine};

/// Where llama.cpp rounds activations to 8 bits and the embedded engine to 16, log-probabilities differ by up to this.
const ROUNDING: f32 = 0.1;

/// A server that lives as long as this.
struct Live {
    process: Child,
    url: String,
}

impl Live {
    fn start(slots: usize) -> Option<Self> {
        Self::serving(&model_file(), slots)
    }

    fn serving(model: &Path, slots: usize) -> Option<Self> {
        let Some(python) = std::env::var_os("EAGER_TEST_XLLAMACPP") else {
            eprintln!("skipped: EAGER_TEST_XLLAMACPP names no Python with xllamacpp");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/serve.py");
        let mut process = Command::new(python)
            .arg(script)
            .arg(model)
            .args([&slots.to_string(), "1024", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "the server did not start: run serve.py by hand to see why");
        Some(Live { process, url: url.trim().to_owned() })
    }

    fn engine(&self) -> RemoteEngine {
        RemoteEngine::connect(&self.url, &Options::default()).unwrap()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn model_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights/acorn-q8_0.gguf")
}

fn embedded(checkpoint: &Checkpoint) -> NativeEngine {
    let model = Arc::new(Model::load(checkpoint, Isa::detect()).unwrap());
    let options = eager_native::Options { threads: 1, ..eager_native::Options::default() };
    NativeEngine::new(model, options).unwrap()
}

/// Ten problems, of all families and levels.
fn prompts(checkpoint: &Checkpoint, temperature: f32) -> Vec<Prompt> {
    let settings = Arc::new(Settings {
        sampling: Sampling { temperature, ..Sampling::default() },
        max_tokens: 300,
        stop: checkpoint.config.stop_tokens.clone(),
        reasoning_end: checkpoint.tokenizer.token("</think>").into_iter().collect(),
        ..Settings::default()
    });
    let prompt = |(key, problem): (u64, &eager_acorn::Problem)| {
        let text = format!("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", problem.problem);
        let tokens = checkpoint.encode_prompt(&text).unwrap().into();
        Prompt { tokens, settings: Arc::clone(&settings), key, answers: None }
    };
    (0..).zip(eager_acorn::problems().iter().step_by(6)).map(prompt).collect()
}

fn plan(cap: usize) -> Plan {
    Plan::new(5, Forking::new(1.0, cap))
}

fn grow<E: Engine>(engine: &mut E, method: Method, plan: &Plan, prompts: &[Prompt]) -> Vec<Tree> {
    let mut trees = plan.plant(prompts);
    plan.first_pass(engine, method, prompts, &mut trees, &mut ()).unwrap();
    trees
}

/// Where two greedy sequences part, if they do.
fn parting(a: &Sequence, b: &Sequence) -> Option<usize> {
    a.tokens.iter().zip(&b.tokens).position(|(a, b)| a != b)
}

/// At this place both engines saw two tokens equally likely, and took one each.
fn is_tie(a: &Sequence, b: &Sequence, at: usize) -> bool {
    let (p, q) = (a.logprobs[at], b.logprobs[at]);
    eprintln!("the engines part at token {at}, with log-probabilities {p} and {q}");
    // Of two that are equally likely, neither has more than half.
    (p - q).abs() < ROUNDING && p.max(q) < 0.5f32.ln() + ROUNDING
}

fn same_but_for_ties(ours: &Tree, theirs: &Tree) -> bool {
    let (a, b) = (&ours.sequences()[0], &theirs.sequences()[0]);
    parting(a, b).map_or(a.tokens == b.tokens, |at| is_tie(a, b, at))
}

#[test]
fn greedy_text_is_that_of_the_embedded_engine() {
    let Some(live) = Live::start(4) else { return };
    let checkpoint = Checkpoint::open(&model_file()).unwrap();
    let prompts = prompts(&checkpoint, 0.0);
    let ours = grow(&mut embedded(&checkpoint), Method::FullParallel, &plan(1), &prompts);
    let theirs = grow(&mut live.engine(), Method::FullParallel, &plan(1), &prompts);
    let equal =
        ours.iter().zip(&theirs).filter(|(a, b)| a.sequences()[0].tokens == b.sequences()[0].tokens).count();
    eprintln!("{equal} of {} texts are equal", ours.len());
    assert!(ours.iter().zip(&theirs).all(|(a, b)| same_but_for_ties(a, b)));
    assert!(2 * equal > ours.len());
}

/// With greedy continuation, forks are where the entropy says, and both engines see the same entropies.
#[test]
fn forks_are_where_the_embedded_engine_forks() {
    let Some(live) = Live::start(4) else { return };
    let checkpoint = Checkpoint::open(&model_file()).unwrap();
    let prompts = prompts(&checkpoint, 0.0);
    let plan = plan(8);
    let ours = grow(&mut embedded(&checkpoint), Method::EagerInit, &plan, &prompts);
    let mut engine = live.engine();
    let theirs = grow(&mut engine, Method::EagerInit, &plan, &prompts);
    eprintln!("{:?}", engine.traffic().tally());
    let forks = |tree: &Tree| -> Vec<_> { tree.sequences().iter().map(|s| (s.parent, s.fork_at)).collect() };
    let mut equal = 0;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let same = forks(ours) == forks(theirs);
        equal += usize::from(same);
        assert!(
            same || is_close_call(ours, theirs, plan.forking.theta),
            "{:?}\n{:?}",
            forks(ours),
            forks(theirs)
        );
    }
    eprintln!("{equal} of {} trees fork at the same places", ours.len());
    assert!(2 * equal > ours.len());
}

/// Somewhere the trees differ by what rounding can decide: a tie, or an entropy at theta.
fn is_close_call(ours: &Tree, theirs: &Tree, theta: f32) -> bool {
    ours.sequences().iter().zip(theirs.sequences()).any(|(a, b)| {
        let mut entropies = a.entropy.iter().zip(&b.entropy);
        let splits = |(a, b): (&f32, &f32)| (a >= &theta) != (b >= &theta) && (a - b).abs() < ROUNDING;
        parting(a, b).is_some_and(|at| is_tie(a, b, at)) || entropies.any(splits)
    })
}

#[test]
fn every_method_finishes() {
    let Some(live) = Live::start(4) else { return };
    let checkpoint = Checkpoint::open(&model_file()).unwrap();
    let prompts = prompts(&checkpoint, 0.6);
    for method in [Method::FullParallel, Method::EagerInit, Method::Esc, Method::DeepConf] {
        let mut engine = live.engine();
        let trees = grow(&mut engine, method, &plan(4), &prompts);
        eprintln!("{method}: {:?}", engine.traffic().tally());
        assert!(trees.iter().all(|tree| !tree.is_empty() && tree.live().next().is_none()), "{method}");
    }
}

/// So hot that acorn writes bytes at random: many a token is half a character, which the server does not report.
#[test]
fn tokens_within_a_character_are_found() {
    let Some(live) = Live::start(4) else { return };
    let checkpoint = Checkpoint::open(&model_file()).unwrap();
    let mut hot = prompts(&checkpoint, 4.0);
    hot.truncate(2);
    for prompt in &mut hot {
        let sampling = Sampling { temperature: 4.0, top_p: 1.0, ..Sampling::default() };
        prompt.settings = Arc::new(Settings { sampling, max_tokens: 60, ..(*prompt.settings).clone() });
    }
    let mut engine = live.engine();
    let trees = grow(&mut engine, Method::FullParallel, &plan(2), &hot);
    let tally = engine.traffic().tally();
    eprintln!("{tally:?}");
    let tokens = trees.iter().map(Tree::tokens_generated).sum::<usize>();
    assert_eq!((tally.received, tally.retries), (tokens, 0));
    let halves = trees.iter().flat_map(Tree::sequences).flat_map(|s| &s.tokens);
    let halves = halves.filter(|&&token| checkpoint.tokenizer.decode(&[token]).contains('\u{fffd}')).count();
    assert!(halves > 10, "{halves} tokens are no characters");
}

/// A model whose vocabulary has pieces of characters: what the server does not report is found out, and is what the
/// embedded engine decodes.
#[test]
fn pictures_come_through_whole() {
    let Some(file) = std::env::var_os("EAGER_TEST_SMOLLM2").map(PathBuf::from) else {
        eprintln!("skipped: EAGER_TEST_SMOLLM2 names no model");
        return;
    };
    let Some(live) = Live::serving(&file, 2) else { return };
    let checkpoint = Checkpoint::open(&file).unwrap();
    let settings = Arc::new(Settings {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        max_tokens: 48,
        stop: checkpoint.config.stop_tokens.clone(),
        ..Settings::default()
    });
    let prompt = |(key, text): (u64, &str)| {
        let tokens = checkpoint.encode_prompt(text).unwrap().into();
        Prompt { tokens, settings: Arc::clone(&settings), key, answers: None }
    };
    let texts = [
        "\u{1f600}\u{1f601}\u{1f600}\u{1f601}\u{1f600}\u{1f601}",
        "\u{4f60}\u{597d}\u{ff0c}\u{4f60}\u{597d}\u{ff0c}\u{4f60}",
    ];
    let prompts: Vec<Prompt> = (0..).zip(texts).map(prompt).collect();
    let ours = grow(&mut embedded(&checkpoint), Method::FullParallel, &plan(1), &prompts);
    let mut engine = live.engine();
    let theirs = grow(&mut engine, Method::FullParallel, &plan(1), &prompts);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        eprintln!("{:?}", checkpoint.tokenizer.decode(&theirs.sequences()[0].tokens));
        eprintln!("{:?}", checkpoint.tokenizer.decode(&ours.sequences()[0].tokens));
        assert!(same_but_for_ties(ours, theirs));
    }
    let tokens = theirs.iter().map(Tree::tokens_generated).sum::<usize>();
    assert_eq!((engine.traffic().tally().received, engine.traffic().tally().retries), (tokens, 0));
}
