//! Exact values: fractions of big integers, as far as they are small enough to write down.
//!
//! Every operation estimates the size of its result first; what would not fit in [`MAX_BITS`] has no exact value
//! here, and is left to [`super::numeric`].

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::{
    fuel::Fuel,
    node::{Fold, Function, Node},
};

/// The largest numerator or denominator, in bits: enough for 2004!.
const MAX_BITS: u64 = 1 << 15;
/// The most terms of a series that is added up.
const MAX_TERMS: i64 = 1000;

/// The exact value of an expression that is a fraction; `None` where it is not one, or not a small one.
pub(super) fn value(node: &Node, fuel: &Fuel) -> Option<BigRational> {
    fuel.spend(50)?;
    let result = match node {
        Node::Number { value, .. } => value.clone(),
        Node::Sum(terms) => {
            let mut sum = BigRational::zero();
            for term in terms {
                sum = add(&sum, &value(term, fuel)?, fuel)?;
            }
            sum
        }
        Node::Product(factors) => {
            let mut product = BigRational::one();
            for factor in factors {
                product = multiply(&product, &value(factor, fuel)?, fuel)?;
            }
            product
        }
        Node::Negative(inner) => -value(inner, fuel)?,
        Node::Quotient(over, under) => divide(&value(over, fuel)?, &value(under, fuel)?, fuel)?,
        Node::Power(base, exponent) => power(&value(base, fuel)?, &value(exponent, fuel)?, fuel)?,
        Node::Percent(inner) => divide(&value(inner, fuel)?, &whole(100.into()), fuel)?,
        Node::Degrees(inner) | Node::Based { digits: inner, .. } | Node::Measured { value: inner, .. } => {
            value(inner, fuel)?
        }
        Node::Call(function, arguments) => {
            let arguments = arguments.iter().map(|node| value(node, fuel)).collect::<Option<Vec<_>>>()?;
            call(*function, &arguments, fuel)?
        }
        Node::Series { fold, index, bounds, body } => series(*fold, index, bounds, body, fuel)?,
        _ => return None,
    };
    bounded(result)
}

fn whole(value: BigInt) -> BigRational {
    BigRational::from_integer(value)
}

fn bounded(value: BigRational) -> Option<BigRational> {
    (bits(&value) <= MAX_BITS).then_some(value)
}

fn bits(value: &BigRational) -> u64 {
    value.numer().bits().max(value.denom().bits())
}

/// Integers are kept apart throughout: reducing a fraction costs the square of its length, and most values are
/// integers.
fn add(a: &BigRational, b: &BigRational, fuel: &Fuel) -> Option<BigRational> {
    if a.is_integer() && b.is_integer() {
        fuel.spend(a.numer().bits().max(b.numer().bits()) / 16)?;
        return bounded(whole(a.numer() + b.numer()));
    }
    let over = a.numer() * b.denom() + b.numer() * a.denom();
    reduce(over, a.denom() * b.denom(), fuel)
}

fn multiply(a: &BigRational, b: &BigRational, fuel: &Fuel) -> Option<BigRational> {
    fuel.spend(bits(a) * bits(b) / 2048)?;
    let over = a.numer() * b.numer();
    if a.is_integer() && b.is_integer() {
        return bounded(whole(over));
    }
    reduce(over, a.denom() * b.denom(), fuel)
}

fn divide(a: &BigRational, b: &BigRational, fuel: &Fuel) -> Option<BigRational> {
    if b.is_zero() {
        return None;
    }
    fuel.spend(bits(a) * bits(b) / 2048)?;
    reduce(a.numer() * b.denom(), a.denom() * b.numer(), fuel)
}

/// A fraction in lowest terms.
fn reduce(over: BigInt, under: BigInt, fuel: &Fuel) -> Option<BigRational> {
    let (over, under) = if under.is_negative() { (-over, -under) } else { (over, under) };
    if under.is_one() || over.magnitude().is_one() {
        return bounded(BigRational::new_raw(over, under));
    }
    let (long, short) = (over.bits().max(under.bits()), over.bits().min(under.bits()));
    fuel.spend(long * short / 8)?;
    bounded(BigRational::new(over, under))
}

fn power(base: &BigRational, exponent: &BigRational, fuel: &Fuel) -> Option<BigRational> {
    if !exponent.is_integer() {
        let degree = exponent.denom().to_u32()?;
        return power(&root(base, degree, fuel)?, &whole(exponent.numer().clone()), fuel);
    }
    let exponent = exponent.to_integer();
    if base.is_zero() {
        return match exponent.sign() {
            Sign::Plus => Some(BigRational::zero()),
            Sign::NoSign => Some(BigRational::one()),
            Sign::Minus => None,
        };
    }
    // A base of one bit is 1 or -1, whatever the exponent.
    if bits(base) == 1 {
        return Some(if exponent.is_even() { BigRational::one() } else { base.clone() });
    }
    let exponent = exponent.to_i32()?;
    let size = (bits(base) - 1).checked_mul(u64::from(exponent.unsigned_abs()))?;
    if size > MAX_BITS {
        return None;
    }
    fuel.spend(size * size / 1024)?;
    let (over, under) = (base.numer(), base.denom());
    let (over, under) = (Pow::pow(over, exponent.unsigned_abs()), Pow::pow(under, exponent.unsigned_abs()));
    if exponent >= 0 {
        return Some(BigRational::new_raw(over, under));
    }
    let sign = BigInt::from_biguint(over.sign(), 1u32.into());
    Some(BigRational::new_raw(under * &sign, over * sign))
}

