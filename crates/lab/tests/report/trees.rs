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
    let tree = &problem["trees"][0][0];
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

#[test]
fn every_seed_has_its_tree_as_far_as_they_fit() {
    let run = |seed: u64, answers: &[&str]| {
        let of = |(id, answer): (&str, &&str)| sample(id, &[leaf(answer, *answer == "4", 3)], 1.0);
        Setting { seed, ..Setting::of("eager-init") }
            .run(["a", "b"].into_iter().zip(answers).map(of).collect())
    };
    // The third was broken off before it came to b, and another method has one seed only.
    let other = Setting::of("esc").run(vec![sample("a", &[leaf("5", false, 3)], 1.0)]);
    let runs = [run(7, &["4", "4"]), run(8, &["5", "6"]), run(9, &["4"]), other];
    let page = |options: Options| {
        let html = Report::new(&runs, options).html();
        let subject = data(&html)["subjects"][0].clone();
        (html, subject)
    };
    let (html, subject) = page(Options::default());
    assert!(!html.contains("as far as they fit"));
    let method = |name: &str| {
        let methods = subject["methods"].as_array().unwrap();
        methods.iter().position(|method| method["name"].as_str().unwrap().contains(name)).unwrap()
    };
    let (init, esc) = (method("init"), method("ESC"));
    assert_eq!(subject["methods"][init]["seeds"], json!([7, 8, 9]));
    let answers = |problem: usize, method: usize| -> Vec<Value> {
        let seeds = subject["problems"][problem]["trees"][method].as_array().unwrap().clone();
        seeds.iter().map(|tree| tree["sequences"][0]["answer"].clone()).collect()
    };
    assert_eq!(answers(0, init), [json!("4"), json!("5"), json!("4")]);
    assert_eq!(answers(1, init), [json!("4"), json!("6"), Value::Null]);
    assert_eq!((answers(0, esc), answers(1, esc)), (vec![json!("5")], vec![Value::Null]));

    // First every problem, then further seeds.
    let bytes = |subject: &Value, seeds: usize| -> usize {
        let problems = subject["problems"].as_array().unwrap().iter();
        let trees = problems.flat_map(|problem| problem["trees"].as_array().unwrap());
        trees.flat_map(|of| of.as_array().unwrap().iter().take(seeds)).map(|t| t.to_string().len() + 3).sum()
    };
    let (html, tight) = page(Options { tree_bytes: bytes(&subject, 1) + 20, ..Options::default() });
    assert!(html.contains("as far as they fit"));
    for problem in tight["problems"].as_array().unwrap() {
        assert_eq!(problem["trees"][init].as_array().unwrap().len(), 1, "{problem}");
    }
}
