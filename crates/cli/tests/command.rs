//! The real binary, as a user runs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn eager(args: &[&str]) -> Output {
    // What a user's shell may export must not decide a test.
    Command::new(env!("CARGO_BIN_EXE_eager")).args(args).env_remove("EAGER_KERNEL").output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&eager(args))).unwrap()
}

const HARD: &str = "Using each of 47, 50, 48, 23 exactly once, make 25.";

#[test]
fn demo_compares_every_method_in_an_aligned_table() {
    let text = stdout(&eager(&["demo", "--limit", "6", "--max-sequences", "4"]));
    for method in [
        "full-parallel",
        "esc",
        "deepconf",
        "until-right",
        "two-stage",
        "eager-init",
        "eager-adapt/rerun",
        "eager-adapt/regrow",
        "eager/rerun",
        "eager/regrow",
    ] {
        assert!(text.contains(method), "{method} is missing from\n{text}");
    }
    let notes = ["No room", "equal distinct:"];
    let table: Vec<&str> = (text.lines().take_while(|line| !line.is_empty()))
        .filter(|line| !notes.iter().any(|note| line.starts_with(note)))
        .collect();
    let widths: Vec<usize> = table.iter().map(|l| l.chars().count()).collect();
    assert!(widths.iter().all(|&w| w == widths[0]), "the table does not align:\n{text}");
    assert!(text.contains("#0 "), "no tree in\n{text}");
}

