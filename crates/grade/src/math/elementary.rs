//! The elementary functions of a [`Real`]: exponential, logarithm, circular functions and their inverses.
//!
//! Each reduces its argument until a Taylor series of some thirty terms is enough, or starts from the `f64` value and
//! corrects it once or twice. Errors are tracked by the arithmetic itself.

use super::real::{BITS, Real};

/// Terms smaller than this, relative to one, are not added.
const NEGLIGIBLE: i64 = -(BITS + 8);

impl Real {
    /// `None` where the result is beyond what is worked with.
    pub(super) fn exp(self) -> Option<Self> {
        if self.exponent() > 50 {
            return None;
        }
        let doublings = self.div(Self::LN_2)?.round()?;
        let rest = self.sub(Self::LN_2.mul(Self::integer(doublings)));
        // e^r = (e^(r/256))^256, and the series for the small argument ends soon.
        let small = rest.scale(-8);
        let mut power = Self::ONE;
        let mut sum = Self::ONE;
        for n in 1..64 {
            power = power.mul(small).mul(Self::reciprocal(n));
            if power.may_be_zero() || power.exponent() < NEGLIGIBLE {
                break;
            }
            sum = sum.add(power);
        }
        for _ in 0..8 {
            sum = sum.mul(sum);
        }
        sum.with_error((1 - BITS) as f64).scale(doublings).checked()
    }

    /// The natural logarithm of a positive value.
    pub(super) fn ln(self) -> Option<Self> {
        if self.may_be_zero() || self.is_negative() {
            return None;
        }
        let mantissa = self.scale(-self.exponent());
        let mut guess = Self::from_f64(mantissa.to_f64().ln());
        for _ in 0..2 {
            let image = guess.exp()?;
            let step = mantissa.sub(image).div(mantissa.add(image))?.scale(1);
            guess = guess.add(step);
        }
        Some(guess.add(Self::LN_2.mul(Self::integer(self.exponent()))))
    }

    /// Sine and cosine; `None` for an argument so large that its place on the circle is not known.
    pub(super) fn sin_cos(self) -> Option<(Self, Self)> {
        if self.exponent() > 60 {
            return None;
        }
        let quarters = self.div(Self::HALF_PI)?.round()?;
        let rest = self.sub(Self::HALF_PI.mul(Self::integer(quarters)));
        let square = rest.mul(rest).neg();
        let (mut sine, mut cosine) = (rest, Self::ONE);
        let (mut odd, mut even) = (rest, Self::ONE);
        for n in 1..40 {
            even = even.mul(square).mul(Self::reciprocal((2 * n - 1) * 2 * n));
            odd = odd.mul(square).mul(Self::reciprocal(2 * n * (2 * n + 1)));
            if even.may_be_zero() || even.exponent() < NEGLIGIBLE {
                break;
            }
            cosine = cosine.add(even);
            sine = sine.add(odd);
        }
        let rounding = (1 - BITS) as f64;
        let (sine, cosine) = (sine.with_error(rounding), cosine.with_error(rounding));
        Some(match quarters.rem_euclid(4) {
            0 => (sine, cosine),
            1 => (cosine, sine.neg()),
            2 => (sine.neg(), cosine.neg()),
            _ => (cosine.neg(), sine),
        })
    }

    /// The angle of the point (`x`, `self`), in (-π, π].
    pub(super) fn atan2(self, x: Self) -> Option<Self> {
        let length = x.mul(x).add(self.mul(self)).sqrt()?;
        if length.may_be_zero() {
            return None;
        }
        let (cosine, sine) = (x.div(length)?, self.div(length)?);
        let guess = Self::from_f64(sine.to_f64().atan2(cosine.to_f64()));
        let (guess_sine, guess_cosine) = guess.sin_cos()?;
        // The sine of what is left is below 2^-50, and the series of the arcsine ends after four terms.
        let rest = sine.mul(guess_cosine).sub(cosine.mul(guess_sine));
        let square = rest.mul(rest);
        let mut correction = rest;
        let mut power = rest;
        for (over, under) in [(1, 6), (3, 40), (15, 336)] {
            power = power.mul(square);
            correction = correction.add(power.mul(Self::integer(over)).div(Self::integer(under))?);
        }
        Some(guess.add(correction))
    }

