//! Tokens of LaTeX and of plainly typed mathematics, each with its place.
//!
//! Both dialects come mixed in one answer (`\frac{1}{2}`, `1/2`, `½`, `sqrt(2)`, `√2`), so one tokenizer reads
//! them all. Whatever only changes the looks (`\left`, `\displaystyle`, `\,`, `$`) gives no token. What needs to see
//! characters rather than tokens is settled here: the digits of `\frac12` and of `10{,}080`, subscripts, words.

use std::ops::Range;

use super::{
    node::{Constant, Fold, Function, Operator},
    number::{self, Literal},
    words,
};

/// Where in the text something stands, in bytes.
pub(super) type Span = Range<usize>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(Literal),
    Symbol(Box<str>),
    Constant(Constant),
    Function(Function),
    Fraction,
    Binomial,
    SquareRoot,
    Series(Fold),
    Choose,
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
    Times,
    Divide,
    Colon,
    Caret,
    Underscore,
    Factorial,
    Percent,
    Degree,
    Prime,
    Comma,
    And,
    Or,
    Relation(Operator),
    Cup,
    Cap,
    Without,
    /// `(` `)`, `[` `]`, and `\{` `\}`.
    Open(Shape),
    Close(Shape),
    Bar,
    Begin(Box<str>),
    End,
    Cell,
    Row,
    Reals,
    EmptySet,
    Text(Box<str>),
    Unit(Box<str>),
    /// A number's subscript.
    Base(u32),
    /// A character that has no place in mathematics or in words.
    Stray,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Round,
    Square,
    /// A group of LaTeX, not seen by the reader.
    Group,
    Brace,
    Floor,
    Ceiling,
}

/// A token, its place, and whether white space stands before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) span: Span,
    pub(super) gap: bool,
}

/// How commas between digits are read where both readings are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commas {
    /// `1,234` is a number, `1,22` a list.
    Group,
    /// Always a list.
    Separate,
    /// `1,22` is a decimal.
    Decimal,
}

