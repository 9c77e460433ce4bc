//! How problems are put to the model.

use std::fs;

use eager_lab::judge::Kind;
use eager_lab::suite::Request;

use crate::{open, refused};

/// The message for the one problem of a file.
fn message(line: &str, kind: Kind, template: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    fs::write(&path, line).unwrap();
    let suite = path.to_str().unwrap();
    let template = template.map(str::to_owned);
    let suite = open(&Request { grader: Some(kind), template, ..Request::new(suite) });
    suite.problems[0].message.clone()
}

const SUM: &str = r#"{"id": "sum", "problem": "What is <1> + {{1}}?", "answer": 2, "numbers": [1, 1]}"#;
const WAY: &str = r#"{"problem": "Where is the sun at noon?", "answer": "B", "choices": ["North", "South"]}"#;

#[test]
fn the_usual_prompts() {
    let boxed =
        "What is <1> + {{1}}?\n\nPlease reason step by step, and put your final answer within \\boxed{}.";
    for kind in [Kind::Math, Kind::Exact, Kind::Expression, Kind::None] {
        assert_eq!(message(SUM, kind, None), boxed, "{kind}");
    }
    let choice = "Where is the sun at noon?\n\nA) North\nB) South\n\nOne of these choices is right. Reason step by step, \
                  then finish with a line of its own that says \"Answer: \" and the letter of that choice.";
    assert_eq!(message(WAY, Kind::Choice, None), choice);
}

#[test]
fn a_template_of_ones_own() {
    let table = [
        (SUM, Kind::Math, "{{ problem }}", "What is <1> + {{1}}?"),
        (SUM, Kind::Math, "[{{ id }}] {{ problem | upper }}", "[sum] WHAT IS <1> + {{1}}?"),
        (
            WAY,
            Kind::Choice,
            "{{ problem }} {{ choices | join(' or ') }}?",
            "Where is the sun at noon? North or South?",
        ),
        (
            WAY,
            Kind::Choice,
            "{% for choice in choices %}{{ loop.index0 | letter }}={{ choice }} {% endfor %}{{ problem }}",
            "A=North B=South Where is the sun at noon?",
        ),
        (
            SUM,
            Kind::Math,
            "{% for i in range(2) %}{{ i }}{% endfor %}{% if choices %}pick: {% endif %}{{ problem }}",
            "01What is <1> + {{1}}?",
        ),
    ];
    for (line, kind, template, expected) in table {
        assert_eq!(message(line, kind, Some(template)), expected, "{template}");
    }
}

#[test]
fn a_template_that_cannot_be_used() {
    let variables = "it can use {{ problem }}, {{ choices }} (a list) and {{ id }}";
    let table = [
        ("{{ question }}", "there is no variable 'question'", variables),
        ("{{ problem }} {{ answer }}", "there is no variable 'answer'", variables),
        ("{{ problem }", "syntax error", variables),
        ("{% if %}{{ problem }}", "syntax error", variables),
        ("{{ problem.text }}", "undefined value", variables),
        ("{{ problem | shout }}", "shout", variables),
        (
            "{% for a in range(9999) %}{% for b in range(9999) %}{{ problem }}{% endfor %}{% endfor %}",
            "fuel",
            variables,
        ),
        ("Solve it.", "it never says {{ problem }}, so every problem would be the same", ""),
        ("", "it never says {{ problem }}", ""),
    ];
    for (template, what, hint) in table {
        let error = refused(&Request { template: Some(template.to_owned()), ..Request::new("acorn") });
        assert!(error.starts_with("the template cannot be used: "), "{error}");
        assert!(error.contains(what) && error.contains(hint), "{template}: {error}");
    }
}
