//! The gold answers of the benchmarks: each is understood, equals itself in a response, and equals no other.
//!
//! The data is not part of the repository; the folder is named by `EAGER_DATA`.

use std::{fs, path::PathBuf};

use eager_grade::math::{self, Answer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Problem {
    id: String,
    answer: String,
}

fn problems() -> Vec<Problem> {
    let Some(data) = std::env::var_os("EAGER_DATA").map(PathBuf::from) else {
        println!("skipped: EAGER_DATA is not set");
        return vec![];
    };
    ["aime2024", "aime2025", "hmmt_feb_2025", "math500", "gsm8k_test"]
        .iter()
        .flat_map(|suite| {
            let lines = fs::read_to_string(data.join(format!("{suite}.jsonl"))).unwrap();
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Problem>>()
        })
        .collect()
}

#[test]
fn every_gold_parses() {
    for Problem { id, answer } in problems() {
        let gold = Answer::gold(&answer);
        assert_eq!(gold.error(), None, "{id}: {answer}");
        let words = answer.starts_with("\\text");
        assert_eq!(gold.is_mathematics(), !words, "{id}: {answer}");
    }
}

#[test]
fn every_gold_equals_itself_in_a_response() {
    for Problem { id, answer } in problems() {
        for response in [
            format!(r"Therefore the answer is $\boxed{{{answer}}}$."),
            format!("We get\n\\[\n\\boxed{{{answer}}}\n\\]"),
            format!("The final answer is ${answer}$."),
            format!("**Answer:** ${answer}$"),
            format!("So it must be \\({answer}\\)."),
        ] {
            assert!(math::grade(&answer, &response).correct, "{id}: {response}");
        }
        assert!(math::grade(&format!("${answer}$"), &format!("\\boxed{{{answer}}}")).correct, "{id}");
        assert!(
            math::grade(&format!("\\boxed{{{answer}}}"), &format!("\\boxed{{{answer}}}")).correct,
            "{id}"
        );
    }
}

#[test]
fn different_golds_are_different_answers() {
    let problems = problems();
    // The plain integers are compared by the hundred thousand; the rest is what may go wrong.
    let mut golds: Vec<&str> = problems.iter().map(|problem| problem.answer.as_str()).collect();
    golds.sort_unstable();
    golds.dedup();
    let is_integer = |gold: &&str| gold.parse::<i64>().is_ok();
    let (integers, others): (Vec<&str>, Vec<&str>) = golds.into_iter().partition(is_integer);
    let parse = |golds: &[&str]| golds.iter().map(|gold| Answer::gold(gold)).collect::<Vec<_>>();
    let (integers, others) = (parse(&integers), parse(&others));
    for (at, a) in others.iter().enumerate() {
        for b in others[at + 1..].iter().chain(&integers) {
            assert_eq!(a.equals(b), b.equals(a), "{} {}", a.text(), b.text());
            // Equal ones differ in spelling only: a unit, a base, a name, the order. The digits of one are among the
            // digits of the other.
            let plausible = contains(&digits(a), &digits(b)) || contains(&digits(b), &digits(a));
            assert!(!a.equals(b) || plausible, "{} {}", a.text(), b.text());
        }
    }
    for (at, a) in integers.iter().enumerate() {
        assert!(!integers[at + 1..].iter().any(|b| a.equals(b)), "{}", a.text());
    }
}

fn digits(answer: &Answer) -> Vec<char> {
    answer.text().chars().filter(char::is_ascii_digit).collect()
}

fn contains(all: &[char], some: &[char]) -> bool {
    let count = |list: &[char], digit: char| list.iter().filter(|other| **other == digit).count();
    some.iter().all(|digit| count(some, *digit) <= count(all, *digit))
}

/// What other graders are known to fail at.
#[test]
fn the_hard_ones() {
    let table = [
        (r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\frac{-1\pm\sqrt{17}}{2}", true),
        (r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\frac{-1\mp\sqrt{17}}{2}", true),
        (r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\frac{1\pm\sqrt{17}}{2}", false),
        (r"\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}", r"\frac{-1+\sqrt{17}}{2}", false),
        (r"1-\frac{2}{\pi}", r"1-\frac2\pi", true),
        (r"\frac{1}{2}", r"\frac12", true),
        (r"2^{25} \cdot 26!", r"26!\cdot 2^{25}", true),
        (r"2^{25} \cdot 26!", "13532215908553332190020108288000000", true),
        (r"2^{25} \cdot 26!", "13532215908553332190020108288000001", false),
        (r"2^{25} \cdot 26!", r"2^{26} \cdot 26!", false),
        (r"\frac{4}{9}", r"0.\overline{4}", true),
        ("6300", r"6\,300", true),
        ("6300", "6300.", true),
        (r"10,\!080", "10080", true),
        (r"11,\! 111,\! 111,\! 100", "11111111100", true),
        (r"\$32,\!348", "32348", true),
        (r"8\sqrt{10}", "8", false),
        (r"\sqrt{\frac{95}{24}}", r"\frac{\sqrt{570}}{12}", true),
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", false),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", false),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1-\sqrt5, 1+\sqrt5", true),
    ];
    for (gold, answer, expected) in table {
        let response = format!(r"It is $\boxed{{{answer}}}$.");
        assert_eq!(math::grade(gold, &response).correct, expected, "{gold} against {answer}");
    }
}
