//! Folders that hold something already: what goes on, what stays, and what is refused.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::{eager, names_of_runs, samples, stdout, text_without_seconds};

fn bench(out: &Path, more: &[&str]) -> std::process::Output {
    let out = out.to_str().unwrap();
    let base = [
        "bench",
        "--suite",
        "acorn",
        "--limit",
        "4",
        "-m",
        "2",
        "--max-tokens",
        "40",
        "--out",
        out,
        "--resume",
    ];
    eager(&[&base[..], more].concat())
}

#[track_caller]
fn refused(output: &std::process::Output, word: &str) {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(word), "it should say '{word}', and says: {message}");
}

/// The last line was written, and then the kill came: before the lines were put in order.
#[test]
fn a_run_that_only_lacks_its_order_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    stdout(&bench(&out, &["--method", "full-parallel"]));
    let whole = text_without_seconds(&out);
    let path = out.join("samples.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let backwards: String = text.lines().rev().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, backwards).unwrap();
    stdout(&bench(&out, &["--method", "full-parallel"]));
    assert_eq!(text_without_seconds(&out), whole);
}

#[test]
fn a_run_that_was_killed_as_it_began_gets_its_problems() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    stdout(&bench(&out, &["--method", "full-parallel"]));
    let path = out.join("problems.jsonl");
    let problems = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    stdout(&bench(&out, &["--method", "full-parallel"]));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), problems);
}

#[test]
fn a_users_files_are_not_written_over() {
    for (name, methods) in [
        ("problems.jsonl", "full-parallel"),
        ("samples.jsonl", "full-parallel"),
        ("report.md", "full-parallel"),
        ("report.md", "full-parallel,esc"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join(name);
        std::fs::write(&mine, "mine\n").unwrap();
        refused(&bench(folder.path(), &["--method", methods]), name);
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}

#[test]
fn what_is_asked_for_twice_is_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    stdout(&bench(&out, &["--method", "esc,esc", "--seed", "3,3"]));
    assert_eq!(samples(&out).len(), 4);
}

/// Methods and seeds may come and go between two calls.
#[test]
fn a_campaign_can_be_taken_up_in_part_and_extended() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    stdout(&bench(root, &["--method", "eager-init,eager"]));
    stdout(&bench(root, &["--method", "eager-init"]));
    assert!(!root.join("run.json").exists(), "the run has a folder of its own");
    stdout(&bench(root, &["--method", "esc,eager"]));
    stdout(&bench(root, &["--method", "esc", "--seed", "0,1"]));
    stdout(&bench(root, &["--method", "esc", "--seed", "1"]));
    assert_eq!(names_of_runs(root), ["eager-init", "eager-regrow", "esc", "esc_seed1"]);
}

#[test]
fn a_single_run_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    stdout(&bench(folder.path(), &["--method", "esc"]));
    refused(&bench(folder.path(), &["--method", "esc,full-parallel"]), "several cannot join it");
    assert!(names_of_runs(folder.path()).is_empty());
}

/// A run that cannot go on keeps the others from beginning.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    stdout(&bench(&root.join("esc"), &["--method", "esc", "--theta", "0.3", "--temperature", "0.7"]));
    let other = bench(root, &["--method", "full-parallel,esc"]);
    refused(&other, "temperature (0.7, now 0.6)");
    assert_eq!(names_of_runs(root), ["esc"]);
}

/// A process may have only so many files open, and a sweep any number of runs.
#[test]
#[cfg(target_os = "linux")]
fn a_sweep_has_more_runs_than_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display();
    let seeds: Vec<String> = (0..40).map(|seed| seed.to_string()).collect();
    let script = format!(
        "ulimit -n 48; exec {} sweep --suite acorn --limit 1 -m 1 --max-tokens 2 --method full-parallel --seed {} --out {out}",
        env!("CARGO_BIN_EXE_eager"),
        seeds.join(",")
    );
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    stdout(&output);
    assert_eq!(names_of_runs(folder.path()).len(), 40);
}

