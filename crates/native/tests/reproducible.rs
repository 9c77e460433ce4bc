//! The same seed gives the same trees, bit for bit, whatever the machine is doing: threads, company in the batch, memory.

use std::path::Path;
use std::sync::Arc;

use eager_core::strategy::Preference;
use eager_core::{Engine, Forking, Method, Plan, Prompt, Reallocation, Settings, Tree};
use eager_native::load::Checkpoint;
use eager_native::{EngineError, Isa, Model, NativeEngine, Options};

const PROBLEMS: [&str; 6] = [
    "Using each of 5, 8, 30, 43, 28 exactly once, make 68.",
    "What is 8507 * 1275 + 656?",
    "Using each of 47, 50, 48, 23 exactly once, make 25.",
    "Two numbers have sum 486 and product 14528. What is the larger?",
    "Using each of 13, 22, 10 exactly once, make 66.",
    "What is 888 * 27 + 271?",
];
const CAP: usize = 8;
const MAX_TOKENS: usize = 160;

struct Acorn {
    checkpoint: Checkpoint,
    model: Arc<Model>,
}

impl Acorn {
    fn open() -> Self {
        Self::with(Self::checkpoint(), Isa::detect())
    }

    fn checkpoint() -> Checkpoint {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights/acorn-q8_0.gguf");
        Checkpoint::open(&path).unwrap()
    }

    fn with(checkpoint: Checkpoint, isa: Isa) -> Self {
        let model = Arc::new(Model::load(&checkpoint, isa).unwrap());
        Acorn { checkpoint, model }
    }

    fn engine(&self, options: Options) -> NativeEngine {
        NativeEngine::new(self.model.clone(), options).unwrap()
    }

    fn prompts(&self) -> Vec<Prompt> {
        let settings = Arc::new(Settings {
            max_tokens: MAX_TOKENS,
            stop: self.checkpoint.config.stop_tokens.clone(),
            reasoning_end: self.checkpoint.tokenizer.token("</think>").into_iter().collect(),
            ..Settings::default()
        });
        let prompt = |(key, problem): (u64, &&str)| {
            let text = format!("<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n");
            let tokens = self.checkpoint.encode_prompt(&text).unwrap().into();
            Prompt { tokens, settings: settings.clone(), key }
        };
        (0..).zip(&PROBLEMS).map(prompt).collect()
    }
}

fn plan() -> Plan {
    Plan { seed: 7, forking: Forking::new(0.3, CAP), preference: Preference::Likely, wave: 4 }
}

/// Both passes of a method; no prompt counts as solved, so that every tree is regrown or rerun.
fn grow<E: Engine>(engine: &mut E, method: Method, prompts: &[Prompt]) -> Result<Vec<Tree>, E::Error> {
    let plan = plan();
    let mut trees = plan.plant(prompts);
    plan.first_pass(engine, method, prompts, &mut trees, &mut ())?;
    plan.second_pass(engine, method, prompts, &mut trees, |_, _| false, &mut ())?;
    Ok(trees)
}

const METHODS: [Method; 3] =
    [Method::FullParallel, Method::Eager(Reallocation::Regrow), Method::Eager(Reallocation::Rerun)];

#[test]
fn threads_and_batches_change_nothing() {
    let acorn = Acorn::open();
    let prompts = acorn.prompts();
    for method in METHODS {
        let base =
            grow(&mut acorn.engine(Options { threads: 1, ..Options::default() }), method, &prompts).unwrap();
        assert!(
            base.iter().map(Tree::len).max() > Some(CAP / 2),
            "{method}: the trees are too small to tell"
        );
        for options in [
            Options { threads: 2, ..Options::default() },
            Options { rows: 5, chunk: 3, ..Options::default() },
            Options { threads: 2, rows: 17, chunk: 64, ..Options::default() },
        ] {
            let trees = grow(&mut acorn.engine(options), method, &prompts).unwrap();
            assert!(trees == base, "{method} differs with {options:?}");
        }
    }
}

