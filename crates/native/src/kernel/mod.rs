//! The arithmetic of a step, written once in fixed-width lanes and compiled for each vector unit.
//!
//! A kernel is an ordinary function over arrays of [`LANES`] floats. The [`multiversion!`] macro compiles it again with
//! AVX2 and AVX-512 enabled, and picks one at run time. Every version does the same operations in the same order, lane by
//! lane, so a result never depends on how many rows share a batch or on how work is split over threads.

mod attention;
mod isa;
mod lanes;
mod matmul;
mod rows;

pub(crate) use attention::{Attention, PAGE, View};
pub use isa::Isa;
pub(crate) use matmul::{Packed, Panels, matmul};
pub(crate) use rows::{exp_sum, max, rms_norm, rope, swiglu};
