//! Every architecture against PyTorch: small random models, from Hugging Face folders and from GGUF files.
//!
//! `architectures/make.py` makes them, and what transformers computes with them in float32. Their prompts reach beyond
//! every boundary: pages, segments of attention, sliding windows, the context before a stretch of the rotations. Their
//! weights are large, so that every part matters, and so does every rounding. With keys and values as floats, results are
//! compared as float32 allows; what the engine rounds by default, and what on request, is then allowed for.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Candidate, Engine, Forest, Grove, Key, Sampling, SeqId, Settings, Strategy, Tree};
use eager_native::load::{Checkpoint, DType, Tensor};
use eager_native::{Isa, KvType, Model, NativeEngine, Options};
use serde::Deserialize;

/// Folders of `architectures/`, and whether a GGUF file is among them.
const MODELS: [(&str, bool); 9] = [
    ("llama", true),
    ("llama-bias", true),
    ("llama3", true),
    ("smollm3", true),
    ("qwen2", true),
    ("qwen3", true),
    ("qwen3-yarn", true),
    ("gpt-oss", true),
    ("gpt-oss-bf16", false),
];

/// How far a log-probability may be off where nothing is rounded. Activations that meet quantised experts are, to 16 bits.
const EXACT: f32 = 2e-3;
/// And with keys and values of 16 bits, of which 13 are used: on these models, that is.
const DEFAULT: f32 = 2e-2;
/// With keys and values, or activations that meet quantised weights, of 8 bits: enough to send a row to another expert.
const ROUGH: f32 = 2.0;

#[derive(Deserialize)]
struct Reference {
    rows: Vec<Row>,
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
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/architectures").join(name)
}

fn reference(name: &str) -> Vec<Row> {
    let text = std::fs::read_to_string(folder(name).join("reference.json")).unwrap();
    serde_json::from_str::<Reference>(&text).unwrap().rows
}

/// All files of all models.
fn files() -> Vec<(&'static str, PathBuf)> {
    let both = |(name, gguf): (&'static str, bool)| {
        let folder = folder(name);
        let file = gguf.then(|| (name, folder.join("model.gguf")));
        std::iter::once((name, folder)).chain(file)
    };
    MODELS.into_iter().flat_map(both).collect()
}

fn engine(path: &Path, isa: Isa, kv: KvType) -> NativeEngine {
    let checkpoint = Checkpoint::open(path).unwrap();
    let model = Arc::new(Model::load(&checkpoint, isa).unwrap());
    NativeEngine::new(model, Options { kv, threads: 2, ..Options::default() }).unwrap()
}

/// One decoded step: the path that led to it, and what was found there.
#[derive(Debug, Clone)]
struct Seen {
    path: Vec<u32>,
    top: Vec<Candidate>,
}

/// Takes the best token; where told to, forks into the best two. Writes down every step.
#[derive(Debug)]
struct Recorder {
    prompt: Vec<u32>,
    forks: &'static [usize],
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Strategy for Recorder {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root]
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        let path = self.prompt.iter().copied().chain(tree.path(id)).collect();
        self.seen.lock().unwrap().push(Seen { path, top: step.top.to_vec() });
        match self.forks.contains(&step.at) {
            true => Verdict::Fork { first: step.top[0], second: step.top[1] },
            false => Verdict::Keep,
        }
    }
}

struct Prompts(Vec<Grove>);

impl Forest for Prompts {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.0.pop()
    }

    fn done(&mut self, _: Grove) {}
}

/// Decodes prompts together, greedily, and gives the steps of each.
fn decode(
    engine: &mut NativeEngine,
    prompts: &[&[u32]],
    steps: usize,
    forks: &'static [usize],
) -> Vec<Vec<Seen>> {
    let settings = Arc::new(Settings {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        max_tokens: steps,
        stop: Vec::new(),
        ..Settings::default()
    });
    let (mut groves, mut all) = (Vec::new(), Vec::new());
    for (id, prompt) in prompts.iter().enumerate() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let strategy = Recorder { prompt: prompt.to_vec(), forks, seen: seen.clone() };
        let key = Key::prompt(0, id as u64);
        groves.push(Grove::new(id, key, prompt.to_vec().into(), settings.clone(), Box::new(strategy)));
        all.push(seen);
    }
    engine.grow(&mut Prompts(groves)).unwrap();
    assert_eq!(engine.kv_use().pages, 0);
    all.into_iter().map(|seen| seen.lock().unwrap().clone()).collect()
}

