//! Every known suite, where its file is at hand.

use std::collections::HashSet;

use eager_lab::judge::Kind;
use eager_lab::suite::{Request, SUITES, Suite, names, source};

use crate::{ids, open};

/// The suite, if its file is here; a word to whoever reads the tests' output if not.
fn at_hand(name: &str) -> Option<Suite> {
    let file = SUITES.iter().find(|suite| suite.name == name).and_then(|suite| suite.file);
    if let Some(file) = file
        && (std::env::var_os(source::VARIABLE).is_none() || source::file(file).is_err())
    {
        println!("skipped: {} names no folder with {file}", source::VARIABLE);
        return None;
    }
    Some(open(&Request::new(name)))
}

#[test]
fn each_has_its_problems() {
    let table = [
        ("aime2024", 30, Kind::Math),
        ("aime2025", 30, Kind::Math),
        ("hmmt-feb-2025", 30, Kind::Math),
        ("gpqa-diamond", 198, Kind::Choice),
        #[cfg(unix)]
        ("humaneval-plus", 164, Kind::Code),
        ("math500", 500, Kind::Math),
        ("gsm8k", 1319, Kind::Math),
        ("acorn", 60, Kind::Expression),
    ];
    assert_eq!(table.map(|(name, ..)| name).to_vec(), names());
    for (name, count, kind) in table {
        let Some(suite) = at_hand(name) else { continue };
        assert_eq!(suite.name, name);
        assert_eq!(suite.problems.len(), count, "{name}");
        assert_eq!(suite.problems[0].judge.kind(), kind, "{name}");
        assert_eq!(suite.secret, name == "gpqa-diamond", "{name}");
        let distinct: HashSet<&str> = ids(&suite).into_iter().collect();
        assert_eq!(distinct.len(), count, "{name}");
        for problem in &suite.problems {
            // The texts of secret suites are not for the tests' output.
            assert!(problem.message.contains(problem.text.trim()), "{name} {}", problem.id);
            assert!(problem.choices.iter().all(|choice| problem.message.contains(choice)), "{}", problem.id);
        }
    }
}

#[test]
fn gold_answers_are_right_by_their_own_judges() {
    for name in ["aime2024", "aime2025", "hmmt-feb-2025", "gpqa-diamond", "math500", "gsm8k"] {
        let Some(suite) = at_hand(name) else { continue };
        for problem in &suite.problems {
            let gold = problem.gold.as_deref().unwrap();
            let right = if problem.choices.is_empty() {
                format!(r"Some steps. So the answer is \boxed{{{gold}}}.")
            } else {
                format!("Some steps.\n\nAnswer: {gold}")
            };
            let graded = problem.grade_all(&[right, String::new()]).unwrap();
            assert_eq!(graded[0].correct, Some(true), "{name} {}", problem.id);
            assert!(graded[0].answer.is_some(), "{name} {}", problem.id);
            assert_eq!(
                (graded[1].correct, graded[1].answer.as_deref()),
                (Some(false), None),
                "{}",
                problem.id
            );
        }
    }
}

#[test]
fn choices_are_shown_in_every_order() {
    let Some(suite) = at_hand("gpqa-diamond") else { return };
    for letter in ["A", "B", "C", "D"] {
        let count = suite.problems.iter().filter(|problem| problem.gold.as_deref() == Some(letter)).count();
        assert!((30..=70).contains(&count), "{letter}: {count}");
    }
}

#[test]
fn groups() {
    let table =
        [("math500", 7 * 5, "Precalculus/2"), ("gpqa-diamond", 3, "Physics"), ("acorn", 3, "countdown")];
    for (name, count, example) in table {
        let Some(suite) = at_hand(name) else { continue };
        let groups: HashSet<&str> = suite.problems.iter().filter_map(|p| p.group.as_deref()).collect();
        assert!(groups.contains(example), "{groups:?}");
        assert_eq!(groups.len(), count, "{groups:?}");
    }
}
