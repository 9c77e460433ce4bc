//! Every number against a slow reference that goes through the samples with plain loops.

use std::collections::BTreeMap;

use eager_core::Unanswered;
use eager_core::metrics::{consensus_at_share, share_of_tokens};
use eager_lab::report::{Line, Options, Report};
use eager_lab::run::{Run, Sample};
use eager_lab::statistics::Estimate;
use proptest::prelude::*;

use crate::runs::{Leaf, Setting, leaf, sample};

fn close(estimate: Option<Estimate>, expected: f64) -> bool {
    estimate.is_some_and(|e| (e.value - expected).abs() < 1e-9 && e.interval.is_none_or(|i| i.low <= i.high))
}

/// Sums over one run: solved, majority right, shares of right ones, sequences, tokens, seconds.
fn tally(run: &Run) -> [f64; 6] {
    let mut sums = [0.0; 6];
    for sample in &run.samples {
        let n = sample.sequences.len() as f64;
        let right = sample.sequences.iter().filter(|s| s.correct == Some(true)).count() as f64;
        sums[0] += if right > 0.0 { 1.0 } else { 0.0 };
        sums[1] += if majority(sample) { 1.0 } else { 0.0 };
        sums[2] += right / n;
        sums[3] += n;
        sums[4] += sample.sequences.iter().map(|s| s.tokens.len() as f64).sum::<f64>();
        sums[5] += sample.seconds;
    }
    sums
}

fn majority(sample: &Sample) -> bool {
    let mut best: Option<(&str, usize)> = None;
    for sequence in &sample.sequences {
        let Some(answer) = sequence.answer.as_deref() else { continue };
        let votes = sample.sequences.iter().filter(|s| s.answer.as_deref() == Some(answer)).count();
        if best.is_none_or(|(_, most)| votes > most) {
            best = Some((answer, votes));
        }
    }
    let first =
        |answer: &str| sample.sequences.iter().find(|s| s.answer.as_deref() == Some(answer)).unwrap().correct;
    best.is_some_and(|(answer, _)| first(answer) == Some(true))
}

