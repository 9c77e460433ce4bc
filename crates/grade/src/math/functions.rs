//! The values of functions, at a point of [`super::numeric`].

use num_traits::{ToPrimitive, Zero};

use super::{
    complex::Complex,
    exact,
    node::{Constant, Function, Node},
    numeric::{self, Binding, Point, rational_power},
    real::Real,
};

/// The value of a function of expressions.
pub(super) fn value(
    whole: &Node,
    function: Function,
    arguments: &[Node],
    point: Point,
    binding: Binding,
) -> Option<Complex> {
    point.fuel.spend(4000)?;
    let argument = |index: usize| {
        let node = arguments.get(index)?;
        if function.takes_angle() {
            return numeric::value(&in_radians(node), point, binding);
        }
        numeric::value(node, point, binding)
    };
    let real = |index: usize| argument(index).filter(|value| value.is_real()).map(|value| value.re);
    Some(match function {
        Function::Root => root(whole, arguments, point, binding)?,
        Function::Abs => Complex::real(argument(0)?.abs()?),
        Function::Exp => argument(0)?.exp()?,
        Function::Ln => logarithm(argument(0)?, point)?,
        Function::Log => logarithm(argument(0)?, point)?.div(logarithm(argument(1)?, point)?)?,
        Function::Sin | Function::Cos | Function::Tan | Function::Cot | Function::Sec | Function::Csc => {
            circular(function, argument(0)?)?
        }
        Function::Arcsin | Function::Arccos | Function::Arctan | Function::Arccot => {
            Complex::real(inverse_circular(function, real(0)?)?)
        }
        Function::Sinh | Function::Cosh | Function::Tanh => hyperbolic(function, argument(0)?)?,
        Function::Factorial => Complex::real(factorial(whole, arguments.first()?, point)?),
        Function::Max | Function::Min => {
            let values = (0..arguments.len()).map(real).collect::<Option<Vec<_>>>()?;
            let above = |a: Real, b: Real| a.sub(b).is_negative() == (function == Function::Min);
            Complex::real(values.into_iter().reduce(|a, b| if above(a, b) { a } else { b })?)
        }
        Function::Floor | Function::Ceiling => Complex::real(rounded(function, real(0)?)?),
        Function::Binomial => binomial(whole, argument(0)?, arguments.get(1)?, point)?,
        Function::DoubleFactorial | Function::Gcd | Function::Lcm | Function::Mod => {
            Complex::real(Real::from_rational(&exact::value(whole, point.fuel)?)?)
        }
    })
}

fn root(whole: &Node, arguments: &[Node], point: Point, binding: Binding) -> Option<Complex> {
    let [radicand, degree] = arguments else { return None };
    let degree = exact::value(degree, point.fuel).filter(|degree| !degree.is_zero())?;
    if let Some(exact) = exact::value(whole, point.fuel) {
        return Some(Complex::real(Real::from_rational(&exact)?));
    }
    rational_power(numeric::value(radicand, point, binding)?, &degree.recip(), point)
}

/// Of a small lower number, `n (n - 1) … / k!` whatever the upper one is.
fn binomial(whole: &Node, upper: Complex, lower: &Node, point: Point) -> Option<Complex> {
    if let Some(exact) = exact::value(whole, point.fuel) {
        return Some(Complex::real(Real::from_rational(&exact)?));
    }
    let k = exact::integer(&exact::value(lower, point.fuel)?)?.to_i64().filter(|k| (0..=30).contains(k))?;
    let mut product = Complex::ONE;
    for at in 0..k {
        let factor = upper.sub(Complex::real(Real::integer(at)));
        product = product.mul(factor).div(Complex::real(Real::integer(at + 1)))?.checked()?;
    }
    Some(product)
}

fn circular(function: Function, angle: Complex) -> Option<Complex> {
    let (sine, cosine) = angle.sin_cos()?;
    match function {
        Function::Sin => Some(sine),
        Function::Cos => Some(cosine),
        Function::Tan => sine.div(cosine),
        Function::Cot => cosine.div(sine),
        Function::Sec => Complex::ONE.div(cosine),
        _ => Complex::ONE.div(sine),
    }
}

fn inverse_circular(function: Function, x: Real) -> Option<Real> {
    let other = || Real::ONE.sub(x.mul(x)).sqrt();
    match function {
        Function::Arcsin => x.atan2(other()?),
        Function::Arccos => other()?.atan2(x),
        Function::Arctan => x.atan2(Real::ONE),
        _ => Real::ONE.atan2(x),
    }
}

fn hyperbolic(function: Function, x: Complex) -> Option<Complex> {
    let (rising, falling) = (x.exp()?, x.neg().exp()?);
    let (sinh, cosh) = (rising.sub(falling), rising.add(falling));
    let two = Complex::real(Real::integer(2));
    match function {
        Function::Sinh => sinh.div(two),
        Function::Cosh => cosh.div(two),
        _ => sinh.div(cosh),
    }
}

/// Floor and ceiling, of what is known not to be just beside an integer.
fn rounded(function: Function, x: Real) -> Option<Real> {
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
    Some(nearest.add(step))
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
