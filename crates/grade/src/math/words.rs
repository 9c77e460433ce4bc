//! The vocabulary: commands, words, characters and units.

use super::{
    lex::{Shape, Token, leading},
    node::{Constant, Fold, Function, Operator},
    number::Literal,
};

/// What a command means.
pub(super) enum Command {
    Token(Token),
    /// Only changes the looks.
    Skip,
    /// The same, with its argument: `\color{red}`.
    SkipArgument,
    /// The first bytes of its name are such a command: `\quadx`.
    SkipPart(usize),
    /// Its argument is words.
    Text,
    /// `\begin` or `\end`.
    Environment,
}

pub(super) fn command(name: &str) -> Command {
    if let Some(token) =
        operator(name).or_else(|| fence(name)).or_else(|| function(name).map(Token::Function))
    {
        return Command::Token(token);
    }
    Command::Token(match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" => Token::Fraction,
        "binom" | "dbinom" | "tbinom" => Token::Binomial,
        "choose" => Token::Choose,
        "sqrt" => Token::SquareRoot,
        "sum" => Token::Series(Fold::Sum),
        "prod" => Token::Series(Fold::Product),
        "int" => Token::Series(Fold::Integral),
        "pi" => Token::Constant(Constant::Pi),
        "infty" | "infin" => Token::Constant(Constant::Infinity),
        "imath" => Token::Constant(Constant::I),
        "emptyset" | "varnothing" | "O" => Token::EmptySet,
        "R" | "reals" | "Reals" => Token::Reals,
        "dots" | "ldots" | "cdots" | "dotsc" | "vdots" | "ddots" => Token::Text("…".into()),
        "begin" | "end" => return Command::Environment,
        "text" | "textbf" | "textit" | "textrm" | "textnormal" | "textsf" | "texttt" | "textsc" | "mbox"
        | "hbox" | "mathrm" | "mathbf" | "mathit" | "mathsf" | "operatorname" | "emph" | "rm" | "mathbb"
        | "pmod" | "pod" => {
            return Command::Text;
        }
        "left" | "right" | "middle" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr"
        | "biggl" | "biggr" | "Biggl" | "Biggr" | "displaystyle" | "textstyle" | "scriptstyle" | "limits"
        | "nolimits" | "boldsymbol" | "bm" | "bold" | "bf" | "vec" | "hat" | "widehat" | "tilde"
        | "overline" | "underline" | "bar" | "overrightarrow" | "quad" | "qquad" | "enspace"
        | "thinspace" | "boxed" | "fbox" | "ensuremath" | "mathcal" | "mathscr" | "mathfrak" | "nonumber"
        | "hfill" | "space" | "newline" | "tiny" | "small" | "normalsize" | "large" | "Large" | "LARGE"
        | "huge" | "Huge" | "checkmark" | "blacksquare" | "square" | "qed" | "therefore" => {
            return Command::Skip;
        }
        "color" | "textcolor" | "hspace" | "vspace" | "phantom" | "hphantom" | "label" | "tag" => {
            return Command::SkipArgument;
        }
        _ => return unknown_command(name),
    })
}

/// Greek letters and whatever else has no meaning here are names.
fn unknown_command(name: &str) -> Command {
    for prefix in ["qquad", "quad"] {
        if name.starts_with(prefix) {
            return Command::SkipPart(prefix.len());
        }
    }
    Command::Token(Token::Symbol(format!("\\{name}").into()))
}

fn operator(name: &str) -> Option<Token> {
    Some(match name {
        "pm" => Token::PlusMinus,
        "mp" => Token::MinusPlus,
        "times" | "cdot" | "ast" | "cdotp" | "bullet" => Token::Times,
        "div" => Token::Divide,
        "colon" => Token::Colon,
        "le" | "leq" | "leqslant" | "leqq" => Token::Relation(Operator::LessEqual),
        "ge" | "geq" | "geqslant" | "geqq" => Token::Relation(Operator::GreaterEqual),
        "lt" => Token::Relation(Operator::Less),
        "gt" => Token::Relation(Operator::Greater),
        "ne" | "neq" => Token::Relation(Operator::NotEqual),
        "equiv" => Token::Relation(Operator::Equal),
        "approx" | "simeq" | "approxeq" | "thickapprox" => Token::Relation(Operator::Approximately),
        "in" => Token::Relation(Operator::In),
        "cup" | "bigcup" => Token::Cup,
        "cap" | "bigcap" => Token::Cap,
        "setminus" | "backslash" | "smallsetminus" => Token::Without,
        "lor" | "vee" => Token::Or,
        "land" | "wedge" => Token::And,
        "circ" | "degree" | "degrees" => Token::Degree,
        "prime" => Token::Prime,
        _ => return None,
    })
}

