//! The page as a document: well-formed, self-contained, and never fooled by what it shows.

use eager_lab::report::{Options, Report};
use eager_lab::run::{Asked, Run};
use serde_json::json;

use crate::runs::{Leaf, Setting, leaf, raw_sample, sample};

pub fn parse(html: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(html, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs with something for every table and figure.
fn everything() -> Vec<Run> {
    let problems = |right: usize| -> Vec<_> {
        let leaves = |id: usize| -> Vec<Leaf> {
            (0..6)
                .map(|s| {
                    leaf(if s + id < right + 3 { "4" } else { "5" }, s + id < right + 3, 20 + s * 3 + id)
                })
                .collect()
        };
        (0..5).map(|id| sample(&format!("p{id}"), &leaves(id), 2.0)).collect()
    };
    let mut runs = Vec::new();
    for model in ["SmolLM3-3B", "Qwen3-4B"] {
        for suite in ["aime2024", "aime2025"] {
            for (at, method) in
                ["full-parallel", "esc", "deepconf", "eager-init", "eager-adapt/rerun", "eager/regrow"]
                    .into_iter()
                    .enumerate()
            {
                let base = Setting { model, suite, ..Setting::of(method) };
                runs.push(base.run(problems(at)));
                runs.push(Setting { seed: 1, ..base.clone() }.run(problems(at + 1)));
                runs.push(Setting { max_sequences: 8, ..base.clone() }.run(problems(at)));
                runs.push(Setting { temperature: 0.9, ..base.clone() }.run(problems(at)));
                if base.theta.is_some() {
                    runs.push(Setting { theta: Some(2.0), ..base.clone() }.run(problems(at)));
                }
            }
        }
    }
    runs
}

/// The same run over all of the suite's problems, as long as the paper lets them be.
fn as_in_the_paper(mut run: Run) -> Run {
    run.manifest.parameters.max_tokens = 32_768;
    run.manifest.suite.problems = 30;
    let known = run.samples.len();
    for more in 0..30 - known {
        let again = run.samples[more % known].clone();
        run.samples.push(eager_lab::run::Sample { id: format!("more{more}"), ..again });
    }
    run
}

#[test]
fn all_that_the_runs_can_fill_is_there() {
    let runs: Vec<Run> = everything().into_iter().map(as_in_the_paper).collect();
    let report = Report::new(&runs, Options { paper: true, ..Options::default() });
    let html = report.html();
    let document = parse(&html);
    let captions: Vec<&str> = document
        .descendants()
        .filter(|n| n.has_tag_name("caption"))
        .filter_map(|n| n.first_child()?.text())
        .collect();
    for wanted in [
        "Performance by model and suite",
        "What reallocating the saved budget brings",
        "Related approaches",
        "Every \u{3b8} on AIME 2025",
        "Temperature: Qwen3-4B on AIME 2025",
        "Every setting",
    ] {
        assert!(captions.contains(&wanted), "{wanted}: {captions:#?}");
    }
    let titles: Vec<&str> =
        document.descendants().filter(|n| n.has_tag_name("h4")).filter_map(|n| n.text()).collect();
    for wanted in [
        "Tokens by method",
        "Pass rate by method",
        "What M buys",
        "pass@k by \u{3b8}",
        "Tokens by \u{3b8}",
        "cons@k by temperature",
        "Peak entropy and pass rate",
    ] {
        assert!(titles.iter().any(|t| t.starts_with(wanted)), "{wanted}: {titles:#?}");
    }
    // The paper's 0.80 for full-parallel on AIME 2025 stands beside ours, marked.
    let quotes: Vec<&str> =
        document.descendants().filter(|n| n.has_tag_name("q")).filter_map(|n| n.text()).collect();
    assert!(quotes.contains(&"0.80") && quotes.contains(&"17"), "{quotes:?}");
    assert!(html.contains("most likely 10^6"), "the unit of its tokens is in doubt");
    assert!(report.markdown("figures").contains("*paper: 0.80*"));
    let plain = Report::new(&runs, Options::default());
    assert!(!plain.html().contains("<q ") && !plain.markdown("figures").contains("paper:"));
}

#[test]
fn one_suite_makes_no_tables_of_one_row() {
    let runs: Vec<Run> = everything()
        .into_iter()
        .filter(|r| {
            let m = &r.manifest;
            m.model.name == "Qwen3-4B"
                && m.suite.name == "aime2024"
                && m.parameters.max_sequences == 32
                && m.parameters.temperature == 0.6
                && m.parameters.theta != Some(2.0)
        })
        .collect();
    let report = Report::new(&runs, Options::default());
    let tables = report.tables();
    assert_eq!(tables.len(), 1, "{:?}", tables.iter().map(|t| &t.title).collect::<Vec<_>>());
}

#[test]
fn every_picture_says_in_words_what_it_shows() {
    let runs = everything();
    let html = Report::new(&runs, Options::default()).html();
    let document = parse(&html);
    let mut pictures = 0;
    for svg in document.descendants().filter(|n| n.tag_name().name() == "svg") {
        pictures += 1;
        assert_eq!(svg.attribute("role"), Some("img"));
        assert!(svg.attribute("aria-label").is_some_and(|label| label.len() > 20));
        assert!(svg.descendants().any(|n| n.tag_name().name() == "text"), "axes are labelled");
    }
    assert!(pictures > 20, "{pictures}");
}

#[test]
fn nothing_is_loaded_from_outside() {
    let runs = everything();
    let html = Report::new(&runs, Options { paper: true, ..Options::default() }).html();
    let document = parse(&html);
    for node in document.descendants() {
        for attribute in node
            .attributes()
            .filter(|a| ["href", "src", "srcset", "data", "action", "poster"].contains(&a.name()))
        {
            assert!(attribute.value().starts_with('#'), "{node:?}");
        }
        assert!(
            !["link", "img", "iframe", "object", "embed", "base"].contains(&node.tag_name().name()),
            "{node:?}"
        );
    }
    for word in ["@import", "url(", "fetch(", "XMLHttpRequest", "import(", "innerHTML", "eval("] {
        assert!(!html.contains(word), "{word}");
    }
    let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
}

#[test]
fn whatever_models_write_stays_text() {
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&amp; <!-- ]]> \u{0}\u{b}\u{85}\u{2028}\u{fffe} \u{1F333} | `x` \\";
    let sequence = |parent: Option<usize>, text: &str| {
        json!({
            "tokens": [1, 2], "logprobs": [0.0, 0.0], "entropy": [0.5, 0.1], "parent": parent, "fork_at": 0, "finish": "stop",
            "text": text, "answer": HOSTILE, "correct": false,
        })
    };
    let sequences = vec![sequence(None, HOSTILE), sequence(Some(0), &HOSTILE.replace("img", "svg"))];
    let mut run = Setting::of("eager-init")
        .run(vec![raw_sample(HOSTILE, sequences, 1.0), sample("b", &[leaf("4", true, 3)], 1.0)]);
    run.manifest.model.name = HOSTILE.to_owned();
    run.manifest.model.engine = HOSTILE.to_owned();
    run.manifest.model.path = Some(HOSTILE.to_owned());
    run.manifest.suite.name = HOSTILE.to_owned();
    run.manifest.version = HOSTILE.to_owned();
    run.manifest.parameters.options.insert(HOSTILE.to_owned(), json!(HOSTILE));
    run.folder = HOSTILE.into();
    run.problems = vec![Asked { id: HOSTILE.into(), problem: HOSTILE.into(), gold: Some(HOSTILE.into()) }];
    let mut other = run.clone();
    other.manifest.method = HOSTILE.to_owned();
    let runs = [run, other];
    let report = Report::new(&runs, Options::default());
    let html = report.html();
    let document = parse(&html);
    assert!(!document.descendants().any(|n| n.has_tag_name("img")));
    let scripts: Vec<_> = document.descendants().filter(|n| n.has_tag_name("script")).collect();
    assert_eq!(scripts.len(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    let data: serde_json::Value = serde_json::from_str(scripts[0].text().unwrap()).unwrap();
    let problem = &data["subjects"][0]["problems"][0];
    assert_eq!((problem["id"].as_str(), problem["gold"].as_str()), (Some(HOSTILE), Some(HOSTILE)));
    assert_eq!(problem["trees"][0][0]["sequences"][0]["answer"].as_str(), Some(HOSTILE));

    let markdown = report.markdown("figures");
    let table: Vec<&str> = markdown.lines().filter(|l| l.starts_with('|')).collect();
    let bars = |l: &str| l.replace("\\\\", "").replace("\\|", "").matches('|').count();
    assert!(table.len() >= 4 && table.iter().all(|l| bars(l) == bars(table[0])), "{table:#?}");
}

#[test]
fn runs_with_little_in_them_are_reported_all_the_same() {
    let nothing = json!({"tokens": [], "logprobs": [], "entropy": [], "parent": 7, "fork_at": 900, "finish": null, "text": "", "answer": null, "correct": null});
    let own_parent = json!({"tokens": [1], "logprobs": [0.0], "entropy": [], "parent": 1, "fork_at": 0, "finish": "halted", "text": "x", "answer": null, "correct": true, "weight": 0.5});
    let cases: Vec<Vec<Run>> = vec![
        vec![],
        vec![Setting::of("full-parallel").run(vec![])],
        vec![Setting::of("full-parallel").run(vec![]), Setting::of("eager").run(vec![])],
        vec![
            Setting::of("full-parallel").run(vec![sample("a", &[], 0.0)]),
            Setting::of("eager").run(vec![sample("a", &[], 0.0)]),
        ],
        vec![Setting::of("eager").run(vec![raw_sample(
            "a",
            vec![nothing.clone(), own_parent, nothing],
            0.0,
        )])],
        vec![Setting::of("no-such-method").run(vec![sample("", &[leaf("4", true, 3)], 1.0)])],
        vec![
            Setting::of("full-parallel").run(vec![sample("a", &[leaf("4", true, 3)], 1.0)]),
            Setting::of("eager").run(vec![sample("b", &[leaf("4", true, 3)], 1.0)]),
        ],
        vec![Setting::of("eager").run((0..3).map(|_| sample("same", &[leaf("4", true, 3)], 1.0)).collect())],
    ];
    for (at, runs) in cases.iter().enumerate() {
        let report = Report::new(runs, Options { paper: true, ..Options::default() });
        let html = report.html();
        parse(&html);
        assert!(!html.contains("NaN") && !html.contains(">inf"), "case {at}");
        assert!(report.markdown("figures").starts_with("# Report"), "case {at}");
    }
}

#[test]
fn the_same_runs_give_the_same_report() {
    let runs = everything();
    let again = runs.clone();
    let (one, other) = (Report::new(&runs, Options::default()), Report::new(&again, Options::default()));
    assert_eq!(one.html(), other.html());
    assert_eq!(one.markdown("figures"), other.markdown("figures"));
}

#[test]
fn the_command_of_each_run_is_told() {
    let mut run = Setting::of("eager/regrow").run(vec![sample("a", &[leaf("4", true, 3)], 1.0)]);
    run.manifest.model.path = Some("my models/m.gguf".into());
    run.manifest.parameters.options.insert("regrow-first".into(), json!("likely"));
    run.manifest.parameters.options.insert("everywhere".into(), json!(true));
    let runs = [run];
    let markdown = Report::new(&runs, Options::default()).markdown("figures");
    assert!(
        markdown.contains(
            "eager bench --suite acorn --method eager/regrow --model 'my models/m.gguf' --max-sequences 32 --max-tokens 100 \
             --temperature 0.6 --top-p 0.95 --theta 2.5 --entropy-top-k 20 --seed 0 --everywhere --regrow-first likely"
        ),
        "{markdown}"
    );
}

#[test]
fn the_markdown_links_pictures_that_stand_by_themselves() {
    let runs = everything();
    let folder = tempfile::tempdir().unwrap();
    let saved = Report::new(&runs, Options::default()).save(&folder.path().join("mine.html")).unwrap();
    assert_eq!(saved.markdown, folder.path().join("mine.md"));
    let markdown = std::fs::read_to_string(&saved.markdown).unwrap();
    let linked: Vec<&str> = markdown
        .lines()
        .filter_map(|line| line.strip_prefix("![")?.split_once("](<")?.1.strip_suffix(">)"))
        .collect();
    // For each model two figures of methods; for each of the four subjects one of M, two of theta, two of temperature, one
    // of entropy, and one for each of the six methods.
    assert_eq!(linked.len(), 2 * 2 + 4 * (1 + 2 + 2 + 1 + 6), "{linked:#?}");
    for path in &linked {
        let svg = std::fs::read_to_string(folder.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let document = parse(&svg);
        let root = document.root_element();
        assert!(root.attribute("aria-label").is_some_and(|alt| !alt.is_empty()), "{path}");
        assert!(root.attribute("width").is_some() && !svg.contains("var("), "{path}");
    }
    let written = std::fs::read_dir(&saved.figures).unwrap().count();
    assert_eq!(written, linked.len(), "no picture takes another's place");
    // Colours mean nothing without their legend.
    let tokens = linked.iter().find(|path| path.contains("tokens-by-method")).unwrap();
    assert!(std::fs::read_to_string(folder.path().join(tokens)).unwrap().contains("ESC</text>"));
}

/// Full EAGer knows which sequences are right, and so do plain samplers.
#[test]
fn full_eager_stands_beside_what_else_labels_buy() {
    let solved = |id: &str, sequences: usize| {
        let leaves: Vec<_> = (0..sequences).map(|at| leaf("4", at + 1 == sequences, 10)).collect();
        sample(id, &leaves, 1.0)
    };
    let run = |method: &'static str, sequences: usize| {
        Setting::of(method).run(["a", "b", "c"].iter().map(|id| solved(id, sequences)).collect())
    };
    let all = [run("full-parallel", 10), run("eager/regrow", 5), run("until-right", 1), run("two-stage", 3)];
    let said = |runs: &[eager_lab::run::Run]| Report::new(runs, Options::default()).headline().join(" ");
    let text = said(&all);
    let labels = "With the labels that it knows, Until right has pass@k 1.000 with 10% of full-parallel's tokens and \
                  Two-stage has pass@k 1.000 with 30% of full-parallel's tokens.";
    assert!(text.contains(labels), "{text}");
    assert!(!said(&all[..2]).contains("labels"));
    assert!(Report::new(&all, Options::default()).html().contains("decide by which sequences are right"));
}

/// Who was given up counts as wrong, and the rate of the others has a column of its own.
#[test]
fn sequences_that_were_given_up_are_told_apart() {
    let halted = |mut sample: eager_lab::run::Sample| {
        sample.sequences[1].finish = Some(eager_core::Finish::Halted);
        sample
    };
    let leaves = [leaf("4", true, 10), leaf("", false, 5)];
    let whole = Setting::of("full-parallel").run(vec![sample("a", &leaves, 1.0)]);
    let given_up = Setting::of("deepconf").run(vec![halted(sample("a", &leaves, 1.0))]);
    let alone = [whole.clone()];
    assert!(!Report::new(&alone, Options::default()).markdown("figures").contains("unhalted"));
    let runs = [whole, given_up];
    let report = Report::new(&runs, Options::default());
    let rates: Vec<_> = report
        .lines()
        .iter()
        .map(|line| (line.pass_rate.map(|e| e.value), line.pass_rate_unhalted.map(|e| e.value)))
        .collect();
    assert_eq!(rates, [(Some(0.5), None), (Some(0.5), Some(1.0))]);
    assert!(report.markdown("figures").contains("unhalted"));
}
