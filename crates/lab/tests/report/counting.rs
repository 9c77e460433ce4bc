//! What is counted how: answers that are missing, prefixes that are shared, and who may be compared with whom.

use eager_core::Unanswered;
use eager_lab::report::{Line, Options, Report};
use eager_lab::run::{Run, Sample};
use serde_json::{Value, json};

use crate::runs::{Setting, leaf, raw_sample, sample};

fn line<'r>(report: &'r Report, method: &str) -> &'r Line {
    report.lines().into_iter().find(|l| l.method == method).unwrap()
}

/// A problem whose sequences have these tokens; the right ones are named.
fn spelled(id: &str, paths: &[&[u32]], right: &[usize]) -> Sample {
    let sequence = |(at, tokens): (usize, &&[u32])| -> Value {
        let (n, correct) = (tokens.len(), right.contains(&at));
        json!({
            "tokens": tokens, "logprobs": vec![-0.1; n], "entropy": vec![0.5; n], "parent": null, "fork_at": 0,
            "finish": "stop", "text": "", "answer": if correct { "4" } else { "5" }, "correct": correct,
        })
    };
    raw_sample(id, paths.iter().enumerate().map(sequence).collect(), 1.0)
}

#[test]
fn the_report_says_what_counts_without_an_answer() {
    let silent = vec![leaf("4", true, 3), leaf("", false, 3), leaf("", false, 3)];
    let runs = [Setting::of("full-parallel")
        .run(vec![sample("a", &silent, 1.0), sample("b", &[leaf("4", true, 3)], 1.0)])];
    for (unanswered, cons, words) in [
        (Unanswered::Ignored, 1.0, "sequences without an answer are ignored"),
        (Unanswered::Wrong, 0.5, "sequences without an answer count together as one answer, which is wrong"),
    ] {
        let report = Report::new(&runs, Options { unanswered, ..Options::default() });
        assert_eq!(line(&report, "full-parallel").cons_at_k.unwrap().value, cons);
        assert!(report.html().contains(words) && report.markdown("figures").contains(words), "{words}");
    }
}

#[test]
fn ties_are_counted_and_shown() {
    let torn = [leaf("4", true, 3), leaf("5", false, 3)];
    let agreed = [leaf("4", true, 3), leaf("4", true, 3)];
    let run = |torn_ones: usize| {
        let of = |at: usize| sample(&format!("p{at}"), if at < torn_ones { &torn } else { &agreed }, 1.0);
        [Setting::of("full-parallel").run((0..3).map(of).collect())]
    };
    for (torn, column) in [(0, false), (2, true)] {
        let runs = run(torn);
        let report = Report::new(&runs, Options::default());
        assert_eq!(line(&report, "full-parallel").ties, torn as f64);
        assert_eq!(report.tables()[0].columns.iter().any(|c| c.name == "ties"), column);
    }
}

#[test]
fn prefixes_that_are_shared_are_bought_once() {
    // Four samples of four tokens, of which the first two are the same in all: ten prefixes, sixteen tokens.
    let paths: [&[u32]; 4] = [&[1, 2, 3, 3], &[1, 2, 4, 4], &[1, 2, 5, 5], &[1, 2, 6, 6]];
    let full = Setting::of("full-parallel").run(vec![spelled("a", &paths, &[0])]);
    // Six tokens, all of them distinct: as many as two samples have, and one and a half samples' tokens.
    let ours = Setting::of("eager-init").run(vec![spelled("a", &[&[1, 2, 3, 4, 5, 6]], &[0])]);
    let runs = [full, ours];
    let report = Report::new(&runs, Options::default());
    let value = |estimate: Option<eager_lab::statistics::Estimate>| estimate.unwrap().value;
    let (full, ours) = (line(&report, "full-parallel"), line(&report, "eager-init"));
    assert_eq!((value(full.tokens), value(full.tokens_distinct)), (16.0, 10.0));
    assert_eq!((value(ours.tokens), value(ours.tokens_distinct)), (6.0, 6.0));
    assert!((value(ours.equal_tokens.unwrap().pass_at_k) - 1.5 / 4.0).abs() < 1e-9);
    assert!((value(ours.equal_tokens_shared.unwrap().pass_at_k) - 2.0 / 4.0).abs() < 1e-9);
    assert!((value(ours.equal_tokens_shared.unwrap().pass_gain) - 0.5).abs() < 1e-9);
    assert!((value(ours.against.unwrap().saved_distinct) - 0.4).abs() < 1e-9);
    let said = "With each distinct prefix counted once, it has 40% fewer than full-parallel.";
    assert!(report.html().contains("at equal tokens, shared") && report.headline()[0].contains(said));
}

