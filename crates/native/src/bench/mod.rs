//! Measures: what the machine could do, so that what the engine does can be judged.

pub mod kernels;
mod loops;
mod peaks;

pub use peaks::{Peaks, PeaksError, peaks};
