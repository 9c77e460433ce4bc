//! Matrices: sums of matrices, multiples of them, and the product of two, as one matrix of expressions.

use super::{fuel::Fuel, node::Node};

/// The cells of an expression whose value is a matrix.
pub(super) fn value(node: &Node, fuel: &Fuel) -> Option<Vec<Vec<Node>>> {
    match node {
        Node::Matrix(rows) => Some(rows.clone()),
        Node::Negative(inner) => Some(each(value(inner, fuel)?, Node::negative)),
        Node::Quotient(over, under) if under.is_scalar() => {
            Some(each(value(over, fuel)?, |cell| cell.over((**under).clone())))
        }
        Node::Sum(terms) => {
            let mut total = value(terms.first()?, fuel)?;
            for term in &terms[1..] {
                total = add(total, value(term, fuel)?, fuel)?;
            }
            Some(total)
        }
        Node::Product(factors) => {
            let (scalars, others): (Vec<&Node>, Vec<&Node>) =
                factors.iter().partition(|node| node.is_scalar());
            let product = match others.as_slice() {
                [one] => value(one, fuel)?,
                // The cells of a longer product would outgrow any limit.
                [left, right] => multiply(&value(left, fuel)?, &value(right, fuel)?, fuel)?,
                _ => return None,
            };
            let factor = Node::product(scalars.into_iter().cloned().collect());
            Some(match factor {
                Node::Product(factors) if factors.is_empty() => product,
                factor => {
                    fuel.spend(100 * (product.len() * product.first()?.len()) as u64)?;
                    each(product, |cell| Node::Product(vec![factor.clone(), cell]))
                }
            })
        }
        _ => None,
    }
}

fn each(rows: Vec<Vec<Node>>, change: impl Fn(Node) -> Node) -> Vec<Vec<Node>> {
    rows.into_iter().map(|row| row.into_iter().map(&change).collect()).collect()
}

fn add(a: Vec<Vec<Node>>, b: Vec<Vec<Node>>, fuel: &Fuel) -> Option<Vec<Vec<Node>>> {
    if a.len() != b.len() || a.first()?.len() != b.first()?.len() {
        return None;
    }
    fuel.spend(100 * (a.len() * a.first()?.len()) as u64)?;
    let sum = |(a, b): (Node, Node)| match a {
        // Kept flat, however many are added.
        Node::Sum(mut terms) => {
            terms.push(b);
            Node::Sum(terms)
        }
        a => Node::Sum(vec![a, b]),
    };
    Some(a.into_iter().zip(b).map(|(a, b)| a.into_iter().zip(b).map(sum).collect()).collect())
}

fn multiply(a: &[Vec<Node>], b: &[Vec<Node>], fuel: &Fuel) -> Option<Vec<Vec<Node>>> {
    let (inner, width) = (b.len(), b.first()?.len());
    if a.first()?.len() != inner {
        return None;
    }
    fuel.spend(200 * (a.len() * inner * width) as u64)?;
    let cell = |row: &Vec<Node>, column: usize| {
        let terms =
            row.iter().zip(b).map(|(left, other)| Node::Product(vec![left.clone(), other[column].clone()]));
        Node::sum(terms.collect())
    };
    Some(a.iter().map(|row| (0..width).map(|column| cell(row, column)).collect()).collect())
}