fn fence(name: &str) -> Option<Token> {
    Some(match name {
        "lfloor" => Token::Open(Shape::Floor),
        "rfloor" => Token::Close(Shape::Floor),
        "lceil" => Token::Open(Shape::Ceiling),
        "rceil" => Token::Close(Shape::Ceiling),
        "langle" | "lparen" => Token::Open(Shape::Round),
        "rangle" | "rparen" => Token::Close(Shape::Round),
        "lbrack" => Token::Open(Shape::Square),
        "rbrack" => Token::Close(Shape::Square),
        "lbrace" => Token::Open(Shape::Brace),
        "rbrace" => Token::Close(Shape::Brace),
        "lvert" | "rvert" | "vert" | "mid" | "Vert" | "lVert" | "rVert" => Token::Bar,
        _ => return None,
    })
}

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" | "ctg" | "cotg" => Function::Cot,
        "sec" => Function::Sec,
        "csc" | "cosec" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" | "arctg" => Function::Arctan,
        "arccot" | "arcctg" => Function::Arccot,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "ln" => Function::Ln,
        "log" | "lg" => Function::Log,
        "exp" => Function::Exp,
        "max" => Function::Max,
        "min" => Function::Min,
        "gcd" => Function::Gcd,
        "lcm" => Function::Lcm,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "ceil" => Function::Ceiling,
        "bmod" | "mod" => Function::Mod,
        _ => return None,
    })
}

/// A word that means something by itself.
pub(super) fn word(run: &str) -> Option<Token> {
    if let Some(function) = function(run) {
        return Some(Token::Function(function));
    }
    let lower = run.to_ascii_lowercase();
    Some(match lower.as_str() {
        "sqrt" => Token::SquareRoot,
        "pi" => Token::Constant(Constant::Pi),
        "inf" | "infty" | "infinity" | "oo" => Token::Constant(Constant::Infinity),
        "and" => Token::And,
        "or" => Token::Or,
        "percent" | "percents" | "percentage" | "pct" => Token::Percent,
        "degree" | "degrees" | "deg" => Token::Degree,
        "alpha" | "beta" | "gamma" | "delta" | "theta" | "lambda" | "omega" | "phi" | "sigma" => {
            Token::Symbol(format!("\\{lower}").into())
        }
        _ => return None,
    })
}

/// What a character outside ASCII letters and digits means.
pub(super) enum Glyph {
    Tokens(Vec<Token>),
    Skip,
    Unknown,
}

pub(super) fn character(c: char) -> Glyph {
    if let Some((over, under)) = vulgar_fraction(c) {
        return Glyph::Tokens(vec![Token::Number(Literal::fraction(over, under))]);
    }
    if let Some((_, name)) = GREEK.iter().find(|(letter, _)| *letter == c) {
        return Glyph::Tokens(vec![Token::Symbol(format!("\\{name}").into())]);
    }
    Glyph::Tokens(vec![match c {
        '+' | '＋' => Token::Plus,
        '-' | '−' | '–' | '—' | '﹣' | '－' => Token::Minus,
        '±' => Token::PlusMinus,
        '∓' => Token::MinusPlus,
        '*' | '×' | '·' | '⋅' | '∙' | '∗' | '•' => Token::Times,
        '/' | '÷' | '⁄' | '∕' => Token::Divide,
        ':' | '∶' => Token::Colon,
        '^' => Token::Caret,
        '!' => Token::Factorial,
        '%' | '％' => Token::Percent,
        '°' | 'º' => Token::Degree,
        '\'' | '′' => Token::Prime,
        ',' | ';' | '，' | '、' => Token::Comma,
        '=' => Token::Relation(Operator::Equal),
        '<' => Token::Relation(Operator::Less),
        '>' => Token::Relation(Operator::Greater),
        '≤' | '⩽' => Token::Relation(Operator::LessEqual),
        '≥' | '⩾' => Token::Relation(Operator::GreaterEqual),
        '≠' => Token::Relation(Operator::NotEqual),
        '≈' => Token::Relation(Operator::Approximately),
        '∈' => Token::Relation(Operator::In),
        '∪' => Token::Cup,
        '∩' => Token::Cap,
        '∖' => Token::Without,
        '(' | '（' | '⟨' => Token::Open(Shape::Round),
        ')' | '）' | '⟩' => Token::Close(Shape::Round),
        '[' => Token::Open(Shape::Square),
        ']' => Token::Close(Shape::Square),
        '⌊' => Token::Open(Shape::Floor),
        '⌋' => Token::Close(Shape::Floor),
        '⌈' => Token::Open(Shape::Ceiling),
        '⌉' => Token::Close(Shape::Ceiling),
        '|' | '∣' => Token::Bar,
        '&' => Token::Cell,
        '√' => Token::SquareRoot,
        'π' => Token::Constant(Constant::Pi),
        '∞' => Token::Constant(Constant::Infinity),
        '∅' | 'Ø' => Token::EmptySet,
        'ℝ' => Token::Reals,
        '∨' => Token::Or,
        '∧' => Token::And,
        '$' | '#' | '~' | '€' | '£' | '¥' | '"' | '“' | '”' | '`' | '?' => return Glyph::Skip,
        c if c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2061}' | '\u{feff}') => return Glyph::Skip,
        _ => return Glyph::Unknown,
    }])
}