#[test]
fn a_method_that_decodes_a_prefix_twice_is_charged_once_for_it_when_shared() {
    let full = Setting::of("full-parallel").run(vec![spelled("a", &[&[1, 2], &[3, 4]], &[0])]);
    let ours = Setting::of("eager/rerun").run(vec![spelled("a", &[&[1, 2], &[1, 2], &[1, 2]], &[0])]);
    let runs = [full, ours];
    let report = Report::new(&runs, Options::default());
    let ours = line(&report, "eager/rerun");
    assert_eq!(ours.equal_tokens, None, "it decoded more than full-parallel");
    assert!((ours.equal_tokens_shared.unwrap().pass_at_k.unwrap().value - 0.5).abs() < 1e-9);
}

/// Another system prompt, or thinking switched off, is another question.
#[test]
fn only_runs_that_were_asked_alike_are_compared() {
    let samples = || vec![spelled("a", &[&[1, 2], &[3, 4]], &[0])];
    let with = |method: &'static str, options: &[(&str, Value)]| -> Run {
        let mut run = Setting::of(method).run(samples());
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        run.manifest.parameters.options.extend(options);
        run
    };
    let own = [("window", json!(1000)), ("relax", json!(0.8)), ("regrow-first", json!("likely"))];
    for (theirs, ours, comparable) in [
        (&[][..], &own[..], true),
        (&[("system", json!("Be brief."))], &own, false),
        (&[("thinking", json!("off"))], &[("thinking", json!("on"))], false),
        (&[("reasoning-effort", json!("high"))], &[("reasoning-effort", json!("high"))], true),
        (&[("raw", json!(true))], &[], false),
    ] {
        let runs = [with("full-parallel", theirs), with("eager/regrow", ours)];
        let report = Report::new(&runs, Options::default());
        let line = line(&report, "eager/regrow");
        let found = [line.against.is_some(), line.equal_tokens.is_some(), line.equal_tokens_shared.is_some()];
        assert_eq!(found, [comparable; 3], "{theirs:?} {ours:?}");
    }
}

/// A run that has the paper's setting, as far as it is not changed.
fn paper_run(method: &'static str, change: impl Fn(&mut Run)) -> Run {
    let samples = (0..30).map(|at| sample(&format!("p{at}"), &[leaf("4", at % 2 == 0, 9)], 1.0));
    let mut run =
        Setting { model: "Qwen3-4B", suite: "aime2025", ..Setting::of(method) }.run(samples.collect());
    run.manifest.parameters.max_tokens = 32_768;
    if method.starts_with("eager") {
        let options =
            [("window", json!(1000)), ("relax", json!(0.8)), ("surplus", json!(2)), ("cap", json!("all"))];
        run.manifest.parameters.options =
            options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    }
    if method == "eager/rerun" {
        let ours = "M + b sequences in all, limit for each prompt";
        run.manifest.parameters.second_pass = Some(ours.to_owned());
    }
    change(&mut run);
    run
}

