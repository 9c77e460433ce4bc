//! Properties that hold for every input, not only for the examples of the specification.

use eager_grade::{
    Grader, Rational, boxed,
    expression::{Expression, countdown},
    number,
};
use proptest::prelude::*;

/// An expression as a tree, built without the parser.
#[derive(Debug, Clone)]
enum Tree {
    Number(i64),
    Negate(Box<Tree>),
    Combine(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The value as an unreduced fraction, by the schoolbook rules; `None` on division by zero.
    fn value(&self) -> Option<(i128, i128)> {
        Some(match self {
            Tree::Number(n) => ((*n).into(), 1),
            Tree::Negate(tree) => {
                let (n, d) = tree.value()?;
                (-n, d)
            }
            Tree::Combine(operator, left, right) => {
                let ((a, b), (c, d)) = (left.value()?, right.value()?);
                match operator {
                    '+' => (a * d + c * b, b * d),
                    '-' => (a * d - c * b, b * d),
                    '*' => (a * c, b * d),
                    _ => {
                        if c == 0 {
                            return None;
                        }
                        (a * d, b * c)
                    }
                }
            }
        })
    }

    fn numbers(&self, into: &mut Vec<i64>) {
        match self {
            Tree::Number(n) => into.push(*n),
            Tree::Negate(tree) => tree.numbers(into),
            Tree::Combine(_, left, right) => {
                left.numbers(into);
                right.numbers(into);
            }
        }
    }

    /// How tightly the text of the tree holds together: sums, products, signs, atoms.
    fn strength(&self) -> u8 {
        match self {
            Tree::Combine('+' | '-', ..) => 0,
            Tree::Combine(..) => 1,
            Tree::Negate(_) => 2,
            Tree::Number(_) => 3,
        }
    }

    /// Prints with the parentheses that are needed, and where `style` says so with more, with spaces, and with
    /// the typographic operators.
    fn print(&self, needed: u8, style: &mut impl FnMut() -> bool, out: &mut String) {
        let parentheses = self.strength() < needed || style();
        if parentheses {
            out.push('(');
        }
        if style() {
            out.push(' ');
        }
        match self {
            Tree::Number(n) => out.push_str(&n.to_string()),
            Tree::Negate(tree) => {
                out.push(if style() { '−' } else { '-' });
                tree.print(2, style, out);
            }
            Tree::Combine(operator, left, right) => {
                left.print(self.strength(), style, out);
                out.push(match operator {
                    '-' if style() => '−',
                    '*' if style() => '×',
                    '/' if style() => '÷',
                    plain => *plain,
                });
                right.print(self.strength() + 1, style, out);
            }
        }
        if style() {
            out.push(' ');
        }
        if parentheses {
            out.push(')');
        }
    }

    fn text(&self, style: &[bool]) -> String {
        let mut choices = style.iter().copied().cycle();
        let mut out = String::new();
        self.print(0, &mut || choices.next().unwrap_or(false), &mut out);
        out
    }
}

/// At most 16 numbers below 50, so that the unreduced fractions stay far inside `i128`.
fn tree() -> impl Strategy<Value = Tree> {
    (0_i64..50).prop_map(Tree::Number).prop_recursive(4, 32, 2, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|tree| Tree::Negate(tree.into())),
            6 => (prop::sample::select(vec!['+', '-', '*', '/']), inner.clone(), inner)
                .prop_map(|(operator, left, right)| Tree::Combine(operator, left.into(), right.into())),
        ]
    })
}

fn style() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.3), 0..40)
}

/// Text made of what expressions and boxes are made of, to reach further into the parsers than noise does.
fn almost() -> impl Strategy<Value = String> {
    let pieces =
        ["0", "7", "12", "+", "-", "*", "/", "(", ")", " ", "×", "−", ".", ",", "{", "}", "\\", "\\boxed{"];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..60).prop_map(|pieces| pieces.concat())
}

fn anything() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), almost()]
}

