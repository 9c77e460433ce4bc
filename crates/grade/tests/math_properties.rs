//! Properties of the math grader that hold for every input.

use eager_grade::{
    choice,
    math::{self, Answer},
};
use proptest::prelude::*;

/// An expression that can be written in two ways.
#[derive(Debug, Clone)]
enum Tree {
    Integer(i64),
    Symbol(char),
    Pi,
    Sum(Box<Tree>, Box<Tree>),
    Difference(Box<Tree>, Box<Tree>),
    Product(Box<Tree>, Box<Tree>),
    Quotient(Box<Tree>, i64),
    Root(i64),
    Square(Box<Tree>),
}

impl Tree {
    /// LaTeX, as a textbook has it.
    fn latex(&self) -> String {
        match self {
            Self::Integer(n) => format!("{n}"),
            Self::Symbol(name) => name.to_string(),
            Self::Pi => r"\pi".to_owned(),
            Self::Sum(a, b) => format!("{} + {}", a.latex(), b.latex_factor()),
            Self::Difference(a, b) => format!("{} - {}", a.latex(), b.latex_factor()),
            Self::Product(a, b) => format!(r"{} \cdot {}", a.latex_factor(), b.latex_factor()),
            Self::Quotient(a, n) => format!(r"\frac{{{}}}{{{n}}}", a.latex()),
            Self::Root(n) => format!(r"\sqrt{{{n}}}"),
            Self::Square(a) => format!("{}^{{2}}", a.latex_factor()),
        }
    }

    fn latex_factor(&self) -> String {
        format!(r"\left({}\right)", self.latex())
    }

    /// Plainly typed, with the order of sums and products turned round.
    fn plain(&self) -> String {
        match self {
            Self::Integer(n) => format!("({n})"),
            Self::Symbol(name) => name.to_string(),
            Self::Pi => "π".to_owned(),
            Self::Sum(a, b) => format!("({}+{})", b.plain(), a.plain()),
            Self::Difference(a, b) => format!("(-{}+{})", b.plain(), a.plain()),
            Self::Product(a, b) => format!("({}*{})", b.plain(), a.plain()),
            Self::Quotient(a, n) => format!("({}/{n})", a.plain()),
            Self::Root(n) => format!("{n}^(1/2)"),
            Self::Square(a) => format!("({}*{})", a.plain(), a.plain()),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (-50i64..50).prop_map(Tree::Integer),
        prop_oneof![Just('x'), Just('y'), Just('n')].prop_map(Tree::Symbol),
        Just(Tree::Pi),
        (2i64..30).prop_map(Tree::Root),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let two = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            two.clone().prop_map(|(a, b)| Tree::Sum(a, b)),
            two.clone().prop_map(|(a, b)| Tree::Difference(a, b)),
            two.prop_map(|(a, b)| Tree::Product(a, b)),
            (inner.clone().prop_map(Box::new), 2i64..9).prop_map(|(a, n)| Tree::Quotient(a, n)),
            inner.prop_map(Box::new).prop_map(Tree::Square),
        ]
    })
}

/// Texts that look like answers.
fn scribbles() -> impl Strategy<Value = String> {
    let pieces = [
        "1",
        "2",
        "x",
        "y",
        "+",
        "-",
        "*",
        "/",
        "^",
        "_",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        r"\{",
        r"\}",
        ",",
        "=",
        "<",
        ".",
        r"\frac",
        r"\sqrt",
        r"\pm",
        r"\pi",
        r"\cup",
        r"\infty",
        r"\text{a}",
        r"\%",
        r"^\circ",
        "!",
        "|",
        " ",
        "and",
        r"\\",
        "&",
        r"\begin{pmatrix}",
        r"\end{pmatrix}",
        r"\sin",
        r"\log_",
        "e",
        "i",
        "$",
        "0.5",
        "1,000",
        "cm",
        r"\in",
        r"\boxed{",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..16)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_value_in_two_spellings(tree in trees()) {
        let (a, b) = (Answer::parse(&tree.latex()), Answer::parse(&tree.plain()));
        prop_assert!(a.equals(&b), "{} {}", a.text(), b.text());
        let response = format!(r"So it is $\boxed{{{}}}$.", tree.plain());
        prop_assert!(math::grade(&tree.latex(), &response).correct);
    }

    #[test]
    fn a_changed_value_is_another(tree in trees(), n in 1i64..1_000_000) {
        let a = Answer::parse(&tree.latex());
        for other in [format!("{} + {n}", tree.latex()), format!(r"{} - 10^{{-{}}}", tree.latex(), n % 40 + 1)] {
            let b = Answer::parse(&other);
            prop_assert!(!a.equals(&b), "{} {}", a.text(), b.text());
        }
    }

    #[test]
    fn equality_is_reflexive_and_symmetric(a in scribbles(), b in scribbles()) {
        let (left, right) = (Answer::parse(&a), Answer::parse(&b));
        prop_assert!(left.equals(&Answer::parse(&a)), "{a}");
        prop_assert_eq!(left.equals(&right), right.equals(&left), "{} {}", a, b);
        if left.spelling() == right.spelling() {
            prop_assert!(left.equals(&right), "{a} {b}");
        }
    }

    #[test]
    fn nothing_panics(gold in any::<String>(), response in any::<String>()) {
        math::grade(&gold, &response);
        choice::find(&response, 4, &[gold]);
    }

    #[test]
    fn integers_are_their_digits(a in any::<i64>(), b in any::<i64>()) {
        let graded = |gold: i64, answer: i64| math::grade(&gold.to_string(), &format!(r"\boxed{{{answer}}}")).correct;
        prop_assert!(graded(a, a));
        prop_assert_eq!(graded(a, b), a == b);
    }
}