#[test]
fn the_paper_is_quoted_beside_the_same_setting_only() {
    type Change = (&'static str, fn(&mut Run), Option<&'static str>);
    let changes: [Change; 17] = [
        ("full-parallel", |_| {}, None),
        ("eager-init", |_| {}, None),
        ("eager/rerun", |_| {}, None),
        ("eager/regrow", |_| {}, Some("the paper has no eager/regrow")),
        (
            "eager/rerun",
            |run| {
                run.manifest.parameters.second_pass =
                    Some("M + b new sequences, limit over all prompts".into())
            },
            Some("second pass is \"M + b new sequences"),
        ),
        ("eager/rerun-literal", |_| {}, Some("the paper has no eager/rerun-literal")),
        // Its context is 32k: the prompt is part of it.
        ("eager-init", |run| run.manifest.parameters.max_tokens = 32_768 - 5, None),
        ("eager-init", |run| run.manifest.parameters.max_tokens = 4_096, Some("at most 4096 tokens")),
        ("eager-init", |run| run.manifest.parameters.max_sequences = 8, Some("M is 8")),
        ("eager-init", |run| run.manifest.parameters.top_p = 1.0, Some("top-p 0.95")),
        ("eager-init", |run| run.manifest.parameters.top_k = 20, Some("no top-k")),
        ("eager-init", |run| run.manifest.parameters.entropy_top_k = 10, Some("over 20 candidates")),
        ("eager-init", |run| run.manifest.suite.problems = 40, Some("40 of the suite's 30")),
        ("eager-init", |run| run.samples.truncate(29), Some("not complete")),
        (
            "eager-init",
            |run| {
                run.manifest.parameters.options.insert("fork-spacing".into(), json!(32));
            },
            Some("fork-spacing is 32"),
        ),
        (
            "eager-init",
            |run| {
                run.manifest.parameters.options.insert("system".into(), json!("Be brief."));
            },
            Some("system is Be brief."),
        ),
        ("eager-init", |run| run.manifest.parameters.theta = Some(2.15), Some("no such theta")),
    ];
    for (method, change, why) in changes {
        let runs = [paper_run(method, change)];
        let report = Report::new(&runs, Options { paper: true, ..Options::default() });
        let (warnings, markdown) = (report.warnings().join("\n"), report.markdown("figures"));
        assert_eq!(markdown.contains("*paper:"), why.is_none(), "{method} {why:?}:\n{markdown}");
        match why {
            Some(why) => assert!(warnings.contains(why), "{why}: {warnings}"),
            None => assert!(!warnings.contains("not quoted"), "{warnings}"),
        }
        assert!(!Report::new(&runs, Options::default()).warnings().join("").contains("quoted"));
    }
}

#[test]
fn the_papers_tokens_are_printed_as_it_prints_them_and_compared_as_ratios() {
    let runs = [paper_run("full-parallel", |_| {}), paper_run("eager/rerun", |_| {})];
    let markdown = Report::new(&runs, Options { paper: true, ..Options::default() }).markdown("figures");
    // 17 for full-parallel, 7 for full EAGer at theta 2.5: 59% less, whatever the unit.
    for quoted in ["*paper: 17*", "*paper: 7*", "*paper: 59%*"] {
        assert!(markdown.contains(quoted), "{quoted}:\n{markdown}");
    }
    assert!(markdown.contains("compare ratios only"), "{markdown}");
}

#[test]
fn the_footnote_names_the_intervals() {
    let run = |problems: usize, right: usize| {
        let one = |at: usize| sample(&format!("p{at}"), &[leaf("4", at < right, 9)], 1.0);
        [Setting::of("full-parallel").run((0..problems).map(one).collect())]
    };
    let note = |runs: &[Run]| Report::new(runs, Options::default()).interval_note();
    assert!(note(&run(4, 4)).contains("are Wilson's over problems"), "{}", note(&run(4, 4)));
    assert!(!note(&run(40, 20)).contains("Wilson"), "{}", note(&run(40, 20)));
    assert!(note(&run(40, 40)).contains("Wilson"), "{}", note(&run(40, 40)));
    let runs = run(4, 4);
    let report = Report::new(&runs, Options::default());
    assert!(report.html().contains("0.510 to 1.000"));
}

/// The beginning of the hash is for people: the model keeps its name, its theta and its place in the paper.
#[test]
fn two_models_of_one_name_are_looked_up_by_it() {
    let of = |hash: &str| paper_run("eager-init", |run| run.manifest.model.hash = hash.to_owned());
    let runs = [of("aaaaaaaaaa"), of("bbbbbbbbbb")];
    let report = Report::new(&runs, Options { paper: true, ..Options::default() });
    let markdown = report.markdown("figures");
    assert!(markdown.contains("#aaaaaaaa") && markdown.contains("#bbbbbbbb"), "{markdown}");
    assert!(!markdown.contains("the paper has no"), "{markdown}");
}
