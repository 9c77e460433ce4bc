//! A file of the user's: what may be in it, and what is said about a line that is wrong.

use std::fs;
use std::path::Path;

use eager_lab::judge::Kind;
use eager_lab::suite::{Fields, Request, Suite, SuiteError};

use crate::{ids, open, refused};

/// A request for the file `mine.jsonl` with these bytes.
fn mine(folder: &Path, bytes: impl AsRef<[u8]>, kind: Kind) -> Request {
    let path = folder.join("mine.jsonl");
    fs::write(&path, bytes).unwrap();
    Request { grader: Some(kind), ..Request::new(path.to_str().unwrap()) }
}

#[test]
fn lines_become_problems() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "\u{feff}{\"id\": \"a\", \"problem\": \"1 + 1?\", \"answer\": \"2\"}\r\n\n{\"problem\": \"Big?\", \"answer\": 12345678901234567890123}\n{\"problem\": \"Bigger?\", \"answer\": 1e999}\n";
    let suite = open(&mine(folder.path(), lines, Kind::Math));
    assert_eq!((suite.name.as_str(), suite.secret), ("mine.jsonl", false));
    // Without an id, the line's number is one.
    assert_eq!(ids(&suite), ["a", "3", "4"]);
    let golds: Vec<Option<&str>> = suite.problems.iter().map(|problem| problem.gold.as_deref()).collect();
    assert_eq!(golds, [Some("2"), Some("12345678901234567890123"), Some("1e999")]);
}

#[test]
fn fields_have_the_names_that_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let lines = r#"{"key": 7, "question": "1 + 1?", "solution": 2, "topic": "sums", "grade": 1}"#;
    let fields = Fields {
        id: Some("key".to_owned()),
        problem: "question".to_owned(),
        answer: "solution".to_owned(),
        group: vec!["topic".to_owned(), "grade".to_owned()],
    };
    let suite = open(&Request { fields, ..mine(folder.path(), lines, Kind::Exact) });
    let problem = &suite.problems[0];
    assert_eq!((problem.id.as_str(), problem.text.as_str()), ("7", "1 + 1?"));
    assert_eq!((problem.gold.as_deref(), problem.group.as_deref()), (Some("2"), Some("sums/1")));
}