/// Runs are counted as they were asked for, whether or not they have to be run.
#[test]
fn what_is_there_already_is_told() {
    let folder = tempfile::tempdir().unwrap();
    stdout(&bench(folder.path(), &["--method", "full-parallel,eager-init"]));
    let path = folder.path().join("eager-init").join("samples.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let first = text.split_inclusive('\n').next().unwrap();
    std::fs::write(&path, first).unwrap();
    let output = bench(folder.path(), &["--method", "full-parallel,eager-init,esc"]);
    stdout(&output);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: Vec<&str> = message.lines().filter(|line| line.starts_with('[')).collect();
    let [full_parallel, goes_on, init, esc] = told[..] else { panic!("{message}") };
    assert!(full_parallel.starts_with("[1/3] full-parallel: pass@k"), "{message}");
    assert!(full_parallel.ends_with("was there already"), "{message}");
    assert_eq!(goes_on, "[2/3] eager-init: goes on, 1 of 4 prompts were there already");
    assert!(init.starts_with("[2/3] eager-init: pass@k") && !init.contains("there"), "{message}");
    let (_, left) =
        init.split_once("; about ").unwrap_or_else(|| panic!("one more run is to come: {message}"));
    assert!(left.ends_with(" left"), "{message}");
    assert!(esc.starts_with("[3/3] esc: pass@k") && !esc.contains("there"), "{message}");
    assert!(!esc.contains("left"), "{message}");
}

/// Rewrites what a run says it was asked.
#[track_caller]
fn rewrite(run: &Path, change: impl Fn(&mut serde_json::Map<String, Value>)) {
    let path = run.join("run.json");
    let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    change(manifest["parameters"].as_object_mut().unwrap());
    std::fs::write(&path, manifest.to_string()).unwrap();
}

fn older(parameters: &mut serde_json::Map<String, Value>) {
    assert!(parameters.remove("second_pass").is_some());
    assert!(parameters["options"].as_object_mut().unwrap().remove("surplus-total").is_some());
}

/// Runs under different readings of the paper's second pass have spent different budgets.
#[test]
fn a_run_goes_on_under_its_own_reading_only() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (method, reading) in [
        ("eager/rerun", "M + b new sequences, limit over all prompts"),
        ("eager/regrow", "(\"b new sequences, limit over all prompts"),
    ] {
        let run = root.join(method.replace('/', "-"));
        stdout(&bench(&run, &["--method", method]));
        stdout(&bench(&run, &["--method", method]));
        let other = bench(&run, &["--method", method, "--surplus-total"]);
        refused(&other, "reading of the second pass (\"M + b sequences in all, limit for each prompt\", now");
        rewrite(&run, older);
        let older = bench(&run, &["--method", method]);
        refused(&older, "reading of the second pass");
        refused(&older, reading);
    }
}

#[test]
fn an_option_that_a_run_does_not_know_has_its_default() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path();
    stdout(&bench(run, &["--method", "eager-init"]));
    rewrite(run, |parameters| drop(parameters["options"].as_object_mut().unwrap().remove("relax")));
    stdout(&bench(run, &["--method", "eager-init"]));
    refused(&bench(run, &["--method", "eager-init", "--relax", "0.5"]), "relax (nothing, now 0.5)");
    refused(&bench(run, &["--method", "eager-init", "--system", "Be brief."]), "system (nothing, now");
}

#[test]
fn readings_are_not_averaged() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    stdout(&bench(root, &["--method", "eager/rerun", "--seed", "0,1,2"]));
    let lines = || {
        let text = stdout(&eager(&["report", root.to_str().unwrap(), "--json"]));
        let report: Value = serde_json::from_str(&text).unwrap();
        let lines = report["methods"].as_array().unwrap().clone();
        let seeds: Vec<u64> = lines.iter().map(|line| line["seeds"].as_u64().unwrap()).collect();
        (seeds, report.to_string())
    };
    assert_eq!(lines().0, [3]);
    rewrite(&root.join("eager-rerun_seed1"), older);
    let (seeds, text) = lines();
    assert_eq!(seeds.iter().sum::<u64>(), 3);
    assert_eq!(seeds.len(), 2);
    for word in ["M + b new sequences, limit over all prompts", "different readings", "not averaged"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// So many of acorn's problems by methods with and without a second pass.
fn of_limit(out: &Path, limit: &str, more: &[&str]) -> std::process::Output {
    let methods = ["--method", "full-parallel,eager-init,eager-adapt/rerun,eager", "-m", "4"];
    let more = if more.contains(&"--max-tokens") {
        more.to_vec()
    } else {
        [more, &["--max-tokens", "150"]].concat()
    };
    let base = ["bench", "--suite", "acorn", "--limit", limit, "--out", out.to_str().unwrap()];
    eager(&[&base[..], &methods, &more].concat())
}

/// A run that is given more problems ends as one that had all of them from the beginning.
#[test]
fn problems_can_be_added_to_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, grown] = ["whole", "grown"].map(|name| folder.path().join(name));
    stdout(&of_limit(&whole, "20", &[]));
    stdout(&of_limit(&grown, "5", &[]));
    let granted = || -> BTreeMap<String, u64> {
        let granted = |s: &Value| (s["id"].as_str().unwrap().to_owned(), s["granted"].as_u64().unwrap());
        samples(&grown.join("eager-adapt-rerun")).iter().map(granted).collect()
    };
    let before = granted();
    stdout(&of_limit(&grown, "10", &["--resume"]));
    let output = of_limit(&grown, "20", &["--resume"]);
    stdout(&output);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("full-parallel: goes on, 10 of 20 prompts were there already"), "{message}");
    let after = granted();
    assert!(
        before.iter().any(|(id, share)| after[id] != *share),
        "{before:?}: a share depends on all problems"
    );
    for name in names_of_runs(&whole) {
        let [whole, grown] = [&whole, &grown].map(|root| root.join(&name));
        assert_eq!(text_without_seconds(&grown), text_without_seconds(&whole), "{name}");
        for file in ["run.json", "problems.jsonl"] {
            let [whole, grown] = [&whole, &grown].map(|run| std::fs::read_to_string(run.join(file)).unwrap());
            assert_eq!(grown, whole, "{name}/{file}");
        }
        assert_eq!(crate::metrics(&grown).values().next().unwrap()["prompts"], 20);
    }
    // No first pass was decoded twice.
    let passes: Vec<_> = std::fs::read_dir(grown.join("first-pass")).unwrap().map(Result::unwrap).collect();
    let [pass] = &passes[..] else { panic!("{passes:?}") };
    assert_eq!(std::fs::read_to_string(pass.path()).unwrap().lines().count(), 20);
}