/// The chance that k of n samples hold one of the right ones, by counting subsets.
fn chance(n: usize, right: usize, k: usize) -> f64 {
    let choose = |n: usize, k: usize| -> f64 {
        if k > n { 0.0 } else { (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product() }
    };
    if k == 0 { 0.0 } else { 1.0 - choose(n - right, k) / choose(n, k) }
}

fn leaves() -> impl Strategy<Value = Vec<Leaf>> {
    // An answer is right or wrong wherever it is given.
    let one = (0usize..5, 1usize..40)
        .prop_map(|(answer, tokens)| leaf(["", "4", "5", "6", "7"][answer], answer == 1, tokens));
    prop::collection::vec(one, 1..6)
}

fn run(method: &'static str, seed: u64, problems: &[Vec<Leaf>]) -> Run {
    let one = |(at, leaves): (usize, &Vec<Leaf>)| sample(&format!("p{at}"), leaves, at as f64 + 0.5);
    Setting { seed, ..Setting::of(method) }.run(problems.iter().enumerate().map(one).collect())
}

fn line<'r>(report: &'r Report, method: &str) -> &'r Line {
    report.lines().into_iter().find(|l| l.method == method).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn lines_equal_the_slow_reference(
        problems in prop::collection::vec([leaves(), leaves(), leaves(), leaves()], 1..7),
    ) {
        let column = |of: usize| problems.iter().map(|p| p[of].clone()).collect::<Vec<_>>();
        let runs = [
            run("full-parallel", 0, &column(0)),
            run("full-parallel", 1, &column(1)),
            run("eager-init", 0, &column(2)),
            run("eager-init", 1, &column(3)),
        ];
        let report = Report::new(&runs, Options::default());
        prop_assert_eq!(report.lines().len(), 2);
        let n = problems.len() as f64;
        let sums: Vec<[f64; 6]> = runs.iter().map(tally).collect();
        for (method, at) in [("full-parallel", 0), ("eager-init", 2)] {
            let of = |which: usize| (sums[at][which] + sums[at + 1][which]) / 2.0;
            let line = line(&report, method);
            prop_assert_eq!((line.seeds, line.problems), (2, problems.len()));
            prop_assert!(close(line.pass_at_k, of(0) / n), "{:?} {}", line.pass_at_k, of(0) / n);
            prop_assert!(close(line.cons_at_k, of(1) / n), "{:?} {}", line.cons_at_k, of(1) / n);
            prop_assert!(close(line.pass_rate, of(2) / n));
            prop_assert!(close(line.sequences, of(3) / n));
            prop_assert!(close(line.tokens, of(4)));
            prop_assert!((line.seconds - of(5)).abs() < 1e-9);
        }
        let init = line(&report, "eager-init");
        let against = init.against.unwrap();
        let tokens = |at: usize| sums[at][4];
        prop_assert!(close(against.saved, 1.0 - (tokens(2) + tokens(3)) / (tokens(0) + tokens(1))));
        prop_assert!(close(against.pass_at_k, (sums[2][0] + sums[3][0] - sums[0][0] - sums[1][0]) / 2.0 / n));

        // Equal tokens: seed by seed, each prompt with the same share of its samples.
        let mut then = Some(0.0);
        for (full, ours) in [(0, 2), (1, 3)] {
            let share = tokens(ours) / tokens(full);
            if share > 1.0 {
                then = None;
            }
            for sample in &runs[full].samples {
                let (n, right) = (sample.sequences.len(), sample.sequences.iter().filter(|s| s.correct == Some(true)).count());
                let k = share * n as f64;
                let (low, high) = (chance(n, right, k.floor() as usize), chance(n, right, (k.ceil() as usize).min(n)));
                then = then.map(|sum| sum + (low + (high - low) * k.fract()) / 2.0);
            }
        }
        let majority = |full: usize, ours: usize| {
            let outcomes: Vec<_> = runs[full].samples.iter().map(Sample::outcome).collect();
            let share = share_of_tokens(&outcomes, tokens(ours) as usize)?;
            let each = consensus_at_share(&outcomes, share, Unanswered::Ignored);
            Some(each.iter().sum::<f64>() / each.len() as f64)
        };
        if let (Some(a), Some(b), Some(_)) = (majority(0, 2), majority(1, 3), then) {
            prop_assert!(close(init.equal_tokens.unwrap().cons_at_k, (a + b) / 2.0));
        }
        match then {
            Some(sum) => prop_assert!(close(init.equal_tokens.unwrap().pass_at_k, sum / n), "{:?} {}", init.equal_tokens, sum / n),
            None => prop_assert_eq!(init.equal_tokens, None),
        }
    }
}

#[test]
fn the_table_shows_what_the_lines_say() {
    let right = |n: usize| vec![leaf("4", true, n), leaf("5", false, n)];
    let wrong = |n: usize| vec![leaf("5", false, n)];
    let runs = [
        run("full-parallel", 0, &[right(500), wrong(500), right(500), wrong(500)]),
        run("eager", 0, &[right(100), right(100), right(100), wrong(100)]),
    ];
    let report = Report::new(&runs, Options::default());
    let html = report.html();
    let document = super::document::parse(&html);
    let row = document.descendants().find(|n| {
        n.has_tag_name("tr")
            && n.children().next().is_some_and(|c| c.descendants().any(|t| t.text() == Some("EAGer")))
    });
    let values: Vec<f64> =
        row.unwrap().children().filter_map(|c| c.attribute("data-value")?.parse().ok()).collect();
    // theta, pass@k, cons@k, ties, pass rate, sequences, tokens, distinct, saved, full-parallel at equal tokens, gain, time.
    let expected = [2.5, 0.75, 0.75, 3.0, 0.375, 1.75, 700.0, 400.0, 1.0 - 700.0 / 3000.0];
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-6, "{values:?}");
    }
    assert!(
        report.markdown("figures").contains("| EAGer | 2.5 | **0.750**"),
        "{}",
        report.markdown("figures")
    );
}

