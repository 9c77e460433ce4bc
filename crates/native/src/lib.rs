//! The embedded engine: loads a model, keeps its keys and values in shared pages, and decodes whole trees at once.

pub mod bench;
mod engine;
mod forward;
mod hands;
mod kernel;
pub mod load;
mod mixture;
mod model;
mod pace;
mod pages;
mod phases;
mod sampler;
mod scheduler;
mod shared_slice;
mod threads;
mod token_rules;

pub use engine::{EngineError, KvUse, NativeEngine, Options, kv_bytes_per_token};
pub use kernel::{Isa, KvType};
pub use model::Model;
pub use phases::Phases;