/// The last closed box, found the slow and obvious way: try each box from the end, counting braces.
fn last_boxed_slowly(text: &str) -> Option<&str> {
    const OPENING: &str = "\\boxed{";
    text.rmatch_indices(OPENING).map(|(at, _)| &text[at + OPENING.len()..]).find_map(|content| {
        let (mut depth, mut escaped) = (1, false);
        for (at, c) in content.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = content[at + 1..].starts_with(['{', '}', '\\']),
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(&content[..at]);
            }
        }
        None
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_has_the_value_of_the_tree(tree in tree(), style in style()) {
        let text = tree.text(&style);
        let expression = Expression::parse(&text).unwrap();
        let mut numbers = Vec::new();
        tree.numbers(&mut numbers);
        let read: Vec<i128> = expression.numbers().collect();
        prop_assert_eq!(read, numbers.iter().copied().map(i128::from).collect::<Vec<_>>(), "{}", text);
        match tree.value() {
            Some((n, d)) => {
                prop_assert_eq!(expression.value(), Ok(Rational::new(n, d).unwrap()), "{}", text);
                // As a countdown answer it is right for its own value, whatever the order of the numbers.
                numbers.reverse();
                if n % d == 0 && let Ok(target) = i64::try_from(n / d) {
                    prop_assert_eq!(countdown(&text, &numbers, target), Ok(true));
                    prop_assert_eq!(countdown(&text, &numbers, target.wrapping_add(1)), Ok(false));
                    numbers.push(1);
                    prop_assert_eq!(countdown(&text, &numbers, target), Ok(false));
                }
            }
            None => prop_assert!(expression.value().is_err(), "{}", text),
        }
    }

    #[test]
    fn spaces_and_typography_do_not_split_a_vote(tree in tree(), flags in style()) {
        let grader = Grader::Expression { numbers: vec![], target: 0 };
        let compact = tree.text(&[]);
        let spaced: String = compact
            .chars()
            .zip(flags.iter().copied().chain(std::iter::repeat(false)))
            .flat_map(|(c, space)| {
                let pad = space && !c.is_ascii_digit();
                [pad.then_some(' '), Some(if space && c == '*' { '×' } else { c }), pad.then_some(' ')]
            })
            .flatten()
            .collect();
        let answer = grader.answer(&format!("\\boxed{{{spaced}}}"));
        prop_assert_eq!(answer, Some(compact));
    }

    #[test]
    fn nothing_panics_and_verdicts_agree(text in anything(), gold in anything()) {
        let _ = Expression::parse(&text).and_then(|expression| expression.value());
        let _ = boxed::last_boxed(&text);
        for grader in [
            Grader::Expression { numbers: vec![7, 12], target: 19 },
            Grader::Exact { gold },
        ] {
            let _ = grader.correct(&text);
            // Graded from a response or from the answer taken out of it: the same.
            let grade = grader.grade(&text);
            let again = grade.answer.as_deref().is_some_and(|answer| grader.correct(answer));
            prop_assert_eq!(grade.correct, again);
            // Judged as written or as spelled: the same.
            if let Some(content) = boxed::last_boxed(&text).filter(|content| !content.trim().is_empty()) {
                prop_assert_eq!(grade.correct, grader.correct(content));
            }
        }
    }

    #[test]
    fn a_box_is_found_whatever_stands_around_it(
        before in any::<String>(), content in "[^{}\\\\]{0,20}", after in "[^\\\\]{0,40}"
    ) {
        let response = format!("{before}\\boxed{{{content}}}{after}");
        prop_assert_eq!(boxed::last_boxed(&response), Some(content.as_str()));
    }

    #[test]
    fn the_last_closed_box_is_found(text in almost()) {
        prop_assert_eq!(boxed::last_boxed(&text), last_boxed_slowly(&text));
    }

    #[test]
    fn spelling_an_answer_makes_no_expression_of_what_was_none(content in "[0-9+*() -]{1,9}") {
        let grader = Grader::Expression { numbers: vec![], target: 0 };
        if let Some(answer) = grader.answer(&format!("\\boxed{{{content}}}")) {
            let value = |text| Expression::parse(text).and_then(|expression| expression.value()).ok();
            prop_assert_eq!(value(&answer), value(&content));
        }
    }

    #[test]
    fn canonical_spelling_is_stable_and_keeps_the_value(text in anything()) {
        let spelling = number::canonical(&text);
        prop_assert_eq!(number::parse(&spelling), number::parse(&text));
        prop_assert_eq!(number::canonical(&spelling), spelling);
    }

    #[test]
    fn numbers_read_back(n in any::<i64>(), d in 1_i64.., places in 0_usize..20, zeros in 0_usize..5) {
        let value = Rational::new(n.into(), d.into()).unwrap();
        prop_assert_eq!(number::parse(&value.to_string()), Some(value));
        prop_assert_eq!(number::parse(&format!("{n}/{d}")), Some(value));
        // A decimal is its digits over a power of ten.
        let digits = format!("{:0>width$}", n.unsigned_abs(), width = places + 1);
        let (whole, part) = digits.split_at(digits.len() - places);
        let sign = if n < 0 { "-" } else { "" };
        let decimal = format!("{sign}{whole}.{part}{}", "0".repeat(zeros));
        prop_assert_eq!(number::parse(&decimal), Rational::new(n.into(), 10_i128.pow(places as u32)).ok());
        // Commas in threes change nothing.
        let mut grouped = String::new();
        for (i, digit) in n.unsigned_abs().to_string().chars().rev().enumerate() {
            if i > 0 && i % 3 == 0 {
                grouped.insert(0, ',');
            }
            grouped.insert(0, digit);
        }
        let grouped = format!("{sign}{grouped}");
        prop_assert!(number::equal(&grouped, &n.to_string()), "{}", grouped);
    }
}
