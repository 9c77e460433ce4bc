//! `eager engine`, as a user runs it. Nothing here depends on how fast the machine is.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn engine(args: &[&str], kernel: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    // What a user's shell may export must not decide a test.
    command.arg("engine").args(args).env_remove("EAGER_KERNEL");
    if let Some(kernel) = kernel {
        command.env("EAGER_KERNEL", kernel);
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&engine(args, None))).unwrap()
}

#[track_caller]
fn refuses(output: &Output, status: i32, part: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.starts_with("eager: ") && stderr.contains(part), "no '{part}' in {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

const SMALL: [&str; 9] = ["bench", "--branches", "3", "--shared", "20", "--own", "2", "--tokens", "5"];

#[test]
fn info_shows_kernels_and_the_models_shape() {
    let info = json(&["info", "--json", "--threads", "1"]);
    for (key, value) in [("layers", 8), ("hidden", 256), ("heads", 8), ("kv_heads", 4), ("context", 1024)] {
        assert_eq!(info[key], value, "{key} of {info}");
    }
    assert_eq!(info["model"], "acorn");
    assert_eq!(info["threads"], 1);
    assert_eq!(info["parameters"], 6_394_624);
    // Keys and values of four heads of 32 numbers in eight layers, two bytes each, and a
    // scale of four bytes for each head.
    assert_eq!(info["kv_bytes_per_token"], 2 * 4 * 8 * (32 * 2 + 4));
    let kernels = info["kernels"].as_array().unwrap();
    assert_eq!(info["kernel"], kernels[0]);
    assert!(kernels.contains(&"portable".into()), "{info}");

    let text = stdout(&engine(&["info"], None));
    for part in ["kernel", "threads", "acorn", "6,394,624", "4,352 bytes a token"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn a_workload_is_decoded_to_the_token() {
    let report = json(&[&SMALL[..], &["--json", "--repeat", "2", "--threads", "1"]].concat());
    assert_eq!((&report["model"], &report["threads"]), (&"acorn".into(), &1.into()));
    let workloads = report["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 1);
    let line = &workloads[0];
    for (key, value) in [("branches", 3), ("shared", 20), ("private", 0), ("own", 2), ("tokens", 5)] {
        assert_eq!(line[key], value, "{key} of {line}");
    }
    assert_eq!((&line["name"], &line["kv"]), (&"custom".into(), &"q16".into()));
    assert_eq!((&line["steps"], &line["decoded_tokens"]), (&5.into(), &15.into()));
    let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} of {line}"));
    assert!(number("seconds") > 0.0);
    assert!((number("tokens_per_second") * number("seconds") - 15.0).abs() < 1e-6);
    assert!((number("step_milliseconds") * 5.0 - 1e3 * number("seconds")).abs() < 1e-6);
    // Distinct tokens cannot take less than their own room, and here each branch has a page or two beside the trunk.
    assert!((1.0..4.0).contains(&number("kv_overhead")), "{line}");
    assert!(line["phases"].is_object());
    assert!(line["share_of_bound"].is_null() && report["peaks"].is_null());
}

#[test]
fn peaks_give_the_share_of_what_is_possible() {
    let report = json(&[&SMALL[..], &["--peaks", "--json"]].concat());
    for key in ["float_gops", "int16_gops", "int8_gops", "memory_gbs"] {
        assert!(report["peaks"][key].as_f64().unwrap() > 0.0, "{key} of {report}");
    }
    assert!(report["workloads"][0]["share_of_bound"].as_f64().unwrap() > 0.0);
}

#[test]
fn tables_align() {
    let text = stdout(&engine(&[&SMALL[..], &["--peaks"]].concat(), None));
    assert!(text.starts_with("acorn, ") && text.contains(" kernel "), "{text}");
    for table in text.split("\n\n") {
        let widths = table
            .lines()
            .filter(|l| !l.starts_with("acorn") && !l.starts_with("No room"))
            .map(|l| l.chars().count());
        let widths: Vec<usize> = widths.collect();
        assert!(widths.iter().all(|&w| w == widths[0]), "the table does not align:\n{table}");
    }
    assert!(text.contains("custom") && text.contains("share of bound"), "{text}");
}

#[test]
fn a_workload_that_the_context_is_too_short_for_is_skipped() {
    let args = [&SMALL[..], &["--workload", "private-32,prefill", "--json"]].concat();
    let output = engine(&args, None);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["workloads"].as_array().unwrap().len(), 1);
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!((&skipped[0]["name"], &skipped[1]["name"]), (&"private-32".into(), &"prefill".into()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("private-32 is skipped") && stderr.contains("1517"), "{stderr}");
    // With nothing left to run there is no report.
    let output = engine(&["bench", "--workload", "shared-32"], None);
    refuses(&output, 1, "no workload fits acorn");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_environment_chooses_the_kernel() {
    let args = [&SMALL[..], &["--json"]].concat();
    let chosen = |args: &[&str], kernel| -> Value {
        let report: Value = serde_json::from_str(&stdout(&engine(args, kernel))).unwrap();
        report["kernel"].clone()
    };
    assert_eq!(chosen(&args, Some("portable")), "portable");
    let report: Value = serde_json::from_str(&stdout(&engine(&args, Some("portable")))).unwrap();
    assert_eq!(report["workloads"][0]["kernel"], "portable");
    assert_eq!(chosen(&["info", "--json"], Some("portable")), "portable");
    // An empty variable is none, and the command line has the last word.
    assert_eq!(chosen(&["info", "--json"], Some("")), chosen(&["info", "--json"], None));
    assert_eq!(chosen(&["info", "--json", "--kernel", "portable"], Some("mmx")), "portable");
    refuses(&engine(&["info"], Some("mmx")), 2, "portable");
    refuses(&engine(&["bench"], Some("mmx")), 2, "no kernel 'mmx'");
}

#[test]
fn bad_usage_is_status_2() {
    let refused = |args: &[&str], part: &str| {
        refuses(&engine(&[&["bench"], args].concat(), None), 2, part);
    };
    const HUGE: &str = "18446744073709551615";
    refused(&["--workload", "marathon"], "branches-32");
    refused(&["--kv", "q3"], "q16");
    refused(&["--branches", "0"], "at least 1");
    refused(&["--branches", HUGE], "at most");
    refused(&["--shared", "0"], "at least 1");
    refused(&["--tokens", "0"], "at least 1");
    refused(&["--repeat", "0"], "at least 1");
    refused(&["--threads", "0"], "at least 1");
    refused(&["--tokens", "-1"], "-1");
    refused(&["--shared", HUGE], "context");
    refused(&["--own", HUGE], "context");
    refused(&["--tokens", HUGE], "context");
    refused(&["--own", HUGE, "--tokens", HUGE, "--shared", HUGE], "context");
    refused(&["--branches", "65536", "--tokens", "512"], "--kv-memory");
    refuses(&engine(&["info", "--model", "nowhere.gguf"], None), 1, "there is no model at");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_benchmark() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    // Far more work than the time until the signal.
    command
        .args(["engine", "bench", "--workload", "single", "--repeat", "1000000"])
        .env_remove("EAGER_KERNEL");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted during single"), "{stderr}");
    assert!(output.stdout.is_empty());
}