pub(super) fn tokenize(text: &str, commas: Commas) -> Vec<Placed> {
    let mut lexer = Lexer {
        text,
        at: 0,
        gap: false,
        tokens: Vec::new(),
        arguments: 0,
        groups: vec![],
        commas,
        brackets: 0,
        currency: None,
    };
    while lexer.at < text.len() {
        let start = lexer.at;
        lexer.step();
        debug_assert!(lexer.at > start, "no progress at byte {start} of {text:?}");
    }
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    gap: bool,
    tokens: Vec<Placed>,
    /// How many arguments of one character a `\frac` still takes here.
    arguments: u8,
    /// The same for the groups that are open around.
    groups: Vec<u8>,
    commas: Commas,
    /// Brackets open around: between them commas separate, as in `(12,102)`.
    brackets: usize,
    /// The sign of a currency before the next number.
    currency: Option<char>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token, length: usize) {
        match token {
            Token::Open(shape) if shape != Shape::Group => self.brackets += 1,
            Token::Close(shape) if shape != Shape::Group => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        let span = self.at..self.at + length;
        self.tokens.push(Placed { token, span, gap: self.gap });
        self.gap = false;
        self.at += length;
    }

    fn skip(&mut self, length: usize) {
        self.at += length;
        self.gap = true;
    }

    fn last(&self) -> Option<&Token> {
        self.tokens.last().map(|placed| &placed.token)
    }

    fn step(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        match first {
            '\\' => self.command(),
            '0'..='9' => self.number(),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            'a'..='z' | 'A'..='Z' => self.letters(),
            '{' => {
                self.groups.push(self.arguments.saturating_sub(1));
                self.arguments = 0;
                self.push(Token::Open(Shape::Group), 1);
            }
            '}' => {
                self.arguments = self.groups.pop().unwrap_or(0);
                self.push(Token::Close(Shape::Group), 1);
            }
            '_' => self.subscript(),
            _ => match two_characters(rest) {
                Some(token) => self.push(token, 2),
                None => self.character(first),
            },
        }
    }

    fn character(&mut self, first: char) {
        let length = first.len_utf8();
        if words::superscript(first).is_some() {
            return self.superscripts();
        }
        // A dollar sign among others is a formula's delimiter.
        let dollar = first == '$' && self.text.matches('$').count() == 1;
        if dollar || "€¥".contains(first) {
            return self.currency(first, length);
        }
        match words::character(first) {
            words::Glyph::Tokens(tokens) => {
                let last = tokens.len() - 1;
                for (at, token) in tokens.into_iter().enumerate() {
                    self.push(token, if at == last { length } else { 0 });
                }
                self.arguments = self.arguments.saturating_sub(1);
            }
            words::Glyph::Skip => self.skip(length),
            words::Glyph::Unknown if first.is_alphabetic() => {
                let name: String = first.to_lowercase().collect();
                self.push(Token::Symbol(name.into()), length);
            }
            words::Glyph::Unknown => self.push(Token::Stray, length),
        }
    }

    /// `\$5`, `€5` and `5 €`.
    fn currency(&mut self, sign: char, length: usize) {
        if sign != '$' && matches!(self.last(), Some(Token::Number(_))) {
            return self.push(Token::Unit(sign.to_string().into()), length);
        }
        self.currency = Some(sign);
        self.skip(length);
    }

    /// The currency of the number just read becomes its unit where the value ends; where a word such as `million`
    /// follows, the word takes it.
    fn spend_currency(&mut self) {
        let next = self.rest().trim_start();
        match self.currency.take() {
            Some(sign)
                if next.is_empty() || next.starts_with([',', ';', '.', ')', ']', '}', '+', '-', '=']) =>
            {
                self.push(Token::Unit(sign.to_string().into()), 0);
            }
            sign => self.currency = sign.filter(|_| next.starts_with(char::is_alphabetic)),
        }
    }

    /// `x¹²` and `10⁻³`: a run of raised characters is one exponent.
    fn superscripts(&mut self) {
        let run = leading(self.rest(), |c| words::superscript(c).is_some());
        let lowered: String = run.chars().filter_map(words::superscript).collect();
        self.push(Token::Caret, 0);
        self.push(Token::Open(Shape::Group), 0);
        if lowered.starts_with('-') {
            self.push(Token::Minus, 0);
        }
        let digits = lowered.trim_start_matches('-');
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            self.push(Token::Number(number::read(digits, Commas::Separate).0), 0);
        }
        self.push(Token::Close(Shape::Group), run.len());
    }

    fn number(&mut self) {
        let rest = self.rest();
        if self.arguments > 0 {
            self.arguments -= 1;
            self.push(Token::Number(Literal::digit(rest.as_bytes()[0])), 1);
            return;
        }
        // `\log_2 100`: a subscript without braces is one digit.
        if matches!(self.last(), Some(Token::Underscore)) && rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.push(Token::Number(Literal::digit(rest.as_bytes()[0])), 1);
        }
        let within = self.brackets > 0 && self.commas == Commas::Group;
        let (literal, length) = number::read(rest, if within { Commas::Separate } else { self.commas });
        self.push(Token::Number(literal), length);
        self.spend_currency();
    }

    /// A run of letters: a known word, a unit, or one symbol per letter.
    fn letters(&mut self) {
        let rest = self.rest();
        let run = leading(rest, |c| c.is_ascii_alphabetic());
        self.arguments = self.arguments.saturating_sub(1);
        let after_value = matches!(
            self.last(),
            Some(Token::Number(_) | Token::Close(_) | Token::Degree | Token::Percent | Token::Constant(_))
        );
        // `5 min` takes a while; `5 min(2, 3)` is a number.
        let minutes = run == "min" && after_value && !rest[run.len()..].starts_with(['(', '{', '_', '\\']);
        if let Some(token) = words::word(run).filter(|_| !minutes) {
            return self.push(token, run.len());
        }
        let length = words::unit_length(rest);
        if after_value && (minutes || words::is_unit(run, self.gap)) && words::is_harmless(&rest[..length]) {
            let mut unit = rest[..length].to_owned();
            if let Some(sign) = self.currency.take()
                && words::scale(&unit).is_some_and(|(.., rest)| rest.is_empty())
            {
                unit.extend([' ', sign]);
            }
            return self.push(Token::Unit(unit.into()), length);
        }
        let indexed = rest[1..].starts_with('_');
        self.push(if indexed { Token::Symbol(rest[..1].into()) } else { letter(&rest[..1]) }, 1);
    }

    /// The subscript of a symbol is part of its name, that of a number its base; others are tokens.
    fn subscript(&mut self) {
        let close = Token::Close(Shape::Round);
        if !matches!(self.last(), Some(last) if matches!(last, Token::Symbol(_) | Token::Number(_)) || *last == close)
        {
            return self.push(Token::Underscore, 1);
        }
        let (content, length) = argument(&self.rest()[1..]);
        match self.tokens.last_mut().map(|placed| &mut placed.token) {
            Some(Token::Symbol(name)) => {
                let spelled: String =
                    content.chars().filter(|c| !c.is_whitespace() && !"{}\\".contains(*c)).collect();
                *name = format!("{name}_{spelled}").into();
                self.at += 1 + length;
            }
            Some(Token::Number(_) | Token::Close(_)) => match words::base(content) {
                Some(base) => self.push(Token::Base(base), 1 + length),
                None => self.push(Token::Underscore, 1),
            },
            _ => self.push(Token::Underscore, 1),
        }
    }

    fn command(&mut self) {
        let rest = self.rest();
        let name = leading(&rest[1..], |c| c.is_ascii_alphabetic());
        if name.is_empty() {
            return self.control_symbol();
        }
        let length = 1 + name.len();
        match words::command(name) {
            words::Command::Token(token) => {
                self.arguments = match token {
                    Token::Fraction | Token::Binomial => 2,
                    // As TeX has it: `\sqrt 10` is a root of 1, and a nought.
                    Token::SquareRoot => 1,
                    _ => self.arguments.saturating_sub(1),
                };
                self.push(token, length);
            }
            words::Command::Skip => self.skip(length),
            words::Command::SkipArgument => self.skip(length + argument(&rest[length..]).1),
            words::Command::SkipPart(part) => self.skip(1 + part),
            words::Command::Text => {
                let (content, taken) = argument(&rest[length..]);
                match (name, content) {
                    ("mathbb", "R") => self.push(Token::Reals, length + taken),
                    ("pmod" | "pod", _) => {
                        self.push(Token::Unit(format!("mod {}", content.trim()).into()), length + taken);
                    }
                    _ => self.words(content, length + taken),
                }
            }
            words::Command::Environment => {
                let (content, taken) = argument(&rest[length..]);
                let mut length = length + taken;
                if name == "begin" {
                    if content == "array" {
                        // The columns' alignment says nothing.
                        length += argument(&rest[length..]).1;
                    }
                    self.push(Token::Begin(content.into()), length);
                } else {
                    self.push(Token::End, length);
                }
            }
        }
    }

    /// `\,` and other commands of one character that is no letter.
    fn control_symbol(&mut self) {
        let next = self.rest()[1..].chars().next();
        match next {
            Some('{') => self.push(Token::Open(Shape::Brace), 2),
            Some('}') => self.push(Token::Close(Shape::Brace), 2),
            Some('%') => self.push(Token::Percent, 2),
            Some('$') => self.currency('$', 2),
            Some('\\') => self.push(Token::Row, 2 + row_skip(&self.rest()[2..])),
            Some('|') => self.push(Token::Bar, 2),
            Some('&') => self.push(Token::And, 2),
            Some(space) if space.is_whitespace() || ",;:!>$#_-/()[]@".contains(space) => {
                self.skip(1 + space.len_utf8());
            }
            // A backslash before anything else means nothing; what it stands before does.
            _ => self.skip(1),
        }
    }

    /// The content of a `\text{…}`: a joining word, a function's name, a value, a unit, or words.
    fn words(&mut self, content: &str, length: usize) {
        self.arguments = self.arguments.saturating_sub(1);
        let trimmed = content.trim_matches(|c: char| c.is_whitespace() || c == '~');
        if trimmed.is_empty() {
            return self.skip(length);
        }
        let single = trimmed.chars().count() == 1 && trimmed.starts_with(|c: char| c.is_ascii_alphabetic());
        // `5\text{m}` has a unit, `4\mathrm{i}` has none.
        let number = trimmed == "i" || trimmed == "e";
        let unit = match self.tokens.as_slice() {
            [
                ..,
                Placed { token: Token::Text(_), .. },
                Placed { token: Token::Divide | Token::Times, .. },
            ] => true,
            _ => matches!(self.last(), Some(Token::Number(_) | Token::Close(_) | Token::Degree)),
        };
        if single && (number || !unit) {
            return self.push(letter(trimmed), length);
        }
        let bare = trimmed.trim_matches(|c: char| c == ',' || c == ';' || c.is_whitespace());
        match words::word(bare) {
            // `\text{, }` separates as a comma does.
            None if bare.is_empty() => self.push(Token::Comma, length),
            // `3\text{ to }2`, `10\text{:}30`.
            None if matches!(bare, "to" | ":") && self.last().is_some() => self.push(Token::Colon, length),
            Some(token) if !single => self.push(token, length),
            _ => self.push(Token::Text(trimmed.into()), length),
        }
    }
}

