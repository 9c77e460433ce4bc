//! Are two expressions the same number, or the same function of their symbols?
//!
//! 1. Exact values decide exactly.
//! 2. A decimal may be a rounded value: it equals what is not an integer where the two differ by no more than half a
//!    millionth, and by no more than a thousandth of the value. So `0.333333` is ⅓ and `0.3333` is not, `1.0000001` is
//!    not 1, and `0.0` is not `10^{-7}`.
//! 3. Otherwise both are evaluated with 256 bits, at several points where they have symbols.
//! 4. `12\%` is 0.12, and also 12: people leave out the sign as often as they work it out.

use num_rational::BigRational;
use num_traits::{Signed, Zero};

use super::{
    exact,
    fuel::Fuel,
    node::{Constant, Function, Node},
    numeric::{self, Point, rounds},
    real::{Real, Verdict},
};

pub(super) fn same(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    if a == b {
        return true;
    }
    match (a, b) {
        (Node::Percent(a), Node::Percent(b)) => same(a, b, fuel),
        (Node::Percent(inner), other) | (other, Node::Percent(inner)) => {
            plain_same(inner, other, fuel)
                || plain_same(&(**inner).clone().over(Node::integer(100)), other, fuel)
        }
        (Node::Based { digits: a, base: first }, Node::Based { digits: b, base: second })
            if first != second =>
        {
            match (in_base(a, *first, fuel), in_base(b, *second, fuel)) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            }
        }
        _ => plain_same(a, b, fuel),
    }
}

/// The value of digits read in a base.
fn in_base(digits: &Node, base: u32, fuel: &Fuel) -> Option<num_bigint::BigInt> {
    let digits = exact::integer(&exact::value(digits, fuel)?)?.to_string();
    num_bigint::BigInt::parse_bytes(digits.as_bytes(), base)
}

fn plain_same(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let (left, right) = (exact::value(a, fuel), exact::value(b, fuel));
    if let (Some(left), Some(right)) = (&left, &right) {
        return left == right || (may_round(a, left, b, right) && close(left, right));
    }
    let identical = same_everywhere(a, b, fuel);
    identical || (is_decimal(a) || is_decimal(b)) && close_values(a, b, fuel)
}

pub(super) fn is_decimal(node: &Node) -> bool {
    node.any(&|node| matches!(node, Node::Number { decimal: true, .. }))
}

/// Is one a decimal that may stand for the other? An integer is not approximated.
fn may_round(a: &Node, left: &BigRational, b: &Node, right: &BigRational) -> bool {
    (is_decimal(a) && !right.is_integer()) || (is_decimal(b) && !left.is_integer())
}

fn close(a: &BigRational, b: &BigRational) -> bool {
    let difference = (a - b).abs();
    let most = a.abs().max(b.abs());
    difference <= BigRational::new(1.into(), 2_000_000.into())
        && difference * BigRational::from_integer(1000.into()) <= most
        && !most.is_zero()
}

fn close_values(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let symbolic = |node: &Node| node.any(&|node| matches!(node, Node::Symbol(_)));
    if symbolic(a) || symbolic(b) {
        return false;
    }
    let point = Point { round: 0, complex: true, fold_case: false, fuel };
    let near = |a: Real, b: Real| {
        let difference = a.sub(b).abs().to_f64();
        difference <= 5e-7 && difference <= 1e-3 * a.to_f64().abs().max(b.to_f64().abs())
    };
    match (numeric::value(a, point, None), numeric::value(b, point, None)) {
        (Some(a), Some(b)) => {
            near(a.re, b.re) && (near(a.im, b.im) || (a.im.may_be_zero() && b.im.may_be_zero()))
        }
        _ => false,
    }
}

/// Do two expressions agree at every point where both have a value?
pub(super) fn same_everywhere(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let cases = if one_case(a, b) { &[false, true][..] } else { &[false][..] };
    cases.iter().any(|&fold_case| {
        let first = Point { round: 0, complex: has_imaginary(a) || has_imaginary(b), fold_case, fuel };
        let verdict = agree(a, b, first).or_else(|| agree(a, b, Point { complex: true, ..first }));
        match verdict {
            Some(Verdict::Equal) => !differs_exactly(a, b, fuel),
            Some(Verdict::Different) => false,
            None if is_discrete(a) || is_discrete(b) => agree_at_integers(a, b, fuel),
            Some(Verdict::Unknown) | None => same_terms(a, b, fuel),
        }
    })
}

/// Does this have a value at integers only, as `n!` has?
fn is_discrete(node: &Node) -> bool {
    node.any(&|node| match node {
        Node::Call(function, _) => {
            matches!(function, Function::Factorial | Function::DoubleFactorial | Function::Binomial)
        }
        Node::Series { .. } => true,
        _ => false,
    })
}

