//! Do two answers say the same?
//!
//! Answers of one kind are compared as that kind asks: numbers by value ([`super::scalar`]), sets and lists
//! regardless of order, tuples in order, intervals with their ends, matrices cell by cell, equations up to a constant
//! factor, descriptions of real sets by their members ([`super::sets`]). Where the kinds differ, one may still say what
//! the other does: `x = 5` and `5`, `1 \pm 2` and `3, -1`, `(1, 2)` and `1, 2`.
//! A unit on one side only says nothing; two that do not convert into each other ([`super::measured`]) or contradict each
//! other, as morning and afternoon do, say different things.

use super::{
    fuel::Fuel,
    matrix,
    measured::{self, Units},
    node::{Fence, Node, Operator},
    scalar, sets, text, units, words,
};

pub(super) fn same(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    if fuel.spend(200).is_none() {
        return false;
    }
    if a == b {
        return true;
    }
    let (a, b) = (measured::spread(simplify(a)), measured::spread(simplify(b)));
    // Collections are compared item by item.
    let relations_both = matches!((&a, &b), (Node::Relation { .. }, Node::Relation { .. }));
    if relations_both || described(&a, &b) || (a.is_scalar() && b.is_scalar()) {
        match measured::compare(&a, &b) {
            Units::Agree => {}
            Units::Differ => return false,
            Units::Converted(a, b) => return same(&a, &b, fuel),
        }
    }
    match (&a, &b) {
        (Node::Measured { value: left, unit: first }, Node::Measured { value: right, unit: second }) => {
            !words::contradict(first, second) && same_measure((left, first), (right, second), fuel)
        }
        (Node::Measured { value, unit }, other) | (other, Node::Measured { value, unit })
            if let Some((number, letter)) = lettered(other) =>
        {
            match units::conversion(unit, letter) {
                units::Conversion::Unknown => same(value, other, fuel),
                _ => same_measure((value, unit), (&number, letter), fuel),
            }
        }
        (Node::Measured { value, .. }, other) | (other, Node::Measured { value, .. })
            if !matches!(other, Node::Relation { .. }) =>
        {
            same(value, other, fuel)
        }
        (Node::Text(left), Node::Text(right)) => text::same(left, right),
        (Node::Relation { .. }, Node::Relation { .. }) => relations(&a, &b, fuel),
        _ if described(&a, &b) => sets::same(&a, &b, fuel),
        (relation @ Node::Relation { .. }, other) | (other, relation @ Node::Relation { .. }) => {
            assigned(relation).is_some_and(|value| same(value, other, fuel))
        }
        _ => collections(&a, &b, fuel),
    }
}

/// Values in their units.
fn same_measure((left, from): (&Node, &str), (right, to): (&Node, &str), fuel: &Fuel) -> bool {
    match units::conversion(from, to) {
        units::Conversion::Different => false,
        // In base units on both sides: so it does not matter which side is which.
        units::Conversion::Exact(one, other) if one != other => {
            let base = |value: &Node, factor| {
                Node::Product(vec![value.clone(), Node::Number { value: factor, decimal: false }])
            };
            left.is_scalar() && right.is_scalar() && same(&base(left, one), &base(right, other), fuel)
        }
        _ => same(left, right, fuel),
    }
}

/// A number with a letter behind it, which is the symbol of a unit where the other side has one: `5 m`.
fn lettered(node: &Node) -> Option<(Node, &str)> {
    if let Node::Negative(inner) = node {
        return lettered(inner).map(|(number, letter)| (number.negative(), letter));
    }
    let Node::Product(factors) = node else { return None };
    let (Node::Symbol(letter), numbers) = factors.split_last()? else { return None };
    let number = Node::product(numbers.to_vec());
    (number.is_scalar() && number.symbols().is_empty()).then_some((number, letter))
}

/// Are both sets of real numbers, of which one is described rather than listed?
fn described(a: &Node, b: &Node) -> bool {
    (sets::is_description(a) || sets::is_description(b)) && sets::is_set(a) && sets::is_set(b)
}