    pub(super) fn pi() -> Self {
        Self::HALF_PI.scale(1)
    }

    /// `1/n` of a small `n`, from a table made once.
    fn reciprocal(n: i64) -> Self {
        use std::sync::LazyLock;
        static TABLE: LazyLock<Vec<Real>> = LazyLock::new(|| {
            (0..=REACH).map(|n| Real::ONE.div(Real::integer(n)).unwrap_or(Real::ZERO)).collect()
        });
        const REACH: i64 = 80 * 81;
        TABLE[n as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::real::Verdict;

    fn same(a: Real, b: Real) -> bool {
        a.same(b) == Verdict::Equal
    }

    fn fraction(over: i64, under: i64) -> Real {
        Real::integer(over).div(Real::integer(under)).unwrap()
    }

    #[test]
    fn functions_agree_with_f64() {
        for over in [-700, -31, -5, -1, 1, 2, 3, 10, 77, 500] {
            for under in [1, 3, 7, 100] {
                let (x, float) = (fraction(over, under), over as f64 / under as f64);
                let close = |ours: Real, theirs: f64| {
                    let error = (ours.to_f64() - theirs).abs();
                    assert!(error <= 1e-13 * theirs.abs().max(1e-2), "{over}/{under}: {ours:?} {theirs}");
                };
                close(x.exp().unwrap(), float.exp());
                let (sine, cosine) = x.sin_cos().unwrap();
                close(sine, float.sin());
                close(cosine, float.cos());
                close(x.atan2(Real::ONE).unwrap(), float.atan());
                close(Real::ONE.atan2(x).unwrap(), 1f64.atan2(float));
                if over > 0 {
                    close(x.ln().unwrap(), float.ln());
                    close(x.sqrt().unwrap(), float.sqrt());
                }
            }
        }
    }

    #[test]
    fn identities_hold_to_the_last_digits() {
        for over in [1, 2, 3, 10, 77, 500] {
            let x = fraction(over, 7);
            assert!(same(x.ln().unwrap().exp().unwrap(), x), "{over}");
            assert!(same(x.exp().unwrap().ln().unwrap(), x), "{over}");
            let root = x.sqrt().unwrap();
            assert!(same(root.mul(root), x), "{over}");
            let (sine, cosine) = x.sin_cos().unwrap();
            assert!(same(sine.mul(sine).add(cosine.mul(cosine)), Real::ONE), "{over}");
            let (sine, cosine) = x.atan2(Real::ONE).unwrap().sin_cos().unwrap();
            assert!(same(sine.div(cosine).unwrap(), x), "{over}");
        }
        assert!(same(Real::integer(2).ln().unwrap(), Real::LN_2));
        assert!(same(Real::ONE.atan2(Real::ZERO).unwrap(), Real::HALF_PI));
        assert!(same(Real::pi().sin_cos().unwrap().0, Real::ZERO));
    }

    #[test]
    fn neighbours_are_told_apart_at_any_size() {
        for exponent in [-100_000, -99, 0, 99, 100_000] {
            let x = fraction(1, 3).scale(exponent);
            assert!(!same(x, x.scale(1)), "{exponent}");
            assert!(!same(x, x.add(x.scale(-200))), "{exponent}");
            assert!(same(x, x.mul(Real::integer(3)).div(Real::integer(3)).unwrap()), "{exponent}");
        }
    }

    #[test]
    fn what_cancellation_destroyed_is_not_called_equal() {
        let third = fraction(1, 3);
        let large = Real::ONE.scale(250);
        let left = third.add(large).sub(large);
        assert_eq!(left.same(third), Verdict::Unknown);
    }
}
