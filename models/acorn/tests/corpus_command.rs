//! `acorn-corpus` from outside: what it prints, and how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use eager_acorn::{Document, Family};

fn corpus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acorn-corpus")).args(arguments).output().unwrap()
}

fn documents(output: &Output) -> Vec<Document> {
    assert!(output.status.success());
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prints_as_many_documents_as_asked() {
    for wanted in [0, 1, 1024, 1500] {
        let output = corpus(&["--documents", &wanted.to_string(), "--threads", "2"]);
        assert_eq!(documents(&output).len(), wanted);
    }
}

#[test]
fn the_seed_decides_and_the_threads_do_not() {
    let one = corpus(&["--seed", "7", "--documents", "3000"]);
    let three = corpus(&["--seed", "7", "--documents", "3000", "--threads", "3"]);
    let other = corpus(&["--seed", "8", "--documents", "3000"]);
    assert!(one.stdout == three.stdout);
    assert!(one.stdout != other.stdout);
    let documents = documents(&one);
    for family in Family::ALL {
        assert!(documents.iter().any(|document| document.family == family));
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_acorn-corpus"))
        .args(["--threads", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str::<Document>(&line).unwrap();
    // The pipe is closed by now: the endless corpus must end by itself.
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bad_arguments_are_explained() {
    for arguments in [&["--documents", "many"][..], &["--seed"], &["--threads", "0"], &["--speed", "3"]] {
        let output = corpus(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("Usage:"));
    }
    assert!(corpus(&["--help"]).status.success());
}