fn collections(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    match (a, b) {
        (Node::Set(left) | Node::List(_, left), Node::Set(right) | Node::List(_, right)) => {
            same_elements(left, right, fuel)
        }
        (
            Node::Bracket { open, close, items: left },
            Node::Bracket { open: other_open, close: other_close, items: right },
        ) => {
            let fences = !may_be_interval(left, fuel) || (open == other_open && close == other_close);
            fences && in_order(left, right, fuel)
        }
        (Node::Bracket { open, close, items }, Node::List(_, others) | Node::Set(others))
        | (Node::List(_, others) | Node::Set(others), Node::Bracket { open, close, items }) => {
            let point = *open == *close && (*open == Fence::Open || !may_be_interval(items, fuel));
            point && in_order(items, others, fuel)
        }
        (Node::Matrix(_), _) | (_, Node::Matrix(_)) => matrices(a, b, fuel),
        (Node::Ratio(left), Node::Ratio(right)) => proportional(left, right, fuel),
        // A list of one, however often, is that one.
        (Node::List(_, items) | Node::Set(items), other)
        | (other, Node::List(_, items) | Node::Set(items)) => {
            !items.is_empty() && items.iter().all(|item| same(item, other, fuel))
        }
        _ if a.is_scalar() && b.is_scalar() => scalar::same(a, b, fuel),
        _ => match (matrix::value(a, fuel), matrix::value(b, fuel)) {
            (Some(left), Some(right)) => matrices(&Node::Matrix(left), &Node::Matrix(right), fuel),
            _ => parts(a, b, fuel),
        },
    }
}

/// Shapes with no rule of their own: equal where their parts are.
fn parts(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let shape = std::mem::discriminant(a) == std::mem::discriminant(b);
    let (left, right) = (a.children(), b.children());
    let calls = match (a, b) {
        (Node::Call(first, _), Node::Call(second, _)) => first == second,
        (Node::Series { fold: first, .. }, Node::Series { fold: second, .. }) => first == second,
        _ => true,
    };
    shape
        && calls
        && !left.is_empty()
        && left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| same(left, right, fuel))
}

fn matrices(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let (Some(left), Some(right)) = (matrix::value(a, fuel), matrix::value(b, fuel)) else { return false };
    left.len() == right.len() && left.iter().zip(&right).all(|(left, right)| in_order(left, right, fuel))
}

/// `1:2:3` and `2:4:6`: each part is as many times the first.
fn proportional(a: &[Node], b: &[Node], fuel: &Fuel) -> bool {
    let relative = |items: &[Node]| -> Vec<Node> {
        items[1..].iter().map(|item| item.clone().over(items[0].clone())).collect()
    };
    in_order(&relative(a), &relative(b), fuel)
}

/// Could these be the ends of an interval? If so the brackets matter; if not they are only brackets.
fn may_be_interval(items: &[Node], fuel: &Fuel) -> bool {
    let [first, last] = items else { return false };
    !sets::descends(first, last, fuel)
}

/// The same list in the same order.
fn in_order(a: &[Node], b: &[Node], fuel: &Fuel) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, fuel))
}

/// The same elements in any order. Lists of one length have each as often (`2, 2, 3` is not `2, 3, 3`); of lists that
/// differ in length, one may name a double root once.
fn same_elements(a: &[Node], b: &[Node], fuel: &Fuel) -> bool {
    let (a, mut b) = (spread(a), spread(b));
    if in_order(&a, &b, fuel) {
        return true;
    }
    if a.len() == b.len() {
        return a.iter().all(|item| {
            let found = b.iter().position(|other| same(item, other, fuel));
            found.map(|at| b.swap_remove(at)).is_some()
        });
    }
    let covers =
        |all: &[Node], some: &[Node]| some.iter().all(|item| all.iter().any(|other| same(item, other, fuel)));
    covers(&a, &b) && covers(&b, &a)
}

/// The elements with every `\pm` written out.
fn spread(items: &[Node]) -> Vec<Node> {
    items
        .iter()
        .flat_map(|item| match item.both_signs() {
            Some(both) => both.to_vec(),
            None => vec![item.clone()],
        })
        .collect()
}

/// Brings out what an answer says: both values of a `\pm`, the set that something is in, the ends of a chain of
/// equations.
fn simplify(node: &Node) -> Node {
    match node {
        Node::Relation { sides, operators } => simplify_relation(sides, operators),
        Node::List(..) | Node::Set(_) => node.clone(),
        _ => match node.both_signs() {
            Some(both) => Node::List(super::node::Joint::Or, both.to_vec()),
            None => node.clone(),
        },
    }
}