/// Do two expressions agree at integers? They are small, no two rounds alike, and in either order of size, because
/// `\binom{n}{k}` and `\frac{n!}{k!(n-k)!}` have a value together only where n is not below k.
fn agree_at_integers(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let mut names = a.symbols();
    names.extend(b.symbols());
    names.sort_unstable();
    names.dedup();
    let mut agreed = 0;
    for round in 0..8 {
        let at = |node: &Node| {
            names.iter().zip(1..).fold(node.clone(), |node, (name, rank)| {
                exact::substitute(&node, name, 3 + rank * (2 * round + 3) % 11)
            })
        };
        let point = Point { round: 0, complex: false, fold_case: false, fuel };
        match agree(&at(a), &at(b), point) {
            Some(Verdict::Equal) => agreed += 1,
            Some(_) => return false,
            None => {}
        }
    }
    agreed >= 4
}

fn has_imaginary(node: &Node) -> bool {
    node.any(&|node| *node == Node::Constant(Constant::I))
}

/// Do `R` and `r` mean the same in these two? Only where neither uses both.
fn one_case(a: &Node, b: &Node) -> bool {
    let (left, right) = (a.symbols(), b.symbols());
    let folded = |names: &[&str]| {
        let mut lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        lower.sort_unstable();
        lower.dedup();
        lower
    };
    let (lower_left, lower_right) = (folded(&left), folded(&right));
    left != right
        && lower_left == lower_right
        && lower_left.len() == left.len()
        && lower_right.len() == right.len()
}

/// The verdict of all points where both have a value; `None` where there is no such point.
fn agree(a: &Node, b: &Node, first: Point) -> Option<Verdict> {
    let constant = a.symbols().is_empty() && b.symbols().is_empty();
    let mut verdict = None;
    for round in 0..if constant { 1 } else { rounds(a, b) } {
        let point = Point { round, ..first };
        let Some(left) = numeric::value(a, point, None) else {
            // Nothing to compare with here, and the other side need not be worked out.
            continue;
        };
        let Some(right) = numeric::value(b, point, None) else { continue };
        match left.same(right) {
            Verdict::Different => return Some(Verdict::Different),
            found if verdict != Some(Verdict::Unknown) => verdict = Some(found),
            _ => {}
        }
    }
    verdict
}

/// For values too large or too close to tell: equal if the same terms, or the same factors, stand in another order,
/// and different where what is left after taking away equal terms is not zero.
fn same_terms(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let parts = |node: &Node| match node {
        Node::Sum(items) | Node::Product(items) => items.clone(),
        other => vec![other.clone()],
    };
    if std::mem::discriminant(a) != std::mem::discriminant(b) {
        return false;
    }
    let (mut left, mut right) = (parts(a), parts(b));
    if fuel.spend((left.len() * right.len() * 20) as u64).is_none() {
        return false;
    }
    left.retain(|item| match right.iter().position(|other| other == item) {
        Some(at) => {
            right.swap_remove(at);
            false
        }
        None => true,
    });
    left.is_empty() && right.is_empty()
}

/// Do two sums differ by a fraction, once the terms that both have are taken away? So `2^{1000000}` is not
/// `2^{1000000} - 1`, although the difference is beyond the last digit that is worked with.
fn differs_exactly(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    if !matches!(a, Node::Sum(_)) && !matches!(b, Node::Sum(_)) {
        return false;
    }
    let terms = |node: &Node| match node {
        Node::Sum(items) => items.clone(),
        other => vec![other.clone()],
    };
    let (left, mut right) = (terms(a), terms(b));
    if fuel.spend((left.len() * right.len() * 20) as u64).is_none() {
        return false;
    }
    let mut rest = Vec::new();
    for term in left {
        match right.iter().position(|other| *other == term) {
            Some(at) => drop(right.swap_remove(at)),
            None => rest.push(term),
        }
    }
    rest.extend(right.into_iter().map(Node::negative));
    exact::value(&Node::Sum(rest), fuel).is_some_and(|difference| !difference.is_zero())
}

/// The constant that one expression is a multiple of the other by: its sign, where there is such a constant.
pub(super) fn ratio(a: &Node, b: &Node, fuel: &Fuel) -> Option<std::cmp::Ordering> {
    let complex = has_imaginary(a) || has_imaginary(b);
    let mut ratio = None;
    let mut points = 0;
    for round in 0..rounds(a, b) {
        let point = Point { round, complex, fold_case: false, fuel };
        let (Some(left), Some(right)) = (numeric::value(a, point, None), numeric::value(b, point, None))
        else {
            continue;
        };
        let next = left.div(right).filter(|ratio| !ratio.may_be_zero())?;
        points += 1;
        match ratio {
            None => ratio = Some(next),
            Some(first) if next.same(first) != Verdict::Equal => return None,
            Some(_) => {}
        }
    }
    let ratio = ratio.filter(|_| points > 1)?;
    Some(if ratio.re.is_negative() { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater })
}
