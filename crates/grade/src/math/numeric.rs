//! Values with 256 bits, for what has no exact fraction.
//!
//! Symbols stand for numbers that look random but are always the same: an identity holds at all of them, and two
//! different expressions agree at none but by a miracle. Several points are tried, because expressions such as `|x|`
//! and `x` agree on half of the line.

use std::sync::LazyLock;

use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::{
    complex::Complex,
    exact,
    fuel::Fuel,
    functions,
    node::{Constant, Fold, Function, Node},
    real::Real,
};

/// Where an expression is evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'a> {
    /// Which of the fixed values the symbols take.
    pub(super) round: u32,
    /// Do roots and logarithms of negative numbers exist?
    pub(super) complex: bool,
    /// Do symbols that differ only in case stand for the same?
    pub(super) fold_case: bool,
    pub(super) fuel: &'a Fuel,
}

/// A symbol with a value of its own.
pub(super) type Binding<'a> = Option<(&'a str, Real)>;

/// The number of points: two where all symbols are positive, two where they have either sign.
const ROUNDS: u32 = 4;

/// The points at which two expressions are held against each other. Where one is made of pieces, as `|x - 10|` is, there
/// are two more, far out on either side.
pub(super) fn rounds(a: &Node, b: &Node) -> u32 {
    let of_pieces = |node: &Node| match node {
        Node::Call(function, _) => matches!(
            function,
            Function::Abs
                | Function::Max
                | Function::Min
                | Function::Floor
                | Function::Ceiling
                | Function::Root
        ),
        _ => false,
    };
    let pieces = a.any(&of_pieces) || b.any(&of_pieces);
    if pieces { ROUNDS + 2 } else { ROUNDS }
}

/// The value of a scalar expression; `None` where it has none, or too large a one.
pub(super) fn value(node: &Node, point: Point, binding: Binding) -> Option<Complex> {
    point.fuel.spend(150)?;
    let at = |node: &Node| value(node, point, binding);
    let result = match node {
        Node::Number { value, .. } => Complex::real(Real::from_rational(value)?),
        Node::Symbol(name) => match binding {
            Some((bound, value)) if bound == &**name => Complex::real(value),
            _ => Complex::real(symbol(name, point)),
        },
        Node::Constant(constant) => match constant {
            Constant::Pi => Complex::real(Real::pi()),
            Constant::E => Complex::real(Real::ONE.exp()?),
            Constant::I => Complex::I,
            Constant::Infinity => return None,
        },
        Node::Sum(terms) => {
            let mut sum = Complex::real(Real::ZERO);
            for term in terms {
                sum = sum.add(at(term)?);
            }
            sum
        }
        Node::Product(factors) => {
            let mut product = Complex::ONE;
            for factor in factors {
                product = product.mul(at(factor)?).checked()?;
            }
            product
        }
        Node::Negative(inner) => at(inner)?.neg(),
        Node::Quotient(over, under) => at(over)?.div(at(under)?)?,
        Node::Power(base, exponent) => power(node, base, exponent, point, binding)?,
        Node::Percent(inner) => at(inner)?.div(Complex::real(Real::integer(100)))?,
        Node::Degrees(inner) | Node::Based { digits: inner, .. } | Node::Measured { value: inner, .. } => {
            at(inner)?
        }
        Node::Call(function, arguments) => functions::value(node, *function, arguments, point, binding)?,
        Node::Series { fold: Fold::Integral, index, bounds, body } => {
            integral(index, bounds, body, point, binding)?
        }
        Node::Series { fold, index, bounds, body } => {
            let (first, last) = exact::series_bounds(bounds, body, point.fuel)?;
            let mut total = if *fold == Fold::Product { Complex::ONE } else { Complex::real(Real::ZERO) };
            for step in first..=last {
                let term = at(&exact::substitute(body, index, step))?;
                total = if *fold == Fold::Product { total.mul(term).checked()? } else { total.add(term) };
            }
            total
        }
        _ => return None,
    };
    result.checked()
}

