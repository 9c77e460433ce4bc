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
    assert!(report.html().contains("at equal tokens, shared"));
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