#[test]
fn demo_in_json_counts_what_the_table_counts() {
    let report = json(&["demo", "--limit", "5", "--max-sequences", "4", "--seed", "3", "--json"]);
    let methods = report["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 10);
    for (at, line) in methods.iter().enumerate() {
        for key in [
            "pass_at_k",
            "cons_at_k",
            "pass_rate",
            "sequences",
            "tokens",
            "seconds",
            "prompts",
            "token_share",
        ] {
            assert!(line[key].is_number(), "{key} of {line}");
        }
        let sum = |key: &str| -> u64 {
            report["outcomes"].as_array().unwrap().iter().map(|o| o[key][at].as_u64().unwrap()).sum()
        };
        assert_eq!(line["tokens"].as_u64().unwrap(), sum("tokens"));
        assert_eq!(line["sequences"].as_u64().unwrap(), sum("sequences"));
    }
    assert_eq!(methods[0]["sequences"], 20);
}

#[test]
fn solve_shows_the_tree_the_votes_and_the_cost() {
    let text = stdout(&eager(&["solve", HARD, "--max-sequences", "4"]));
    for part in ["#0", "forked at token", "‹", "answer: ", "tokens decoded for 4 sequences"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn solve_reads_the_problem_from_standard_input() {
    let read = |problem: &str| {
        let mut solve = Command::new(env!("CARGO_BIN_EXE_eager"));
        solve.args(["solve", "-", "-m", "2", "--json"]).env_remove("EAGER_KERNEL");
        let mut child =
            solve.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(problem.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let line: Value = serde_json::from_str(&stdout(&read(&format!("{HARD}\n")))).unwrap();
    let typed = json(&["solve", HARD, "-m", "2", "--json"]);
    assert_eq!((&line["id"], &line["sequences"]), (&typed["id"], &typed["sequences"]));
    let nothing = read(" \n");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("the problem is empty"));
}

#[test]
fn the_readme_says_what_is_needed() {
    let readme = include_str!("../../../README.md");
    let rust = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), " or newer and a C compiler");
    for part in [rust, "apt install build-essential", "cargo install --path crates/cli"] {
        assert!(readme.contains(part), "no '{part}' in README.md");
    }
    let installed = readme.find("cargo install --path").unwrap();
    let first = readme.find("\n    eager ").unwrap();
    assert!(installed < first, "README.md installs the command before it is used");
}

#[test]
fn solve_says_when_the_model_knows_no_such_question() {
    let foreign = eager(&["solve", "What is the capital of France?", "-m", "2", "--json"]);
    let line: Value = serde_json::from_str(&stdout(&foreign)).unwrap();
    let told = String::from_utf8_lossy(&foreign.stderr);
    assert!(told.contains("acorn knows three kinds of question") && told.contains("--model"), "{told}");
    assert!(told.contains(line["notice"].as_str().unwrap()), "{told}");
    let known = eager(&["solve", HARD, "-m", "2", "--json"]);
    let line: Value = serde_json::from_str(&stdout(&known)).unwrap();
    assert!(known.stderr.is_empty() && line.get("notice").is_none(), "{line}");
}

#[test]
fn one_thing_has_one_name_and_older_names_are_understood() {
    let cases = [
        (&["demo"][..], "--method", "--methods", "esc"),
        (&["demo"], "--limit", "--problems", "7"),
        (&["calibrate"], "--limit", "--examples", "7"),
        (&["grade"], "--grader", "--kind", "math"),
        (&["grade", "--grader", "math"], "--grader-timeout", "--timeout", "7"),
    ];
    for (command, name, older, value) in cases {
        let help = stdout(&eager(&[command[0], "--help"]));
        let options: Vec<&str> = help.split_whitespace().collect();
        assert!(options.contains(&name) && !options.contains(&older), "{name} and {older} in\n{help}");
        // The names are read before the mistake that ends the command.
        for name in [name, older] {
            let mut args = command.to_vec();
            args.extend([name, value, "--no-such-option"]);
            refuses(&args, 2, "--no-such-option");
        }
    }
}

#[test]
fn a_tie_is_shown_as_a_tie() {
    const TORN: &str = "What is 9432 * 3104?";
    let text = stdout(&eager(&["solve", TORN, "-m", "2"]));
    assert_eq!(text.matches("1 of 2").count(), 2, "{text}");
    assert_eq!(text.matches("(tie)").count(), 2, "{text}");
    assert!(text.contains("(the first of 2 answers that tie)"), "{text}");
    let votes = json(&["solve", TORN, "-m", "2", "--json"])["votes"].clone();
    assert_eq!([&votes[0]["tied"], &votes[1]["tied"]], [true, true]);
    let text = stdout(&eager(&["solve", HARD, "-m", "4"]));
    assert!(!text.contains("tie)") && !text.contains("that tie"), "{text}");
}

#[test]
fn tables_fit_what_they_are_printed_on() {
    for columns in ["", "80", "100", "120", "200"] {
        let args = ["demo", "--limit", "3", "-m", "2", "--method", "full-parallel,eager-init"];
        let output = Command::new(env!("CARGO_BIN_EXE_eager")).args(args).env("COLUMNS", columns).output();
        let text = stdout(&output.unwrap());
        let width = columns.parse().unwrap_or(120);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} columns in {columns}:\n{text}");
        assert_eq!(text.contains("No room for"), width < 130, "{columns}:\n{text}");
        assert!(text.contains("pass@k") && text.contains("equal tokens"), "{text}");
    }
}

/// The prompt opens the chain of thought, and nothing closes it.
#[test]
fn solve_takes_no_thought_for_an_answer() {
    let prompt = "<|im_start|>user\nWhat is 888 * 27 + 271?<|im_end|>\n<|im_start|>assistant\n<think>\n";
    let solve =
        |most: &str| json(&["solve", prompt, "--raw", "--temperature", "0", "--max-tokens", most, "--json"]);
    let (cut, whole) = (solve("20"), solve("400"));
    assert!(cut["sequences"][0]["text"].as_str().unwrap().contains('='), "{cut}");
    assert!(cut["answer"].is_null() && cut["votes"].as_array().unwrap().is_empty(), "{cut}");
    assert_eq!(whole["answer"], "24247", "{whole}");
}

#[test]
fn solve_in_json_follows_the_contract_of_samples() {
    let line = json(&["solve", HARD, "-m", "4", "--json", "--answer", "50/(48/(47-23))"]);
    let sequences = line["sequences"].as_array().unwrap();
    assert_eq!(line["sequences_total"], sequences.len());
    assert_eq!(line["saturated"], true);
    let own: usize = sequences.iter().map(|s| s["tokens"].as_array().unwrap().len()).sum();
    assert_eq!(line["tokens_generated"], own);
    for (at, sequence) in sequences.iter().enumerate() {
        let lengths = ["tokens", "logprobs", "entropy"].map(|key| sequence[key].as_array().unwrap().len());
        assert!(lengths.iter().all(|&l| l == lengths[0]));
        assert!(["stop", "length"].contains(&sequence["finish"].as_str().unwrap()));
        assert!(sequence["text"].is_string() && sequence["correct"].is_boolean());
        match sequence["parent"].as_u64() {
            Some(parent) => assert!((parent as usize) < at),
            None => assert_eq!(sequence["fork_at"], 0),
        }
    }
    assert!(
        line["votes"][0]["count"].is_number() && line["answer"].is_string() && line["seconds"].is_number()
    );
}

#[test]
fn the_same_seed_gives_the_same_tree() {
    let grow = |threads: &str, kv: &str, seed: &str| {
        let args =
            ["solve", HARD, "-m", "6", "--json", "--seed", seed, "--threads", threads, "--kv-memory", kv];
        json(&args)["sequences"].clone()
    };
    let base = grow("1", "4096", "5");
    assert_eq!(base, grow("2", "4096", "5"));
    assert_eq!(base, grow("2", "2", "5"), "scarce memory changed the tree");
    assert_ne!(base, grow("2", "4096", "6"));
}

#[test]
fn methods_can_be_named_with_their_reallocation() {
    for method in ["full-parallel", "eager-adapt", "eager-adapt/rerun"] {
        let line = json(&["solve", HARD, "-m", "3", "--json", "--method", method]);
        assert!(line["method"].as_str().unwrap().starts_with(method));
    }
    // One prompt is the whole set, and never has more than M.
    for method in ["eager", "eager/rerun", "eager/rerun-literal"] {
        let args =
            ["solve", HARD, "-m", "6", "--theta", "0.6", "--json", "--answer", "none", "--method", method];
        let total = json(&args)["sequences_total"].as_u64().unwrap();
        assert!((4..=6).contains(&total), "{method}: {total}");
    }
}

/// One sentence on stderr, nothing on stdout, the status that the contract names, no panic.
fn refuses(args: &[&str], status: i32, says: &str) {
    let output = eager(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?} printed something");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{args:?}: not one line: {stderr}");
    assert!(stderr.starts_with("eager: "), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: no '{says}' in {stderr}");
    assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
}

#[test]
fn bad_usage_is_status_2() {
    refuses(&["solve"], 2, "PROBLEM");
    refuses(&["solve", ""], 2, "the problem is empty");
    refuses(&["solve", " \n"], 2, "the problem is empty");
    refuses(&["solve", HARD, "--theta", "much"], 2, "not a number");
    refuses(&["solve", HARD, "--theta", "NaN"], 2, "finite");
    refuses(&["solve", HARD, "--theta", "-1"], 2, "negative");
    refuses(&["solve", HARD, "--max-sequences", "0"], 2, "at least 1");
    refuses(&["demo", "--max-sequences", "0"], 2, "at least 1");
    refuses(&["demo", "--limit", "0"], 2, "at least 1");
    refuses(&["solve", HARD, "--temperature", "inf"], 2, "finite");
    refuses(&["solve", HARD, "--top-p", "0"], 2, "above 0");
    refuses(&["solve", HARD, "--method", "magic"], 2, "full-parallel");
    refuses(&["solve", HARD, "--method", "eager"], 2, "--answer");
    refuses(
        &["solve", HARD, "--method", "until-right"],
        2,
        "until-right decides by the right answer: give --answer",
    );
    refuses(&["serve", "--method", "two-stage"], 2, "two-stage decides by the right answer");
    refuses(&["solve", HARD, "--surplus", "8"], 2, "--surplus");
    refuses(&["solve", HARD, "--kernel", "mmx"], 2, "portable");
    refuses(&["demo", "--only", "z9-9"], 2, "z9-9");
    refuses(&["guess"], 2, "guess");
}

fn acorn() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights/acorn-q8_0.gguf")
}

