//! Real numbers of 256 bits that know how wrong they may be.
//!
//! Where an answer holds roots, π or functions it has no exact fraction, and two such answers are compared by
//! value. Sixteen digits are not enough for that (`2^{100}\pi` and `(2^{100}+1)\pi` differ in the thirtieth), and a fixed
//! tolerance would be wrong for both very small and very large values. So every [`Real`] carries a bound on its own
//! absolute error through every operation, and two values are equal when they lie within their bounds of each
//! other: subtracting nearly equal numbers widens the bound relative to the value, and a comparison that has
//! become meaningless says so instead of guessing.
//!
//! A value is `±0.m · 2^exponent` with a mantissa of four 64-bit limbs and its top bit set. The exponent has 64 bits, so
//! `10^{10^{10}}` is a number like any other.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};
use num_rational::BigRational;

const LIMBS: usize = 4;
pub(super) const BITS: i64 = 64 * LIMBS as i64;
/// Beyond this exponent a value is not worked with: an operation at most doubles an exponent, so that none
/// overflows between two checks.
const MAX_EXPONENT: i64 = 1 << 44;

/// A number with a bound on its error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Real {
    negative: bool,
    exponent: i64,
    /// Least significant first; all zero for zero.
    limbs: [u64; LIMBS],
    /// The binary logarithm of the bound on the absolute error; minus infinity where the value is exact.
    error: f64,
}

/// What comparing two inexact values tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Equal,
    Different,
    /// Too little precision was left to tell.
    Unknown,
}

impl Real {
    pub(super) const ZERO: Self =
        Self { negative: false, exponent: 0, limbs: [0; LIMBS], error: f64::NEG_INFINITY };
    pub(super) const ONE: Self =
        Self { negative: false, exponent: 1, limbs: [0, 0, 0, 1 << 63], error: f64::NEG_INFINITY };
    pub(super) const HALF_PI: Self = Self {
        negative: false,
        exponent: 1,
        limbs: [0x020b_bea6_3b13_9b22, 0x2902_4e08_8a67_cc74, 0xc4c6_628b_80dc_1cd1, 0xc90f_daa2_2168_c234],
        error: -255.0,
    };
    pub(super) const LN_2: Self = Self {
        negative: false,
        exponent: 0,
        limbs: [0x8a0d_175b_8baa_fa2c, 0x40f3_4326_7298_b62d, 0xc9e3_b398_03f2_f6af, 0xb172_17f7_d1cf_79ab],
        error: -256.0,
    };

    pub(super) fn integer(value: i64) -> Self {
        Self::from_limbs(value < 0, [value.unsigned_abs(), 0, 0, 0], BITS, f64::NEG_INFINITY)
    }

    /// An `f64` as the exact number it is; the seed of an iteration.
    pub(super) fn from_f64(value: f64) -> Self {
        if value == 0.0 || !value.is_finite() {
            return Self::ZERO;
        }
        // Scaled to an integer of 53 bits by its own exponent.
        let shift = 53 - (value.abs().log2().floor() as i32 + 1);
        let scaled = (value.abs() * 2f64.powi(shift / 2)) * 2f64.powi(shift - shift / 2);
        Self::from_limbs(value < 0.0, [scaled as u64, 0, 0, 0], BITS - i64::from(shift), f64::NEG_INFINITY)
    }

    pub(super) fn from_rational(value: &BigRational) -> Option<Self> {
        let over = Self::from_big(value.numer())?;
        if value.is_integer() {
            return Some(over);
        }
        over.div(Self::from_big(value.denom())?)
    }

    fn from_big(value: &BigInt) -> Option<Self> {
        let magnitude: &BigUint = value.magnitude();
        let bits = i64::try_from(magnitude.bits()).ok()?;
        let dropped = (bits - BITS).max(0);
        let top = magnitude >> dropped as u64;
        let mut limbs = [0; LIMBS];
        for (limb, digit) in limbs.iter_mut().zip(top.iter_u64_digits()) {
            *limb = digit;
        }
        let error = if dropped == 0 { f64::NEG_INFINITY } else { dropped as f64 };
        Some(Self::from_limbs(value.sign() == Sign::Minus, limbs, BITS + dropped, error))
    }

