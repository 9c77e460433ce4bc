//! The command grader against programs of all kinds.
#![cfg(unix)]

use std::time::{Duration, Instant};

use eager_grade::command::{CommandGrader, Failure, Score};
use serde_json::json;

fn shell(script: &str) -> CommandGrader {
    CommandGrader {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        timeout: Duration::from_secs(10),
    }
}

fn grade(script: &str) -> Result<Score, eager_grade::command::CommandError> {
    shell(script).grade(&json!({"question": "6 * 7?", "gold": 42}), "it is\n\\boxed{42}")
}

#[test]
fn the_program_gets_one_line_of_json() {
    let seen = r#"read -r line; read -r more && exit 3
        [ "$line" = '{"problem":{"question":"6 * 7?","gold":42},"response":"it is\n\\boxed{42}"}' ] && echo 1 || echo 0"#;
    // `read -r` keeps backslashes, so the line is compared as it was sent.
    assert_eq!(grade(seen).unwrap(), Score { score: 1.0, answer: None });
}

#[test]
fn scores_and_answers() {
    assert_eq!(grade("cat > /dev/null; echo 0.5").unwrap().score, 0.5);
    let with_answer = grade(r#"echo thinking; echo '{"correct": true, "answer": "42"}'"#).unwrap();
    assert_eq!(with_answer, Score { score: 1.0, answer: Some("42".to_owned()) });
    assert!(with_answer.correct());
    assert!(!grade("echo false").unwrap().correct());
}

#[test]
fn a_program_that_reads_nothing_of_a_long_message_is_fine() {
    let response = "x".repeat(10 << 20);
    assert!(shell("echo 1").grade(&json!(null), &response).unwrap().correct());
    assert!(shell("wc -c > /dev/null; echo 1").grade(&json!(null), &response).unwrap().correct());
}

#[test]
fn what_goes_wrong_is_an_error_that_names_the_program() {
    let table: &[(&str, &[&str])] = &[
        ("echo boom >&2; exit 3", &["`sh`", "exit status 3", "boom"]),
        ("echo 1; exit 1", &["exit status 1"]),
        ("kill -SEGV $$", &["killed by signal 11"]),
        ("true", &["answered \"\""]),
        ("echo correct", &["answered \"correct\""]),
        ("echo 7", &["answered \"7\""]),
        ("yes", &["wrote more than"]),
        ("yes >&2; echo 1", &["did not answer within"]),
    ];
    for (script, words) in table {
        let mut grader = shell(script);
        grader.timeout = Duration::from_secs(2);
        let error = grader.grade(&json!(1), "").unwrap_err().to_string();
        for word in *words {
            assert!(error.contains(word), "{script:?} gave {error:?}, without {word:?}");
        }
    }
    let missing = CommandGrader { program: "no-such-program-here".into(), ..shell("") };
    let error = missing.grade(&json!(1), "").unwrap_err();
    assert!(matches!(error.failure, Failure::Start(_)), "{error}");
    assert!(error.to_string().contains("no-such-program-here"), "{error}");
}

#[test]
fn a_timeout_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alive");
    let file = file.display();
    // Children and grandchildren that ignore SIGTERM and would leave a trace if they lived.
    let script = format!(
        "trap '' TERM; (sh -c 'trap \"\" TERM; sleep 2; echo x > {file}') & (sleep 2; echo y > {file}) & sleep 60"
    );
    let mut grader = shell(&script);
    grader.timeout = Duration::from_millis(300);
    let start = Instant::now();
    let error = grader.grade(&json!(1), "").unwrap_err();
    assert!(matches!(error.failure, Failure::Timeout(_)), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    std::thread::sleep(Duration::from_secs(3));
    assert!(!folder.path().join("alive").exists(), "a grandchild lived on");
}

#[test]
fn what_a_program_leaves_behind_neither_delays_nor_survives_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alive");
    let script = format!("(sleep 2; echo x > {}) & echo 1", file.display());
    let start = Instant::now();
    assert!(shell(&script).grade(&json!(1), "").unwrap().correct());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    std::thread::sleep(Duration::from_secs(3));
    assert!(!file.exists(), "it lived on");
}
