//! Agreement with math-verify on its own test cases and on pairs of ours.

use std::{collections::BTreeSet, fs, path::PathBuf};

use eager_grade::{Grade, math};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    gold: String,
    pred: String,
    expected: bool,
}

#[test]
fn every_disagreement_is_in_the_table() {
    let Some(data) = std::env::var_os("EAGER_DATA").map(PathBuf::from) else {
        println!("skipped: EAGER_DATA is not set");
        return;
    };
    let lines = fs::read_to_string(data.join("mathverify_cases.jsonl")).unwrap();
    let cases: Vec<Case> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let table = table();
    let mut found = BTreeSet::new();
    for (at, case) in cases.iter().enumerate() {
        let grade = math::grade(&case.gold, &case.pred);
        if grade.correct != case.expected {
            found.insert(at + 1);
            let known = table.contains(&(at + 1, grade.correct));
            let Grade { answer, correct } = grade;
            assert!(known, "line {} is not in the table: ours is {correct}, reading {answer:?}", at + 1);
        }
    }
    for (line, _) in &table {
        assert!(found.contains(line), "line {line} of the table is no disagreement any more");
    }
    let agreement = 1.0 - found.len() as f64 / cases.len() as f64;
    println!("agreement {:.2} %, {} disagreements", 100.0 * agreement, found.len());
    assert!(agreement >= 0.9685, "{agreement}");
}

/// The lines in the crate's table of disagreements, each with our verdict.
fn table() -> Vec<(usize, bool)> {
    include_str!("../DISAGREEMENTS.md")
        .lines()
        .filter_map(|row| {
            let line = row.strip_prefix("| ")?.split(' ').next()?.parse().ok()?;
            Some((line, row.contains("| right |")))
        })
        .collect()
}
