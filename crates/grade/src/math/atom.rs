//! The smallest parts of an answer: numbers, symbols, brackets, functions, matrices.

use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::{
    lex::{Commas, Shape, Token},
    node::{Constant, Fence, Fold, Function, Joint, Node, Operator},
    number::{Form, Literal},
    parse::{Parsed, Parser, parse},
};

/// A power of ten up to this size is multiplied out.
const MAX_EXACT_EXPONENT: i64 = 4096;
/// The most cells of a matrix.
const MAX_CELLS: usize = 400;

impl Parser<'_> {
    pub(super) fn atom(&mut self) -> Parsed {
        let Some(token) = self.take() else { return Err(self.unexpected("a value")) };
        match token {
            Token::Number(literal) => self.number(literal),
            Token::Symbol(name) => self.symbol(name),
            Token::Constant(constant) => Ok(Node::Constant(*constant)),
            Token::Function(function) => self.call(*function),
            Token::Fraction => Ok(self.argument()?.over(self.argument()?)),
            Token::Binomial => Ok(Node::Call(Function::Binomial, vec![self.argument()?, self.argument()?])),
            Token::SquareRoot => self.root(),
            Token::Series(Fold::Integral) => self.integral(),
            Token::Series(fold) => self.series(*fold),
            Token::Open(Shape::Group) => self.group(),
            Token::Open(Shape::Brace) => self.set(),
            Token::Open(Shape::Floor) => self.rounded(Function::Floor, Shape::Floor),
            Token::Open(Shape::Ceiling) => self.rounded(Function::Ceiling, Shape::Ceiling),
            Token::Open(Shape::Round) => self.bracket(Fence::Open),
            Token::Open(Shape::Square) => self.bracket(Fence::Closed),
            Token::Close(Shape::Square) if self.brackets == 0 => self.bracket(Fence::Open),
            Token::Bar => self.absolute(),
            Token::Begin(environment) => self.matrix(environment),
            Token::Reals => Ok(Node::Reals),
            Token::EmptySet => Ok(Node::Set(vec![])),
            Token::Text(words) => Ok(spoken(words)),
            Token::Minus => Ok(self.factor()?.negative()),
            Token::Plus => self.factor(),
            Token::PlusMinus => Ok(Node::Either(true, Box::new(self.factor()?))),
            _ => {
                self.next -= 1;
                Err(self.unexpected("a value"))
            }
        }
    }

    fn number(&mut self, literal: &Literal) -> Parsed {
        let Literal { value, form, exponent } = literal;
        if *form == Form::Integer
            && *exponent == 0
            && let Some(fraction) = self.mixed_part()
        {
            return Ok(Node::Number { value: value + fraction, decimal: false });
        }
        let number = Node::Number { value: value.clone(), decimal: *form == Form::Decimal };
        if *exponent == 0 {
            return Ok(number);
        }
        if exponent.abs() <= MAX_EXACT_EXPONENT {
            let power = num_traits::Pow::pow(BigRational::from_integer(10.into()), *exponent as i32);
            return Ok(Node::Number { value: value * power, decimal: *form == Form::Decimal });
        }
        Ok(Node::Product(vec![number, Node::integer(10).power(Node::integer(*exponent))]))
    }

    /// The proper fraction after an integer, that makes it a mixed number: `2\frac12`, `2½`, `2 1/2`.
    fn mixed_part(&mut self) -> Option<BigRational> {
        let start = self.next;
        let integer = |token: Option<&Token>| match token {
            Some(Token::Number(Literal { value, form: Form::Integer, exponent: 0 })) => Some(value.clone()),
            _ => None,
        };
        let part = match self.peek()? {
            Token::Number(Literal { value, form: Form::Fraction, .. }) => {
                self.next += 1;
                Some(value.clone())
            }
            Token::Fraction => {
                self.next += 1;
                let over = self.plain_argument();
                let under = self.plain_argument();
                over.zip(under).filter(|(_, under)| !under.is_zero()).map(|(over, under)| over / under)
            }
            Token::Number(_) if self.peek_at(0)?.gap && self.peek_at(1)?.token == Token::Divide => {
                let over = integer(self.peek());
                let under = integer(self.peek_at(2).map(|placed| &placed.token));
                self.next += 3;
                over.zip(under).filter(|(_, under)| !under.is_zero()).map(|(over, under)| over / under)
            }
            _ => None,
        };
        let proper = part.filter(|part| part.is_positive() && *part < BigRational::one());
        if proper.is_none() {
            self.next = start;
        }
        proper
    }

    /// The integer that a fraction's argument consists of, if it is nothing more.
    fn plain_argument(&mut self) -> Option<BigRational> {
        let grouped = self.accept(&Token::Open(Shape::Group));
        let value = match self.take()? {
            Token::Number(Literal { value, form: Form::Integer, exponent: 0 }) => value.clone(),
            _ => return None,
        };
        if grouped && !self.accept(&Token::Close(Shape::Group)) {
            return None;
        }
        Some(value)
    }

    /// A symbol; `C(10, 3)` is a binomial coefficient.
    fn symbol(&mut self, name: &str) -> Parsed {
        if name == "C" && self.accept(&Token::Open(Shape::Round)) {
            return Ok(match self.deeper(|parser| parser.bracket(Fence::Open))? {
                Node::Bracket { items, .. } if items.len() == 2 => Node::Call(Function::Binomial, items),
                other => Node::Product(vec![Node::symbol(name), other]),
            });
        }
        Ok(Node::symbol(name))
    }

    /// The argument of a command: a group, or what stands next.
    fn argument(&mut self) -> Parsed {
        self.deeper(Self::atom)
    }

    fn root(&mut self) -> Parsed {
        let degree = if self.accept(&Token::Open(Shape::Square)) {
            let degree = self.within(self.bars, self.brackets + 1, Self::sum)?;
            self.expect(&Token::Close(Shape::Square), "a closing bracket")?;
            degree
        } else {
            Node::integer(2)
        };
        Ok(Node::Call(Function::Root, vec![self.argument()?, degree]))
    }

    fn group(&mut self) -> Parsed {
        // A group of LaTeX hides what is open around it.
        let inner = self.within(0, 0, Self::list)?;
        self.expect(&Token::Close(Shape::Group), "a closing brace")?;
        Ok(inner)
    }

    fn rounded(&mut self, function: Function, shape: Shape) -> Parsed {
        let inner = self.sum()?;
        self.expect(&Token::Close(shape), "the closing of the rounding")?;
        Ok(Node::Call(function, vec![inner]))
    }

    fn absolute(&mut self) -> Parsed {
        let inner = self.within(self.bars + 1, self.brackets, Self::sum)?;
        self.expect(&Token::Bar, "a closing bar")?;
        Ok(Node::Call(Function::Abs, vec![inner]))
    }

    /// After the opening bracket: a value in parentheses, a tuple or an interval.
    fn bracket(&mut self, open: Fence) -> Parsed {
        let inner = self.within(0, self.brackets + 1, Self::list)?;
        let close = match self.peek() {
            Some(Token::Close(Shape::Round) | Token::Open(Shape::Square)) => Fence::Open,
            Some(Token::Close(Shape::Square)) => Fence::Closed,
            _ => return Err(self.unexpected("a closing bracket")),
        };
        self.next += 1;
        match inner {
            Node::List(Joint::Comma, items) => Ok(Node::Bracket { open, close, items }),
            single if open == close => Ok(single),
            _ => Err(self.unexpected("brackets of one kind around one value")),
        }
    }

    /// After `\{`: the elements, or a condition on them.
    fn set(&mut self) -> Parsed {
        if self.accept(&Token::Close(Shape::Brace)) {
            return Ok(Node::Set(vec![]));
        }
        // `\{x : x > 2\}`, `\{x \mid x > 2\}` and `\{x \in \mathbb{R} : x > 2\}` say their condition.
        let token = |ahead: usize| self.peek_at(ahead).map(|placed| &placed.token);
        let separates = |token: Option<&Token>| matches!(token, Some(Token::Bar | Token::Colon));
        let real = token(1) == Some(&Token::Relation(Operator::In)) && token(2) == Some(&Token::Reals);
        let bound = match token(0) {
            Some(Token::Symbol(_)) if separates(token(1)) => 2,
            Some(Token::Symbol(_)) if real && separates(token(3)) => 4,
            _ => 0,
        };
        self.next += bound;
        let inner = self.within(1, self.brackets + 1, |parser| {
            let inner = parser.list()?;
            let member = matches!(&inner, Node::Relation { operators, .. } if operators == &[Operator::In]);
            if member && parser.accept(&Token::Bar) { parser.list() } else { Ok(inner) }
        })?;
        self.expect(&Token::Close(Shape::Brace), "a closing brace")?;
        Ok(match inner {
            conditions @ Node::List(..) if bound > 0 => conditions,
            Node::List(_, items) => Node::Set(items),
            condition @ Node::Relation { .. } => condition,
            single => Node::Set(vec![single]),
        })
    }

    fn call(&mut self, mut function: Function) -> Parsed {
        // `\max = 5` names what was asked for.
        if matches!(self.peek(), Some(Token::Relation(_))) {
            return Ok(Node::Text(format!("{function:?}").into()));
        }
        let mut power = None;
        let mut base = None;
        for _ in 0..2 {
            if base.is_none() && self.accept(&Token::Underscore) {
                base = Some(self.argument()?);
            } else if power.is_none() && self.accept(&Token::Caret) {
                power = Some(self.deeper(Self::exponent)?);
            }
        }
        if let Some(exponent) = &power
            && *exponent == Node::integer(1).negative()
            && let Some(inverse) = function.inverse()
        {
            function = inverse;
            power = None;
        }
        let mut arguments = self.call_arguments()?;
        if function == Function::Log {
            arguments.push(base.unwrap_or_else(|| Node::integer(10)));
        }
        let call = Node::Call(function, arguments);
        Ok(match power {
            Some(exponent) => call.power(exponent),
            None => call,
        })
    }

    /// What a function is applied to: what is in its brackets, or the factors that follow up to an operator or
    /// another function.
    fn call_arguments(&mut self) -> Result<Vec<Node>, super::parse::ParseError> {
        let bracketed = matches!(self.peek(), Some(Token::Open(shape)) if *shape != Shape::Group);
        if bracketed {
            return Ok(match self.argument()? {
                Node::Bracket { items, .. } | Node::Set(items) => items,
                single => vec![single],
            });
        }
        let mut factors = vec![self.factor()?];
        while let Some(token) = self.peek()
            && self.starts_atom(token)
            && !matches!(
                token,
                Token::Function(_) | Token::Series(_) | Token::Open(Shape::Round | Shape::Square)
            )
        {
            factors.push(self.factor()?);
        }
        Ok(vec![Node::product(factors)])
    }

    /// `\sum_{k=1}^{n} body`.
    fn series(&mut self, fold: Fold) -> Parsed {
        self.expect(&Token::Underscore, "the lower bound")?;
        let Node::Relation { mut sides, operators } = self.argument()? else {
            return Err(self.unexpected("an index with its first value"));
        };
        let (Some(first), Some(index), true) =
            (sides.pop(), sides.pop(), operators == [Operator::Equal] && sides.is_empty())
        else {
            return Err(self.unexpected("an index with its first value"));
        };
        // An index may be called `i`, and then that is no number in the body.
        let unit = Node::Constant(Constant::I);
        let (index, called_i) = match index {
            Node::Symbol(name) => (name, false),
            other if other == unit => ("i".into(), true),
            _ => return Err(self.unexpected("an index with its first value")),
        };
        self.expect(&Token::Caret, "the upper bound")?;
        let last = self.deeper(Self::exponent)?;
        let mut body = Box::new(self.deeper(Self::product)?);
        if called_i {
            body = Box::new(body.map(&|node| if node == unit { Node::symbol("i") } else { node }));
        }
        Ok(Node::Series { fold, index, bounds: Box::new((first, last)), body })
    }

    /// `\int_a^b body dx`.
    fn integral(&mut self) -> Parsed {
        self.expect(&Token::Underscore, "the lower bound")?;
        let first = self.argument()?;
        self.expect(&Token::Caret, "the upper bound")?;
        let last = self.deeper(Self::exponent)?;
        let mut terms = match self.deeper(Self::sum)? {
            Node::Sum(terms) => terms,
            single => vec![single],
        };
        let mut factors = match terms.pop() {
            Some(Node::Product(factors)) => factors,
            _ => return Err(self.unexpected("the variable of an integral")),
        };
        let (Some(Node::Symbol(index)), Some(Node::Symbol(differential))) = (factors.pop(), factors.pop())
        else {
            return Err(self.unexpected("the variable of an integral"));
        };
        if &*differential != "d" {
            return Err(self.unexpected("the variable of an integral"));
        }
        terms.push(if factors.is_empty() { Node::integer(1) } else { Node::product(factors) });
        let bounds = Box::new((first, last));
        Ok(Node::Series { fold: Fold::Integral, index, bounds, body: Box::new(Node::sum(terms)) })
    }

    fn matrix(&mut self, environment: &str) -> Parsed {
        let shape = environment.trim_end_matches('*');
        // A system of equations is a list of them.
        if matches!(shape, "cases" | "aligned" | "align" | "gathered") {
            let list = self.within(0, 0, Self::list)?;
            return self.expect(&Token::End, "the end of the system").map(|()| list);
        }
        if !matches!(shape, "matrix" | "pmatrix" | "bmatrix" | "Bmatrix" | "smallmatrix" | "array") {
            return Err(self.unexpected("a matrix"));
        }
        self.within(0, 0, Self::rows)
    }

    fn rows(&mut self) -> Parsed {
        let mut rows = vec![vec![]];
        let mut cells = 0;
        while !self.accept(&Token::End) {
            if self.accept(&Token::Row) {
                rows.push(vec![]);
                continue;
            }
            if self.accept(&Token::Cell) {
                continue;
            }
            cells += 1;
            if cells > MAX_CELLS {
                return Err(self.unexpected("a smaller matrix"));
            }
            let cell = self.sum()?;
            if let Some(row) = rows.last_mut() {
                row.push(cell);
            }
        }
        rows.retain(|row| !row.is_empty());
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return Err(self.unexpected("rows of one length"));
        }
        Ok(Node::Matrix(rows))
    }
}

/// Words in the place of a value: a number in words' clothes is that number.
fn spoken(words: &str) -> Node {
    // Without commands, or texts in texts would nest without a limit.
    let numeric = words.bytes().any(|byte| byte.is_ascii_digit()) && !words.contains(['\\', '{']);
    if numeric
        && let Ok(node) = parse(words, Commas::Group)
        && node.is_scalar()
        && node.symbols().is_empty()
    {
        return node;
    }
    super::text::phrase(words).unwrap_or_else(|| Node::Text(words.into()))
}
