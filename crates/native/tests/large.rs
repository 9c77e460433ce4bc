//! Models of real size: what they take of memory, and how fast they decode.
//!
//! `architectures/large.py` writes them. A test runs where its variable names such a file, and alone in its process, since
//! memory is measured at its peak:
//!
//!     EAGER_TEST_LARGE=qwen3-4b.gguf cargo test --release -p eager-native --test large -- --nocapture

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::strategy::FullParallel;
use eager_core::{Engine, Forest, Grove, Key, Pulse, Settings};
use eager_native::load::Checkpoint;
use eager_native::{Isa, Model, NativeEngine, Options};

const BRANCHES: usize = 8;
const PROMPT: usize = 64;
const TOKENS: usize = 32;

/// One prompt; notes when its first tokens are there.
struct One {
    waiting: Option<Grove>,
    decoding: Option<Instant>,
    took: Duration,
}

impl Forest for One {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.waiting.take()
    }

    fn done(&mut self, grove: Grove) {
        assert_eq!(grove.tree().tokens_generated(), BRANCHES * TOKENS);
        self.took = self.decoding.map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn pulse(&mut self, pulse: &Pulse) -> std::ops::ControlFlow<()> {
        if pulse.decoded >= BRANCHES {
            self.decoding.get_or_insert_with(Instant::now);
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// A line of this process's status, in bytes.
fn status(line: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let found = status.lines().find_map(|l| l.strip_prefix(line))?;
    found.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
}

#[test]
fn eight_branches_take_little_more_than_the_file() {
    let Some(path) = std::env::var_os("EAGER_TEST_LARGE") else {
        println!("skipped: EAGER_TEST_LARGE names no model");
        return;
    };
    let file = std::fs::metadata(&path).unwrap().len() as usize;
    let start = Instant::now();
    let model = {
        let checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
        Arc::new(Model::load(&checkpoint, Isa::detect()).unwrap())
    };
    let loading = start.elapsed();
    let packed = model.weight_bytes();
    let mut engine = NativeEngine::new(model, Options::default()).unwrap();
    let settings = Settings { max_tokens: TOKENS, stop: Vec::new(), ..Settings::default() };
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| i * 1_001 % 50_000).collect();
    let strategy = Box::new(FullParallel { sequences: BRANCHES });
    let grove = Grove::new(0, Key::prompt(0, 0), prompt.into(), settings.into(), strategy);
    let mut forest = One { waiting: Some(grove), decoding: None, took: Duration::ZERO };
    engine.grow(&mut forest).unwrap();
    let speed = (BRANCHES * (TOKENS - 1)) as f64 / forest.took.as_secs_f64();
    let kv = engine.kv_use();
    let (kv, mib) = (kv.peak_pages * kv.page_bytes, |bytes: usize| bytes >> 20);
    println!(
        "loaded {} MiB in {:.1} s as {} MiB; {BRANCHES} branches at {speed:.1} tokens/s with {} MiB of keys and values",
        mib(file),
        loading.as_secs_f64(),
        mib(packed),
        mib(kv),
    );
    let Some(peak) = status("VmHWM:") else { return };
    println!("peak {} MiB, {:.3} times file and KV", mib(peak), peak as f64 / (file + kv) as f64);
    assert!(peak <= (file + kv) / 10 * 11, "{} MiB at the peak", mib(peak));
}