    /// Moves the top bit of the mantissa to its place.
    fn from_limbs(negative: bool, mut limbs: [u64; LIMBS], mut exponent: i64, error: f64) -> Self {
        let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else {
            return Self { error, ..Self::ZERO };
        };
        let shift = 64 * (LIMBS - 1 - top) as u32 + limbs[top].leading_zeros();
        if shift > 0 {
            limbs = shift_left(limbs, shift);
            exponent -= i64::from(shift);
        }
        Self { negative, exponent, limbs, error }
    }

    pub(super) fn is_negative(self) -> bool {
        self.negative
    }

    pub(super) fn is_exact_zero(self) -> bool {
        self.limbs[LIMBS - 1] == 0 && self.error == f64::NEG_INFINITY
    }

    /// Could this be zero, as far as its error tells?
    pub(super) fn may_be_zero(self) -> bool {
        self.limbs[LIMBS - 1] == 0 || (self.exponent - 1) as f64 <= self.error
    }

    /// The binary logarithm of a bound on the magnitude.
    fn size(self) -> f64 {
        if self.limbs[LIMBS - 1] == 0 { f64::NEG_INFINITY } else { self.exponent as f64 }
    }

    pub(super) fn exponent(self) -> i64 {
        self.exponent
    }

    /// The mantissa as an `f64` in [1/2, 1), with its sign; zero for zero.
    pub(super) fn mantissa(self) -> f64 {
        let magnitude = (self.limbs[LIMBS - 1] >> 11) as f64 / (1u64 << 53) as f64;
        if self.negative { -magnitude } else { magnitude }
    }

    /// As an `f64`, zero or infinite where it does not fit.
    pub(super) fn to_f64(self) -> f64 {
        let exponent = self.exponent.clamp(-2000, 2000) as i32;
        self.mantissa() * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
    }

