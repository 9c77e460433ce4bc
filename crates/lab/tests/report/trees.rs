//! The trees inside the page.

use eager_lab::report::{Options, Report};
use serde_json::{Value, json};

use crate::runs::{Setting, leaf, raw_sample, sample};

fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn sequence(parent: Option<usize>, fork_at: usize, entropy: &[f32], text: &str) -> Value {
    json!({
        "tokens": vec![1; entropy.len()], "logprobs": vec![0.0; entropy.len()], "entropy": entropy, "parent": parent,
        "fork_at": fork_at, "finish": "stop", "text": text, "answer": "4", "correct": true,
    })
}

#[test]
fn a_fork_shows_both_ways_and_the_entropy() {
    let sequences = vec![
        sequence(None, 0, &[0.1, 0.2, 0.9, 0.1], "let us add them"),
        sequence(Some(0), 2, &[0.9, 0.3], "let us multiply them"),
        sequence(Some(1), 3, &[0.8], "let us multiply all"),
    ];
    let runs = [Setting::of("eager-init").run(vec![raw_sample("a", sequences, 1.0)])];
    let data = data(&Report::new(&runs, Options::default()).html());
    let problem = &data["subjects"][0]["problems"][0];
    assert_eq!((problem["problem"].as_str(), problem["gold"].as_str()), (Some("What is a?"), Some("4")));
    let tree = &problem["trees"][0];
    assert_eq!(tree["sequences"][0]["text"], json!(["let us ", 1, "add them"]));
    assert_eq!(tree["sequences"][1]["text"], json!(["multiply ", 2, "them"]));
    assert_eq!(tree["sequences"][2]["text"], json!(["all"]));
    assert_eq!(tree["sequences"][1]["ways"], json!(["add", "multiply"]));
    assert_eq!(tree["sequences"][1]["before"], "let us ");
    assert!((tree["sequences"][1]["forked_at_entropy"].as_f64().unwrap() - 0.9).abs() < 1e-6);
    assert_eq!(tree["sequences"][1]["entropy"].as_str().unwrap().chars().count(), 2);
}

#[test]
fn the_page_says_what_was_left_out() {
    let long = "word ".repeat(2000);
    // The second has sequences that disagree: it goes first.
    let runs = [Setting::of("eager-init").run(vec![
        sample("plain", &[leaf("4", true, 3)], 1.0),
        sample("torn", &[leaf("4", true, 3), leaf("5", false, 3)], 1.0),
        raw_sample("long", vec![sequence(None, 0, &[0.1], &long), sequence(None, 0, &[0.1], "5")], 1.0),
    ])];
    let of = |options: Options| {
        let html = Report::new(&runs, options).html();
        let data = data(&html);
        let problems = data["subjects"][0]["problems"].as_array().unwrap().clone();
        let with: Vec<String> = problems
            .iter()
            .filter(|p| !p["trees"].as_array().unwrap().is_empty())
            .map(|p| p["id"].as_str().unwrap().to_owned())
            .collect();
        (html, with)
    };
    let (html, with) = of(Options { trees: 1, ..Options::default() });
    assert_eq!(with, ["torn"]);
    assert!(html.contains("3 problems in all. Trees are here for the 1 with most to see"));
    let (html, with) = of(Options { text: 100, ..Options::default() });
    assert_eq!(with.len(), 3);
    assert!(html.contains("One text was longer than 100 characters"));
    assert!(html.len() < long.len() + 60_000);
    let (_, with) = of(Options { tree_bytes: 10, ..Options::default() });
    assert!(with.is_empty());
}
