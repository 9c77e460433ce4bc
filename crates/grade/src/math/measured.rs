//! The units in two answers, before their values are compared.
//!
//! Values are compared without their units, so the units are compared first, wherever in an answer they stand: under a
//! sign, in a relation, behind the last item of a list. A unit on one side only is forgiven. Percent and degrees count as
//! units here, but stay in the tree, because values depend on them: see [`super::scalar`] and [`super::functions`].

use std::collections::BTreeSet;

use super::node::Node;
use super::units::{Powers, Unit};

/// How the units of two answers stand to each other.
pub(super) enum Units {
    /// One side has none, or both have the same.
    Agree,
    Differ,
    /// The answers in base units.
    Converted(Node, Node),
}

pub(super) fn compare(a: &Node, b: &Node) -> Units {
    let (left, right) = (units(a), units(b));
    let powers = |units: &[Unit]| units.iter().map(|unit| unit.powers.clone()).collect::<BTreeSet<_>>();
    let (first, second) = (powers(&left), powers(&right));
    if first.is_empty() || second.is_empty() || vague(&first, &second) || vague(&second, &first) {
        return Units::Agree;
    }
    if first != second {
        return Units::Differ;
    }
    let all: Vec<&Unit> = left.iter().chain(&right).collect();
    if all.iter().all(|one| all.iter().all(|other| one.powers != other.powers || one == other)) {
        return Units::Agree;
    }
    Units::Converted(in_base_units(a), in_base_units(b))
}

/// Degrees by themselves may be those of a temperature.
fn vague(one: &BTreeSet<Powers>, other: &BTreeSet<Powers>) -> bool {
    let only = |powers: &BTreeSet<Powers>, names: &[&str]| {
        powers.iter().all(|powers| powers.keys().all(|name| names.contains(name)))
    };
    only(one, &["degree"]) && only(other, &["celsius", "fahrenheit"])
}

/// The units of measurement in an answer.
fn units(node: &Node) -> Vec<Unit> {
    match node {
        Node::Measured { value, unit } => match Unit::of(unit) {
            Some(unit) => vec![unit],
            None => units(value),
        },
        Node::Percent(_) => Unit::of("percent").into_iter().collect(),
        Node::Degrees(_) => Unit::of("degree").into_iter().collect(),
        // An angle in a function is no measure of the value.
        Node::Call(function, _) if function.takes_angle() => Vec::new(),
        _ => node.children().into_iter().flat_map(units).collect(),
    }
}

fn in_base_units(node: &Node) -> Node {
    node.clone().map(&|node| match node {
        Node::Measured { value, unit } => match Unit::of(&unit) {
            Some(unit) => Node::Product(vec![*value, Node::Number { value: unit.factor, decimal: false }]),
            None => Node::Measured { value, unit },
        },
        other => other,
    })
}

/// The unit of a whole brought to the outside of a sign, and to each item of a collection: `-10 km`, `(1, 2) km` and
/// `1, 2 km`.
pub(super) fn spread(node: Node) -> Node {
    let with = |unit: &str, value: Node| Node::Measured { value: Box::new(value), unit: unit.into() };
    match node {
        Node::Negative(inner) => match *inner {
            Node::Measured { value, unit } => with(&unit, value.negative()),
            other => other.negative(),
        },
        Node::Measured { value, unit } if Unit::of(&unit).is_some() => match *value {
            Node::List(..) | Node::Set(_) | Node::Bracket { .. } => {
                each(*value, |items| items.into_iter().map(|item| with(&unit, item)).collect())
            }
            other => with(&unit, other),
        },
        Node::List(..) | Node::Set(_) | Node::Bracket { .. } => each(node, |items| {
            let unit = match items.split_last() {
                Some((Node::Measured { unit, .. }, others)) if others.iter().all(is_bare) => unit.clone(),
                _ => return items,
            };
            let share = |item| if is_bare(&item) { with(&unit, item) } else { item };
            items.into_iter().map(share).collect()
        }),
        other => other,
    }
}

/// A number that says nothing of what it counts.
fn is_bare(node: &Node) -> bool {
    let counts = |node: &Node| matches!(node, Node::Measured { .. } | Node::Percent(_) | Node::Degrees(_));
    node.is_scalar() && node.symbols().is_empty() && !node.any(&counts)
}

fn each(collection: Node, change: impl FnOnce(Vec<Node>) -> Vec<Node>) -> Node {
    match collection {
        Node::List(joint, items) => Node::List(joint, change(items)),
        Node::Set(items) => Node::Set(change(items)),
        Node::Bracket { open, close, items } => Node::Bracket { open, close, items: change(items) },
        other => other,
    }
}