#[test]
fn problems_that_a_run_has_cannot_be_left_out_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    stdout(&of_limit(root, "10", &[]));
    let before = text_without_seconds(&root.join("eager-regrow"));
    refused(&of_limit(root, "5", &["--resume"]), "is not among those that are chosen now");
    // More than sixty are all generated: other problems by the same names.
    refused(&of_limit(root, "70", &["--resume"]), "suite.hash");
    refused(
        &of_limit(root, "20", &["--resume", "--max-tokens", "151"]),
        "parameters.max_tokens (150, now 151)",
    );
    let template = root.join("template.txt");
    std::fs::write(&template, "Well? {{ problem }}").unwrap();
    let template = ["--resume", "--template", template.to_str().unwrap()];
    refused(&of_limit(root, "20", &template), "suite.hash");
    assert_eq!(text_without_seconds(&root.join("eager-regrow")), before);
}

/// Whatever changes the logits or the end of a sequence is another run, even where an older run would not know it.
#[test]
fn new_sampling_rules_are_no_defaults_of_an_older_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path();
    stdout(&bench(run, &["--method", "full-parallel"]));
    let before = text_without_seconds(run);
    for (option, value) in [
        ("repetition-penalty", Some("1.5")),
        ("presence-penalty", Some("0.5")),
        ("frequency-penalty", Some("0.5")),
        ("logit-bias", Some("3=-100")),
        ("min-tokens", Some("5")),
        ("ignore-eos", None),
        ("stop-token-id", Some("3")),
    ] {
        let option_word = format!("--{option}");
        let words: Vec<&str> = [option_word.as_str()].into_iter().chain(value).collect();
        let other = bench(run, &[&["--method", "full-parallel"], &words[..]].concat());
        refused(&other, &format!("parameters.options.{option}"));
    }
    assert_eq!(text_without_seconds(run), before);
}

/// Lines that were judged by other rules do not stand under today's label.
#[test]
fn nothing_is_added_to_a_run_whose_answers_were_read_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path();
    stdout(&bench(run, &["--method", "full-parallel"]));
    rewrite(run, |parameters| drop(parameters["options"].as_object_mut().unwrap().remove("extract")));
    // It is complete, so it is reported as it is.
    stdout(&bench(run, &["--method", "full-parallel"]));
    assert!(!std::fs::read_to_string(run.join("run.json")).unwrap().contains("extract"));
    let more = ["bench", "--suite", "acorn", "--limit", "8", "-m", "2", "--max-tokens", "40"];
    let more =
        [&more[..], &["--method", "full-parallel", "--resume", "--out", run.to_str().unwrap()]].concat();
    refused(&eager(&more), "parameters.options.extract");
    let path = run.join("samples.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.split_inclusive('\n').next().unwrap()).unwrap();
    refused(&bench(run, &["--method", "full-parallel"]), "parameters.options.extract");
}