/// Greek letters typed as such, and the commands for them. Pi is a number.
const GREEK: [(char, &str); 22] = [
    ('α', "alpha"),
    ('β', "beta"),
    ('γ', "gamma"),
    ('δ', "delta"),
    ('ε', "epsilon"),
    ('ζ', "zeta"),
    ('η', "eta"),
    ('θ', "theta"),
    ('κ', "kappa"),
    ('λ', "lambda"),
    ('μ', "mu"),
    ('ν', "nu"),
    ('ξ', "xi"),
    ('ρ', "rho"),
    ('σ', "sigma"),
    ('τ', "tau"),
    ('φ', "phi"),
    ('χ', "chi"),
    ('ψ', "psi"),
    ('ω', "omega"),
    ('Δ', "Delta"),
    ('Ω', "Omega"),
];

/// The character that a raised one stands for.
pub(super) fn superscript(c: char) -> Option<char> {
    let at = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".chars().position(|superscript| superscript == c)?;
    "0123456789-".chars().nth(at)
}

fn vulgar_fraction(c: char) -> Option<(i64, i64)> {
    Some(match c {
        '½' => (1, 2),
        '⅓' => (1, 3),
        '⅔' => (2, 3),
        '¼' => (1, 4),
        '¾' => (3, 4),
        '⅕' => (1, 5),
        '⅖' => (2, 5),
        '⅗' => (3, 5),
        '⅘' => (4, 5),
        '⅙' => (1, 6),
        '⅚' => (5, 6),
        '⅐' => (1, 7),
        '⅛' => (1, 8),
        '⅜' => (3, 8),
        '⅝' => (5, 8),
        '⅞' => (7, 8),
        '⅑' => (1, 9),
        '⅒' => (1, 10),
        _ => return None,
    })
}

/// The base that a subscript names: `8`, `{8}`, `\text{eight}`.
pub(super) fn base(subscript: &str) -> Option<u32> {
    let name = subscript.trim().trim_start_matches("\\text").trim_matches(['{', '}', ' ']);
    match name {
        "two" => Some(2),
        "three" => Some(3),
        "five" => Some(5),
        "seven" => Some(7),
        "eight" => Some(8),
        "nine" => Some(9),
        "ten" => Some(10),
        digits => digits.parse().ok().filter(|base| (2..=36).contains(base)),
    }
}

/// Units short enough to be taken for a product of symbols.
const SHORT_UNITS: [&str; 64] = [
    "cup", "qt", "pt", "mm", "cm", "dm", "km", "nm", "in", "ft", "yd", "mi", "mg", "kg", "lb", "lbs", "oz",
    "ml", "mL", "sec", "secs", "min", "mins", "hr", "hrs", "ms", "Hz", "kHz", "mph", "kph", "kmh", "rad",
    "rads", "cents", "cent", "usd", "USD", "sq", "pts", "days", "day", "way", "ways", "men", "cm²", "feet",
    "inch", "mol", "rpm", "AM", "PM", "th", "st", "nd", "rd", "bn", "mn", "tn", "yr", "yrs", "gal", "kJ",
    "kW", "kPa",
];

/// Is this run of letters after a number what the number counts?
pub(super) fn is_unit(run: &str, gap: bool) -> bool {
    if matches!(run, "min" | "max") {
        return false;
    }
    let plural = run.strip_suffix('s').is_some_and(|one| one.len() > 1 && SHORT_UNITS.contains(&one));
    SHORT_UNITS.contains(&run) || plural || (gap && run.len() >= 4)
}