/// A definite integral by tanh-sinh quadrature, which for an integrand that is smooth between its bounds is right to
/// some sixty digits with this many points. An integral in an integral is not worked out.
fn integral(
    index: &str,
    bounds: &(Node, Node),
    body: &Node,
    point: Point,
    binding: Binding,
) -> Option<Complex> {
    if binding.is_some() || body.any(&|node| matches!(node, Node::Series { .. })) {
        return None;
    }
    let real = |node: &Node| value(node, point, None).filter(|value| value.is_real()).map(|value| value.re);
    let (first, last) = (real(&bounds.0)?, real(&bounds.1)?);
    let (middle, half) = (first.add(last).scale(-1), last.sub(first).scale(-1));
    let mut sum = Complex::real(Real::ZERO);
    for (place, weight) in QUADRATURE.iter() {
        let x = middle.add(half.mul(*place));
        sum = sum.add(value(body, point, Some((index, x)))?.mul(Complex::real(*weight)));
    }
    let total = sum.mul(Complex::real(half));
    Some(Complex { re: total.re.with_error(-150.0), ..total })
}

/// Places between -1 and 1, and their weights.
static QUADRATURE: LazyLock<Vec<(Real, Real)>> = LazyLock::new(|| {
    let entry = |step: i64| {
        let t = Real::integer(step).scale(-4);
        let (rising, falling) = (t.exp()?, t.neg().exp()?);
        let u = Real::HALF_PI.mul(rising.sub(falling)).scale(-1);
        let (above, below) = (u.exp()?, u.neg().exp()?);
        let cosh = above.add(below).scale(-1);
        let weight = Real::HALF_PI.mul(rising.add(falling)).scale(-5).div(cosh.mul(cosh))?;
        Some((above.sub(below).scale(-1).div(cosh)?, weight))
    };
    (-72..=72).filter_map(entry).collect()
});

/// How far out the last points lie, as a power of two.
const FAR: i64 = 12;

/// The value that a symbol stands for at a point: between 1/4 and 9/4, of either sign in the later rounds, and some
/// thousand times as large in the last ones.
fn symbol(name: &str, point: Point) -> Real {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(point.round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        let byte = if point.fold_case { byte.to_ascii_lowercase() } else { byte };
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The last step of splitmix64, so that every bit depends on every byte.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    let magnitude = Real::integer((hash >> 3) as i64).scale(-60).add(Real::ONE.scale(-2));
    let (negative, scale) = match point.round {
        0 | 1 => (false, 0),
        2 => (true, 0),
        ROUNDS => (false, FAR),
        5 => (true, FAR),
        _ => (hash & 1 == 1, 0),
    };
    let magnitude = magnitude.scale(scale);
    if negative { magnitude.neg() } else { magnitude }
}

fn power(whole: &Node, base: &Node, exponent: &Node, point: Point, binding: Binding) -> Option<Complex> {
    let exact_exponent = exact::value(exponent, point.fuel);
    if *base == Node::Constant(Constant::E) && exact_exponent.is_none() {
        return value(exponent, point, binding)?.exp();
    }
    if exact_exponent.is_some()
        && let Some(exact) = exact::value(whole, point.fuel)
    {
        return Some(Complex::real(Real::from_rational(&exact)?));
    }
    point.fuel.spend(4000)?;
    let base = value(base, point, binding)?;
    match exact_exponent {
        Some(exponent) => rational_power(base, &exponent, point),
        None => {
            let exponent = value(exponent, point, binding)?;
            general_power(base, exponent, point)
        }
    }
}

pub(super) fn rational_power(base: Complex, exponent: &BigRational, point: Point) -> Option<Complex> {
    if let Some(integer) = exact::integer(exponent) {
        let positive = match integer.to_i64() {
            Some(power) => base.powi(power.unsigned_abs())?,
            // Too large to count down, but perhaps 1 or a logarithm away.
            None => return general_power(base, Complex::real(Real::from_rational(exponent)?), point),
        };
        return if exponent < &BigRational::from_integer(0.into()) {
            Complex::ONE.div(positive)
        } else {
            Some(positive)
        };
    }
    let negative = base.is_real() && base.re.is_negative() && !base.may_be_zero();
    if negative && !point.complex {
        // In the reals, a negative number has a root of odd degree, and only that.
        let (over, under) = (exponent.numer(), exponent.denom());
        if !under.bit(0) {
            return None;
        }
        let size = Complex::real(base.re.neg()).pow(Complex::real(Real::from_rational(exponent)?))?;
        return Some(if over.bit(0) { size.neg() } else { size });
    }
    if *exponent == BigRational::new(1.into(), 2.into()) && base.is_real() && !negative {
        return Some(Complex::real(base.re.abs().sqrt()?));
    }
    base.pow(Complex::real(Real::from_rational(exponent)?))
}

fn general_power(base: Complex, exponent: Complex, point: Point) -> Option<Complex> {
    if !point.complex && base.is_real() && base.re.is_negative() {
        return None;
    }
    base.pow(exponent)
}
