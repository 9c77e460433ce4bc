//! What a benchmark asks of the engine, in one place: what it cannot answer yet is `None`.

use std::time::Duration;

use clap::ValueEnum;
use eager_native::{NativeEngine, Options};

use crate::Usage;
use crate::args::EngineArgs;

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kv {
    /// Half precision
    F16,
    /// Bytes with a scale for each group
    Q8,
}

impl Kv {
    pub fn name(self) -> &'static str {
        match self {
            Kv::F16 => "f16",
            Kv::Q8 => "q8",
        }
    }
}

pub fn options(args: &EngineArgs, kv: Kv) -> Result<Options, Usage> {
    match kv {
        Kv::F16 => Ok(args.options()),
        Kv::Q8 => Ok(Options { kv: eager_native::KvType::Q8, ..args.options() }),
    }
}

/// Threads that the engine computes with.
pub fn threads(args: &EngineArgs) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    args.threads.unwrap_or_else(all)
}

/// Bytes of the packed weights.
pub fn weight_bytes(engine: &NativeEngine) -> Option<usize> {
    Some(engine.model().weight_bytes())
}

/// Gives the time spent in each phase since it was last asked. It is asked while the engine runs.
pub type Meter = Box<dyn Fn() -> Vec<(&'static str, Duration)>>;

pub fn meter(engine: &NativeEngine) -> Option<Meter> {
    let phases = engine.phases();
    Some(Box::new(move || phases.take()))
}

/// What it costs to fork a sequence.
pub fn fork_cost(_: &NativeEngine) -> Option<Duration> {
    None
}
