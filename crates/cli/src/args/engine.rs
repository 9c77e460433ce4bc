//! How the embedded engine uses the machine.

use clap::{Args, ValueEnum};
use eager_native::{KvType, Options};

use super::number::{at_least_one, threads};

/// How the embedded engine uses the machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Threads [default: one for each processor]
    #[arg(long, value_parser = threads)]
    pub threads: Option<usize>,
    /// How keys and values are stored
    #[arg(long, value_enum, default_value_t = KvArg::Q16)]
    pub kv: KvArg,
    /// Most MiB of keys and values
    #[arg(long, default_value_t = 4096, value_parser = at_least_one)]
    pub kv_memory: usize,
    /// Most tokens computed in one step, over all sequences
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    pub rows: usize,
    /// Instructions to use: amx, winograd, vnni, avx512, avx2, neon or portable; or vnni8, which is faster but rounds activations
    /// to 8 bits [default: the best that do not; amx where a step can have six rows or more]
    #[arg(long, env = "EAGER_KERNEL")]
    pub kernel: Option<String>,
}

impl EngineArgs {
    pub fn kv_bytes(&self) -> usize {
        self.kv_memory.saturating_mul(1 << 20)
    }

    pub fn options(&self) -> Options {
        let threads = self.threads.unwrap_or(0);
        let kv = match self.kv {
            KvArg::Q16 => KvType::Q16,
            KvArg::Q8 => KvType::Q8,
            KvArg::F32 => KvType::F32,
        };
        Options { threads, kv_bytes: self.kv_bytes(), rows: self.rows, kv, ..Options::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvArg {
    /// 16 bits with a scale for each token and head: as exact as half precision
    Q16,
    /// Bytes with a scale for each token and head: half the memory, less exact
    Q8,
    /// As they were computed: twice the memory, and slow; tells what rounding them costs
    F32,
}

impl KvArg {
    pub fn name(self) -> &'static str {
        match self {
            KvArg::Q16 => "q16",
            KvArg::Q8 => "q8",
            KvArg::F32 => "f32",
        }
    }
}
