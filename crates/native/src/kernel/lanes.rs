//! Sixteen floats that move together: one AVX-512 register, two of AVX2, four of NEON.

use half::f16;

/// Floats in a [`Lanes`].
pub(crate) const LANES: usize = 16;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub [f32; LANES]);

impl Lanes {
    pub const ZERO: Lanes = Lanes([0.0; LANES]);

    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        Lanes([value; LANES])
    }

    /// From exactly [`LANES`] floats.
    #[inline(always)]
    pub fn load(from: &[f32]) -> Self {
        Lanes(*<&[f32; LANES]>::try_from(from).expect("exactly LANES of them"))
    }

    /// To exactly [`LANES`] floats.
    #[inline(always)]
    pub fn store(&self, into: &mut [f32]) {
        *<&mut [f32; LANES]>::try_from(into).expect("exactly LANES of them") = self.0;
    }

    /// From exactly [`LANES`] half-precision floats.
    #[inline(always)]
    pub fn load_half<const FMA: bool>(from: &[f16]) -> Self {
        let from: &[f16; LANES] = from.try_into().expect("exactly LANES of them");
        #[cfg(target_arch = "x86_64")]
        if FMA {
            // SAFETY: FMA is true only in functions compiled for, and run on, machines with AVX and F16C (see
            // `multiversion!`). The loads read 16 bytes each from an array of 32, the store writes 64 bytes to `lanes`.
            unsafe {
                use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
                let mut lanes = Self::ZERO;
                for half in 0..2 {
                    let bits = _mm_loadu_si128(from.as_ptr().add(8 * half).cast());
                    _mm256_storeu_ps(lanes.0.as_mut_ptr().add(8 * half), _mm256_cvtph_ps(bits));
                }
                return lanes;
            }
        }
        Lanes(from.map(half_to_f32))
    }

    /// In half precision, to the nearest. What that cannot hold becomes the largest number that it can, and what is no
    /// number becomes zero.
    #[inline(always)]
    pub fn to_half<const FMA: bool>(self) -> [f16; LANES] {
        const MOST: f32 = f16::MAX.to_f32_const();
        let held = self.map(|x| {
            let x = if x < MOST {
                x
            } else if x >= MOST {
                MOST
            } else {
                0.0
            };
            if x > -MOST { x } else { -MOST }
        });
        #[cfg(target_arch = "x86_64")]
        if FMA {
            // SAFETY: FMA is true only in functions compiled for, and run on, machines with AVX and F16C (see
            // `multiversion!`). The loads read 32 bytes each from an array of 64, the stores write 16 each to one of 32.
            unsafe {
                use std::arch::x86_64::{
                    _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
                };
                let mut halves = [f16::ZERO; LANES];
                for at in [0, 8] {
                    let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(
                        held.0.as_ptr().add(at),
                    ));
                    _mm_storeu_si128(halves.as_mut_ptr().add(at).cast(), bits);
                }
                return halves;
            }
        }
        held.0.map(f16::from_f32)
    }

    /// `self += a * b`, fused where the machine fuses.
    #[inline(always)]
    pub fn add_product<const FMA: bool>(&mut self, a: f32, b: &Lanes) {
        for i in 0..LANES {
            self.0[i] = fma::<FMA>(a, b.0[i], self.0[i]);
        }
    }

    #[inline(always)]
    pub fn plus(&self, other: &Lanes) -> Self {
        let mut out = *self;
        for i in 0..LANES {
            out.0[i] += other.0[i];
        }
        out
    }

    #[inline(always)]
    pub fn map(self, f: impl Fn(f32) -> f32) -> Self {
        let mut out = self;
        for value in &mut out.0 {
            *value = f(*value);
        }
        out
    }

    /// The sum of the lanes, folded in halves: a fixed order that vector units do well.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        self.fold(|a, b| a + b)
    }

    #[inline(always)]
    pub fn max(self) -> f32 {
        self.fold(|a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn fold(mut self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                self.0[i] = f(self.0[i], self.0[i + half]);
            }
            half /= 2;
        }
        self.0[0]
    }
}

/// 1.5 * 2^23: adding it to a number well below rounds that to the nearest whole number and leaves it, in two's complement, in
/// the lowest bits. Taking it away again gives the whole number as a float.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// `a * b + c`. Without hardware support a fused form would be a slow library call, so it is spelled out.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Exact for every finite number: the exponent is moved to its place and corrected by a multiplication, which also gives
/// subnormal numbers their value. Keys and values are finite.
#[inline(always)]
fn half_to_f32(half: f16) -> f32 {
    /// 2 to the power of (127 - 15), the difference of the exponents' biases.
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(half.to_bits());
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

/// `e^x` to about one part in ten million, in operations that vectorise; 0 below the smallest normal number.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that n * ln 2 is exact in the first.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.3, 88.3);
    let rounded = fma::<FMA>(clamped, LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = fma::<FMA>(n, -LN2_LOW, fma::<FMA>(n, -LN2_HIGH, clamped));
    // Taylor to the sixth power: |r| is at most ln(2) / 2.
    let mut p = 1.0 / 720.0;
    for c in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = fma::<FMA>(p, r, c);
    }
    // The whole number is in the lowest bits of `rounded`: moved to the exponent, all above it falls out.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    if x < -87.3 { 0.0 } else { p * power }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Isa;
    use crate::kernel::isa::multiversion;

    #[test]
    fn every_finite_half_is_read_exactly() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(half_to_f32(half).to_bits(), half.to_f32().to_bits(), "{half}");
            }
        }
    }

    #[test]
    fn half_precision_is_the_nearest_and_finite() {
        let cases = [
            (0.0, 0.0),
            (1.0 / 3.0, f16::from_f32(1.0 / 3.0).to_f32()),
            (-65504.0, -65504.0),
            (65519.9, 65504.0),
            (1e9, 65504.0),
            (f32::INFINITY, 65504.0),
            (f32::NEG_INFINITY, -65504.0),
            (f32::NAN, 0.0),
            (-f32::NAN, 0.0),
        ];
        for (x, want) in cases {
            for got in [Lanes::splat(x).to_half::<false>(), to_half_fast(Isa::detect(), Lanes::splat(x))] {
                assert!(got.iter().all(|half| half.to_f32() == want), "{x} became {}", got[0]);
            }
        }
    }

    multiversion! {
        fn to_half_fast(lanes: Lanes) -> [f16; LANES] = to_half_lanes
    }

    #[inline(always)]
    fn to_half_lanes<const FMA: bool>(lanes: Lanes) -> [f16; LANES] {
        lanes.to_half::<FMA>()
    }

    #[test]
    fn exp_is_accurate() {
        for i in -8_700..8_800 {
            let x = i as f32 / 100.0;
            for got in [exp::<true>(x), exp::<false>(x)] {
                let want = f64::from(x).exp();
                assert!((f64::from(got) - want).abs() <= 4e-7 * want, "exp({x}) = {got}, not {want}");
            }
        }
        assert_eq!(exp::<true>(0.0), 1.0);
        assert_eq!(exp::<true>(-200.0), 0.0);
        assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
    }
}
