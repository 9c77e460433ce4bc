//! Measures: what the machine could do, so that what the engine does can be judged.

mod fork;
pub mod kernels;
mod loops;
mod peaks;

pub use fork::{ForkCost, fork_cost};
pub use peaks::{Peaks, PeaksError, peaks};
