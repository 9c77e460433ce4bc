//! Judges that start processes.

use std::fs;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use eager_grade::command::CommandGrader;
use eager_lab::judge::{JudgeError, Kind};
use eager_lab::suite::{Request, source};

use crate::open;

fn sh(script: &str) -> CommandGrader {
    CommandGrader {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        timeout: Duration::from_secs(20),
    }
}

fn asked(script: &str) -> Request {
    Request { grader: Some(Kind::Command), command: Some(sh(script)), ..Request::default() }
}

#[test]
fn a_program_of_the_users_is_told_the_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    fs::write(&path, r#"{"id": "a", "problem": "Say yes.", "hint": "y"}"#).unwrap();
    let log = folder.path().join("log");
    let script = format!(
        r#"read -r line; echo "$line" >> '{}'; case "$line" in *'"response":"yes"'*) echo 1;; *) echo '{{"score": 0, "answer": "no"}}';; esac"#,
        log.display()
    );
    let suite = open(&Request { suite: path.to_str().unwrap().to_owned(), ..asked(&script) });
    assert_eq!(suite.problems[0].message, "Say yes.");
    let responses = ["yes", "nay", "yes", r"\boxed{3}"].map(str::to_owned);
    let graded = suite.problems[0].grade_all(&responses).unwrap();
    // Where the program tells no answer, the response's own counts for the votes.
    let verdicts: Vec<_> = graded.iter().map(|g| (g.correct, g.answer.as_deref())).collect();
    let (yes, no) = ((Some(true), Some("yes")), (Some(false), Some("no")));
    assert_eq!(verdicts, [yes, no, yes, no]);
    let scores: Vec<_> = graded.iter().map(|g| g.score).collect();
    assert_eq!(scores, [Some(1.0), Some(0.0), Some(1.0), Some(0.0)]);
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().count(), 3, "equal responses are judged once: {log}");
    assert!(log.contains(r#""hint":"y""#), "{log}");
}

#[test]
fn a_broken_judge_is_not_a_wrong_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    fs::write(&path, r#"{"problem": "?"}"#).unwrap();
    for (script, expected) in [("exit 3", "status 3"), ("echo maybe", "answered \"maybe\"")] {
        let suite = open(&Request { suite: path.to_str().unwrap().to_owned(), ..asked(script) });
        let error = suite.problems[0].grade_all(&["a".to_owned(), "b".to_owned()]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_judge_that_takes_long_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    fs::write(&path, r#"{"problem": "?"}"#).unwrap();
    let suite = open(&Request { suite: path.to_str().unwrap().to_owned(), ..asked("sleep 19; echo 1") });
    let (stop, start) = (AtomicBool::new(true), Instant::now());
    let error = suite.problems[0].grade_all_unless(&["a".into()], &stop).unwrap_err();
    assert!(matches!(error, JudgeError::Stopped), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn programs_are_judged_by_their_tests() {
    if source::file("HumanEvalPlus-v0.1.10.jsonl.gz").is_err() {
        println!("skipped: {} names no folder with HumanEval+", source::VARIABLE);
        return;
    }
    // The programs are ours, so a machine without walls will do.
    let request = Request {
        only: vec!["HumanEval/53".to_owned()],
        unsafe_code: true,
        ..Request::new("humaneval-plus")
    };
    let suite = open(&request);
    if let Err(error) = suite.prepare() {
        println!("skipped: {error}");
        return;
    }
    let body = |sign: &str| format!("```python\ndef add(x, y):\n    return x {sign} y\n```\n");
    let responses = [
        body("+"),
        format!("Thoughts.</think>\n{}", body("+")),
        body("-"),
        "I cannot.".to_owned(),
        body("+"),
    ];
    let graded = suite.problems[0].grade_all(&responses).unwrap();
    let verdicts: Vec<_> = graded.iter().map(|graded| graded.correct).collect();
    assert_eq!(verdicts, [Some(true), Some(true), Some(false), Some(false), Some(true)]);
    let answer = graded[0].answer.as_deref().unwrap();
    assert!(answer.ends_with("return x + y"), "{answer:?}");
    assert!(graded[1].answer == graded[0].answer && graded[4].answer == graded[0].answer);
    assert_ne!(graded[2].answer, graded[0].answer);
}

#[test]
fn programs_that_do_the_same_vote_together() {
    if source::file("HumanEvalPlus-v0.1.10.jsonl.gz").is_err() {
        println!("skipped: {} names no folder with HumanEval+", source::VARIABLE);
        return;
    }
    // `truncate_number`: the decimal part of a number.
    let request =
        Request { only: vec!["HumanEval/2".to_owned()], unsafe_code: true, ..Request::new("humaneval-plus") };
    let suite = open(&request);
    if let Err(error) = suite.prepare() {
        println!("skipped: {error}");
        return;
    }
    let body =
        |lines: &str| format!("```python\ndef truncate_number(number: float) -> float:\n    {lines}\n```\n");
    let responses = [
        body("return number % 1.0"),
        body("whole = int(number)\n    return number - whole"),
        body("import math\n    return math.modf(number)[0]"),
        body("return number"),
        body("return 1.0 * number"),
        body("raise ValueError(number)"),
        body("return no_such_name"),
        "I cannot.".to_owned(),
    ];
    let graded = suite.problems[0].grade_all(&responses).unwrap();
    let correct: Vec<_> = graded.iter().map(|graded| graded.correct.unwrap()).collect();
    assert_eq!(correct, [true, true, true, false, false, false, false, false]);
    let answers: Vec<_> = graded.iter().map(|graded| graded.answer.as_deref()).collect();
    // The first program stands for all that do the same.
    assert!(answers[0].unwrap().ends_with("return number % 1.0"), "{answers:?}");
    assert_eq!([answers[1], answers[2]], [answers[0]; 2]);
    assert!(answers[3].unwrap().ends_with("return number") && answers[4] == answers[3], "{answers:?}");
    // What returns nothing has no vote.
    assert_eq!(answers[5..], [None; 3]);
}

/// A run is not taken up with another judge, nor with other tests for the same one.
#[test]
fn hashes_tell_programs_apart() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |line: &str, script: &str, seconds: u64| {
        let path = folder.path().join("mine.jsonl");
        fs::write(&path, line).unwrap();
        let command = CommandGrader { timeout: Duration::from_secs(seconds), ..sh(script) };
        let suite = path.to_str().unwrap().to_owned();
        open(&Request { suite, command: Some(command), ..asked(script) }).hash
    };
    let line = r#"{"problem": "Say yes.", "tests": 1}"#;
    let plain = hash(line, "echo 1", 20);
    assert_ne!(plain, hash(line, "echo 0", 20));
    assert_ne!(plain, hash(r#"{"problem": "Say yes.", "tests": 2}"#, "echo 1", 20));
    // Who had too little time may be given more.
    assert_eq!(plain, hash(line, "echo 1", 40));
}

/// The tests are all that says which programs are right, so a file with other tests is another suite. How it is packed does
/// not matter.
#[test]
fn hashes_tell_tests_apart() {
    let hash = |inputs: &str, level: u32| {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("HumanEvalPlus-v0.1.10.jsonl.gz")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::new(level));
        let line = r#"{"task_id": "HumanEval/0", "prompt": "def one(x):\n", "entry_point": "one",
            "canonical_solution": "    return 1\n", "atol": 0, "base_input": [[1]], "plus_input": INPUTS}"#;
        writeln!(packed, "{}", line.replace('\n', " ").replace("INPUTS", inputs)).unwrap();
        packed.finish().unwrap();
        let place = crate::fetch::place(folder.path(), "http://127.0.0.1:9");
        open(&Request { place: Some(place), ..Request::new("humaneval-plus") }).hash
    };
    let plain = hash("[[2]]", 9);
    assert_eq!(plain, hash("[[2]]", 0));
    assert_ne!(plain, hash("[[3]]", 9));
    assert_ne!(plain, hash("[[2], [3]]", 9));
}