#[test]
fn answers_are_judged_by_their_kind() {
    let table = [
        (Kind::Math, r#"{"problem": "?", "answer": "1/2"}"#, r"\boxed{0.5}", r"\boxed{0.4}"),
        (Kind::Exact, r#"{"problem": "?", "answer": "red"}"#, r"\boxed{red}", r"\boxed{blue}"),
        (Kind::Choice, r#"{"problem": "?", "answer": "(b)"}"#, "Answer: B", "Answer: A"),
        (
            Kind::Choice,
            r#"{"problem": "?", "answer": "A", "choices": ["up", "down"]}"#,
            r"\boxed{up}",
            r"\boxed{down}",
        ),
        (
            Kind::Expression,
            r#"{"problem": "?", "answer": 66, "numbers": [7, 22, 10]}"#,
            r"\boxed{22*(10-7)}",
            r"\boxed{66}",
        ),
    ];
    for (kind, line, right, wrong) in table {
        let folder = tempfile::tempdir().unwrap();
        let suite = open(&mine(folder.path(), line, kind));
        assert_eq!(suite.problems[0].judge.kind(), kind);
        let graded = suite.problems[0].grade_all(&[right.to_owned(), wrong.to_owned()]).unwrap();
        assert_eq!(graded.map_correct(), [Some(true), Some(false)], "{line}");
    }
}

#[test]
fn without_a_right_answer_votes_count_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let suite = open(&mine(folder.path(), r#"{"problem": "Half?"}"#, Kind::None));
    assert_eq!(suite.problems[0].gold, None);
    let responses = [r"\boxed{0.5}", r"\boxed{\frac12}", "", r"\boxed{2}"].map(str::to_owned);
    let graded = suite.problems[0].grade_all(&responses).unwrap();
    assert_eq!(graded.map_correct(), [None; 4]);
    assert_eq!(graded[0].answer, graded[1].answer);
    assert_ne!(graded[0].answer, graded[3].answer);
    assert_eq!(graded[2].answer, None);
}

trait Verdicts {
    fn map_correct(&self) -> Vec<Option<bool>>;
}

impl Verdicts for Vec<eager_lab::judge::Graded> {
    fn map_correct(&self) -> Vec<Option<bool>> {
        self.iter().map(|graded| graded.correct).collect()
    }
}

/// One good line, then these bytes.
const GOOD: &str = "{\"id\": \"a\", \"problem\": \"1 + 1?\", \"answer\": \"2\", \"numbers\": [1, 1]}\n";

#[test]
fn a_line_that_is_wrong_is_told_by_number_and_reason() {
    use Kind::{Choice, Exact, Expression, Math};
    let table: &[(&[u8], Kind, &str)] = &[
        (b"{\"problem\": \"?\", \"answer\": \"\xff\"}", Math, "line 2: it is not UTF-8"),
        (b"\n\nhello", Math, "line 4: it is not JSON: expected value at column 1"),
        (
            br#"{"problem": "?", "answer": "1""#,
            Math,
            "line 2: it is not JSON: EOF while parsing an object at column 30",
        ),
        (
            br#"{"problem": "?"} {"problem": "!"}"#,
            Math,
            "line 2: it is not JSON: trailing characters at column 18",
        ),
        (
            br#"["?", 1]"#,
            Math,
            r#"line 2: it should be a JSON object such as {"problem": "...", "answer": "..."}"#,
        ),
        (
            br#"{"question": "?", "answer": 1}"#,
            Math,
            r#"line 2: it has no "problem"; it has "answer", "question""#,
        ),
        (b"{}", Math, r#"line 2: it has no "problem"; it has nothing"#),
        (br#"{"problem": "?"}"#, Math, r#"line 2: it has no "answer"; it has "problem""#),
        (br#"{"problem": "?", "answer": null}"#, Exact, r#"line 2: it has no "answer""#),
        (
            br#"{"problem": "\ud800?", "answer": 1}"#,
            Math,
            r#"line 2: it is not JSON: "problem": unexpected end of hex escape"#,
        ),
        (br#"{"problem": ["?"], "answer": 1}"#, Math, r#"line 2: "problem" should be text or a number"#),
        (br#"{"problem": "?", "answer": true}"#, Math, r#"line 2: "answer" should be text or a number"#),
        (br#"{"problem": "?", "answer": {"a": 1}}"#, Math, r#"line 2: "answer" should be text or a number"#),
        (br#"{"problem": " ", "answer": 1}"#, Math, r#"line 2: "problem" is empty"#),
        (br#"{"problem": "?", "answer": ""}"#, Math, r#"line 2: "answer" is empty"#),
        (
            br#"{"id": "a", "problem": "?", "answer": 1}"#,
            Math,
            "line 2: its id 'a' is that of line 1 already",
        ),
        (br#"{"id": {}, "problem": "?", "answer": 1}"#, Math, r#"line 2: "id" should be text or a number"#),
        (
            br#"{"problem": "?", "answer": "66"}"#,
            Expression,
            r#"line 2: "answer" should be a whole number, with the numbers"#,
        ),
        (
            br#"{"problem": "?", "answer": 1.5, "numbers": [1]}"#,
            Expression,
            r#"line 2: "answer" should be a whole number"#,
        ),
        // The good line is not one for choices.
        (b"", Choice, r#"line 1: "answer" should be one of the letters A to D, not '2'"#),
    ];
    for (bytes, kind, expected) in table {
        let folder = tempfile::tempdir().unwrap();
        let request = mine(folder.path(), [GOOD.as_bytes(), bytes].concat(), *kind);
        let error = Suite::open(&request).unwrap_err();
        assert!(matches!(error, SuiteError::Line { .. }) && !error.is_usage(), "{error}");
        let error = error.to_string();
        assert!(error.contains("mine.jsonl, ") && error.contains(expected), "{error}\nnot: {expected}");
    }
}

#[test]
fn choices_that_are_wrong() {
    let table = [
        (
            r#"{"problem": "?", "answer": "C", "choices": ["up", "down"]}"#,
            "should be one of the letters A to B, not 'C'",
        ),
        (r#"{"problem": "?", "answer": "A", "choices": "up"}"#, "\"choices\" should be a list"),
        (r#"{"problem": "?", "answer": "A", "choices": ["up"]}"#, "at least two and at most 26"),
        (r#"{"problem": "?", "answer": "A", "choices": [1, 2]}"#, "\"choices\" should be a list"),
    ];
    for (line, expected) in table {
        let folder = tempfile::tempdir().unwrap();
        let error = refused(&mine(folder.path(), line, Kind::Choice));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_file_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for nothing in ["", "\n \n"] {
        let error = refused(&mine(folder.path(), nothing, Kind::Math));
        assert!(error.contains("mine.jsonl: it holds no problems"), "{error}");
    }
    let absent = folder.path().join("absent.jsonl");
    let error = refused(&Request::new(absent.to_str().unwrap()));
    assert!(error.starts_with("cannot read ") && error.contains("absent.jsonl: No such file"), "{error}");
    // An id that was asked for by name has to be there.
    let fields = Fields { id: Some("key".to_owned()), ..Fields::default() };
    let error = refused(&Request { fields, ..mine(folder.path(), GOOD, Kind::Math) });
    assert!(error.contains("line 1: it has no \"key\""), "{error}");
    let table = [
        (Kind::Code, "programs are judged by the tests of humaneval-plus only"),
        (Kind::Command, "the grader 'command' needs a program to run"),
    ];
    for (kind, expected) in table {
        assert_eq!(refused(&mine(folder.path(), GOOD, kind)), expected);
    }
}
