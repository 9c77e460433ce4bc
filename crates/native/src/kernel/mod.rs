//! The arithmetic of a step, written once in fixed-width lanes and compiled for each vector unit.
//!
//! Most kernels are ordinary functions over arrays of 16 floats. The `multiversion!` macro compiles them again with AVX2 and
//! AVX-512 enabled, and picks one at run time; products of quantised weights name their instructions themselves
//! ([`blocks`]). A version does the same operations in the same order, lane by lane, however many rows share a batch and
//! however work is split over threads: that is what makes trees reproducible. AVX2, AVX-512, VNNI and `winograd` agree to the
//! last bit; the portable version, which does not fuse multiplications with additions, differs there, and so do `amx` and
//! `vnni8`.

// Lanes are indexed in step with each other: the form that compilers turn into vector instructions.
#![allow(clippy::needless_range_loop)]

// Only kernels for this architecture ask so far.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod ahead;
mod attention;
mod blocks;
mod buffer;
mod floats;
mod input;
mod isa;
mod lanes;
mod matmul;
mod passing;
mod results;
mod route;
mod rows;
mod shares;
mod sheet;
mod survey;
mod unit;

pub(crate) use ahead::Ahead;
pub use attention::KvType;
pub(crate) use attention::{Answers, Attention, PAGE, Plan, Step, Tables, View};
pub(crate) use buffer::Buffer;
pub(crate) use input::Input;
pub use isa::Isa;
pub(crate) use matmul::{Group, Packed, matmul, matmul_asking, matmul_grouped};
pub(crate) use passing::{Patches, Product, Together, matmul_passing};
pub(crate) use results::Results;
pub(crate) use route::{Route, route};
pub(crate) use rows::{Gate, add, limited_swiglu, rms_norm, rms_norm_in_place, rope, swiglu};
pub(crate) use survey::{Ranking, Survey};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use unit::amx;
