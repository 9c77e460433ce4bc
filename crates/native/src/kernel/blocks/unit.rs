//! What a vector unit does for products of whole numbers, and how to do it without one.

use half::f16;

use crate::kernel::isa::BASELINE;
use crate::kernel::lanes::fma;

/// Outputs that are computed together: one lane each.
pub(super) const LANES: usize = 16;

/// 64 bytes of codes: eight nibbles or four bytes for each of 16 outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Line(pub [u8; 64]);

/// 16 scales or minima, one for each output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Factors<'a> {
    Half(&'a [f16; LANES]),
    Full(&'a [f32; LANES]),
}

/// A vector unit. Every operation acts on 16 lanes.
///
/// Activations come in *words* of 32 bits: two numbers of 16 bits or four of 8. [`Unit::dot`] multiplies a word with the
/// codes of as many inputs of each output.
///
/// # Safety
/// The operations may be called only on machines with the unit's instructions, and are fast only inside functions that are
/// compiled for them.
pub(super) trait Unit {
    /// 16 sums.
    type Sums: Copy;
    /// Codes of 16 outputs, as [`Unit::dot`] wants them.
    type Codes: Copy;
    /// 16 floats.
    type Floats: Copy;
    /// Rows in the tallest tile whose sums and results stay in registers.
    const ROWS: usize;
    /// Are two panels at a time better than one? They are where reading activations would hold the unit up.
    const PAIRS: bool;
    /// Activations in a word.
    const PER_WORD: usize;

    unsafe fn zero() -> Self::Floats;
    /// Where sums over bytes start, for activations that sum to `total`; those over nibbles start at `begin(0)`.
    unsafe fn begin(total: i32) -> Self::Sums;
    /// The nibbles of a line that meet word `K` of its inputs.
    unsafe fn nibbles<const K: usize>(line: &Line) -> Self::Codes;
    /// The bytes of a line that meet word `K` of its inputs.
    unsafe fn bytes<const K: usize>(line: &Line) -> Self::Codes;
    /// Adds the products of a word of activations with each output's codes.
    unsafe fn dot(sums: Self::Sums, codes: Self::Codes, word: i32) -> Self::Sums;
    unsafe fn factors(from: Factors<'_>) -> Self::Floats;
    /// `results + sums * (factors * scale)`
    unsafe fn add_sums(
        results: Self::Floats,
        sums: Self::Sums,
        factors: Self::Floats,
        scale: f32,
    ) -> Self::Floats;
    /// `results + factors * scale`
    unsafe fn add_scaled(results: Self::Floats, factors: Self::Floats, scale: f32) -> Self::Floats;
    unsafe fn store(results: Self::Floats) -> [f32; LANES];
}

/// No vector unit that we know of: plain loops, which the compiler vectorises as it can.
#[derive(Debug)]
pub(super) struct Plain;

impl Unit for Plain {
    type Sums = [i32; LANES];
    type Codes = [[i16; 2]; LANES];
    type Floats = [f32; LANES];
    const ROWS: usize = 4;
    const PAIRS: bool = false;
    const PER_WORD: usize = 2;

    #[inline(always)]
    unsafe fn zero() -> [f32; LANES] {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn begin(_: i32) -> [i32; LANES] {
        [0; LANES]
    }

    #[inline(always)]
    unsafe fn nibbles<const K: usize>(line: &Line) -> [[i16; 2]; LANES] {
        let nibble = |lane: usize, i: usize| i16::from(line.0[lane * 4 + i / 2] >> (i % 2 * 4) & 15);
        std::array::from_fn(|lane| [nibble(lane, K), nibble(lane, K + 4)])
    }

    #[inline(always)]
    unsafe fn bytes<const K: usize>(line: &Line) -> [[i16; 2]; LANES] {
        let byte = |lane: usize, i: usize| i16::from(line.0[lane * 4 + i] as i8);
        std::array::from_fn(|lane| [byte(lane, K), byte(lane, K + 2)])
    }

    #[inline(always)]
    unsafe fn dot(mut sums: [i32; LANES], codes: [[i16; 2]; LANES], word: i32) -> [i32; LANES] {
        let [a, b]: [i16; 2] = bytemuck::cast(word);
        for (sum, code) in sums.iter_mut().zip(codes) {
            *sum += i32::from(a) * i32::from(code[0]) + i32::from(b) * i32::from(code[1]);
        }
        sums
    }

    #[inline(always)]
    unsafe fn factors(from: Factors<'_>) -> [f32; LANES] {
        match from {
            Factors::Half(half) => half.map(f16::to_f32_const),
            Factors::Full(full) => *full,
        }
    }

    #[inline(always)]
    unsafe fn add_sums(
        mut results: [f32; LANES],
        sums: [i32; LANES],
        factors: [f32; LANES],
        scale: f32,
    ) -> [f32; LANES] {
        for i in 0..LANES {
            results[i] = fma::<BASELINE>(sums[i] as f32, factors[i] * scale, results[i]);
        }
        results
    }

    #[inline(always)]
    unsafe fn add_scaled(mut results: [f32; LANES], factors: [f32; LANES], scale: f32) -> [f32; LANES] {
        for i in 0..LANES {
            results[i] = fma::<BASELINE>(factors[i], scale, results[i]);
        }
        results
    }

    #[inline(always)]
    unsafe fn store(results: [f32; LANES]) -> [f32; LANES] {
        results
    }
}
