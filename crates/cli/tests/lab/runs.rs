//! What a run leaves behind.

use serde_json::Value;

use crate::{command, eager, metrics, samples, stdout};

fn bench<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["bench", "--suite", "acorn", "--limit", "10", "-m", "4", "--out", out];
    args.extend(more);
    args
}

#[test]
fn every_method_runs_and_the_folder_holds_what_it_promises() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("all");
    let methods = "full-parallel,eager-init,eager-adapt,eager-adapt/rerun,eager,eager/rerun,eager/rerun-literal,esc,deepconf,\
                   until-right,two-stage";
    let text = stdout(&eager(&bench(out.to_str().unwrap(), &["--method", methods])));
    for method in methods.split(',') {
        assert!(text.contains(method), "{method} is missing from\n{text}");
        let method = if matches!(method, "eager" | "eager-adapt") {
            format!("{method}/regrow")
        } else {
            method.to_owned()
        };
        let run = out.join(method.replace('/', "-"));
        let manifest: Value =
            serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        assert_eq!(manifest["method"], method.as_str());
        assert_eq!(manifest["suite"]["problems"], 10);
        let lines = samples(&run);
        assert_eq!(lines.len(), 10, "{method}");
        let mut tokens = 0;
        for line in &lines {
            for key in
                ["id", "prompt_tokens", "sequences", "tokens_generated", "sequences_total", "saturated"]
            {
                assert!(!line[key].is_null(), "{key} of {line}");
            }
            let sequences = line["sequences"].as_array().unwrap();
            assert_eq!(line["sequences_total"], sequences.len());
            for sequence in sequences {
                let own = sequence["tokens"].as_array().unwrap().len();
                assert_eq!(sequence["logprobs"].as_array().unwrap().len(), own);
                assert_eq!(sequence["entropy"].as_array().unwrap().len(), own);
                assert!(["stop", "length", "halted"].contains(&sequence["finish"].as_str().unwrap()));
                assert!(sequence["correct"].is_boolean() && sequence["text"].is_string());
                tokens += own;
            }
        }
        let metrics = &metrics(&run)[&method];
        assert_eq!(metrics["tokens"], tokens, "{method}");
        for key in [
            "pass_at_k",
            "cons_at_k",
            "cons_at_k_unanswered_wrong",
            "pass_rate",
            "sequences",
            "tokens_distinct",
            "ties",
            "seconds",
            "prompts",
        ] {
            assert!(metrics[key].is_number(), "{key} of {metrics}");
        }
        // A tree decodes every prefix once; samples that know nothing of each other do not.
        let distinct = metrics["tokens_distinct"].as_u64().unwrap() as usize;
        let decodes_twice = ["full-parallel", "esc", "deepconf"].contains(&method.as_str());
        assert!(
            if decodes_twice { distinct < tokens } else { distinct <= tokens },
            "{method} {distinct} {tokens}"
        );
    }
    assert!(out.join("report.html").is_file() && out.join("report.md").is_file());
    assert!(
        out.join("first-pass").is_dir(),
        "more problems may be added, and then second passes begin there"
    );
}

