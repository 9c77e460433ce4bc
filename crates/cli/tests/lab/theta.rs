//! Models that nobody has calibrated: they get a theta that can fork, and it is told what that took.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::{command, metrics, samples, stdout};

/// acorn under another name: the name of a folder is the model's.
fn acorn_as(name: &str, place: &Path) -> PathBuf {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights");
    let model = place.join(name);
    std::fs::create_dir(&model).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(weights.join(file), model.join(file)).unwrap();
    }
    model
}

fn with_model(args: &[&str], model: &Path, out: Option<&Path>, more: &[&str]) -> Output {
    let mut command = command(args);
    command.arg("--model").arg(model).args(more);
    if let Some(out) = out {
        command.arg("--out").arg(out);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn manifest(run: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap()
}

const BENCH: [&str; 9] = ["bench", "--suite", "acorn", "--limit", "12", "-m", "3", "--max-tokens", "200"];

#[test]
fn a_bench_finds_a_theta_that_forks_and_tells_its_tokens_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (acorn_as("my model", folder.path()), folder.path().join("runs"));
    let methods = ["--method", "full-parallel,eager-init,eager"];
    let output = with_model(&BENCH, &model, Some(&out), &methods);
    stdout(&output);
    let message = said(&output);
    let calibrate = format!("eager calibrate --model '{}'", model.display());
    assert!(
        message.contains("my model has no calibrated theta") && message.contains(&calibrate),
        "{message}"
    );
    let run = manifest(&out.join("eager-init"));
    let (found, theta) = (&run["found_theta"], &run["parameters"]["theta"]);
    assert_eq!((&found["theta"], &found["samples"]), (theta, &10.into()), "{run}");
    assert!(theta.as_f64().unwrap() < 1.0, "acorn is never as unsure as the paper's models: {theta}");
    assert_eq!(&manifest(&out.join("eager-regrow"))["parameters"]["theta"], theta, "it is every method's");
    assert!(manifest(&out.join("full-parallel"))["parameters"]["theta"].is_null());
    let lines = samples(&out.join("eager-init"));
    assert!(lines.iter().any(|line| line["sequences_total"].as_u64().unwrap() > 1), "something forks");
    // The samples that theta was found from have at most as many tokens, and are in no table.
    assert!((1..=10 * 512).contains(&found["tokens"].as_u64().unwrap()), "{found}");
    let decoded: u64 = lines.iter().map(|line| line["tokens_generated"].as_u64().unwrap()).sum();
    assert_eq!(metrics(&out.join("eager-init"))["eager-init"]["tokens"], decoded);
}

/// What goes on takes theta from what was written down, whatever it would find now.
#[test]
fn a_run_goes_on_with_the_theta_that_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (acorn_as("mystery", folder.path()), folder.path().join("run"));
    let method = ["--method", "eager-init"];
    stdout(&with_model(&BENCH, &model, Some(&out), &method));
    let mut run = manifest(&out);
    (run["parameters"]["theta"], run["found_theta"]["theta"]) = (0.125.into(), 0.125.into());
    std::fs::write(out.join("run.json"), run.to_string()).unwrap();
    let output = with_model(&BENCH, &model, Some(&out), &[&method[..], &["--resume"]].concat());
    stdout(&output);
    assert!(!said(&output).contains("looking for one"), "{}", said(&output));
    // Other words make other entropies, so there is another theta to find.
    let other = with_model(
        &BENCH,
        &model,
        Some(&out),
        &[&method[..], &["--resume", "--system", "Be brief."]].concat(),
    );
    assert!(said(&other).contains("looking for one"), "{}", said(&other));
    // A sweep of the same folder as well, which has a name for each theta.
    let points = folder.path().join("points");
    let sweep = ["sweep", "--suite", "acorn", "--limit", "3", "-m", "2", "--max-tokens", "40"];
    assert!(said(&with_model(&sweep, &model, Some(&points), &method)).contains("looking for one"));
    let again = with_model(&sweep, &model, Some(&points), &method);
    assert!(!said(&again).contains("looking for one"), "{}", said(&again));
    assert_eq!(crate::names_of_runs(&points).len(), 1);
}

#[test]
fn one_question_is_looked_at_for_its_own_theta() {
    let folder = tempfile::tempdir().unwrap();
    let model = acorn_as("mystery", folder.path());
    let solve =
        ["solve", "Using each of 5, 8, 30, 43, 28 exactly once, make 68.", "-m", "4", "--max-tokens", "60"];
    let answer: Value =
        serde_json::from_str(&stdout(&with_model(&solve, &model, None, &["--json"]))).unwrap();
    let found = &answer["found_theta"];
    assert_eq!(found["samples"], 1);
    assert!((1..=60).contains(&found["tokens"].as_u64().unwrap()), "{found}");
    let own: usize =
        answer["sequences"].as_array().unwrap().iter().map(|s| s["tokens"].as_array().unwrap().len()).sum();
    assert_eq!(answer["tokens_generated"], own);
    let output = with_model(&solve, &model, None, &[]);
    assert!(stdout(&output).contains("more were decoded to find theta"));
    assert!(said(&output).contains("eager calibrate --model"), "{}", said(&output));
    // Whoever says it is not held up.
    let told = with_model(&solve, &model, None, &["--theta", "0.3", "--json"]);
    assert!(!stdout(&told).contains("found_theta") && !said(&told).contains("calibrate"));
}

/// The paper ran its four models so.
#[test]
fn the_papers_models_think_as_long_as_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let bench = [
        "bench",
        "--suite",
        "acorn",
        "--limit",
        "1",
        "-m",
        "1",
        "--max-tokens",
        "2",
        "--method",
        "eager-init",
    ];
    for (name, option, value) in [
        ("Qwen3-4B", "thinking", "on"),
        ("SmolLM3-3B", "thinking", "on"),
        ("gpt-oss-20b", "reasoning-effort", "high"),
    ] {
        let model = acorn_as(name, folder.path());
        let out = folder.path().join(format!("{name}-run"));
        stdout(&with_model(&bench, &model, Some(&out), &[]));
        assert_eq!(manifest(&out)["parameters"]["options"][option], value, "{name}");
        assert!(manifest(&out)["found_theta"].is_null(), "{name} has the paper's");
    }
    let out = folder.path().join("short");
    stdout(&with_model(&bench, &folder.path().join("Qwen3-4B"), Some(&out), &["--thinking", "off"]));
    assert_eq!(manifest(&out)["parameters"]["options"]["thinking"], "off");
}
