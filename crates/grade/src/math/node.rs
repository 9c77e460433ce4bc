//! What an answer says, as a tree.
//!
//! Sums and products are flat lists, so that a long sum is not a deep tree; the parser bounds the depth, and
//! whatever walks a tree may therefore recurse.

use num_rational::BigRational;

/// A parsed answer or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A number as written. A decimal that is no integer may be an approximation.
    Number {
        value: BigRational,
        decimal: bool,
    },
    Symbol(Box<str>),
    Constant(Constant),
    Sum(Vec<Node>),
    Product(Vec<Node>),
    Negative(Box<Node>),
    /// `\pm` (true) or `\mp`: both signs, chosen together throughout an answer.
    Either(bool, Box<Node>),
    Quotient(Box<Node>, Box<Node>),
    /// `1:2:3`, of more than two parts.
    Ratio(Vec<Node>),
    Power(Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    /// `\sum`, `\prod` or `\int` of a body over an index from a first to a last value.
    Series {
        fold: Fold,
        index: Box<str>,
        bounds: Box<(Node, Node)>,
        body: Box<Node>,
    },
    Percent(Box<Node>),
    Degrees(Box<Node>),
    /// Digits read in a base that a subscript names.
    Based {
        digits: Box<Node>,
        base: u32,
    },
    /// A value and the unit that it is measured in.
    Measured {
        value: Box<Node>,
        unit: Box<str>,
    },
    Matrix(Vec<Vec<Node>>),
    /// `(a, b)`, `[a, b)`, …: a tuple, a point or an interval.
    Bracket {
        open: Fence,
        close: Fence,
        items: Vec<Node>,
    },
    Set(Vec<Node>),
    List(Joint, Vec<Node>),
    Union(Vec<Node>),
    Intersection(Vec<Node>),
    Without(Box<Node>, Box<Node>),
    Reals,
    /// `a < b <= c`: one more side than operators.
    Relation {
        sides: Vec<Node>,
        operators: Vec<Operator>,
    },
    Text(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    Pi,
    E,
    I,
    Infinity,
}

/// Does an interval hold its end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    Open,
    Closed,
}

/// What stands between the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    Comma,
    And,
    Or,
}

/// How the values of a body are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Sum,
    Product,
    Integral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Approximately,
    In,
}

impl Operator {
    /// The same relation read from right to left.
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            same => same,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// `Root(radicand, degree)`.
    Root,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    DoubleFactorial,
    Binomial,
    Exp,
    Ln,
    /// `Log(x, base)`.
    Log,
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Arccot,
    Sinh,
    Cosh,
    Tanh,
    Max,
    Min,
    Gcd,
    Lcm,
    Mod,
}

impl Function {
    pub(super) fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Sin => Self::Arcsin,
            Self::Cos => Self::Arccos,
            Self::Tan => Self::Arctan,
            Self::Cot => Self::Arccot,
            _ => return None,
        })
    }

    /// Does it take an angle, so that degrees in its argument mean degrees?
    pub(super) fn takes_angle(self) -> bool {
        matches!(self, Self::Sin | Self::Cos | Self::Tan | Self::Cot | Self::Sec | Self::Csc)
    }
}

impl Node {
    pub(super) fn integer(value: i64) -> Self {
        Self::Number { value: BigRational::from_integer(value.into()), decimal: false }
    }

    pub(super) fn symbol(name: impl Into<Box<str>>) -> Self {
        Self::Symbol(name.into())
    }

    pub(super) fn negative(self) -> Self {
        Self::Negative(Box::new(self))
    }

    pub(super) fn power(self, exponent: Self) -> Self {
        Self::Power(Box::new(self), Box::new(exponent))
    }

    pub(super) fn over(self, under: Self) -> Self {
        Self::Quotient(Box::new(self), Box::new(under))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self::Sum(vec![self, other.negative()])
    }

    /// A sum or product of one is that one.
    pub(super) fn sum(mut terms: Vec<Self>) -> Self {
        if terms.len() == 1 { terms.swap_remove(0) } else { Self::Sum(terms) }
    }

    pub(super) fn product(mut factors: Vec<Self>) -> Self {
        if factors.len() == 1 { factors.swap_remove(0) } else { Self::Product(factors) }
    }

    /// The parts directly below.
    pub(super) fn children(&self) -> Vec<&Node> {
        match self {
            Self::Number { .. } | Self::Symbol(_) | Self::Constant(_) | Self::Reals | Self::Text(_) => vec![],
            Self::Sum(items)
            | Self::Product(items)
            | Self::Ratio(items)
            | Self::Call(_, items)
            | Self::Bracket { items, .. }
            | Self::Set(items)
            | Self::List(_, items)
            | Self::Union(items)
            | Self::Intersection(items)
            | Self::Relation { sides: items, .. } => items.iter().collect(),
            Self::Negative(inner)
            | Self::Either(_, inner)
            | Self::Percent(inner)
            | Self::Degrees(inner)
            | Self::Based { digits: inner, .. }
            | Self::Measured { value: inner, .. } => vec![inner],
            Self::Quotient(a, b) | Self::Power(a, b) | Self::Without(a, b) => vec![a, b],
            Self::Series { bounds, body, .. } => vec![&bounds.0, &bounds.1, body],
            Self::Matrix(rows) => rows.iter().flatten().collect(),
        }
    }