/// How much of a text is a unit: `cm^2`, `miles per hour`, `m/s`, `square units`.
pub(super) fn unit_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        let run = leading(&text[at..], |c| c.is_alphabetic());
        if run.is_empty() || (at > 0 && matches!(word(run), Some(Token::And | Token::Or))) {
            return text[..at].trim_end_matches(|c: char| !c.is_alphanumeric() && !"}²³".contains(c)).len();
        }
        at += run.len();
        let rest = &text[at..];
        let exponent = rest.strip_prefix('^').map_or(0, |rest| {
            let (_, length) = super::lex::argument(rest);
            1 + length
        });
        at += exponent;
        at += leading(&text[at..], |c| matches!(c, '²' | '³' | '.' | '\'' | '-')).len();
        let between = leading(&text[at..], |c| matches!(c, ' ' | '/'));
        if between.is_empty() {
            return at;
        }
        at += between.len();
    }
}

/// Words that a number counts in, above and below the bar, and what follows: `5 million` is a number, not five of
/// something.
pub(super) fn scale(unit: &str) -> Option<(i64, i64, &str)> {
    let unit = unit.trim_start();
    let first = leading(unit, char::is_alphabetic);
    let rest = unit[first.len()..].trim_start();
    let lower = first.to_ascii_lowercase();
    let (over, under) = match lower.strip_suffix('s').unwrap_or(&lower) {
        // Quarters are not among them: they are coins as often.
        "half" | "halve" => (1, 2),
        "third" => (1, 3),
        "fourth" => (1, 4),
        "dozen" => (12, 1),
        "hundred" => (100, 1),
        "thousand" => (1000, 1),
        "million" | "mn" => (1_000_000, 1),
        "billion" | "bn" => (1_000_000_000, 1),
        "trillion" | "tn" => (1_000_000_000_000, 1),
        "fifth" => (1, 5),
        "sixth" => (1, 6),
        "seventh" => (1, 7),
        "eighth" => (1, 8),
        "ninth" => (1, 9),
        "tenth" => (1, 10),
        "eleventh" => (1, 11),
        "twelfth" => (1, 12),
        "fifteenth" => (1, 15),
        "sixteenth" => (1, 16),
        "twentieth" => (1, 20),
        "hundredth" => (1, 100),
        "thousandth" => (1, 1000),
        "millionth" => (1, 1_000_000),
        _ => return None,
    };
    // `5 fifth graders` are five.
    let counts = under == 1 || lower.ends_with('s') || rest.is_empty();
    counts.then_some((over, under, rest))
}

/// Do the words after a value leave it as it is, as a unit or a remark does? Words that take it back, offer another
/// one or reckon on with it are no unit: `5 \text{ or 6}`, `5 \text{ is wrong}`, `5 \text{ and a half}`.
pub(super) fn is_harmless(words: &str) -> bool {
    let lower = scale(words).map_or(words, |(.., rest)| rest).to_lowercase();
    let another = lower.split_whitespace().any(|word| {
        word.trim_start_matches(['(', '[', '-', '+', '=']).starts_with(|c: char| c.is_ascii_digit())
    });
    let mut runs = lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|run| !run.is_empty());
    let first = runs.clone().next().unwrap_or("");
    let reckons = matches!(first, "squared" | "cubed" | "factorial" | "and" | "over");
    let changes = runs.any(|run| CHANGING.contains(&run) || run.ends_with("n't"));
    !(another || reckons || changes || lower.contains('…'))
}

/// Words that make something else of the value before them.
const CHANGING: [&str; 17] = [
    "not",
    "no",
    "nor",
    "or",
    "but",
    "wrong",
    "incorrect",
    "false",
    "half",
    "more",
    "less",
    "fewer",
    "maybe",
    "perhaps",
    "otherwise",
    "plus",
    "minus",
];

/// Do these say different things of one value: before noon and after it, or modulo 7 and modulo 8?
pub(super) fn contradict(a: &str, b: &str) -> bool {
    let said = |unit: &str| {
        let letters: String = unit.chars().filter(char::is_ascii_alphanumeric).collect();
        let lower = letters.to_ascii_lowercase();
        let kind = match lower.as_str() {
            "am" | "pm" => Some("half of a day"),
            _ if unit.starts_with("mod ") => Some("modulus"),
            _ => None,
        };
        kind.map(|kind| (kind, lower))
    };
    said(a).zip(said(b)).is_some_and(|((first, a), (second, b))| first == second && a != b)
}