    /// The nearest integer, if it fits and is known.
    pub(super) fn round(self) -> Option<i64> {
        if self.exponent > 62 || self.error > 60.0 {
            return None;
        }
        if self.exponent < 0 {
            return Some(0);
        }
        // `exponent` bits before the point; one more for rounding.
        let keep = self.exponent as u32 + 1;
        let doubled = (self.limbs[LIMBS - 1] >> (64 - keep)) as i64;
        let magnitude = (doubled + 1) >> 1;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// `self · 2^shift`.
    pub(super) fn scale(self, shift: i64) -> Self {
        Self { exponent: self.exponent + shift, error: self.error + shift as f64, ..self }
    }

    pub(super) fn neg(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    pub(super) fn abs(self) -> Self {
        Self { negative: false, ..self }
    }

    /// The same value, less certain by `2^error`.
    pub(super) fn with_error(self, error: f64) -> Self {
        Self { error: log_sum(self.error, error), ..self }
    }

    /// `None` where the value has outgrown what is worked with.
    pub(super) fn checked(self) -> Option<Self> {
        (self.exponent.abs() <= MAX_EXPONENT).then_some(self)
    }

    pub(super) fn add(self, other: Self) -> Self {
        let error = log_sum(self.error, other.error);
        if self.limbs[LIMBS - 1] == 0 {
            return Self { error, ..other };
        }
        if other.limbs[LIMBS - 1] == 0 {
            return Self { error, ..self };
        }
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let distance = large.exponent - small.exponent;
        if distance >= BITS {
            return Self { error: log_sum(error, small.exponent as f64), ..large };
        }
        let (aligned, lost) = shift_right(small.limbs, distance as u32);
        let rounding = if lost { (large.exponent - BITS) as f64 } else { f64::NEG_INFINITY };
        let error = log_sum(error, rounding);
        if large.negative == small.negative {
            let (sum, carry) = add_limbs(large.limbs, aligned);
            if !carry {
                return Self { limbs: sum, error, ..large };
            }
            let (mut limbs, lost) = shift_right(sum, 1);
            limbs[LIMBS - 1] |= 1 << 63;
            let exponent = large.exponent + 1;
            let rounding = if lost { (exponent - BITS) as f64 } else { f64::NEG_INFINITY };
            return Self { limbs, exponent, error: log_sum(error, rounding), ..large };
        }
        match compare_limbs(&large.limbs, &aligned) {
            Ordering::Less => {
                let limbs = subtract_limbs(aligned, large.limbs);
                Self::from_limbs(small.negative, limbs, large.exponent, error)
            }
            _ => {
                let limbs = subtract_limbs(large.limbs, aligned);
                Self::from_limbs(large.negative, limbs, large.exponent, error)
            }
        }
    }

    pub(super) fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }

    pub(super) fn mul(self, other: Self) -> Self {
        let cross = log_sum(self.size() + other.error, other.size() + self.error);
        let error = log_sum(cross, self.error + other.error);
        if self.limbs[LIMBS - 1] == 0 || other.limbs[LIMBS - 1] == 0 {
            return Self { error, ..Self::ZERO };
        }
        let (high, low) = multiply_limbs(&self.limbs, &other.limbs);
        let mut limbs = high;
        let mut exponent = self.exponent + other.exponent;
        if high[LIMBS - 1] >> 63 == 0 {
            limbs = shift_left(high, 1);
            limbs[0] |= low[LIMBS - 1] >> 63;
            exponent -= 1;
        }
        let exact = low == [0; LIMBS];
        let rounding = if exact { f64::NEG_INFINITY } else { (exponent - BITS) as f64 };
        Self { negative: self.negative != other.negative, exponent, limbs, error: log_sum(error, rounding) }
    }

    /// `None` for a divisor that may be zero.
    pub(super) fn div(self, other: Self) -> Option<Self> {
        if other.may_be_zero() {
            return None;
        }
        let power = other.limbs[..LIMBS - 1] == [0; LIMBS - 1] && other.limbs[LIMBS - 1] == 1 << 63;
        if power && other.error == f64::NEG_INFINITY {
            let quotient = self.scale(1 - other.exponent);
            return Some(if other.negative { quotient.neg() } else { quotient });
        }
        Some(self.mul(other.inverse()))
    }

    /// `1 / self` of a value that is not zero, by Newton's iteration from a seed of 53 bits.
    fn inverse(self) -> Self {
        let divisor = Self { exponent: 0, error: f64::NEG_INFINITY, ..self };
        let two = Self::integer(2);
        let mut inverse = Self::from_f64(1.0 / self.mantissa());
        for _ in 0..3 {
            inverse = inverse.mul(two.sub(divisor.mul(inverse)));
        }
        let result = Self { exponent: inverse.exponent - self.exponent, ..inverse };
        // The iteration corrects its own rounding: what is left is that of the last step, and the error that came in.
        let rounding = (result.exponent - BITS + 4) as f64;
        let inherited = self.error - 2.0 * (self.exponent - 1) as f64 + 1.0;
        Self { error: log_sum(rounding, inherited), ..result }
    }

    /// The root of a value that is not negative.
    pub(super) fn sqrt(self) -> Option<Self> {
        if self.may_be_zero() {
            return Some(Self { error: log_sum(self.size(), self.error) / 2.0, ..Self::ZERO });
        }
        if self.negative {
            return None;
        }
        let odd = self.exponent.rem_euclid(2);
        let reduced = Self { exponent: -odd, error: f64::NEG_INFINITY, ..self };
        let three = Self::integer(3);
        let mut inverse = Self::from_f64(1.0 / reduced.to_f64().sqrt());
        for _ in 0..3 {
            inverse = inverse.mul(three.sub(reduced.mul(inverse).mul(inverse))).scale(-1);
        }
        let root = reduced.mul(inverse);
        let result = Self { exponent: root.exponent + (self.exponent + odd) / 2, ..root };
        let rounding = (result.exponent - BITS + 5) as f64;
        let inherited = self.error - (result.exponent - 1) as f64;
        Some(Self { error: log_sum(rounding, inherited), ..result })
    }

    /// `self^power` by squaring.
    pub(super) fn powi(self, power: u64) -> Option<Self> {
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

    /// The order of two values that are certainly different.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        let difference = self.sub(other);
        if difference.is_exact_zero() {
            return Some(Ordering::Equal);
        }
        match (difference.may_be_zero(), difference.negative) {
            (true, _) => None,
            (false, true) => Some(Ordering::Less),
            (false, false) => Some(Ordering::Greater),
        }
    }

    /// Are these the same number?
    ///
    /// A difference within the error means equality only while the error is small: 80 bits below the values,
    /// or, for values that are zero as far as is known, below `2^-120`.
    pub(super) fn same(self, other: Self) -> Verdict {
        let difference = self.sub(other);
        if !difference.may_be_zero() {
            return Verdict::Different;
        }
        let size = self.size().max(other.size());
        if difference.error <= size - 80.0 || difference.error <= -120.0 {
            return Verdict::Equal;
        }
        Verdict::Unknown
    }
}

/// `log2(2^a + 2^b)`, rounded up where it is cheap to.
fn log_sum(a: f64, b: f64) -> f64 {
    let (large, small) = if a >= b { (a, b) } else { (b, a) };
    let distance = large - small;
    // Also where either is minus infinity, and where both are (the distance is then not a number).
    if distance.is_nan() || distance > 30.0 {
        return if small == f64::NEG_INFINITY { large } else { large + 1e-9 };
    }
    large + (-distance).exp2().ln_1p() * std::f64::consts::LOG2_E
}

fn shift_left(limbs: [u64; LIMBS], by: u32) -> [u64; LIMBS] {
    let (whole, bits) = ((by / 64) as usize, by % 64);
    let mut result = [0; LIMBS];
    for (source, target) in result[whole..].iter_mut().enumerate() {
        *target = limbs[source] << bits;
        if bits > 0 && source > 0 {
            *target |= limbs[source - 1] >> (64 - bits);
        }
    }
    result
}

/// The shifted limbs, and whether a set bit fell off.
fn shift_right(limbs: [u64; LIMBS], by: u32) -> ([u64; LIMBS], bool) {
    let (whole, bits) = ((by / 64) as usize, by % 64);
    let mut lost = limbs[..whole].iter().any(|&limb| limb != 0);
    let mut result = [0; LIMBS];
    for (target, &limb) in limbs[whole..].iter().enumerate() {
        result[target] = limb >> bits;
        if bits > 0 {
            let fallen = limb << (64 - bits);
            if target > 0 {
                result[target - 1] |= fallen;
            } else {
                lost |= fallen != 0;
            }
        }
    }
    (result, lost)
}

fn add_limbs(a: [u64; LIMBS], b: [u64; LIMBS]) -> ([u64; LIMBS], bool) {
    let mut sum = [0; LIMBS];
    let mut carry = false;
    for at in 0..LIMBS {
        let (partial, first) = a[at].overflowing_add(b[at]);
        let (total, second) = partial.overflowing_add(carry.into());
        sum[at] = total;
        carry = first || second;
    }
    (sum, carry)
}

/// `a - b` of `a >= b`.
fn subtract_limbs(a: [u64; LIMBS], b: [u64; LIMBS]) -> [u64; LIMBS] {
    let mut difference = [0; LIMBS];
    let mut borrow = false;
    for at in 0..LIMBS {
        let (partial, first) = a[at].overflowing_sub(b[at]);
        let (total, second) = partial.overflowing_sub(borrow.into());
        difference[at] = total;
        borrow = first || second;
    }
    difference
}

fn compare_limbs(a: &[u64; LIMBS], b: &[u64; LIMBS]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

/// The high and the low half of the product.
fn multiply_limbs(a: &[u64; LIMBS], b: &[u64; LIMBS]) -> ([u64; LIMBS], [u64; LIMBS]) {
    let mut product = [0u64; 2 * LIMBS];
    for (i, &left) in a.iter().enumerate() {
        let mut carry = 0u128;
        for (j, &right) in b.iter().enumerate() {
            let total = u128::from(left) * u128::from(right) + u128::from(product[i + j]) + carry;
            product[i + j] = total as u64;
            carry = total >> 64;
        }
        product[i + LIMBS] = carry as u64;
    }
    let (mut low, mut high) = ([0; LIMBS], [0; LIMBS]);
    low.copy_from_slice(&product[..LIMBS]);
    high.copy_from_slice(&product[LIMBS..]);
    (high, low)
}
