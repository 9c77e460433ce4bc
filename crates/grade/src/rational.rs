//! Exact fractions of `i128`.
//!
//! Grading must not round: `1/3*3` is 1, and a float would only nearly say so. A fraction is always in lowest
//! terms with a positive denominator, so two fractions are equal exactly when their fields are. Every operation
//! is checked: a value that does not fit is an error, never a wrong number.

use std::fmt;

/// Why an exact operation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArithmeticError {
    #[error("division by zero")]
    DivisionByZero,
    #[error("the value does not fit in 128 bits")]
    Overflow,
}

/// A fraction in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: i128,
    denominator: i128,
}

impl Rational {
    /// `numerator / denominator`, reduced.
    pub fn new(numerator: i128, denominator: i128) -> Result<Self, ArithmeticError> {
        if denominator == 0 {
            return Err(ArithmeticError::DivisionByZero);
        }
        let divisor = gcd(numerator, denominator)?;
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        if denominator > 0 {
            return Ok(Self { numerator, denominator });
        }
        Ok(Self {
            numerator: numerator.checked_neg().ok_or(ArithmeticError::Overflow)?,
            denominator: denominator.checked_neg().ok_or(ArithmeticError::Overflow)?,
        })
    }

    /// The integer this fraction is, if it is one.
    pub fn to_integer(self) -> Option<i128> {
        (self.denominator == 1).then_some(self.numerator)
    }

    pub fn checked_neg(self) -> Result<Self, ArithmeticError> {
        let numerator = self.numerator.checked_neg().ok_or(ArithmeticError::Overflow)?;
        Ok(Self { numerator, ..self })
    }

    pub fn checked_add(self, other: Self) -> Result<Self, ArithmeticError> {
        // Over the least common denominator, not the product: sums that fit should not overflow on the way.
        let shared = gcd(self.denominator, other.denominator)?;
        let left = multiply(self.numerator, other.denominator / shared)?;
        let right = multiply(other.numerator, self.denominator / shared)?;
        let numerator = left.checked_add(right).ok_or(ArithmeticError::Overflow)?;
        Self::new(numerator, multiply(self.denominator, other.denominator / shared)?)
    }

    pub fn checked_sub(self, other: Self) -> Result<Self, ArithmeticError> {
        self.checked_add(other.checked_neg()?)
    }

    pub fn checked_mul(self, other: Self) -> Result<Self, ArithmeticError> {
        // Crosswise reduction first, for the same reason.
        let left = gcd(self.numerator, other.denominator)?;
        let right = gcd(other.numerator, self.denominator)?;
        Self::new(
            multiply(self.numerator / left, other.numerator / right)?,
            multiply(self.denominator / right, other.denominator / left)?,
        )
    }

    pub fn checked_div(self, other: Self) -> Result<Self, ArithmeticError> {
        self.checked_mul(Self::new(other.denominator, other.numerator)?)
    }
}

impl From<i64> for Rational {
    fn from(integer: i64) -> Self {
        Self { numerator: integer.into(), denominator: 1 }
    }
}

/// `7`, `-3`, `1/2`: a form that [`crate::number::parse`] reads back.
impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_integer() {
            Some(integer) => write!(f, "{integer}"),
            None => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

fn multiply(a: i128, b: i128) -> Result<i128, ArithmeticError> {
    a.checked_mul(b).ok_or(ArithmeticError::Overflow)
}

/// Greatest common divisor, at least 1 when either is not zero.
///
/// Worked out on magnitudes because `i128::MIN` has no absolute value of its own type; that magnitude is also
/// the one divisor that can fail to convert back.
fn gcd(a: i128, b: i128) -> Result<i128, ArithmeticError> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).map_err(|_| ArithmeticError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(numerator: i128, denominator: i128) -> Rational {
        Rational::new(numerator, denominator).unwrap()
    }

    #[test]
    fn fractions_are_kept_in_lowest_terms_with_a_positive_denominator() {
        for ((n, d), shown) in
            [((2, 4), "1/2"), ((3, -6), "-1/2"), ((-4, -2), "2"), ((0, -9), "0"), ((7, 1), "7")]
        {
            assert_eq!(fraction(n, d).to_string(), shown, "{n}/{d}");
        }
    }

    #[test]
    fn the_four_operations() {
        let (half, third) = (fraction(1, 2), fraction(1, 3));
        assert_eq!(half.checked_add(third), Ok(fraction(5, 6)));
        assert_eq!(half.checked_sub(third), Ok(fraction(1, 6)));
        assert_eq!(half.checked_mul(third), Ok(fraction(1, 6)));
        assert_eq!(half.checked_div(third), Ok(fraction(3, 2)));
    }

    #[test]
    fn a_zero_divisor_is_an_error() {
        assert_eq!(Rational::new(1, 0), Err(ArithmeticError::DivisionByZero));
        assert_eq!(fraction(1, 2).checked_div(0.into()), Err(ArithmeticError::DivisionByZero));
    }

    #[test]
    fn values_that_do_not_fit_are_errors() {
        let (most, least) = (fraction(i128::MAX, 1), fraction(i128::MIN, 1));
        assert_eq!(most.checked_add(1.into()), Err(ArithmeticError::Overflow));
        assert_eq!(most.checked_mul(2.into()), Err(ArithmeticError::Overflow));
        assert_eq!(least.checked_neg(), Err(ArithmeticError::Overflow));
        assert_eq!(Rational::new(1, i128::MIN), Err(ArithmeticError::Overflow));
        assert_eq!(Rational::new(i128::MIN, i128::MIN), Err(ArithmeticError::Overflow));
    }

    #[test]
    fn reduction_comes_before_multiplication() {
        let most = fraction(i128::MAX, 1);
        let inverse = fraction(1, i128::MAX);
        assert_eq!(most.checked_mul(inverse), Ok(1.into()));
        assert_eq!(inverse.checked_add(inverse), Ok(fraction(2, i128::MAX)));
    }
}
