//! Sets of real numbers: intervals, unions, and the inequalities that describe them.
//!
//! `x^2 \ge 4`, `x \le -2 \text{ or } x \ge 2` and `(-\infty,-2] \cup [2,\infty)` are one set in three spellings. Rather
//! than bringing all to one form, membership is asked of both: at every end that either side names, between them and
//! beyond them, and close beside them. A set that is described by intervals can change nowhere else, so two such
//! sets are equal exactly when they agree there; an inequality whose own ends cannot be read off is held against the
//! ends of the other side.

use std::{cmp::Ordering, sync::LazyLock};

use super::{
    fuel::Fuel,
    node::{Constant, Fence, Joint, Node, Operator},
    numeric::{self, Point},
    real::Real,
};

/// The most ends that are looked at.
const MAX_ENDS: usize = 64;

/// Does this describe a set in a way that needs membership to compare?
pub(super) fn is_description(node: &Node) -> bool {
    match node {
        Node::Union(_) | Node::Intersection(_) | Node::Without(..) | Node::Reals => true,
        Node::Relation { operators, .. } => {
            !operators.iter().any(|operator| matches!(operator, Operator::Equal | Operator::Approximately))
        }
        Node::List(_, items) => items.iter().all(is_description),
        _ => false,
    }
}

/// Could this be a set of real numbers?
pub(super) fn is_set(node: &Node) -> bool {
    match node {
        Node::Bracket { items, .. } => items.len() == 2 && items.iter().all(Node::is_scalar),
        Node::Set(items) => items.iter().all(Node::is_scalar),
        Node::List(_, items) => items.iter().all(is_set),
        Node::Union(items) | Node::Intersection(items) => items.iter().all(is_set),
        Node::Without(a, b) => is_set(a) && is_set(b),
        Node::Reals => true,
        Node::Relation { sides, operators } => {
            is_description(node)
                && operators.iter().zip(&sides[1..]).all(|(operator, side)| match operator {
                    Operator::In => is_set(side),
                    _ => side.is_scalar(),
                })
                && sides[0].is_scalar()
        }
        _ => false,
    }
}

/// Are these the same set? Each may speak of one variable.
pub(super) fn same(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let (left, right) = (variables(a), variables(b));
    if left.len() > 1 || right.len() > 1 || (left.len() == 1 && right.len() == 1 && left != right) {
        return false;
    }
    let mut ends = vec![Real::ZERO];
    if collect_ends(a, fuel, &mut ends).is_none() || collect_ends(b, fuel, &mut ends).is_none() {
        return false;
    }
    samples(ends).into_iter().all(|x| {
        let (left, right) = (contains(a, x, fuel), contains(b, x, fuel));
        left.is_some() && left == right
    })
}

/// Is the first of two numbers certainly greater?
pub(super) fn descends(first: &Node, last: &Node, fuel: &Fuel) -> bool {
    let known = |node: &Node| if node.symbols().is_empty() { evaluate(node, None, fuel) } else { None };
    match (known(first), known(last)) {
        (Some(first), Some(last)) => first.compare(last) == Some(Ordering::Greater),
        _ => false,
    }
}

fn variables(node: &Node) -> Vec<&str> {
    node.symbols()
}

fn order(a: Real, b: Real) -> Ordering {
    // What cannot be told apart is the same end, written in two ways.
    a.compare(b).unwrap_or(Ordering::Equal)
}

/// The ends, points close beside each, between each two, and beyond all.
fn samples(mut ends: Vec<Real>) -> Vec<Real> {
    ends.sort_by(|a, b| order(*a, *b));
    ends.dedup_by(|a, b| order(*a, *b) == Ordering::Equal);
    let mut samples = Vec::with_capacity(4 * ends.len());
    for (at, &end) in ends.iter().enumerate() {
        let nearby = Real::ONE.scale(end.exponent().max(-20) - 60);
        samples.extend([end.sub(nearby), end, end.add(nearby)]);
        match ends.get(at + 1) {
            Some(&next) => samples.push(end.add(next).scale(-1)),
            None => samples.push(end.add(Real::ONE)),
        }
    }
    if let Some(&first) = ends.first() {
        samples.push(first.sub(Real::ONE));
    }
    samples
}

