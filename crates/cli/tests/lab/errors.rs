//! What is wrong is told in one sentence that says what to do, and nothing is run.

use std::path::Path;

use crate::{command, eager, stdout};

#[track_caller]
fn refused(args: &[&str], status: i32, words: &[&str]) {
    let output = eager(args);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?} should say '{word}', and says: {message}");
    }
}

#[test]
fn mistakes_in_the_call() {
    let bench = ["bench", "--suite", "acorn", "--out", "/nonexistent/run"];
    let with = |more: &[&'static str]| [&bench[..], more].concat();
    refused(&["bench", "--suite", "aime1999"], 2, &["aime1999", "aime2025", ".jsonl"]);
    refused(&with(&["--method", "best-of-n"]), 2, &["best-of-n", "eager-init"]);
    refused(&with(&["--theta", "-1"]), 2, &["--theta", "negative"]);
    refused(&with(&["--theta", "3.5"]), 2, &["3.5", "out of range", "3.00"]);
    refused(&with(&["--theta", "much"]), 2, &["--theta", "number"]);
    refused(&with(&["--profile", "gpt-9"]), 2, &["gpt-9", "Qwen3-4B"]);
    refused(&with(&["--only", "c1-1,z9"]), 2, &["z9"]);
    refused(&with(&["--grader", "math"]), 2, &["acorn"]);
    refused(&["bench", "--suite", "acorn", "--resume"], 2, &["--out"]);
    refused(&["bench", "--suite", "nowhere.jsonl"], 1, &["nowhere.jsonl"]);
    refused(&["report", "/nonexistent"], 1, &["/nonexistent"]);
    refused(&["analyze", "/nonexistent"], 1, &["/nonexistent"]);
    refused(&["calibrate", "--suite", "gsm8k,math500"], 2, &["--draws"]);
    refused(&["sweep", "--suite", "acorn", "--max-sequences", "0"], 2, &["at least 1"]);
}

#[test]
fn a_suite_that_is_not_at_hand_names_both_ways() {
    let empty = tempfile::tempdir().unwrap();
    let output = command(&["bench", "--suite", "gsm8k"])
        .env("EAGER_DATA", empty.path())
        // Nobody listens there.
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("EAGER_DATA") && message.contains("gsm8k_test.jsonl"), "{message}");
}

#[test]
fn a_broken_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    std::fs::write(&path, "{\"problem\": \"1 + 1?\", \"answer\": 2}\n{\"problem\": \"2 + 2?\"\n").unwrap();
    refused(&["bench", "--suite", path.to_str().unwrap()], 1, &["line 2", "mine.jsonl"]);
    std::fs::write(&path, "{\"question\": \"1 + 1?\", \"answer\": 2}\n").unwrap();
    refused(&["bench", "--suite", path.to_str().unwrap()], 1, &["line 1", "problem"]);
}

fn small(out: &Path, more: &[&str]) -> std::process::Output {
    let out = out.to_str().unwrap();
    let base =
        ["bench", "--suite", "acorn", "--limit", "2", "-m", "2", "--method", "full-parallel", "--out", out];
    eager(&[&base[..], more].concat())
}

#[test]
fn a_run_is_neither_overwritten_nor_continued_as_another() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    stdout(&small(&out, &[]));
    let word = |output: std::process::Output, status: i32| {
        assert_eq!(output.status.code(), Some(status));
        String::from_utf8(output.stderr).unwrap()
    };
    let again = word(small(&out, &[]), 2);
    assert!(again.contains("--resume"), "{again}");
    let other = word(small(&out, &["--resume", "--seed", "7"]), 2);
    assert!(other.contains("seed") && other.contains("(0, now 7)"), "{other}");
    let hotter = word(small(&out, &["--resume", "--temperature", "0.9"]), 2);
    assert!(hotter.contains("temperature"), "{hotter}");
    stdout(&small(&out, &["--resume"]));

    let manifest = out.join("run.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"format\": 1", "\"format\": 9")).unwrap();
    for output in [small(&out, &["--resume"]), eager(&["report", out.to_str().unwrap()])] {
        let newer = word(output, 2);
        assert!(newer.contains("layout 9") && newer.contains("version"), "{newer}");
    }
    std::fs::write(&manifest, "{").unwrap();
    let broken = word(small(&out, &["--resume"]), 1);
    assert!(broken.contains("run.json"), "{broken}");
}

#[test]
fn a_damaged_line_is_named_and_the_run_can_be_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    stdout(&small(&out, &[]));
    let samples = out.join("samples.jsonl");
    let good = std::fs::read_to_string(&samples).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    std::fs::write(&samples, format!("{}\n{{\"id\": 3}}\n", lines[0])).unwrap();
    let output = small(&out, &["--resume"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("line 2") && message.contains("remove that line"), "{message}");
    std::fs::write(&samples, format!("{}\n", lines[0])).unwrap();
    stdout(&small(&out, &["--resume"]));
    assert_eq!(crate::samples(&out).len(), 2);
}