fn simplify_relation(sides: &[Node], operators: &[Operator]) -> Node {
    // What follows an approximation only illustrates, unless it is all that is said: `x ≈ 11`.
    if let Some(at) = operators.iter().position(|operator| *operator == Operator::Approximately) {
        if at == 0 && !sides[0].is_name() {
            return simplify(&sides[0]);
        }
        let kept = if at == 0 { 2 } else { at + 1 };
        let mut operators = operators[..kept - 1].to_vec();
        operators.iter_mut().for_each(|operator| {
            if *operator == Operator::Approximately {
                *operator = Operator::Equal;
            }
        });
        return simplify_relation(&sides[..kept], &operators);
    }
    let last = sides.len() - 1;
    if operators == [Operator::In] && sides[0].is_name() {
        return simplify(&sides[1]);
    }
    if !operators.iter().all(|operator| *operator == Operator::Equal) {
        return Node::Relation { sides: sides.to_vec(), operators: operators.to_vec() };
    }
    // A calculation: `1 + 1 = 2`.
    if sides.iter().all(|side| side.is_scalar() && side.symbols().is_empty()) {
        return sides[last].clone();
    }
    let name = sides[..last].iter().find(|side| side.is_name()).unwrap_or(&sides[0]);
    let relation = |left: &Node, right: Node| Node::Relation {
        sides: vec![left.clone(), right],
        operators: vec![Operator::Equal],
    };
    match sides[last].both_signs() {
        Some(both) => {
            let items = both.into_iter().map(|value| relation(name, value)).collect();
            Node::List(super::node::Joint::Or, items)
        }
        None => relation(name, sides[last].clone()),
    }
}

/// What a relation says something is: the `5` of `x = 5`.
fn assigned(relation: &Node) -> Option<&Node> {
    match relation {
        Node::Relation { sides, operators } if operators == &[Operator::Equal] => {
            // `x = 2x + 3` is an equation still to be solved.
            let recurs = matches!(sides[0], Node::Symbol(_)) && sides[1].any(&|node| *node == sides[0]);
            (sides[0].is_name() && !recurs).then_some(&sides[1])
        }
        _ => None,
    }
}

fn relations(a: &Node, b: &Node, fuel: &Fuel) -> bool {
    let (
        Node::Relation { sides: left, operators: first },
        Node::Relation { sides: right, operators: second },
    ) = (a, b)
    else {
        return false;
    };
    let pairwise = |right: &[Node], second: &[Operator]| first == second && in_order(left, right, fuel);
    if pairwise(right, second) {
        return true;
    }
    let backwards: Vec<Node> = right.iter().rev().cloned().collect();
    let reversed: Vec<Operator> = second.iter().rev().map(|operator| operator.reversed()).collect();
    if pairwise(&backwards, &reversed) {
        return true;
    }
    if let Some(same) = up_to_a_factor(left, first, right, second, fuel) {
        return same;
    }
    if first == &[Operator::Equal] && second == &[Operator::Equal] {
        return same_definition(left, right, fuel);
    }
    described(a, b) && sets::same(a, b, fuel)
}

/// Two definitions of one thing under different arguments or cases: `f(x) = x + 1` and `F(x) = 1 + x`.
fn same_definition(left: &[Node], right: &[Node], fuel: &Fuel) -> bool {
    let called = |node: &Node| matches!(node, Node::Product(items) if matches!(items[0], Node::Symbol(_)));
    let constant = |node: &Node| node.symbols().is_empty();
    let same_head = match (&left[0], &right[0]) {
        (Node::Product(a), Node::Product(b)) => a[0] == b[0],
        _ => false,
    };
    // The argument's name does not matter: `f(n) = n + 1`, `f(x) = x + 1`.
    let renamed = || match (&left[0], &right[0]) {
        (Node::Product(a), Node::Product(b)) => match (a.as_slice(), b.as_slice()) {
            ([_, from @ Node::Symbol(_)], [_, to @ Node::Symbol(_)]) => {
                let taken = left[1].any(&|node| node == to);
                let value = left[1].clone().map(&|node| if node == *from { to.clone() } else { node });
                !taken && same(&value, &right[1], fuel)
            }
            _ => false,
        },
        _ => false,
    };
    let constants = constant(&left[1]) && constant(&right[1]) && same(&left[1], &right[1], fuel);
    called(&left[0]) && called(&right[0]) && same_head && (constants || renamed())
}

/// `2x + 4 = 0` and `x = -2`; for inequalities the factor must be positive. `None` where there is no factor.
fn up_to_a_factor(
    left: &[Node],
    first: &[Operator],
    right: &[Node],
    second: &[Operator],
    fuel: &Fuel,
) -> Option<bool> {
    let ([operator], [other]) = (first, second) else { return None };
    if !left.iter().chain(right).all(Node::is_scalar) {
        return None;
    }
    let turned = |operator: &Operator| matches!(operator, Operator::Greater | Operator::GreaterEqual);
    let difference = |sides: &[Node], operator: &Operator| {
        let (a, b) = (sides[0].clone(), sides[1].clone());
        if turned(operator) { b.minus(a) } else { a.minus(b) }
    };
    let strict = |operator: &Operator| if turned(operator) { operator.reversed() } else { *operator };
    let sign = scalar::ratio(&difference(left, operator), &difference(right, other), fuel)?;
    let turns = sign.is_gt() || matches!(operator, Operator::Equal | Operator::NotEqual);
    Some(strict(operator) == strict(other) && turns)
}