fn point(fuel: &Fuel) -> Point<'_> {
    Point { round: 0, complex: false, fold_case: false, fuel }
}

/// The real value of an expression with its variable bound.
fn evaluate(node: &Node, variable: Option<(&str, Real)>, fuel: &Fuel) -> Option<Real> {
    numeric::value(node, point(fuel), variable).filter(|value| value.is_real()).map(|value| value.re)
}

/// Where the set may change. `None` where there are too many places, or one has no value.
fn collect_ends(node: &Node, fuel: &Fuel, ends: &mut Vec<Real>) -> Option<()> {
    match node {
        Node::Bracket { items, .. } | Node::Set(items) => {
            for item in items.iter().filter(|item| infinite(item).is_none()) {
                ends.push(evaluate(item, None, fuel)?);
            }
        }
        Node::Union(items) | Node::Intersection(items) | Node::List(_, items) => {
            for item in items {
                collect_ends(item, fuel, ends)?;
            }
        }
        Node::Without(a, b) => {
            collect_ends(a, fuel, ends)?;
            collect_ends(b, fuel, ends)?;
        }
        Node::Relation { sides, operators } => {
            for (at, operator) in operators.iter().enumerate() {
                if *operator == Operator::In {
                    collect_ends(&sides[at + 1], fuel, ends)?;
                } else {
                    relation_ends(&sides[at], &sides[at + 1], fuel, ends);
                }
            }
        }
        _ => {}
    }
    (ends.len() <= MAX_ENDS).then_some(())
}

/// The root of a linear relation; where another one changes its sign, and its constants, with both signs (`|x| < 2`) and their roots
/// (`x^2 < 4`).
fn relation_ends(left: &Node, right: &Node, fuel: &Fuel, ends: &mut Vec<Real>) {
    let difference = left.clone().minus(right.clone());
    if let Some(&name) = difference.symbols().first() {
        let at = |x: i64| evaluate(&difference, Some((name, Real::integer(x))), fuel);
        let linear = || {
            let (zero, one) = (at(0)?, at(1)?);
            let slope = one.sub(zero);
            // Far out on both sides, so that `|x|` is not taken for linear.
            for x in [-1000, 1000] {
                if !at(x)?.sub(zero).sub(slope.mul(Real::integer(x))).may_be_zero() {
                    return None;
                }
            }
            zero.neg().div(slope)
        };
        if let Some(root) = linear() {
            ends.push(root);
            return;
        }
        ends.extend(sign_changes(|x| evaluate(&difference, Some((name, x)), fuel)));
    }
    for side in [left, right].into_iter().filter(|side| side.symbols().is_empty()) {
        if let Some(value) = evaluate(side, None, fuel) {
            ends.extend([value, value.neg()]);
            if let Some(root) = value.abs().sqrt() {
                ends.extend([root, root.neg()]);
            }
        }
    }
}

/// Places close to where a function changes its sign: found on a grid that is fine about zero and coarse far out, and
/// closed in upon. They are only where to look, so a few bits are enough.
fn sign_changes(function: impl Fn(Real) -> Option<Real>) -> Vec<Real> {
    let negative = |x: Real| function(x).map(|value| value.is_negative());
    let mut found = Vec::new();
    let mut before: Option<(Real, bool)> = None;
    for &x in GRID.iter() {
        let Some(sign) = negative(x) else {
            before = None;
            continue;
        };
        if let Some((mut low, low_sign)) = before.filter(|(_, earlier)| *earlier != sign) {
            let mut high = x;
            for _ in 0..30 {
                let middle = low.add(high).scale(-1);
                if negative(middle) == Some(low_sign) { low = middle } else { high = middle }
            }
            found.push(low);
            // The end itself, where it is a simple fraction: whether it belongs to the set is asked there.
            let twelfths = low.mul(Real::integer(12)).round().map(Real::integer);
            found.extend(twelfths.and_then(|twelfths| twelfths.div(Real::integer(12))));
        }
        before = Some((x, sign));
        if found.len() >= 32 {
            break;
        }
    }
    found
}