/// A letter by itself: `e` and `i` are numbers.
fn letter(letter: &str) -> Token {
    match letter {
        "e" => Token::Constant(Constant::E),
        "i" => Token::Constant(Constant::I),
        _ => Token::Symbol(letter.into()),
    }
}

fn two_characters(rest: &str) -> Option<Token> {
    Some(match rest.get(..2)? {
        "<=" | "=<" => Token::Relation(Operator::LessEqual),
        ">=" | "=>" => Token::Relation(Operator::GreaterEqual),
        "!=" => Token::Relation(Operator::NotEqual),
        "==" => Token::Relation(Operator::Equal),
        "**" => Token::Caret,
        _ => return None,
    })
}

/// The length of the space that a row may ask for after it: `\\\\[2pt]`.
fn row_skip(text: &str) -> usize {
    let Some((space, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return 0 };
    let unit = space.trim_start_matches(|c: char| c.is_ascii_digit() || "-. ".contains(c));
    if matches!(unit, "pt" | "em" | "ex" | "mm" | "cm" | "in" | "pc") { space.len() + 2 } else { 0 }
}

pub(super) fn leading(text: &str, accept: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !accept(c)).unwrap_or(text.len());
    &text[..end]
}

/// The argument at the start of a text, a group or a single character, and how many bytes it takes.
pub(super) fn argument(text: &str) -> (&str, usize) {
    let trimmed = text.trim_start();
    let offset = text.len() - trimmed.len();
    let Some(first) = trimmed.chars().next() else { return ("", text.len()) };
    if first == '\\' {
        let name = leading(&trimmed[1..], |c| c.is_ascii_alphabetic());
        let length = 1 + name.len();
        return (&trimmed[..length], offset + length);
    }
    if first != '{' {
        return (&trimmed[..first.len_utf8()], offset + first.len_utf8());
    }
    let mut depth = 0;
    for (at, byte) in trimmed.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return (&trimmed[1..at], offset + at + 1);
                }
            }
            _ => {}
        }
    }
    (&trimmed[1..], text.len())
}