/// The root of a fraction where it is a fraction; of negative numbers the real root, for an odd degree.
fn root(radicand: &BigRational, degree: u32, fuel: &Fuel) -> Option<BigRational> {
    if degree == 0 || (radicand.is_negative() && degree.is_multiple_of(2)) {
        return None;
    }
    fuel.spend(bits(radicand) * bits(radicand) / 64)?;
    let (over, under) = (integer_root(radicand.numer(), degree)?, integer_root(radicand.denom(), degree)?);
    Some(BigRational::new_raw(over, under))
}

fn integer_root(radicand: &BigInt, degree: u32) -> Option<BigInt> {
    if radicand.magnitude().is_one() || radicand.is_zero() {
        return Some(radicand.clone());
    }
    if u64::from(degree) >= radicand.bits() {
        return None;
    }
    let root = radicand.nth_root(degree);
    (Pow::pow(&root, degree) == *radicand).then_some(root)
}

fn call(function: Function, arguments: &[BigRational], fuel: &Fuel) -> Option<BigRational> {
    let integers = || arguments.iter().map(integer).collect::<Option<Vec<_>>>();
    Some(match (function, arguments) {
        (Function::Root, [radicand, degree]) => root(radicand, integer(degree)?.to_u32()?, fuel)?,
        (Function::Abs, [x]) => x.abs(),
        (Function::Floor, [x]) => x.floor(),
        (Function::Ceiling, [x]) => x.ceil(),
        (Function::Factorial, [n]) => whole(factorial(&integer(n)?, 1, fuel)?),
        (Function::DoubleFactorial, [n]) => whole(factorial(&integer(n)?, 2, fuel)?),
        (Function::Binomial, [n, k]) => whole(binomial(&integer(n)?, &integer(k)?, fuel)?),
        (Function::Mod, [a, b]) => {
            let quotient = divide(a, b, fuel)?.floor();
            add(a, &-multiply(&quotient, b, fuel)?, fuel)?
        }
        (Function::Max, _) => arguments.iter().max()?.clone(),
        (Function::Min, _) => arguments.iter().min()?.clone(),
        (Function::Gcd, _) => {
            let most = arguments.iter().map(bits).max()?;
            fuel.spend(most * most / 8 * arguments.len() as u64)?;
            whole(integers()?.into_iter().reduce(|a, b| a.gcd(&b))?)
        }
        (Function::Lcm, _) => {
            let mut multiple = BigInt::one();
            for integer in integers()? {
                fuel.spend(multiple.bits() * integer.bits() / 8)?;
                multiple = bounded(whole(multiple.lcm(&integer)))?.to_integer();
            }
            whole(multiple)
        }
        _ => return None,
    })
}

pub(super) fn integer(value: &BigRational) -> Option<BigInt> {
    value.is_integer().then(|| value.to_integer())
}

/// `n (n - step) (n - 2 step) …`
fn factorial(n: &BigInt, step: u32, fuel: &Fuel) -> Option<BigInt> {
    // 4000! has more bits than are kept.
    let n = n.to_u32().filter(|&n| n <= 4000)?;
    fuel.spend(u64::from(n) * u64::from(n) / 10)?;
    let mut product = BigInt::one();
    let mut factor = n;
    while factor > 1 {
        product *= factor;
        factor = factor.saturating_sub(step);
    }
    Some(product)
}

fn binomial(n: &BigInt, k: &BigInt, fuel: &Fuel) -> Option<BigInt> {
    if n.is_negative() {
        return None;
    }
    if k.is_negative() || k > n {
        return Some(BigInt::zero());
    }
    let k = k.min(&(n - k)).to_u64()?;
    let size = k.checked_mul(n.bits()).filter(|&size| size <= 2 * MAX_BITS)?;
    fuel.spend(k * size / 16)?;
    let mut result = BigInt::one();
    for at in 0..k {
        result = result * (n - at) / (at + 1);
    }
    Some(result)
}

fn series(fold: Fold, index: &str, bounds: &(Node, Node), body: &Node, fuel: &Fuel) -> Option<BigRational> {
    if fold == Fold::Integral {
        return None;
    }
    let product = fold == Fold::Product;
    let (first, last) = series_bounds(bounds, body, fuel)?;
    let mut total = if product { BigRational::one() } else { BigRational::zero() };
    for at in first..=last {
        let term = value(&substitute(body, index, at), fuel)?;
        total = if product { multiply(&total, &term, fuel)? } else { add(&total, &term, fuel)? };
    }
    Some(total)
}

/// The first and the last value of an index, where they are known and not far apart. A series in a series is not
/// worked out.
pub(super) fn series_bounds(bounds: &(Node, Node), body: &Node, fuel: &Fuel) -> Option<(i64, i64)> {
    let first = integer(&value(&bounds.0, fuel)?)?.to_i64()?;
    let last = integer(&value(&bounds.1, fuel)?)?.to_i64()?;
    let nested = body.any(&|node| matches!(node, Node::Series { .. }));
    (last.checked_sub(first)? < MAX_TERMS && !nested).then_some((first, last))
}

/// The body of a series at one value of its index.
pub(super) fn substitute(body: &Node, index: &str, at: i64) -> Node {
    body.clone().map(&|node| match node {
        Node::Symbol(name) if *name == *index => Node::integer(at),
        other => other,
    })
}