    /// Does any part of the tree satisfy this?
    pub(super) fn any(&self, test: &impl Fn(&Node) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    /// The tree with every part replaced, from the leaves up.
    pub(super) fn map(self, change: &impl Fn(Node) -> Node) -> Node {
        let all = |items: Vec<Node>| items.into_iter().map(|item| item.map(change)).collect::<Vec<_>>();
        let one = |item: Box<Node>| Box::new(item.map(change));
        let mapped = match self {
            leaf @ (Self::Number { .. }
            | Self::Symbol(_)
            | Self::Constant(_)
            | Self::Reals
            | Self::Text(_)) => leaf,
            Self::Sum(items) => Self::Sum(all(items)),
            Self::Product(items) => Self::Product(all(items)),
            Self::Ratio(items) => Self::Ratio(all(items)),
            Self::Call(function, items) => Self::Call(function, all(items)),
            Self::Bracket { open, close, items } => Self::Bracket { open, close, items: all(items) },
            Self::Set(items) => Self::Set(all(items)),
            Self::List(joint, items) => Self::List(joint, all(items)),
            Self::Union(items) => Self::Union(all(items)),
            Self::Intersection(items) => Self::Intersection(all(items)),
            Self::Relation { sides, operators } => Self::Relation { sides: all(sides), operators },
            Self::Negative(inner) => Self::Negative(one(inner)),
            Self::Either(plus, inner) => Self::Either(plus, one(inner)),
            Self::Percent(inner) => Self::Percent(one(inner)),
            Self::Degrees(inner) => Self::Degrees(one(inner)),
            Self::Based { digits, base } => Self::Based { digits: one(digits), base },
            Self::Measured { value, unit } => Self::Measured { value: one(value), unit },
            Self::Quotient(a, b) => Self::Quotient(one(a), one(b)),
            Self::Power(a, b) => Self::Power(one(a), one(b)),
            Self::Without(a, b) => Self::Without(one(a), one(b)),
            Self::Series { fold, index, bounds, body } => {
                let bounds = Box::new((bounds.0.map(change), bounds.1.map(change)));
                Self::Series { fold, index, bounds, body: one(body) }
            }
            Self::Matrix(rows) => Self::Matrix(rows.into_iter().map(all).collect()),
        };
        change(mapped)
    }

    /// The two answers that one with `\pm` gives.
    pub(super) fn both_signs(&self) -> Option<[Node; 2]> {
        self.any(&|node| matches!(node, Self::Either(..))).then(|| {
            [true, false].map(|upper| {
                self.clone().map(&|node| match node {
                    Self::Either(plus, inner) if plus == upper => *inner,
                    Self::Either(_, inner) => inner.negative(),
                    other => other,
                })
            })
        })
    }

    /// The names of the symbols, sorted, each once.
    pub(super) fn symbols(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_symbols(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn collect_symbols<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Symbol(name) => names.push(name),
            Self::Series { index, bounds, body, .. } => {
                let mut inner = body.symbols();
                inner.retain(|name| *name != &**index);
                names.extend(inner);
                bounds.0.collect_symbols(names);
                bounds.1.collect_symbols(names);
            }
            _ => self.children().into_iter().for_each(|child| child.collect_symbols(names)),
        }
    }

    /// An expression with one value: no list, set, relation or text anywhere in it.
    pub(super) fn is_scalar(&self) -> bool {
        !self.any(&|node| {
            matches!(
                node,
                Self::Matrix(_)
                    | Self::Ratio(_)
                    | Self::Bracket { .. }
                    | Self::Set(_)
                    | Self::List(..)
                    | Self::Union(_)
                    | Self::Intersection(_)
                    | Self::Without(..)
                    | Self::Reals
                    | Self::Relation { .. }
                    | Self::Text(_)
                    | Self::Either(..)
            )
        })
    }

    /// What a person would put on the left of "= 5" as the name of what was asked: `x`, `f(x)`, `AB`, `|AB|`,
    /// `\frac{NO}{BO}`, `(p, q)`. Numbers and sums are claims, not names.
    pub(super) fn is_name(&self) -> bool {
        match self {
            Self::Symbol(_) => true,
            // `e` and `i` may be meant as names as well as numbers, but only beside others.
            Self::Product(items) => {
                items.iter().any(Self::is_name)
                    && matches!(items[0], Self::Symbol(_))
                    && items
                        .iter()
                        .all(|item| item.is_name() || matches!(item, Self::Number { .. } | Self::Constant(_)))
            }
            Self::Bracket { items, .. } => items.iter().all(Self::is_name),
            Self::List(_, items) => items.iter().all(Self::is_name),
            Self::Call(_, items) => items.iter().all(Self::is_name),
            Self::Quotient(a, b) => a.is_name() && b.is_name(),
            // `m + n = 204`, as contests ask for it.
            Self::Sum(items) => items.iter().all(|item| matches!(item, Self::Symbol(_))),
            Self::Text(_) => true,
            _ => false,
        }
    }
}
