//! [`walk`] in assembly: the compiler unrolls the loop until it runs out of registers.

use std::arch::asm;
use std::arch::x86_64::__m256i;

use super::{Avx2, LANES};
use crate::kernel::unit::walk::{Walk, Whole, walk};

/// As [`walk`].
///
/// # Safety
/// The machine must have AVX2, and all lists must be there, with a word at least.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn walk_lines<T: Whole, const N: usize, const WIDE: usize>(
    of: Walk<T, N, WIDE>,
    sums: &mut [[[__m256i; 2]; WIDE]; N],
) {
    debug_assert!(of.count > 0);
    let line = size_of::<[T; 2 * LANES]>();
    // Every query has names of its own for its words and sums.
    macro_rules! tile {
        ($load:literal, $half:literal, $($n:literal: $words:ident $low:ident $high:ident),+) => {{
            $(
                let $words = of.words[$n].wrapping_add(of.count);
                let [mut $low, mut $high] = sums[$n][0];
            )+
            // SAFETY: the caller vouches for the instructions and for the lists; what is only asked for may be anywhere.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    concat!($load, " {codes_low}, [{lines}]"),
                    concat!($load, " {codes_high}, [{lines} + ", $half, "]"),
                    "prefetcht1 [{lines} + {ahead}]",
                    "add {lines}, {step}",
                    $(
                        concat!("vpbroadcastd {word}, dword ptr [{", stringify!($words), "} + {at}]"),
                        "vpmaddwd {products}, {word}, {codes_low}",
                        concat!("vpaddd {", stringify!($low), "}, {", stringify!($low), "}, {products}"),
                        "vpmaddwd {word}, {word}, {codes_high}",
                        concat!("vpaddd {", stringify!($high), "}, {", stringify!($high), "}, {word}"),
                    )+
                    "add {at}, 4",
                    "jnz 2b",
                    lines = inout(reg) of.lines[0] => _,
                    ahead = in(reg) of.ahead[0].addr().wrapping_sub(of.lines[0].addr()),
                    step = in(reg) of.step * line,
                    at = inout(reg) -4 * of.count as isize => _,
                    codes_low = out(ymm_reg) _,
                    codes_high = out(ymm_reg) _,
                    word = out(ymm_reg) _,
                    products = out(ymm_reg) _,
                    $(
                        $words = in(reg) $words,
                        $low = inout(ymm_reg) $low,
                        $high = inout(ymm_reg) $high,
                    )+
                    options(nostack, readonly),
                );
            }
            $(sums[$n][0] = [$low, $high];)+
        }};
    }
    macro_rules! by_type {
        ($($queries:tt)+) => {
            match size_of::<T>() {
                1 => tile!("vpmovsxbw", 16, $($queries)+),
                _ => tile!("vmovdqu", 32, $($queries)+),
            }
        };
    }
    match (N, WIDE) {
        (1, 1) => by_type!(0: words0 low0 high0),
        (2, 1) => by_type!(0: words0 low0 high0, 1: words1 low1 high1),
        (3, 1) => by_type!(0: words0 low0 high0, 1: words1 low1 high1, 2: words2 low2 high2),
        (4, 1) => by_type!(
            0: words0 low0 high0, 1: words1 low1 high1, 2: words2 low2 high2, 3: words3 low3 high3
        ),
        (6, 1) => by_type!(
            0: words0 low0 high0, 1: words1 low1 high1, 2: words2 low2 high2,
            3: words3 low3 high3, 4: words4 low4 high4, 5: words5 low5 high5
        ),
        // Nobody asks for other tiles, as `HELD` and the stretches of queries are.
        // SAFETY: the caller's promise.
        _ => unsafe { walk::<Avx2, T, N, WIDE>(of, sums) },
    }
}