/// Halves up to twelve, then steps of a quarter of the way; none at a number that a person would choose for an end.
static GRID: LazyLock<Vec<Real>> = LazyLock::new(|| {
    let thousandths = |x: i64| Real::integer(x).div(Real::integer(1000));
    let near = (-24..=24).map(|step| 500 * step + 130);
    let far = std::iter::successors(Some(15_130_i64), |x| Some(x * 5 / 4)).take(20);
    let mut grid: Vec<i64> = near.chain(far.clone()).chain(far.map(|x| -x)).collect();
    grid.sort_unstable();
    grid.into_iter().filter_map(thousandths).collect()
});

/// `Some(true)` for plus infinity, `Some(false)` for minus infinity.
fn infinite(node: &Node) -> Option<bool> {
    match node {
        Node::Constant(Constant::Infinity) => Some(true),
        Node::Negative(inner) if **inner == Node::Constant(Constant::Infinity) => Some(false),
        _ => None,
    }
}

fn contains(set: &Node, x: Real, fuel: &Fuel) -> Option<bool> {
    Some(match set {
        Node::Reals => true,
        Node::Bracket { open, close, items } => {
            let inside = |end: &Node, fence: Fence, outward: Ordering| {
                if let Some(positive) = infinite(end) {
                    return Some(positive == (outward == Ordering::Greater));
                }
                Some(match order(x, evaluate(end, None, fuel)?) {
                    Ordering::Equal => fence == Fence::Closed,
                    found => found != outward,
                })
            };
            inside(items.first()?, *open, Ordering::Less)?
                && inside(items.get(1)?, *close, Ordering::Greater)?
        }
        Node::Set(items) => {
            let mut found = false;
            for item in items {
                found |= order(x, evaluate(item, None, fuel)?) == Ordering::Equal;
            }
            found
        }
        Node::Union(items) | Node::List(Joint::Or, items) => any(items, x, fuel)?,
        Node::Intersection(items) | Node::List(Joint::And, items) => all(items, x, fuel)?,
        Node::List(Joint::Comma, items) => {
            // `x \ne 1, x \ne 2` means both, `x < 1, x > 2` either.
            let excludes = |node: &Node| matches!(node, Node::Relation { operators, .. } if operators == &[Operator::NotEqual]);
            if items.iter().any(excludes) { all(items, x, fuel)? } else { any(items, x, fuel)? }
        }
        Node::Without(a, b) => contains(a, x, fuel)? && !contains(b, x, fuel)?,
        Node::Relation { sides, operators } => {
            let name = set.symbols().first().copied()?;
            for (at, operator) in operators.iter().enumerate() {
                let left = evaluate(&sides[at], Some((name, x)), fuel)?;
                let right = &sides[at + 1];
                let holds = match operator {
                    Operator::In => contains(right, left, fuel)?,
                    _ => match infinite(right) {
                        Some(positive) => {
                            let order = if positive { Ordering::Less } else { Ordering::Greater };
                            holds(order, *operator)
                        }
                        None => holds(order(left, evaluate(right, Some((name, x)), fuel)?), *operator),
                    },
                };
                if !holds {
                    return Some(false);
                }
            }
            true
        }
        _ => return None,
    })
}

fn any(items: &[Node], x: Real, fuel: &Fuel) -> Option<bool> {
    let mut found = false;
    for item in items {
        found |= contains(item, x, fuel)?;
    }
    Some(found)
}

fn all(items: &[Node], x: Real, fuel: &Fuel) -> Option<bool> {
    let mut found = true;
    for item in items {
        found &= contains(item, x, fuel)?;
    }
    Some(found)
}

fn holds(order: Ordering, operator: Operator) -> bool {
    match operator {
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterEqual => order.is_ge(),
        Operator::NotEqual => order.is_ne(),
        Operator::Equal | Operator::Approximately | Operator::In => order.is_eq(),
    }
}
