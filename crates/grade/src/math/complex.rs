//! Complex numbers over [`Real`], with the principal values of roots and logarithms.

use super::real::{Real, Verdict};

#[derive(Debug, Clone, Copy)]
pub(super) struct Complex {
    pub(super) re: Real,
    pub(super) im: Real,
}

impl Complex {
    pub(super) const ONE: Self = Self { re: Real::ONE, im: Real::ZERO };
    pub(super) const I: Self = Self { re: Real::ZERO, im: Real::ONE };

    pub(super) fn real(re: Real) -> Self {
        Self { re, im: Real::ZERO }
    }

    pub(super) fn is_real(self) -> bool {
        self.im.is_exact_zero()
    }

    pub(super) fn may_be_zero(self) -> bool {
        self.re.may_be_zero() && self.im.may_be_zero()
    }

    pub(super) fn neg(self) -> Self {
        Self { re: self.re.neg(), im: self.im.neg() }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { re: self.re.add(other.re), im: self.im.add(other.im) }
    }

    pub(super) fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }

    pub(super) fn mul(self, other: Self) -> Self {
        if self.is_real() && other.is_real() {
            return Self::real(self.re.mul(other.re));
        }
        Self {
            re: self.re.mul(other.re).sub(self.im.mul(other.im)),
            im: self.re.mul(other.im).add(self.im.mul(other.re)),
        }
    }

    pub(super) fn div(self, other: Self) -> Option<Self> {
        if other.is_real() {
            let im = if self.is_real() { Real::ZERO } else { self.im.div(other.re)? };
            return Some(Self { re: self.re.div(other.re)?, im });
        }
        let norm = other.norm();
        let product = self.mul(Self { re: other.re, im: other.im.neg() });
        Some(Self { re: product.re.div(norm)?, im: product.im.div(norm)? })
    }

    /// The square of the magnitude.
    fn norm(self) -> Real {
        self.re.mul(self.re).add(self.im.mul(self.im))
    }

    pub(super) fn abs(self) -> Option<Real> {
        if self.is_real() { Some(self.re.abs()) } else { self.norm().sqrt() }
    }

    pub(super) fn exp(self) -> Option<Self> {
        let size = self.re.exp()?;
        if self.is_real() {
            return Some(Self::real(size));
        }
        let (sine, cosine) = self.im.sin_cos()?;
        Some(Self { re: size.mul(cosine), im: size.mul(sine) })
    }

    pub(super) fn ln(self) -> Option<Self> {
        if self.is_real() && !self.re.is_negative() {
            return Some(Self::real(self.re.ln()?));
        }
        Some(Self { re: self.abs()?.ln()?, im: self.im.atan2(self.re)? })
    }

    pub(super) fn powi(self, power: u64) -> Option<Self> {
        if self.is_real() {
            return Some(Self::real(self.re.powi(power)?));
        }
        let (mut result, mut square, mut left) = (Self::ONE, self, power);
        loop {
            if left & 1 == 1 {
                result = result.mul(square).checked()?;
            }
            left >>= 1;
            if left == 0 {
                return Some(result);
            }
            square = square.mul(square).checked()?;
        }
    }

    pub(super) fn pow(self, exponent: Self) -> Option<Self> {
        if self.may_be_zero() {
            let vanishes = !exponent.re.may_be_zero() && !exponent.re.is_negative();
            return vanishes.then_some(Self::real(Real::ZERO));
        }
        exponent.mul(self.ln()?).exp()
    }

    pub(super) fn sin_cos(self) -> Option<(Self, Self)> {
        if self.is_real() {
            let (sine, cosine) = self.re.sin_cos()?;
            return Some((Self::real(sine), Self::real(cosine)));
        }
        let forward = self.mul(Self::I).exp()?;
        let backward = self.mul(Self::I).neg().exp()?;
        let two = Self::real(Real::integer(2));
        let sine = forward.sub(backward).div(two.mul(Self::I))?;
        Some((sine, forward.add(backward).div(two)?))
    }

    pub(super) fn checked(self) -> Option<Self> {
        Some(Self { re: self.re.checked()?, im: self.im.checked()? })
    }

    pub(super) fn same(self, other: Self) -> Verdict {
        if self.is_real() && other.is_real() {
            return self.re.same(other.re);
        }
        // One part may be zero within an error that only the other part's size makes small.
        let difference = self.sub(other);
        if !difference.re.may_be_zero() || !difference.im.may_be_zero() {
            return Verdict::Different;
        }
        match (self.abs(), other.abs()) {
            (Some(a), Some(b)) => a.same(b),
            _ => Verdict::Unknown,
        }
    }
}
