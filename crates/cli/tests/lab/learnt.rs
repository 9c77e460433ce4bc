//! Calibration, sweeps and analysis.

use serde_json::Value;

use crate::{command, eager, names_of_runs, samples, stdout};

#[test]
fn a_sweep_runs_each_point_once_and_never_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let sweep = |thetas: &str| {
        let base = [
            "sweep",
            "--suite",
            "acorn",
            "--limit",
            "6",
            "--max-sequences",
            "2,4",
            "--out",
            out,
            "--theta",
            thetas,
        ];
        stdout(&eager(&[&base[..], &["--method", "full-parallel,eager-init", "--json"]].concat()))
    };
    sweep("0.2,0.4");
    let count = || names_of_runs(folder.path()).len();
    // Theta means nothing to full-parallel.
    assert_eq!(count(), 2 + 2 * 2);
    let first = folder.path().join("eager-init_theta0.2_m4_temp0.6_seed0");
    let before = std::fs::metadata(first.join("samples.jsonl")).unwrap().modified().unwrap();
    let lines: Value = serde_json::from_str(&sweep("0.2,0.3,0.4")).unwrap();
    assert_eq!(count(), 2 + 3 * 2);
    assert_eq!(lines["methods"].as_array().unwrap().len(), 8);
    assert_eq!(std::fs::metadata(first.join("samples.jsonl")).unwrap().modified().unwrap(), before);
}

/// The name of a run says what matters to it, so that another sweep finds it.
#[test]
fn a_sweep_varies_options_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |vary: &str| {
        let base = ["sweep", "--suite", "acorn", "--limit", "2", "-m", "2", "--max-tokens", "20", "--method"];
        let more = ["full-parallel,eager", "--vary", vary, "--out", folder.path().to_str().unwrap()];
        stdout(&eager(&[&base[..], &more[..]].concat()));
        names_of_runs(folder.path())
    };
    let eager = |variation: &str| format!("eager-regrow_theta0.3_m2_temp0.6_seed0_{variation}");
    let full_parallel = "full-parallel_m2_temp0.6_seed0".to_owned();
    let [early, late] = ["regrow-first=early", "regrow-first=late"].map(eager);
    assert_eq!(sweep("regrow-first=late"), [late.clone(), full_parallel.clone()]);
    assert_eq!(sweep("regrow-first=early,late"), [early.clone(), late.clone(), full_parallel.clone()]);
    let [without, with] = ["everywhere=false", "everywhere=true"].map(eager);
    assert_eq!(sweep("everywhere=true,false"), [without, with, early, late, full_parallel]);
}

#[test]
fn a_file_can_be_calibrated_on_wherever_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let [suite, out] = ["mine.jsonl", "calibration"].map(|name| folder.path().join(name));
    std::fs::write(&suite, "{\"problem\": \"1 + 1?\", \"answer\": 2}\n").unwrap();
    let calibrate = |more: &[&str]| {
        let [suite, out] = [&suite, &out].map(|path| path.to_str().unwrap());
        let base =
            ["calibrate", "--suite", suite, "-m", "2", "--max-tokens", "4", "--theta", "0.3,0.3", "--out"];
        eager(&[&base[..], &[out], more].concat())
    };
    let text = stdout(&calibrate(&["--draws", "2"]));
    assert!(text.contains("2/2 chose"), "{text}");
    assert!(out.join("mine.jsonl-draw1").is_dir());
    // Nothing is learnt where nothing is solved, or nobody knows.
    for (more, status, word) in [(&[][..], 1, "nothing is stored"), (&["--grader", "none"], 2, "--grader")] {
        let output = calibrate(more);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{message}");
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn calibration_is_stored_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("profiles.json");
    let out = folder.path().join("calibration");
    let calibrate = ["calibrate", "--suite", "acorn", "--limit", "5", "-m", "4", "--theta", "0.25,0.35,2.9"];
    let output = command(&calibrate)
        .args(["--out", out.to_str().unwrap()])
        .env("EAGER_PROFILES", &profiles)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(text.contains("eager-init") && text.contains("fewest tokens"), "{text}");
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&profiles).unwrap()).unwrap();
    let (_, acorn) = stored.as_object().unwrap().iter().next().unwrap();
    let theta = acorn["theta_init"].as_f64().unwrap();
    let run = folder.path().join("run");
    let bench = ["bench", "--suite", "acorn", "--limit", "1", "-m", "2", "--method", "eager-init", "--out"];
    let output = command(&bench).arg(&run).env("EAGER_PROFILES", &profiles).output().unwrap();
    stdout(&output);
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(manifest["parameters"]["theta"].as_f64().unwrap(), theta);
}

#[test]
fn robustness_counts_how_often_a_theta_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args =
        ["calibrate", "--suite", "acorn", "--limit", "3", "-m", "2", "--theta", "0.3,2.9", "--draws", "2"];
    let text = stdout(&eager(&[&args[..], &["--out", out]].concat()));
    assert!(text.contains("/2 chose"), "{text}");
}

#[test]
fn entropy_is_correlated_with_the_pass_rate() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let bench =
        ["bench", "--suite", "acorn", "--limit", "20", "-m", "4", "--method", "full-parallel", "--out"];
    stdout(&command(&bench).arg(&out).output().unwrap());
    assert_eq!(samples(&out).len(), 20);
    let out = out.to_str().unwrap();
    let text = stdout(&eager(&["analyze", out, &format!("{out}/../run"), "--json"]));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "two names of one folder are one run");
    let r = found[0]["r"]["value"].as_f64().unwrap();
    assert!((-1.0..0.0).contains(&r), "acorn is unsure where it is wrong: {r}");
    let (low, high) = (&found[0]["r"]["interval"]["low"], &found[0]["r"]["interval"]["high"]);
    assert!(low.as_f64().unwrap() <= r && r <= high.as_f64().unwrap());
    assert!(std::fs::read_to_string(format!("{out}/correlation.svg")).unwrap().contains("<svg"));
}