#[test]
fn bad_models_are_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let good = std::fs::read(acorn()).unwrap();
    refuses(&["solve", HARD, "--model", &at("nowhere.gguf")], 1, "there is no model at");

    std::fs::write(at("cut.gguf"), &good[..good.len() / 2]).unwrap();
    refuses(&["solve", HARD, "--model", &at("cut.gguf")], 1, "truncated");

    std::fs::write(at("empty.gguf"), b"").unwrap();
    refuses(&["solve", HARD, "--model", &at("empty.gguf")], 1, "empty.gguf");

    std::fs::write(at("text.txt"), "hello").unwrap();
    refuses(&["solve", HARD, "--model", &at("text.txt")], 1, "is not a model");

    let mut strange = good.clone();
    let name = b"general.architecture";
    let found = strange.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 4 + 8;
    strange[found..found + 5].copy_from_slice(b"mamba");
    std::fs::write(at("strange.gguf"), &strange).unwrap();
    refuses(&["solve", HARD, "--model", &at("strange.gguf")], 1, "mamba");

    let mut huge = good;
    // The number of tensors, right after magic and version.
    huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(at("huge.gguf"), &huge).unwrap();
    refuses(&["solve", HARD, "--model", &at("huge.gguf")], 1, "huge.gguf");
}

#[test]
fn a_prompt_that_does_not_fit_is_status_1() {
    refuses(&["solve", &"1 + ".repeat(2000)], 1, "context");
}

#[test]
fn what_was_generated_before_a_failure_is_shown() {
    // One MiB holds 256 tokens of a sequence; prompt and working of this one take 265, and the model is sure of them.
    let long = "What is 9913 * 957 + 8926 * 892, step by step?";
    let output = eager(&["solve", long, "-m", "1", "--kv-memory", "1", "--temperature", "0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("KV memory"), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("unfinished") && stdout.contains("tokens decoded for"), "{stdout}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_cleanly_and_says_what_is_finished() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    // Far more work than the time until the signal.
    command.args(["demo", "--limit", "60", "--max-sequences", "64", "--threads", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let sent = Instant::now();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(sent.elapsed() < Duration::from_secs(20));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("interrupted during full-parallel"), "{stderr}");
}