/// What labels buy can be counted from a full-parallel run of the same seed: sample i is the same sequence.
#[test]
fn samplers_that_know_the_labels_take_full_parallels_samples() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("labels");
    let methods = ["--method", "full-parallel,until-right,two-stage", "--first-stage", "2"];
    stdout(&eager(&bench(out.to_str().unwrap(), &methods)));
    let of = |name: &str| samples(&out.join(name));
    let (mut early, mut spared) = (0, 0);
    for ((full, until), staged) in of("full-parallel").iter().zip(of("until-right")).zip(of("two-stage")) {
        let all = full["sequences"].as_array().unwrap();
        let right = all.iter().position(|s| s["correct"] == true);
        let until_right = &all[..right.map_or(all.len(), |at| at + 1)];
        assert_eq!(until["sequences"].as_array().unwrap(), until_right);
        let first_or_all = if right.is_some_and(|at| at < 2) { &all[..2] } else { &all[..] };
        assert_eq!(staged["sequences"].as_array().unwrap(), first_or_all);
        early += usize::from(until_right.len() < all.len());
        spared += usize::from(first_or_all.len() < all.len());
    }
    assert!(early > 4 && spared > 4, "{early} {spared}");
    let metric = |name: &str, key: &str| metrics(&out.join(name))[name][key].as_f64().unwrap();
    for name in ["until-right", "two-stage"] {
        assert_eq!(metric(name, "pass_at_k"), metric("full-parallel", "pass_at_k"));
        assert!(metric(name, "tokens") < metric("full-parallel", "tokens"));
    }
    let manifest = std::fs::read_to_string(out.join("two-stage/run.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["parameters"]["options"]["first-stage"], 2);
}

/// DeepConf as its authors ran it: the bar high and low, and the paper's consensus stop.
#[test]
fn deepconf_gives_up_more_with_a_higher_bar_and_stops_at_consensus() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args = ["sweep", "--suite", "acorn", "--limit", "8", "-m", "8", "--method", "deepconf", "--out", out];
    let vary = ["--vary", "deepconf-keep=0.9,0.1", "--vary", "deepconf-consensus=false,true", "--json"];
    let text = stdout(&eager(&[&args[..], &vary[..]].concat()));
    let report: Value = serde_json::from_str(&text).unwrap();
    let lines = report["methods"].as_array().unwrap();
    assert_eq!(lines.len(), 4);
    let of = |keep: &str, consensus: bool| {
        let run = format!("deepconf_m8_temp0.6_seed0_deepconf-keep={keep}_deepconf-consensus={consensus}");
        metrics(&folder.path().join(run))["deepconf"].clone()
    };
    let low = of("0.1", false);
    assert!(low["pass_rate_unhalted"].as_f64() > low["pass_rate"].as_f64(), "{low}");
    assert!(low["tokens"].as_u64() < of("0.9", false)["tokens"].as_u64());
    assert_eq!(low["sequences"], 64);
    let stopped = of("0.1", true);
    assert!(stopped["sequences"].as_u64() < Some(64), "{stopped}");
    assert!(lines.iter().any(|line| line["pass_rate_unhalted"]["value"].is_number()), "{text}");
}

#[test]
fn one_method_is_a_run_by_itself_and_a_shared_first_pass_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, together] = ["alone", "together"].map(|name| folder.path().join(name));
    stdout(&eager(&bench(alone.to_str().unwrap(), &["--method", "eager/rerun", "--at-once", "1"])));
    stdout(&eager(&bench(together.to_str().unwrap(), &["--method", "eager-init,eager-adapt,eager/rerun"])));
    assert_eq!(samples(&alone), samples(&together.join("eager-rerun")));
}

#[test]
fn a_second_process_is_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args = ["bench", "--suite", "acorn", "--method", "full-parallel", "--out", out, "--resume"];
    let mut first = command(&args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !folder.path().join("run.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(first.try_wait().unwrap().is_none(), "it ended before it began");
    }
    let second = eager(&args);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(message.contains("another process is writing"), "{message}");
}

/// Files may not grow beyond a limit: to the program that is a full disk.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_stops_with_a_word_and_spoils_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let args = bench(out.to_str().unwrap(), &["--method", "full-parallel"]).join(" ");
    let eager_path = env!("CARGO_BIN_EXE_eager");
    let script = format!("trap '' XFSZ; ulimit -f 8; exec {eager_path} {args}");
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("cannot write to") && message.contains("--resume goes on"), "{message}");
    let left = samples(&out).len();
    assert!(left < 10, "{left}");
    stdout(&eager(&bench(out.to_str().unwrap(), &["--method", "full-parallel", "--resume"])));
    assert_eq!(samples(&out).len(), 10);
}

/// What is said to go on does: these commands take up what is there without being asked to.
#[test]
#[cfg(target_os = "linux")]
fn commands_that_never_repeat_a_run_go_on_by_themselves() {
    for command in [
        &["sweep", "--method", "full-parallel", "--limit", "6"][..],
        &["calibrate", "--limit", "6", "--theta", "0.3", "--dry-run", "--draws", "1"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("runs").display().to_string();
        let args = [command, &["--suite", "acorn", "-m", "8", "--out", &out]].concat();
        let eager_path = env!("CARGO_BIN_EXE_eager");
        let script = format!("trap '' XFSZ; ulimit -f 8; exec {eager_path} {}", args.join(" "));
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(&format!("the same command with --out {out} goes on")), "{message}");
        stdout(&eager(&args));
    }
}