#[test]
fn a_prompt_alone_grows_as_in_company() {
    let acorn = Acorn::open();
    let prompts = acorn.prompts();
    // One pass: the budget of a second depends on the other prompts by design.
    for method in [Method::FullParallel, Method::EagerInit] {
        let engine = &mut acorn.engine(Options::default());
        let together = grow(engine, method, &prompts).unwrap();
        for (prompt, tree) in prompts.iter().zip(&together) {
            let alone = grow(engine, method, std::slice::from_ref(prompt)).unwrap();
            assert!(alone[0] == *tree, "{method} differs alone");
        }
    }
}

#[test]
fn scarce_memory_slows_down_but_changes_nothing() {
    let acorn = Acorn::open();
    let prompts = &acorn.prompts()[..3];
    for method in METHODS {
        let mut ample = acorn.engine(Options::default());
        let base = grow(&mut ample, method, prompts).unwrap();
        let page = ample.kv_use().page_bytes;
        // One sequence of the longest kind needs 14 pages; a tree of 8 would like many more.
        for pages in [14, 25] {
            let mut scarce = acorn.engine(Options { kv_bytes: pages * page, ..Options::default() });
            let trees = grow(&mut scarce, method, prompts).unwrap();
            assert!(trees == base, "{method} differs with {pages} pages");
            let kv = scarce.kv_use();
            assert_eq!(kv.pages, 0);
            assert!(kv.peak_pages <= pages && kv.peak_pages < ample.kv_use().peak_pages);
        }
    }
}

#[test]
fn too_little_memory_is_an_error_that_says_so() {
    let acorn = Acorn::open();
    let page = acorn.engine(Options::default()).kv_use().page_bytes;
    let mut engine = acorn.engine(Options { kv_bytes: 3 * page, ..Options::default() });
    let error = grow(&mut engine, Method::FullParallel, &acorn.prompts()).unwrap_err();
    assert!(matches!(error, EngineError::KvMemory { limit: 48, .. }), "{error}");
    assert_eq!(engine.kv_use().pages, 0);
}

#[test]
fn memory_is_proportional_to_distinct_tokens() {
    let acorn = Acorn::open();
    let prompts = &acorn.prompts()[..1];
    let mut engine = acorn.engine(Options::default());
    let trees = grow(&mut engine, Method::EagerInit, prompts).unwrap();
    let kv = engine.kv_use();
    let distinct = prompts[0].tokens.len() + trees[0].tokens_generated();
    // Beside full pages, every sequence may have two that hold less of its own: at the fork and at its end.
    let most = distinct / kv.page_tokens + 2 * trees[0].len();
    assert!(
        kv.peak_pages <= most,
        "{} pages for {distinct} tokens in {} sequences",
        kv.peak_pages,
        trees[0].len()
    );
    assert_eq!(kv.pages, 0);
}

/// AVX2 and AVX-512 do the same operations in the same order.
#[test]
fn vector_widths_agree_to_the_last_bit() {
    let grow_on = |isa: Isa| {
        let acorn = Acorn::with(Acorn::checkpoint(), isa);
        grow(&mut acorn.engine(Options::default()), Method::EagerInit, &acorn.prompts()).unwrap()
    };
    let trees: Vec<Vec<Tree>> = ["avx2", "avx512"].into_iter().filter_map(Isa::named).map(grow_on).collect();
    assert!(trees.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn prompts_that_cannot_be_decoded_are_refused() {
    let acorn = Acorn::open();
    let mut engine = acorn.engine(Options::default());
    let mut refused = |tokens: Vec<u32>| {
        let prompt = Prompt { tokens: tokens.into(), ..acorn.prompts()[0].clone() };
        grow(&mut engine, Method::EagerInit, &[prompt]).unwrap_err()
    };
    assert_eq!(refused(vec![]), EngineError::EmptyPrompt);
    assert_eq!(
        refused(vec![1; 1000]),
        EngineError::Context { prompt: 1000, more: MAX_TOKENS, context: 1024 }
    );
    assert_eq!(refused(vec![1, 384]), EngineError::Token { token: 384, vocab: 384 });
}
