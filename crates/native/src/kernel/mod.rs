//! The arithmetic of a step, written once in fixed-width lanes and compiled for each vector unit.
//!
//! A kernel is an ordinary function over arrays of 16 floats. The `multiversion!` macro compiles it again with AVX2 and
//! AVX-512 enabled, and picks one at run time. A version does the same operations in the same order, lane by lane, however
//! many rows share a batch and however work is split over threads: that is what makes trees reproducible. AVX2 and AVX-512
//! agree to the last bit; the portable version, which does not fuse multiplications with additions, differs there, and so
//! do Q8_0 weights on machines with a dot product of bytes.

// Lanes are indexed in step with each other: the form that compilers turn into vector instructions.
#![allow(clippy::needless_range_loop)]

mod attention;
mod blocks;
mod floats;
mod isa;
mod lanes;
mod matmul;
mod rows;
mod sheet;
mod survey;

pub use attention::KvType;
pub(crate) use attention::{Answers, Attention, PAGE, Plan, View};
pub use isa::Isa;
pub(crate) use matmul::{Input, Packed, matmul};
pub(crate) use rows::{add, rms_norm, rms_norm_in_place, rope, swiglu};
pub(crate) use survey::{Survey, survey};