/// Decodes a model's prompts in one batch; gives the largest difference to PyTorch, and how many tokens differ.
fn compare(path: &Path, isa: Isa, kv: KvType, rows: &[Row]) -> (f32, usize) {
    let prompts: Vec<&[u32]> = rows.iter().map(|row| row.prompt_ids.as_slice()).collect();
    let found = decode(&mut engine(path, isa, kv), &prompts, rows[0].steps.len(), &[]);
    let (mut worst, mut others) = (0f32, 0);
    for (row, steps) in rows.iter().zip(found) {
        assert_eq!(steps.len(), row.steps.len());
        for (step, expected) in steps.iter().zip(&row.steps) {
            for &(token, logprob) in &expected.top {
                // The last few of the 20 may change places with the 21st.
                let found = step.top.iter().find(|c| c.token == token).or(step.top.last()).unwrap();
                worst = worst.max((found.logprob - logprob).abs());
            }
            if step.top[0].token != expected.token {
                others += 1;
                break; // from here on, it is another text
            }
        }
    }
    (worst, others)
}

#[test]
fn log_probabilities_and_tokens_equal_pytorchs_on_every_kernel() {
    for (name, path) in files() {
        let rows = reference(name);
        for isa in Isa::available() {
            for (kv, close) in [(KvType::F32, EXACT), (KvType::Q16, DEFAULT), (KvType::Q8, ROUGH)] {
                let (worst, others) = compare(&path, isa, kv, &rows);
                println!("{} ({isa}, {kv:?}): at most {worst} off", path.display());
                let close = if isa.is_rough() { ROUGH } else { close };
                assert!(worst <= close, "{} ({isa}, {kv:?}): {worst} off", path.display());
                // Tokens that lie further apart than log-probabilities are off cannot change places.
                assert!(close == ROUGH || others == 0, "{} ({isa}, {kv:?}): other tokens", path.display());
            }
        }
    }
}

/// Dequantised as the `gguf` package does it, to the last bit.
#[test]
fn mxfp4_decodes_as_the_reference_does() {
    let text = std::fs::read_to_string(folder("mxfp4_blocks.json")).unwrap();
    let fixture: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bytes = |key: &str| -> Vec<u8> {
        let hex = fixture[key].as_str().unwrap();
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    };
    let want: Vec<u32> =
        bytes("values").chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    let data = bytes("bytes");
    let tensor = Tensor { dtype: DType::MXFP4, shape: vec![want.len()], data: &data };
    assert_eq!(tensor.to_f32().iter().map(|x| x.to_bits()).collect::<Vec<_>>(), want);
}

fn bits(top: &[Candidate]) -> Vec<(u32, u32)> {
    top.iter().map(|c| (c.token, c.logprob.to_bits())).collect()
}

/// Branches of trees that grow side by side find what a sequence finds that never had company: the same path, given as a
/// prompt, gives the same numbers to the last bit.
#[test]
fn in_company_and_after_forks_as_alone() {
    for (name, path) in files() {
        let rows = reference(name);
        let prompts: Vec<&[u32]> = rows.iter().map(|row| row.prompt_ids.as_slice()).collect();
        for isa in Isa::available() {
            let mut engine = engine(&path, isa, KvType::Q16);
            let mut branches = 0;
            for seen in decode(&mut engine, &prompts, 12, &[1, 4, 9]).into_iter().flatten() {
                // One step of every few: each is a prompt of its own.
                branches += 1;
                if branches % 5 != 0 {
                    continue;
                }
                let alone = decode(&mut engine, &[&seen.path], 1, &[]);
                assert_eq!(bits(&seen.top), bits(&alone[0][0].top), "{} ({isa})", path.display());
            }
            // Each of three forks doubles the sequences of a prompt.
            assert!(branches > 12 * 3 * rows.len(), "{branches} steps are too few to tell");
        }
    }
}
