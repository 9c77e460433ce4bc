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
pub(super) const ROUNDS: u32 = 4;

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
        Node::Call(function, arguments) => call(node, *function, arguments, point, binding)?,
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

/// The value that a symbol stands for at a point: between 1/4 and 9/4, and of either sign in the later rounds.
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
    let negative = match point.round {
        0 | 1 => false,
        2 => true,
        _ => hash & 1 == 1,
    };
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

fn rational_power(base: Complex, exponent: &BigRational, point: Point) -> Option<Complex> {
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

fn call(
    whole: &Node,
    function: Function,
    arguments: &[Node],
    point: Point,
    binding: Binding,
) -> Option<Complex> {
    let argument = |index: usize| {
        let node = arguments.get(index)?;
        if function.takes_angle() {
            return value(&in_radians(node), point, binding);
        }
        value(node, point, binding)
    };
    point.fuel.spend(4000)?;
    let real = |index: usize| argument(index).filter(|value| value.is_real()).map(|value| value.re);
    let one = Complex::ONE;
    Some(match function {
        Function::Root => {
            let degree = exact::value(arguments.get(1)?, point.fuel)?;
            if degree == BigRational::from_integer(0.into()) {
                return None;
            }
            if let Some(exact) = exact::value(whole, point.fuel) {
                return Some(Complex::real(Real::from_rational(&exact)?));
            }
            rational_power(argument(0)?, &degree.recip(), point)?
        }
        Function::Abs => Complex::real(argument(0)?.abs()?),
        Function::Exp => argument(0)?.exp()?,
        Function::Ln => logarithm(argument(0)?, point)?,
        Function::Log => logarithm(argument(0)?, point)?.div(logarithm(argument(1)?, point)?)?,
        Function::Sin => argument(0)?.sin_cos()?.0,
        Function::Cos => argument(0)?.sin_cos()?.1,
        Function::Tan => {
            let (sine, cosine) = argument(0)?.sin_cos()?;
            sine.div(cosine)?
        }
        Function::Cot => {
            let (sine, cosine) = argument(0)?.sin_cos()?;
            cosine.div(sine)?
        }
        Function::Sec => one.div(argument(0)?.sin_cos()?.1)?,
        Function::Csc => one.div(argument(0)?.sin_cos()?.0)?,
        Function::Arcsin | Function::Arccos => {
            let x = real(0)?;
            let other = Real::ONE.sub(x.mul(x)).sqrt()?;
            Complex::real(if function == Function::Arcsin { x.atan2(other)? } else { other.atan2(x)? })
        }
        Function::Arctan => Complex::real(real(0)?.atan2(Real::ONE)?),
        Function::Arccot => Complex::real(Real::ONE.atan2(real(0)?)?),
        Function::Sinh | Function::Cosh | Function::Tanh => {
            let x = argument(0)?;
            let (rising, falling) = (x.exp()?, x.neg().exp()?);
            let (sinh, cosh) = (rising.sub(falling), rising.add(falling));
            let two = Complex::real(Real::integer(2));
            match function {
                Function::Sinh => sinh.div(two)?,
                Function::Cosh => cosh.div(two)?,
                _ => sinh.div(cosh)?,
            }
        }
        Function::Factorial => Complex::real(factorial(whole, arguments.first()?, point)?),
        Function::Max | Function::Min => {
            let mut best = real(0)?;
            for index in 1..arguments.len() {
                let next = real(index)?;
                let less = next.sub(best).is_negative();
                if less == (function == Function::Min) {
                    best = next;
                }
            }
            Complex::real(best)
        }
        Function::Floor | Function::Ceiling => {
            let x = real(0)?;
            let nearest = Real::integer(x.round()?);
            let above = nearest.sub(x);
            if !above.is_exact_zero() && above.may_be_zero() {
                return None;
            }
            let step = match (function, above.is_exact_zero(), above.is_negative()) {
                (Function::Floor, false, false) => Real::integer(-1),
                (Function::Ceiling, false, true) => Real::ONE,
                _ => Real::ZERO,
            };
            Complex::real(nearest.add(step))
        }
        Function::DoubleFactorial | Function::Binomial | Function::Gcd | Function::Lcm | Function::Mod => {
            Complex::real(Real::from_rational(&exact::value(whole, point.fuel)?)?)
        }
    })
}

/// The argument of a function of an angle, degrees turned into radians.
fn in_radians(node: &Node) -> Node {
    if !node.any(&|node| matches!(node, Node::Degrees(_))) {
        return node.clone();
    }
    node.clone().map(&|node| match node {
        Node::Degrees(inner) => {
            Node::Product(vec![*inner, Node::Constant(Constant::Pi).over(Node::integer(180))])
        }
        other => other,
    })
}

fn logarithm(value: Complex, point: Point) -> Option<Complex> {
    if !point.complex && (!value.is_real() || value.re.is_negative()) {
        return None;
    }
    value.ln()
}

/// `n!` of a large `n` by Stirling's series, of a small one exactly.
fn factorial(whole: &Node, argument: &Node, point: Point) -> Option<Real> {
    if let Some(exact) = exact::value(whole, point.fuel) {
        return Real::from_rational(&exact);
    }
    let n = exact::integer(&exact::value(argument, point.fuel)?)?.to_i64().filter(|n| *n >= 1000)?;
    let x = Real::integer(n);
    // ln n! = n ln n - n + ln(2πn)/2 + 1/(12n) - 1/(360n³) + …; twelve terms leave less than 2^-230 for n >= 1000.
    let half_log = Real::pi().scale(1).mul(x).ln()?.scale(-1);
    let mut sum = x.mul(x.ln()?).sub(x).add(half_log);
    let inverse = Real::ONE.div(x)?;
    let square = inverse.mul(inverse);
    let mut power = inverse;
    for (over, under) in STIRLING {
        sum = sum.add(power.mul(Real::integer(over)).div(Real::integer(under))?);
        power = power.mul(square);
    }
    sum.with_error(-200.0).exp()
}

/// `B(2k) / (2k (2k - 1))`.
const STIRLING: [(i64, i64); 12] = [
    (1, 12),
    (-1, 360),
    (1, 1260),
    (-1, 1680),
    (1, 1188),
    (-691, 360_360),
    (1, 156),
    (-3617, 122_400),
    (43_867, 244_188),
    (-174_611, 125_400),
    (77_683, 5796),
    (-236_364_091, 1_506_960),
];
