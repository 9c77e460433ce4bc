//! Loops that do nothing but one instruction, as fast as the machine can.
//!
//! Each keeps [`CHAINS`] independent sums in registers, more than any of these instructions has cycles of latency times
//! units, so that it waits for nothing. Where the instruction does not add to its sum by itself, its input is the sum: a
//! product of constants would be moved out of the loop.

use std::hint::black_box;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::kernel::Isa;

const CHAINS: usize = 12;

/// The widest versions that this machine has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loops {
    pub instructions: &'static str,
    /// Fused multiply-adds of 32-bit floats.
    pub float: Loop,
    /// Products of 16-bit integers, summed in 32 bits.
    pub int16: Loop,
    /// Products of 8-bit integers, summed in 32 bits.
    pub int8: Loop,
}

/// A loop with the number of multiply-adds that each of its instructions does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop {
    run: unsafe fn(usize),
    lanes: usize,
}

impl Loop {
    /// Runs so many rounds. Returns the operations: a multiplication and an addition are two.
    pub fn run(self, rounds: usize) -> usize {
        // SAFETY: all there is to uphold is that the machine has the instructions; `Loops::available` asks before it gives
        // out a loop, and nobody else can make one.
        unsafe { (self.run)(rounds) };
        2 * self.lanes * CHAINS * rounds
    }
}

impl Loops {
    /// All that this machine can run, best first.
    #[allow(clippy::vec_init_then_push)] // elsewhere there is nothing to push before the last
    fn available() -> Vec<Loops> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            if wide && is_x86_feature_detected!("avx512vnni") {
                found.push(x86::VNNI);
            }
            if wide {
                found.push(x86::AVX512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(x86::AVX2);
            }
        }
        found.push(PORTABLE);
        found
    }

    pub fn detect() -> Loops {
        Self::available()[0]
    }
}

/// A function that applies a step to every sum, round after round. The step sees the sum and two values that the compiler
/// knows nothing about.
macro_rules! rounds {
    ($(#[$attribute:meta])* $name:ident, $start:expr, $step:expr) => {
        $(#[$attribute])*
        fn $name(rounds: usize) {
            let (x, y) = (black_box($start), black_box($start));
            let mut sums = [y; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = $step(*sum, x, y);
                }
            }
            black_box(sums);
        }
    };
}

/// Plain code for machines that are not known better: what the compiler makes of it.
const PORTABLE: Loops = Loops {
    instructions: "portable",
    float: Loop { run: float, lanes: LANES },
    int16: Loop { run: int16, lanes: LANES },
    int8: Loop { run: int8, lanes: LANES },
};

const LANES: usize = 4;

/// Values side by side, as any vector unit can hold them.
type Lanes<T> = [T; LANES];

// Without the instruction a fused multiply-add would be a call.
rounds!(float, [0.5f32; LANES], |sum: Lanes<f32>, x: Lanes<f32>, y: Lanes<f32>| sum.map(|s| {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
        s.mul_add(x[0], y[0])
    } else {
        s * x[0] + y[0]
    }
}));
rounds!(int16, [3i32; LANES], |sum: Lanes<i32>, x: Lanes<i32>, _| {
    sum.map(|s| s.wrapping_add(i32::from(s as i16) * i32::from(x[0] as i16)))
});
rounds!(int8, [3i32; LANES], |sum: Lanes<i32>, x: Lanes<i32>, _| {
    sum.map(|s| s.wrapping_add(i32::from(s as u8) * i32::from(x[0] as i8)))
});

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    pub const VNNI: Loops = Loops {
        instructions: "avx512+vnni",
        float: Loop { run: float_512, lanes: 16 },
        int16: Loop { run: int16_vnni, lanes: 32 },
        int8: Loop { run: int8_vnni, lanes: 64 },
    };
    pub const AVX512: Loops = Loops {
        instructions: "avx512",
        float: Loop { run: float_512, lanes: 16 },
        int16: Loop { run: int16_512, lanes: 32 },
        int8: Loop { run: int8_512, lanes: 64 },
    };
    pub const AVX2: Loops = Loops {
        instructions: "avx2",
        float: Loop { run: float_256, lanes: 8 },
        int16: Loop { run: int16_256, lanes: 16 },
        int8: Loop { run: int8_256, lanes: 32 },
    };

    rounds!(
        #[target_feature(enable = "avx512f")]
        float_512,
        _mm512_set1_ps(0.5),
        |sum, x, y| _mm512_fmadd_ps(sum, x, y)
    );
    rounds!(
        #[target_feature(enable = "avx512f,avx512vnni")]
        int16_vnni,
        _mm512_set1_epi32(3),
        |sum, x, y| _mm512_dpwssd_epi32(sum, x, y)
    );
    rounds!(
        #[target_feature(enable = "avx512f,avx512vnni")]
        int8_vnni,
        _mm512_set1_epi32(3),
        |sum, x, y| _mm512_dpbusd_epi32(sum, x, y)
    );
    rounds!(
        #[target_feature(enable = "avx512f,avx512bw")]
        int16_512,
        _mm512_set1_epi32(3),
        |sum, x, _| _mm512_add_epi32(sum, _mm512_madd_epi16(sum, x))
    );
    rounds!(
        #[target_feature(enable = "avx512f,avx512bw")]
        int8_512,
        _mm512_set1_epi32(3),
        |sum, x, y| _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(sum, x), y))
    );
    rounds!(
        #[target_feature(enable = "avx2,fma")]
        float_256,
        _mm256_set1_ps(0.5),
        |sum, x, y| _mm256_fmadd_ps(sum, x, y)
    );
    rounds!(
        #[target_feature(enable = "avx2")]
        int16_256,
        _mm256_set1_epi32(3),
        |sum, x, _| _mm256_add_epi32(sum, _mm256_madd_epi16(sum, x))
    );
    rounds!(
        #[target_feature(enable = "avx2")]
        int8_256,
        _mm256_set1_epi32(3),
        |sum, x, y| _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(sum, x), y))
    );
}

/// Products of 16-bit integers on the matrix unit, where there is one. It multiplies bytes, and takes four products for one.
pub(super) fn tiles() -> Option<Loop> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if Isa::named("amx").is_some() {
        /// Of 16 rows, 64 inputs and 16 outputs.
        const PRODUCTS: usize = 16 * 64 * 16;
        fn run(rounds: usize) {
            // SAFETY: the unit was seen to work before this was given out.
            unsafe { crate::kernel::amx::spin(rounds * CHAINS) }
        }
        return Some(Loop { run, lanes: PRODUCTS / 4 });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs_and_counts_its_operations() {
        for loops in Loops::available() {
            for test in [loops.float, loops.int16, loops.int8].into_iter().chain(tiles()) {
                assert_eq!(test.run(10), 2 * test.lanes * 12 * 10, "{loops:?}");
            }
        }
    }
}
