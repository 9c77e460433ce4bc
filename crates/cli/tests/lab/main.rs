//! The lab's commands, as a user runs them.

mod errors;
mod kill;
mod learnt;
mod remote;
mod resume;
mod runs;
mod theta;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The command, with nothing of the user's own that could decide a test.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    command.args(args).env_remove("EAGER_KERNEL").env("EAGER_PROFILES", "/nonexistent/profiles.json");
    command
}

fn eager(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The folders below this one that hold a run.
#[track_caller]
fn names_of_runs(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap().map(Result::unwrap);
    let runs = entries.filter(|entry| entry.path().join("run.json").is_file());
    let mut names: Vec<String> = runs.map(|run| run.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The lines of a run's samples, without what depends on the clock.
#[track_caller]
fn samples(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("samples.jsonl")).unwrap();
    let timeless = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds").unwrap();
        line
    };
    text.lines().map(timeless).collect()
}

/// The same, as the very text, for comparisons byte for byte.
#[track_caller]
fn text_without_seconds(run: &Path) -> String {
    let text = std::fs::read_to_string(run.join("samples.jsonl")).unwrap();
    let cut = |line: &str| line[..line.rfind("\"seconds\":").unwrap()].to_owned() + "\n";
    text.lines().map(cut).collect()
}

fn metrics(run: &Path) -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(run.join("metrics.json")).unwrap()).unwrap()
}