#[test]
fn cells_are_told_apart_by_all_that_was_asked() {
    let samples = || vec![sample("a", &[leaf("4", true, 9)], 1.0)];
    let base = Setting::of("eager-init");
    let mut longer = base.run(samples());
    longer.manifest.parameters.max_tokens = 999;
    let runs = [
        base.run(samples()),
        base.run(samples()),
        Setting { seed: 1, ..base.clone() }.run(samples()),
        Setting { theta: Some(2.0), ..base.clone() }.run(samples()),
        Setting { max_sequences: 8, ..base.clone() }.run(samples()),
        Setting { temperature: 0.9, ..base.clone() }.run(samples()),
        Setting { suite: "gsm8k", ..base.clone() }.run(samples()),
        longer,
    ];
    let report = Report::new(&runs, Options::default());
    let seeds: BTreeMap<(String, String, Option<String>), usize> = report
        .lines()
        .into_iter()
        .map(|l| {
            let setting = format!("{:?} {} {}", l.theta, l.max_sequences, l.temperature);
            ((l.suite.clone(), setting, l.variant.clone()), l.seeds)
        })
        .collect();
    assert_eq!(report.lines().len(), 6, "{seeds:#?}");
    let variants: Vec<&str> = report.lines().into_iter().filter_map(|l| l.variant.as_deref()).collect();
    assert_eq!(variants, ["max-tokens 100", "max-tokens 999"]);
    assert_eq!(
        seeds.values().filter(|s| **s == 2).count(),
        1,
        "two seeds, one of them given twice: {seeds:#?}"
    );
    assert!(report.warnings().iter().any(|w| w.contains("One run was left out")), "{:?}", report.warnings());
}

#[test]
fn runs_that_cannot_be_compared_are_not() {
    let samples = || vec![sample("a", &[leaf("4", true, 9)], 1.0), sample("b", &[leaf("4", true, 9)], 1.0)];
    let full = Setting::of("full-parallel").run(samples());
    let mut other_suite = Setting::of("eager-init").run(samples());
    other_suite.manifest.suite.hash = "another".to_owned();
    let mut other_engine = Setting::of("eager").run(samples());
    other_engine.manifest.model.engine = "remote vllm".to_owned();
    let runs = [full, other_suite, other_engine];
    let report = Report::new(&runs, Options::default());
    assert!(line(&report, "eager-init").against.is_none());
    assert!(line(&report, "eager").against.is_some());
    let warnings = report.warnings().join("\n");
    assert!(warnings.contains("different suites by the name acorn"), "{warnings}");
    assert!(warnings.contains("different engines (native avx2 q16; remote vllm)"), "{warnings}");
}

#[test]
fn a_run_that_was_broken_off_is_compared_on_what_it_holds() {
    let one = |id: &str, right: bool, tokens: usize| sample(id, &[leaf("4", right, tokens)], 1.0);
    let full =
        Setting::of("full-parallel").run(vec![one("a", true, 10), one("b", false, 30), one("c", false, 60)]);
    let mut part = Setting::of("eager-init").run(vec![one("a", true, 10), one("b", true, 10)]);
    part.manifest.suite.problems = 3;
    let runs = [full, part];
    let report = Report::new(&runs, Options::default());
    let init = line(&report, "eager-init");
    assert!(!init.complete);
    assert!(close(init.against.unwrap().saved, 0.5));
    assert!(close(init.against.unwrap().pass_at_k, 0.5));
    assert!(report.warnings()[0].contains("one run is not complete"), "{:?}", report.warnings());
}

#[test]
fn unknown_answers_give_no_rates() {
    let unknown = Leaf { answer: Some("4".into()), correct: None, tokens: 10 };
    let runs = [Setting::of("eager-init").run(vec![sample("a", &[unknown], 1.0)])];
    let report = Report::new(&runs, Options::default());
    let line = line(&report, "eager-init");
    assert_eq!((line.pass_at_k, line.cons_at_k, line.pass_rate), (None, None, None));
    assert!(close(line.tokens, 10.0));
}
