//! Agreement with math-verify on its own test cases and on pairs of ours.

use std::{fs, path::PathBuf};

use eager_grade::math;
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
    let mut disagreements = 0;
    for (at, case) in cases.iter().enumerate() {
        let grade = math::grade(&case.gold, &case.pred);
        if grade.correct != case.expected {
            disagreements += 1;
            let tail = |text: &str| text.chars().rev().take(150).collect::<String>().chars().rev().collect::<String>();
            println!(
                "{} ours {} | {:?} | {:?} | found {:?} gold {:?}",
                at + 1,
                grade.correct,
                tail(&case.gold),
                tail(&case.pred),
                grade.answer,
                math::Answer::gold(&case.gold).text()
            );
        }
    }
    println!("{disagreements} of {}", cases.len());
}