#[test]
fn seeds_are_runs_and_runs_can_be_compared_later() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("seeds");
    stdout(&eager(&bench(out.to_str().unwrap(), &["--method", "full-parallel,eager-init", "--seed", "1,2"])));
    assert_ne!(samples(&out.join("eager-init_seed1")), samples(&out.join("eager-init_seed2")));
    let report = folder.path().join("later.html");
    let text =
        stdout(&eager(&["report", out.to_str().unwrap(), "--out", report.to_str().unwrap(), "--json"]));
    let lines: Value = serde_json::from_str(&text).unwrap();
    let init =
        lines["methods"].as_array().unwrap().iter().find(|line| line["method"] == "eager-init").unwrap();
    assert_eq!(init["seeds"], 2);
    // The mean of the two runs.
    let tokens = ["eager-init_seed1", "eager-init_seed2"]
        .map(|run| metrics(&out.join(run))["eager-init"]["tokens"].as_f64().unwrap());
    assert!((init["tokens"]["value"].as_f64().unwrap() - (tokens[0] + tokens[1]) / 2.0).abs() < 1e-6);
    assert!(report.is_file());
}

#[test]
fn the_table_fits_and_says_how_it_was_counted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs").display().to_string();
    let methods = "full-parallel,eager-init,eager/rerun,eager/regrow";
    stdout(&eager(&[
        "bench", "--suite", "acorn", "--limit", "4", "-m", "2", "--out", &out, "--method", methods,
    ]));
    for columns in [80, 100, 120] {
        let report = command(&["report", &out]).env("COLUMNS", columns.to_string()).output().unwrap();
        let text = stdout(&report);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns, "{widest} columns in {columns}:\n{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        for note in ["are Wilson's over problems", "sequences without an answer are ignored", "No room for"] {
            assert!(words.contains(note), "no '{note}' in\n{text}");
        }
        // Four of four is no certainty.
        assert!(text.contains("0.510-1.000"), "{text}");
    }
    let told = |unanswered: &str| -> Value {
        serde_json::from_str(&stdout(&eager(&["report", &out, "--json", "--unanswered", unanswered])))
            .unwrap()
    };
    assert_eq!(told("wrong")["unanswered"], "wrong");
    let pass = &told("ignored")["methods"][0]["pass_at_k"]["interval"];
    assert_eq!((&pass["kind"], &pass["high"]), (&"wilson".into(), &1.0.into()));
    let quotes = eager(&["report", &out, "--paper", "--json"]);
    let warnings: Value = serde_json::from_str(&stdout(&quotes)).unwrap();
    assert!(warnings["warnings"].to_string().contains("the paper has no acorn on acorn"), "{warnings}");
    let text = stdout(&eager(&["report", &out, "--paper"]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Note: The paper's figures are not quoted beside"), "{text}");
}

/// GPQA is published encrypted, and its authors ask that it stays out of plain text.
#[test]
fn a_secret_suite_leaves_no_text_behind() {
    let data = std::env::var_os("EAGER_DATA")
        .map(std::path::PathBuf::from)
        .filter(|f| f.join("gpqa_dataset.zip").is_file());
    let Some(data) = data else {
        println!("skipped: EAGER_DATA names no folder with gpqa_dataset.zip");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let args = ["bench", "--suite", "gpqa-diamond", "-m", "2", "--max-tokens", "20", "--resume", "--method"];
    let bench = |limit: &str| {
        let mut command = command(&args);
        command.args(["full-parallel", "--limit", limit, "--out"]).arg(&out).env("EAGER_DATA", &data);
        command.output().unwrap()
    };
    stdout(&bench("2"));
    // More of them can be added, though nothing is written down but the names of those that are finished.
    stdout(&bench("3"));
    for line in samples(&out) {
        for sequence in line["sequences"].as_array().unwrap() {
            assert_eq!(sequence["text"], "");
        }
    }
    assert_eq!(samples(&out).len(), 3);
    assert!(!out.join("problems.jsonl").exists());
    let lines = std::fs::read_to_string(out.join("samples.jsonl")).unwrap();
    std::fs::write(out.join("samples.jsonl"), lines.split_inclusive('\n').take(2).collect::<String>())
        .unwrap();
    let unlisted = bench("4");
    assert_eq!(unlisted.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unlisted.stderr).contains("only once it is complete"));
}

/// A grading command may take minutes; whoever presses Ctrl-C does not want to wait for it.
#[test]
#[cfg(unix)]
fn ctrl_c_is_heard_while_answers_are_graded() {
    let folder = tempfile::tempdir().unwrap();
    let (suite, out) = (folder.path().join("mine.jsonl"), folder.path().join("run"));
    std::fs::write(&suite, "{\"problem\": \"What is 1 + 1?\", \"answer\": 2}\n").unwrap();
    let begun = folder.path().join("begun");
    let script = format!("touch {}; sleep 60; echo 1", begun.display());
    let mut child =
        command(&["bench", "-m", "1", "--method", "full-parallel", "--grader", "command", "--suite"])
            .arg(&suite)
            .arg("--out")
            .arg(&out)
            .args(["--", "sh", "-c", &script])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
    while !begun.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it graded");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let since = std::time::Instant::now();
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(since.elapsed().as_secs() < 30, "it waited for the grading command");
    assert!(samples(&out).is_empty());
}

/// Cut off in the middle of their thoughts, responses end in numbers that are no answers.
#[test]
fn a_thought_is_no_answer_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("one.jsonl");
    std::fs::write(&suite, "{\"id\": \"a\", \"problem\": \"What is 9 * 8?\", \"answer\": \"72\"}\n").unwrap();
    let out = folder.path().join("out");
    let run = |more: &[&str]| {
        let mut args = vec!["bench", "--suite", suite.to_str().unwrap(), "-m", "8"];
        args.extend(["--max-tokens", "9", "--out", out.to_str().unwrap()]);
        args.extend(more);
        stdout(&eager(&args));
    };
    run(&["--method", "full-parallel,esc"]);
    for method in ["full-parallel", "esc"] {
        let sequences = samples(&out.join(method))[0]["sequences"].as_array().unwrap().clone();
        // ESC finds nothing to agree on.
        assert_eq!(sequences.len(), 8, "{method}");
        assert!(sequences.iter().all(|s| s["finish"] == "length" && s["answer"].is_null()), "{method}");
        assert!(sequences.iter().all(|s| s["text"].as_str().unwrap().contains('=')), "{method}");
        assert_eq!(metrics(&out.join(method))[method]["pass_at_k"], 0.0, "{method}");
    }
}

