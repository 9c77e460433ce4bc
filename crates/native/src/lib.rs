//! The embedded engine: loads a model, keeps its keys and values in shared pages, and decodes whole trees at once.

pub mod bench;
mod engine;
mod kernel;
pub mod load;
mod model;
mod pages;
mod sampler;
mod scheduler;

pub use engine::{EngineError, KvUse, NativeEngine, Options};
pub use kernel::Isa;
pub use model::Model;
