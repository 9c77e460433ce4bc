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
    refused(&with(&["--entropy-top-k", "1"]), 2, &["at least 2"]);
    // Of two candidates, the model's own theta for this profile cannot be reached.
    let pair = ["--entropy-top-k", "2", "--profile", "Qwen3-4B", "--method", "eager-init"];
    refused(&with(&pair), 2, &["out of range", "0.69"]);
    refused(&["calibrate", "--suite", "acorn", "--seed", "1,2"], 2, &["one seed"]);
    refused(&["report", "/nonexistent", "--out", "x.md"], 2, &["HTML"]);
}

#[test]
fn mistakes_in_what_varies() {
    let sweep = ["sweep", "--suite", "acorn", "--out", "/nonexistent/run", "--vary"];
    for (vary, words) in [
        ("regrow-first", &["OPTION=VALUE"][..]),
        ("regrow-last=likely", &["regrow-last", "regrow-first", "esc-window"]),
        ("regrow-first=best", &["regrow-first=best", "invalid value", "likely"]),
        ("relax=", &["relax="]),
        ("everywhere=sometimes", &["true or false"]),
        ("profile=acorn", &["--theta"]),
        ("entropy-top-k=2", &["out of range"]),
    ] {
        refused(&[&sweep[..], &[vary, "--theta", "1.5"]].concat(), 2, words);
    }
}

#[test]
fn methods_that_stop_at_the_right_answer_need_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    std::fs::write(&path, "{\"problem\": \"1 + 1?\", \"answer\": 2}\n").unwrap();
    let suite = ["--suite", path.to_str().unwrap(), "--grader", "none", "--method"];
    for (command, method) in [("bench", "esc,until-right"), ("sweep", "two-stage")] {
        refused(
            &[&[command], &suite[..], &[method]].concat(),
            2,
            &["decides by the right answers", "--grader"],
        );
    }
}

/// Also when it is told with all that led to it.
#[test]
fn a_reason_is_given_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = small(&file.path().join("below"), &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(message.matches("Not a directory").count(), 1, "{message}");
}

#[test]
fn a_suite_that_is_not_at_hand_names_both_ways() {
    let empty = tempfile::tempdir().unwrap();
    let output = command(&["bench", "--suite", "math500"])
        .env("EAGER_DATA", empty.path())
        // Nobody listens there.
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("EAGER_DATA") && message.contains("math500.jsonl"), "{message}");
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
    // Asking to go on with it is a mistake in the call; that it cannot be read is none.
    for (output, status) in [(small(&out, &["--resume"]), 2), (eager(&["report", out.to_str().unwrap()]), 1)]
    {
        let newer = word(output, status);
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

/// Runs outlive programs and disks: what can be read is reported, and what cannot is named.
#[test]
fn a_report_leaves_out_what_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    stdout(&small(&root.join("good"), &[]));
    let manifest = std::fs::read_to_string(root.join("good/run.json")).unwrap();
    let lay = |name: &str, manifest: &str, samples: &str| {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("run.json"), manifest).unwrap();
        std::fs::write(root.join(name).join("samples.jsonl"), samples).unwrap();
    };
    lay("newer", &manifest.replace("\"format\": 1", "\"format\": 9"), "");
    lay("torn", "{", "");
    lay("spoilt", &manifest, "{\"id\": 3}\n");
    std::fs::write(root.join("notes.txt"), "no folder").unwrap();

    let below = eager(&["report", root.to_str().unwrap()]);
    assert!(stdout(&below).contains("full-parallel"));
    assert!(root.join("report.html").is_file());
    let message = String::from_utf8_lossy(&below.stderr).into_owned();
    for word in ["newer/run.json has the layout 9", "torn/run.json", "line 1 of", "spoilt/samples.jsonl"] {
        assert!(message.contains("eager: left out: ") && message.contains(word), "{word}: {message}");
    }
    assert_eq!(message.matches("left out: ").count(), 3, "{message}");

    // As a shell spells out `runs/*`.
    let named = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| root.join(name).display().to_string()).collect();
        let out = root.join("chosen.html").display().to_string();
        let words: Vec<&str> =
            ["report", "--out", &out].into_iter().chain(paths.iter().map(String::as_str)).collect();
        eager(&words)
    };
    let output =
        eager(&["report", root.join("nowhere").to_str().unwrap(), root.join("good").to_str().unwrap()]);
    stdout(&output);
    assert!(root.join("good/report.html").is_file());
    let output = named(&["good", "newer", "notes.txt", "nowhere"]);
    assert!(stdout(&output).contains("full-parallel"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(message.matches("left out: ").count(), 3, "{message}");

    std::fs::remove_file(root.join("chosen.html")).unwrap();
    let output = named(&["newer", "torn"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("newer") && message.contains("torn") && !message.contains("left out"),
        "{message}"
    );
    assert!(!root.join("chosen.html").exists());
}
