//! From tokens to a tree: lists, relations, sets, sums and products.
//!
//! ```text
//! list     = relation (("," | ";" | "and" | "or") relation)*
//! relation = union (("=" | "<" | "≤" | "≠" | "∈" | …) union)*
//! union    = sum (("∪" | "∩" | "∖") sum)*
//! sum      = ["+" | "-" | "±"] product (("+" | "-" | "±" | "∓") product)*
//! product  = factor (["·" | "/" | ":"] factor)*
//! factor   = atom ("^" exponent | "!" | "%" | "°" | base | unit)*
//! ```
//!
//! Atoms are in [`super::atom`]. Text comes from a model and may be anything, so its length and the nesting are
//! limited, and every failure is an error with its place.

use super::{
    lex::{Commas, Placed, Shape, Span, Token, tokenize},
    node::{Function, Joint, Node, Operator},
    words,
};

/// The longest answer that is parsed, in bytes; a longer one is only ever a text.
pub(super) const MAX_LENGTH: usize = 4096;
/// How deep an answer may nest.
const MAX_DEPTH: usize = 32;
/// How many postfix operators one atom may have.
const MAX_POSTFIX: usize = 8;

/// Why a text is not mathematics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("an answer of {length} bytes is over the limit of {MAX_LENGTH}")]
    TooLong { length: usize },
    #[error("nested more than {MAX_DEPTH} deep at byte {}", span.start)]
    TooDeep { span: Span },
    #[error("unexpected {found} at bytes {}..{}: expected {expected}", span.start, span.end)]
    Unexpected { found: String, expected: &'static str, span: Span },
    #[error("the answer ends where {expected} should follow")]
    Ended { expected: &'static str },
}

pub(super) type Parsed = Result<Node, ParseError>;

/// Parses a whole text.
pub(super) fn parse(text: &str, commas: Commas) -> Parsed {
    if text.len() > MAX_LENGTH {
        return Err(ParseError::TooLong { length: text.len() });
    }
    let tokens = tokenize(text, commas);
    let mut parser = Parser { tokens: &tokens, next: 0, depth: 0, bars: 0, brackets: 0 };
    let node = parser.list()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

pub(super) struct Parser<'a> {
    tokens: &'a [Placed],
    pub(super) next: usize,
    depth: usize,
    /// Absolute values open around: there, a bar closes.
    pub(super) bars: usize,
    /// Brackets open around: there, a square bracket after a value closes.
    pub(super) brackets: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next).map(|placed| &placed.token)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a Placed> {
        self.tokens.get(self.next + ahead)
    }

    pub(super) fn take(&mut self) -> Option<&'a Token> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    /// Takes the next token if it is this one.
    pub(super) fn accept(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, token: &Token, expected: &'static str) -> Result<(), ParseError> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// The error for the token that comes next.
    pub(super) fn unexpected(&self, expected: &'static str) -> ParseError {
        match self.tokens.get(self.next) {
            Some(Placed { token, span, .. }) => {
                ParseError::Unexpected { found: format!("{token:?}"), expected, span: span.clone() }
            }
            None => ParseError::Ended { expected },
        }
    }

    /// Runs a rule one level deeper.
    pub(super) fn deeper(&mut self, rule: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            let end = self.tokens.last().map_or(0, |placed| placed.span.end);
            let span = self.tokens.get(self.next).map_or(end..end, |placed| placed.span.clone());
            return Err(ParseError::TooDeep { span });
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Runs a rule inside other bars and brackets than those around it.
    pub(super) fn within(
        &mut self,
        bars: usize,
        brackets: usize,
        rule: impl FnOnce(&mut Self) -> Parsed,
    ) -> Parsed {
        let around = (self.bars, self.brackets);
        (self.bars, self.brackets) = (bars, brackets);
        let result = rule(self);
        (self.bars, self.brackets) = around;
        result
    }

    pub(super) fn list(&mut self) -> Parsed {
        let mut items = vec![self.relation()?];
        let mut joint = Joint::Comma;
        let mut separated = false;
        loop {
            // `1, 2, and 3`: several separators in a row are one.
            let mut found = false;
            while let Some(token @ (Token::Comma | Token::And | Token::Or | Token::Row)) = self.peek() {
                match token {
                    Token::Or => joint = Joint::Or,
                    Token::And if joint == Joint::Comma => joint = Joint::And,
                    _ => {}
                }
                self.next += 1;
                found = true;
            }
            if !found || !self.starts_item() {
                break;
            }
            separated = true;
            items.push(self.relation()?);
        }
        if separated { Ok(Node::List(joint, items)) } else { Ok(items.swap_remove(0)) }
    }

    /// Can the next token begin an item of a list?
    fn starts_item(&self) -> bool {
        match self.peek() {
            Some(Token::Plus | Token::Minus | Token::PlusMinus | Token::MinusPlus) => true,
            // `]0, 1[`
            Some(Token::Close(Shape::Square)) => self.brackets == 0,
            Some(token) => self.starts_atom(token) || matches!(token, Token::Text(_)),
            None => false,
        }
    }

    fn relation(&mut self) -> Parsed {
        let mut sides = Vec::new();
        let mut operators: Vec<Operator> = Vec::new();
        // `= 5` and `\approx 5` say only the right side.
        while let Some(Token::Relation(Operator::Equal | Operator::Approximately)) = self.peek() {
            self.next += 1;
        }
        self.skip_label();
        sides.push(self.union()?);
        while let Some(Token::Relation(operator)) = self.peek() {
            self.next += 1;
            operators.push(*operator);
            sides.push(self.union()?);
        }
        Ok(if operators.is_empty() { sides.swap_remove(0) } else { Node::Relation { sides, operators } })
    }

    /// `\text{Total: }5` and `\text{The answer is }5` say what follows.
    fn skip_label(&mut self) {
        if let (Some(Token::Text(words)), Some(next)) = (self.peek(), self.peek_at(1)) {
            let leads = words.ends_with(':') || words.ends_with(" is") || words.ends_with(" are");
            let value = self.starts_atom(&next.token) || next.token == Token::Minus;
            if leads && value && words::is_harmless(words) {
                self.next += 1;
            }
        }
    }

    fn union(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let Some(operator @ (Token::Cup | Token::Cap | Token::Without)) = self.peek() else {
                return Ok(left);
            };
            self.next += 1;
            let right = self.sum()?;
            // Chains stay flat: A ∪ B ∪ C is one union, A ∖ B ∖ C is A without the union of both.
            left = match (operator, left) {
                (Token::Cup, Node::Union(mut sets)) => {
                    sets.push(right);
                    Node::Union(sets)
                }
                (Token::Cup, left) => Node::Union(vec![left, right]),
                (Token::Cap, Node::Intersection(mut sets)) => {
                    sets.push(right);
                    Node::Intersection(sets)
                }
                (Token::Cap, left) => Node::Intersection(vec![left, right]),
                (_, Node::Without(from, taken)) => {
                    let mut taken = match *taken {
                        Node::Union(sets) => sets,
                        other => vec![other],
                    };
                    taken.push(right);
                    Node::Without(from, Box::new(Node::Union(taken)))
                }
                (_, left) => Node::Without(Box::new(left), Box::new(right)),
            };
        }
    }

    pub(super) fn sum(&mut self) -> Parsed {
        let mut terms = Vec::new();
        loop {
            let sign = match self.peek() {
                Some(token @ (Token::Plus | Token::Minus | Token::PlusMinus | Token::MinusPlus)) => {
                    Some(token)
                }
                _ if terms.is_empty() => None,
                _ => break,
            };
            self.next += usize::from(sign.is_some());
            let term = self.product()?;
            terms.push(match sign {
                Some(Token::Minus) => term.negative(),
                Some(Token::PlusMinus) => Node::Either(true, Box::new(term)),
                Some(Token::MinusPlus) => Node::Either(false, Box::new(term)),
                _ => term,
            });
        }
        let taken = |node: &Node| matches!(node, Node::Negative(inner) if matches!(**inner, Node::Set(_)));
        // `\mathbb{R} - \{0\}`
        if let [Node::Reals, rest @ ..] = terms.as_slice()
            && !rest.is_empty()
            && rest.iter().all(taken)
        {
            let sets = rest.iter().flat_map(Node::children).cloned().collect();
            return Ok(Node::Without(Box::new(Node::Reals), Box::new(Node::Union(sets))));
        }
        Ok(Node::sum(terms))
    }

    pub(super) fn product(&mut self) -> Parsed {
        let mut over = vec![self.factor()?];
        let mut under = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Times) => {
                    self.next += 1;
                    over.push(self.factor()?);
                }
                Some(Token::Divide) => {
                    self.next += 1;
                    under.push(self.factor()?);
                }
                Some(Token::Colon) => {
                    let first = quotient(over, under);
                    return self.ratio(first);
                }
                Some(Token::Choose) => {
                    self.next += 1;
                    let upper = quotient(over, under);
                    let lower = self.deeper(Self::product)?;
                    return Ok(Node::Call(Function::Binomial, vec![upper, lower]));
                }
                Some(Token::Function(Function::Mod)) => {
                    self.next += 1;
                    let left = quotient(over, under);
                    let right = self.deeper(Self::product)?;
                    return Ok(Node::Call(Function::Mod, vec![left, right]));
                }
                Some(token) if self.starts_atom(token) => over.push(self.factor()?),
                _ => return Ok(quotient(over, under)),
            }
        }
    }

    /// After its first part: `3:2` is a quotient, `1:2:3` has no value.
    fn ratio(&mut self, first: Node) -> Parsed {
        let mut parts = vec![first];
        while self.accept(&Token::Colon) {
            let mut factors = vec![self.factor()?];
            while let Some(token) = self.peek()
                && self.starts_atom(token)
            {
                factors.push(self.factor()?);
            }
            parts.push(Node::product(factors));
        }
        // The unit of `7:30 PM` is that of the whole.
        let unit = match parts.pop() {
            Some(Node::Measured { value, unit }) => {
                parts.push(*value);
                Some(unit)
            }
            last => {
                parts.extend(last);
                None
            }
        };
        let ratio = match <[Node; 2]>::try_from(parts) {
            Ok([over, under]) => over.over(under),
            Err(parts) => Node::Ratio(parts),
        };
        Ok(match unit {
            Some(unit) => Node::Measured { value: Box::new(ratio), unit },
            None => ratio,
        })
    }

    /// Can this token begin a factor that follows without an operator?
    pub(super) fn starts_atom(&self, token: &Token) -> bool {
        match token {
            Token::Bar => self.bars == 0,
            Token::Open(Shape::Square) => self.brackets == 0,
            Token::Number(_)
            | Token::Symbol(_)
            | Token::Constant(_)
            | Token::Fraction
            | Token::Binomial
            | Token::SquareRoot
            | Token::Series(_)
            | Token::Open(_)
            | Token::Begin(_)
            | Token::Reals
            | Token::EmptySet => true,
            Token::Function(function) => *function != Function::Mod,
            _ => false,
        }
    }

    pub(super) fn factor(&mut self) -> Parsed {
        let mut node = self.deeper(Self::atom)?;
        for _ in 0..MAX_POSTFIX {
            node = match self.peek() {
                Some(Token::Factorial) => {
                    self.next += 1;
                    let double = self.accept(&Token::Factorial);
                    let function = if double { Function::DoubleFactorial } else { Function::Factorial };
                    Node::Call(function, vec![node])
                }
                Some(Token::Percent) => {
                    self.next += 1;
                    Node::Percent(Box::new(node))
                }
                Some(Token::Degree) => {
                    self.next += 1;
                    Node::Degrees(Box::new(node))
                }
                Some(Token::Base(base)) => {
                    self.next += 1;
                    Node::Based { digits: Box::new(node), base: *base }
                }
                Some(Token::Prime) => {
                    self.next += 1;
                    primed(node)
                }
                Some(Token::Unit(unit)) => {
                    self.next += 1;
                    measured(node, unit)
                }
                Some(Token::Text(words)) if self.ends_value(&node) => {
                    self.next += 1;
                    let mut unit = words.to_string();
                    self.unit_exponent(&mut unit)?;
                    // `\mathrm{m} / \mathrm{s}` is one unit.
                    while let Some(token @ (Token::Divide | Token::Times)) = self.peek() {
                        unit.push(if *token == Token::Divide { '/' } else { '*' });
                        if let Some(Token::Text(words)) = self.peek_at(1).map(|placed| &placed.token) {
                            unit.push_str(words);
                        }
                        self.next += 2;
                        self.unit_exponent(&mut unit)?;
                    }
                    measured(node, &unit)
                }
                Some(Token::Caret) => {
                    self.next += 1;
                    self.raised(node)?
                }
                _ => return Ok(node),
            };
        }
        Err(self.unexpected("fewer operators after one value"))
    }

    /// The exponent of a unit that is given in words: `\text{cm}^2`.
    fn unit_exponent(&mut self, unit: &mut String) -> Result<(), ParseError> {
        if self.accept(&Token::Caret) {
            match self.deeper(Self::exponent)? {
                Node::Number { value, .. } => unit.push_str(&format!("^{{{value}}}")),
                Node::Negative(inner) => {
                    if let Node::Number { value, .. } = *inner {
                        unit.push_str(&format!("^{{-{value}}}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Words after a value are its unit where nothing but the end of the item follows.
    fn ends_value(&self, node: &Node) -> bool {
        let token = |ahead: usize| self.peek_at(ahead).map(|placed| &placed.token);
        let mut ahead = 0;
        while let Some(Token::Text(words)) = token(ahead) {
            if !words::is_harmless(words) {
                return false;
            }
            ahead += 1;
            if token(ahead) == Some(&Token::Caret) {
                ahead += match (token(ahead + 1), token(ahead + 2)) {
                    (Some(Token::Open(Shape::Group)), Some(Token::Minus)) => 5,
                    (Some(Token::Open(Shape::Group)), _) => 4,
                    _ => 2,
                };
            }
            let compound = matches!(token(ahead), Some(Token::Divide | Token::Times))
                && matches!(token(ahead + 1), Some(Token::Text(_)));
            if !compound {
                break;
            }
            ahead += 1;
        }
        let after = token(ahead);
        let ended = matches!(
            after,
            None | Some(
                Token::Comma | Token::And | Token::Or | Token::Close(_) | Token::Relation(_) | Token::Text(_)
            )
        );
        ended && !matches!(node, Node::Text(_))
    }

    /// What follows a caret: a degree sign, a prime, or an exponent.
    fn raised(&mut self, base: Node) -> Parsed {
        let grouped = usize::from(self.peek() == Some(&Token::Open(Shape::Group)));
        match self.peek_at(grouped).map(|placed| &placed.token) {
            Some(token @ (Token::Degree | Token::Prime)) => {
                self.next += 1 + grouped;
                if grouped == 1 {
                    self.expect(&Token::Close(Shape::Group), "a closing brace")?;
                }
                Ok(if *token == Token::Degree { Node::Degrees(Box::new(base)) } else { primed(base) })
            }
            _ => Ok(match self.deeper(Self::exponent)? {
                // `5^{\text{th}}`
                Node::Text(unit) => Node::Measured { value: Box::new(base), unit },
                exponent => base.power(exponent),
            }),
        }
    }

    /// A group, or an atom with its sign and its own exponent: `2^-3^2`.
    pub(super) fn exponent(&mut self) -> Parsed {
        if self.accept(&Token::Minus) {
            return Ok(self.deeper(Self::exponent)?.negative());
        }
        self.accept(&Token::Plus);
        let base = self.deeper(Self::atom)?;
        if self.accept(&Token::Caret) { self.raised(base) } else { Ok(base) }
    }
}

/// A value and its unit, or the number that words such as `million` make of it.
fn measured(mut value: Node, unit: &str) -> Node {
    let mut rest = unit;
    // `5 hundred thousand million` is as far as anybody counts.
    for _ in 0..3 {
        let Some((over, under, after)) = words::scale(rest) else { break };
        value = Node::Product(vec![value, Node::integer(over).over(Node::integer(under))]);
        rest = after;
    }
    if rest.is_empty() { value } else { Node::Measured { value: Box::new(value), unit: rest.into() } }
}

fn quotient(over: Vec<Node>, under: Vec<Node>) -> Node {
    let over = Node::product(over);
    if under.is_empty() { over } else { over.over(Node::product(under)) }
}

/// `f'` is another name than `f`.
fn primed(node: Node) -> Node {
    match node {
        Node::Symbol(name) => Node::symbol(format!("{name}'")),
        other => other,
    }
}
