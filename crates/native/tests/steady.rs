//! A step of steady decoding allocates nothing: only what is kept of the result grows, and that by doubling.
//!
//! Alone in its file, because it counts what all threads allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use eager_core::strategy::{FullParallel, Init};
use eager_core::{
    Engine, Forest, Forking, Grove, Key, Pulse, Sequence, Settings, Strategy, TokenRules, Tree,
};
use eager_native::load::Checkpoint;
use eager_native::{Isa, Model, NativeEngine, Options};

/// The system's allocator, with a count of what was asked of it.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    ASKED.fetch_add(1, Relaxed);
}

const ACORN: &str = "../../models/acorn/weights/acorn-q8_0.gguf";
/// Small and random, with experts and windows.
const GPT_OSS: &str = "tests/architectures/gpt-oss";
const PROMPT: &str = "<|im_start|>user\nUsing each of 5, 8, 30, 43, 28 exactly once, make 68.<|im_end|>\n\
    <|im_start|>assistant\n";

/// Enough for two threads to compute some apart, now and then.
const SEQUENCES: usize = 32;
const MAX_TOKENS: usize = 400;
/// Steps before the first that counts: by then all is as large as it usually is.
const FIRST: usize = 50;
/// Tokens of a page.
const PAGE: usize = 16;
/// The engine's own lists that grow with the pages in use, those of all threads together. There are about as many.
const LISTS: usize = 20;

/// What may change in a tree beside its tokens: its sequences, those of them that live, and what is remembered.
fn shape(tree: &Tree) -> [usize; 3] {
    [tree.len(), tree.live().count(), tree.spots().count()]
}

/// One grove, and what its steps allocated.
#[derive(Default)]
struct Watched {
    grove: Option<Grove>,
    tree: Option<Tree>,
    shape: [usize; 3],
    /// Whether the last step left the shape as it was.
    steady: bool,
    steps: usize,
    /// Of every steady step, how often it asked for memory.
    asked: Vec<usize>,
}

impl Forest for Watched {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.grove.take()
    }

    fn done(&mut self, grove: Grove) {
        self.tree = Some(grove.into_tree());
    }

    fn wants(&mut self, grove: &Grove) -> bool {
        let shape = shape(grove.tree());
        self.steady = std::mem::replace(&mut self.shape, shape) == shape;
        true
    }

    fn pulse(&mut self, _: &Pulse) -> ControlFlow<()> {
        let asked = ASKED.load(Relaxed);
        self.steps += 1;
        if self.steady && self.steps > FIRST {
            self.asked.push(asked);
        }
        ASKED.store(0, Relaxed);
        ControlFlow::Continue(())
    }
}

/// How often a list at most asks for memory while it grows, if it doubles whenever it is full.
fn doublings(len: Range<usize>) -> usize {
    (len.end / len.start).max(1).ilog2() as usize + 1
}

/// How often those lists ask that grow with a sequence, from the first step that counts on: its tokens with their
/// log-probabilities and entropies in the tree, and its tokens and pages in the engine.
fn kept(sequence: &Sequence, prompt: usize) -> usize {
    let first = FIRST.max(sequence.fork_at);
    let own = (first - sequence.fork_at).max(1)..sequence.tokens.len();
    let path = prompt + first..prompt + sequence.len();
    let pages = path.start.div_ceil(PAGE)..path.end.div_ceil(PAGE);
    3 * doublings(own) + doublings(path) + doublings(pages)
}

/// Grows a tree and checks what its steps ask for.
fn check(model: &str, strategy: Box<dyn Strategy>, rules: TokenRules) {
    let name = format!("{model}, {strategy:?}, {rules:?}");
    let checkpoint = Checkpoint::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(model)).unwrap();
    let model = Arc::new(Model::load(&checkpoint, Isa::detect()).unwrap());
    let mut engine = NativeEngine::new(model, Options { threads: 2, ..Options::default() }).unwrap();
    let settings = Settings {
        max_tokens: MAX_TOKENS,
        // Nobody ends before the others.
        stop: Vec::new(),
        rules,
        reasoning_end: checkpoint.tokenizer.token("</think>").into_iter().collect(),
        ..Settings::default()
    };
    let prompt = checkpoint.encode_prompt(PROMPT).unwrap();
    let grove = Grove::new(0, Key::prompt(7, 0), prompt.as_slice().into(), settings.into(), strategy);
    let asked = Vec::with_capacity(MAX_TOKENS);
    let mut forest = Watched { grove: Some(grove), asked, ..Watched::default() };
    engine.grow(&mut forest).unwrap();

    let (tree, asked) = (forest.tree.unwrap(), forest.asked);
    assert_eq!(tree.len(), SEQUENCES, "{name}");
    assert!(asked.len() > MAX_TOKENS / 2, "{name}: only {} steps are steady", asked.len());
    let silent = asked.iter().filter(|&&asked| asked == 0).count();
    // The lists of a step's sequences grow together, where they began together.
    assert!(4 * silent > 3 * asked.len(), "{name}: too few steps allocate nothing: {asked:?}");
    // One more in every step, or in every page of every sequence, would be too many.
    let kept: usize = tree.sequences().iter().map(|sequence| kept(sequence, prompt.len())).sum();
    let most = kept + LISTS * doublings(FIRST..MAX_TOKENS);
    let all: usize = asked.iter().sum();
    assert!(all <= most, "{name}: {all} allocations where {most} are enough: {asked:?}");
}

#[test]
fn steady_steps_allocate_nothing() {
    let plain = TokenRules::default;
    check(ACORN, Box::new(FullParallel { sequences: SEQUENCES }), plain());
    check(ACORN, Box::new(Init::new(Forking::new(0.3, SEQUENCES))), plain());
    check(GPT_OSS, Box::new(FullParallel { sequences: SEQUENCES }), plain());
    let rules = TokenRules {
        repetition_penalty: 1.1,
        frequency_penalty: 0.1,
        logit_bias: vec![(7, -3.0)],
        min_tokens: MAX_TOKENS,
        ..plain()
    };
    check(ACORN, Box::new(FullParallel { sequences: SEQUENCES }), rules);
}
