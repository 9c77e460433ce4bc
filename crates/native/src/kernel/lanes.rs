//! Sixteen floats that move together: one AVX-512 register, two of AVX2, four of NEON.

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

    /// `self += a * b`, fused where the machine fuses.
    #[inline(always)]
    pub fn add_product<const FMA: bool>(&mut self, a: f32, b: &Lanes) {
        for i in 0..LANES {
            self.0[i] = fma::<FMA>(a, b.0[i], self.0[i]);
        }
    }

    /// The sum of the lanes, folded in halves: a fixed order that vector units do well.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        fold(self.0, |a, b| a + b)
    }

    #[inline(always)]
    pub fn max(self) -> f32 {
        fold(self.0, |a, b| if a > b { a } else { b })
    }
}

/// Lanes into one, by halves.
#[inline(always)]
pub(crate) fn fold<T: Copy>(mut lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// 1.5 * 2^23: adding it to a number well below rounds that to the nearest whole number and leaves it, in two's complement, in
/// the lowest bits. Taking it away again gives the whole number as a float.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// `a * b + c`. Without hardware support a fused form would be a slow library call, so it is spelled out.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
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

/// `2^x` for numbers up to 127, to about one part in ten million; 0 where it would be less than the smallest normal number,
/// or nearly so. Less work than [`exp`].
#[inline(always)]
pub(crate) fn exp2<const FMA: bool>(x: f32) -> f32 {
    exp2_within::<FMA>(if x > EXP2_LEAST { x } else { EXP2_LEAST })
}

/// [`exp2`] for numbers that are not below [`EXP2_LEAST`]. What is no number stays none.
#[inline(always)]
pub(crate) fn exp2_within<const FMA: bool>(x: f32) -> f32 {
    let rounded = x + EXP2_ROUND;
    let r = x - (rounded - EXP2_ROUND);
    let mut p = EXP2[0];
    for &c in &EXP2[1..] {
        p = fma::<FMA>(p, r, c);
    }
    // The whole number, with 127 added, is in the lowest bits of `rounded`: moved to the exponent, all above it falls out.
    p * f32::from_bits(rounded.to_bits() << 23)
}

/// Rounds as [`ROUND`] does, and adds what exponents of floats begin at.
pub(super) const EXP2_ROUND: f32 = ROUND + 127.0;

/// Its exponent is that of zero.
pub(super) const EXP2_LEAST: f32 = -127.0;

/// The polynomial of [`exp2`]: not Taylor's coefficients from the third on, but those that come nearest to 2^r for all |r| up to
/// a half.
pub(super) const EXP2: [f32; 6] =
    [1.330_060_5e-3, 9.669_691e-3, 5.550_558_5e-2, 0.240_222_83, std::f32::consts::LN_2, 1.0];

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn exp2_is_accurate() {
        for i in -126_000..=127_000 {
            let x = i as f32 / 1000.0;
            for got in [exp2::<true>(x), exp2::<false>(x)] {
                let want = f64::from(x).exp2();
                assert!((f64::from(got) - want).abs() <= 3e-7 * want, "2^{x} = {got}, not {want}");
            }
        }
        assert_eq!(exp2::<true>(0.0), 1.0);
        assert!(exp2::<true>(-126.1) < f32::MIN_POSITIVE);
        assert_eq!(exp2::<true>(-126.6), 0.0);
        assert_eq!(exp2::<true>(-1e30), 0.0);
        assert_eq!(exp2::<true>(f32::NEG_INFINITY), 0.0);
        // Whatever the score of a token was, others' weights stay what they are.
        assert_eq!(exp2::<true>(f32::NAN), 0.0);
    }
}
