//! What each grader makes of whole responses, and how it is written down.

use eager_grade::{Grade, Grader};

fn expect(grader: &Grader, table: &[(&str, Option<&str>, bool)]) {
    for &(response, answer, correct) in table {
        let expected = Grade { answer: answer.map(str::to_owned), correct };
        assert_eq!(grader.grade(response), expected, "{response:?}");
    }
}

#[test]
fn countdown_responses() {
    expect(
        &Grader::Expression { numbers: vec![13, 22, 10], target: 25 },
        &[
            ("<think>\n22+13=35\n35-10=25\n</think>\n\\boxed{22+13-10}", Some("22+13-10"), true),
            (r"\boxed{ 13 + 22 − 10 }", Some("13+22-10"), true),
            (r"\boxed{(22-10)+13} or \boxed{22}", Some("22"), false),
            (r"\boxed{22+13-10} or \boxed{22", Some("22+13-10"), true),
            (r"\boxed{25}", Some("25"), false),
            (r"\boxed{22+13-1 0}", Some("22+13-1 0"), false),
            (r"\boxed{22+13-10=25}", Some("22+13-10=25"), false),
            (r"\boxed{1/0}", Some("1/0"), false),
            (r"\boxed{}", None, false),
            ("22+13-10", None, false),
            ("", None, false),
        ],
    );
}

#[test]
fn exact_responses() {
    expect(
        &Grader::Exact { gold: "24247".into() },
        &[
            ("<think>\n888*27=23976\n</think>\n\\boxed{24247}", Some("24247"), true),
            (r"\boxed{24,247}", Some("24247"), true),
            (r"\boxed{ +24247.0 }", Some("24247"), true),
            (r"\fbox{48494/2}", Some("24247"), true),
            (r"\boxed{24248}", Some("24248"), false),
            (r"\boxed{about 24247}", Some("about 24247"), false),
            (r"\boxed{ }", None, false),
            ("24247", None, false),
        ],
    );
    expect(
        &Grader::Exact { gold: " (x, y) ".into() },
        &[(r"\boxed{(x, y)}", Some("(x, y)"), true), (r"\boxed{(y, x)}", Some("(y, x)"), false)],
    );
}

#[test]
fn graders_are_written_with_their_kind() {
    for (grader, json) in [
        (
            Grader::Expression { numbers: vec![13, 22, 10], target: 25 },
            r#"{"kind":"expression","numbers":[13,22,10],"target":25}"#,
        ),
        (Grader::Exact { gold: "24247".into() }, r#"{"kind":"exact","gold":"24247"}"#),
    ] {
        assert_eq!(serde_json::to_string(&grader).unwrap(), json);
        assert_eq!(serde_json::from_str::<Grader>(json).unwrap(), grader);
    }
}