#[test]
fn how_answers_are_found_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for (extract, words) in [("lenient", "--extract lenient: what"), ("strict", "--extract strict: a box")] {
        let out = folder.path().join(extract);
        let args = ["--method", "full-parallel", "--extract", extract];
        stdout(&eager(&bench(out.to_str().unwrap(), &args)));
        let manifest = std::fs::read_to_string(out.join("run.json")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["parameters"]["options"]["extract"], extract);
        let report = std::fs::read_to_string(out.join("report.md")).unwrap();
        assert!(report.contains(words), "{report}");
    }
}

#[cfg(unix)]
#[test]
fn what_a_grading_program_says_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("two.jsonl");
    let lines =
        [r#"{"id": "a", "problem": "What is 9 * 8?"}"#, r#"{"id": "b", "problem": "What is 1 + 1?"}"#];
    std::fs::write(&suite, lines.join("\n")).unwrap();
    let out = folder.path().join("out");
    let script =
        r#"read -r line; case "$line" in *'"id":"a"'*) echo 0.25;; *) echo '{"score": 0.75}';; esac"#;
    let mut args = vec!["bench", "--suite", suite.to_str().unwrap(), "--method", "full-parallel", "-m", "3"];
    args.extend(["--out", out.to_str().unwrap(), "--grader", "command", "--", "sh", "-c", script]);
    let table = stdout(&eager(&args));
    assert!(table.contains(" score ") && table.contains("0.500"), "{table}");
    let lines = samples(&out);
    for (line, score) in lines.iter().zip([0.25, 0.75]) {
        for sequence in line["sequences"].as_array().unwrap() {
            assert_eq!((&sequence["score"], &sequence["correct"]), (&score.into(), &false.into()));
        }
    }
    assert_eq!(metrics(&out)["full-parallel"]["score"], 0.5);
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("| score |") && report.contains("0.500"), "{report}");
}

/// What changes which tokens come is part of what a run is, and of the command that makes it again.
#[test]
fn rules_about_tokens_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("ruled");
    let rules = ["--repetition-penalty", "1.1", "--stop-token-id", "5", "--stop-token-id", "6"];
    let more = [&["--limit", "2", "--method", "full-parallel", "--max-tokens", "20"], &rules[..]].concat();
    let base = ["bench", "--suite", "acorn", "-m", "2", "--out", out.to_str().unwrap()];
    stdout(&eager(&[&base[..], &more].concat()));
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("run.json")).unwrap()).unwrap();
    let options = &manifest["parameters"]["options"];
    assert_eq!(options["repetition-penalty"], 1.1);
    assert_eq!(options["stop-token-id"], serde_json::json!([5, 6]));
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("--repetition-penalty 1.1 --stop-token-id 5 --stop-token-id 6"), "{report}");
}
