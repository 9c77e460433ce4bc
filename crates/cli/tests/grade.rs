//! `eager grade`, as a user runs it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    command.arg("grade").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn grade(args: &[&str], input: &[u8]) -> Output {
    let mut child = start(args);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // It may have refused to read.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The verdicts on some lines, which must all have one.
#[track_caller]
fn verdicts(args: &[&str], input: &[Value]) -> Vec<bool> {
    let text: Vec<String> = input.iter().map(Value::to_string).collect();
    let output = grade(args, text.join("\n").as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    lines(&output).iter().map(|line| line["correct"].as_bool().unwrap()).collect()
}

#[track_caller]
fn refused(args: &[&str], input: &str, status: i32, part: &str) -> Output {
    let output = grade(args, input.as_bytes());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(part), "no '{part}' in '{said}'");
    output
}

#[test]
fn a_line_keeps_all_it_held() {
    let input = concat!(
        r#"{"z": 1.10, "gold": "\\frac{1}{2}", "correct": "?", "pred": "so \\boxed{0.5}", "id": 123456789012345678901234567890}"#,
        "\n\n",
        r#"{"pred":"\\boxed{3}","gold":4}"#,
    );
    let output = grade(&["--grader", "math"], input.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    let expected = concat!(
        r#"{"z":1.10,"gold":"\\frac{1}{2}","pred":"so \\boxed{0.5}","id":123456789012345678901234567890,"correct":true}"#,
        "\n",
        r#"{"pred":"\\boxed{3}","gold":4,"correct":false}"#,
        "\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(stderr(&output).contains("1 right, 1 wrong"), "{}", stderr(&output));
}

#[test]
fn many_lines_stay_in_order() {
    let input: Vec<Value> = (0..2000)
        .map(|i| json!({ "gold": i, "pred": format!("\\boxed{{{}}}", i / 2 * 2), "i": i }))
        .collect();
    let text: Vec<String> = input.iter().map(Value::to_string).collect();
    let output = grade(&["--grader", "math", "--workers", "3"], text.join("\n").as_bytes());
    let graded = lines(&output);
    assert_eq!(graded.len(), input.len());
    for (i, line) in graded.iter().enumerate() {
        assert_eq!((&line["i"], &line["correct"]), (&json!(i), &json!(i % 2 == 0)));
    }
}

#[test]
fn every_kind_of_text() {
    let math = [
        json!({ "gold": r"\frac{-1\pm\sqrt{17}}{2}", "pred": r"$\boxed{\frac{-1+\sqrt{17}}{2}, \frac{-1-\sqrt{17}}{2}}$" }),
        json!({ "gold": "26!", "pred": r"\boxed{26!}" }),
        json!({ "gold": "42", "pred": null }),
    ];
    assert_eq!(verdicts(&["--grader", "math"], &math), [true, true, false]);
    let choice = [
        json!({ "gold": "B", "pred": "Answer: B" }),
        json!({ "gold": "(b)", "pred": "Answer: C" }),
        json!({ "gold": "A", "pred": r"\boxed{red}", "choices": ["red", "blue"] }),
    ];
    assert_eq!(verdicts(&["--grader", "choice"], &choice), [true, false, true]);
    let expression = [
        json!({ "gold": { "numbers": [7, 22, 10], "target": 66 }, "pred": r"\boxed{(10-7)*22}" }),
        json!({ "gold": "66", "numbers": [7, 22, 10], "pred": r"\boxed{22*3}" }),
    ];
    assert_eq!(verdicts(&["--grader", "expression"], &expression), [true, false]);
}

#[test]
fn an_answer_can_be_explained() {
    let line = json!({ "gold": "1/2", "pred": "I think it is 0.50." }).to_string();
    let graded = lines(&grade(&["--grader", "math", "--explain"], line.as_bytes()));
    assert_eq!((&graded[0]["answer"], &graded[0]["correct"]), (&json!("1/2"), &json!(true)));
}

#[test]
fn a_line_is_answered_before_the_next_one_comes() {
    let mut child = start(&["--grader", "math"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for (gold, correct) in [(7, true), (8, false)] {
        writeln!(stdin, "{}", json!({ "gold": gold, "pred": "\\boxed{7}" })).unwrap();
        stdin.flush().unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["correct"], correct);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_broken_line_is_named_and_nothing_before_it_is_lost() {
    let good = r#"{"gold":"1","pred":"\\boxed{1}"}"#;
    let broken = [
        (r#"{"gold": "1", "pred": "#, "line 3 of the input"),
        ("[1, 2]", "it should be a JSON object"),
        (r#"{"pred": "1"}"#, "it has no \"gold\""),
        (r#"{"gold": "1"}"#, "it has no \"pred\""),
        (r#"{"gold": "1", "pred": ["1"]}"#, "\"pred\" should be text"),
        (r#"{"gold": null, "pred": "1"}"#, "\"gold\" should be the right answer"),
    ];
    for (line, part) in broken {
        let input = format!("{good}\n\n{line}\n{good}\n");
        let output = refused(&["--grader", "math"], &input, 1, part);
        assert_eq!(lines(&output).len(), 1, "{line}");
    }
    refused(&["--grader", "choice"], r#"{"gold":"maybe","pred":"A"}"#, 1, "one letter");
    refused(&["--grader", "expression"], r#"{"gold":5,"pred":"5"}"#, 1, "\"numbers\"");
}

#[test]
fn hostile_lines_are_only_wrong() {
    let mut input = br#"{"gold": "1", "pred": "\\boxed{1"#.to_vec();
    input.extend([0xff, 0xfe, b'}', b'"', b'}', b'\n']);
    for pred in ["{".repeat(1_000_000), r"\frac{".repeat(10_000), "\\boxed{10^{10^{10}}}".to_owned()] {
        input.extend(json!({ "gold": "1", "pred": pred }).to_string().as_bytes());
        input.push(b'\n');
    }
    let output = grade(&["--grader", "math"], &input);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&output).iter().filter(|line| line["correct"] == false).count(), 4);
}

#[cfg(unix)]
#[test]
fn a_program_of_ones_own() {
    // Right if the response says what the problem's "gold" is; dies on "crash".
    let program = r#"read line
case "$line" in *crash*) echo "no idea" >&2; exit 3;; *'"response":"yes"'*) echo 1;; *) echo '{"score": 0.25}';; esac"#;
    let args = ["--grader", "command", "--", "sh", "-c", program];
    let line = |pred: &str| json!({ "gold": "yes", "pred": pred }).to_string();
    let input = [line("yes"), line("crash"), line("no")].join("\n");
    let output = refused(&args, &input, 1, "1 lines could not be graded");
    let graded = lines(&output);
    let verdict = |at: usize| (&graded[at]["correct"], &graded[at]["score"]);
    assert_eq!(verdict(0), (&json!(true), &json!(1.0)));
    assert_eq!(verdict(2), (&json!(false), &json!(0.25)));
    assert_eq!(graded[1]["correct"], Value::Null);
    let error = graded[1]["error"].as_str().unwrap();
    assert!(error.contains("`sh`") && error.contains("no idea"), "{error}");
}

/// Ctrl-C while the command waits for a line, and while a program of the user's is at work.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_at_once() {
    for (args, line) in [
        (&["--grader", "math"][..], ""),
        (&["--grader", "command", "--", "sleep", "1000"], "{\"gold\":1,\"pred\":\"1\"}\n"),
    ] {
        let mut child = start(args);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        // It should be listening by then.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        drop(stdin);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn programs_run_against_their_tests() {
    if std::env::var_os("EAGER_DATA").is_none() {
        println!("skipped: EAGER_DATA does not name a folder with the benchmarks");
        return;
    }
    let right = "```python\ndef add(x, y):\n    return x + y\n```";
    let wrong = "```python\ndef add(x, y):\n    return x - y\n```";
    let input = [
        json!({ "gold": "HumanEval/53", "pred": right }).to_string(),
        json!({ "task_id": "HumanEval/53", "pred": wrong }).to_string(),
    ]
    .join("\n");
    let output = grade(&["--grader", "code", "--explain"], input.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("file system: protected by"), "{}", stderr(&output));
    let graded = lines(&output);
    assert_eq!((&graded[0]["correct"], &graded[1]["correct"]), (&json!(true), &json!(false)));
    assert_eq!(graded[0]["detail"], json!({ "base": "pass", "plus": "pass" }));
    let unknown = json!({ "gold": "HumanEval/999", "pred": right }).to_string();
    let output = refused(&["--grader", "code"], &unknown, 1, "could not be graded");
    assert!(lines(&output)[0]["error"].as_str().unwrap().contains("HumanEval/999"));
}

#[test]
fn bad_usage_is_status_2() {
    refused(&["--grader", "poetry"], "", 2, "poetry");
    refused(&[], "", 2, "--grader");
    refused(&["--grader", "math", "--grader-timeout", "0"], "", 2, "seconds");
    refused(&["--grader", "command"], "", 2, "needs a program");
    refused(&["--grader", "math", "--", "sh"], "", 2, "--grader command");
    refused(&["--grader", "math", "--input", "nowhere.jsonl"], "", 1, "nowhere.jsonl");
    refused(&["--grader", "code", "--problems", "nowhere.jsonl"], "", 1, "nowhere.jsonl");
}

#[track_caller]
fn verdict(args: &[&str], line: &Value, expected: bool) {
    assert_eq!(verdicts(args, std::slice::from_ref(line)), [expected], "{args:?} {line}");
}

#[test]
fn a_thought_is_no_answer() {
    let math = ["--grader", "math"];
    for (pred, thinking, expected) in [
        ("<think>we try x = 204. No, that does not work because", false, false),
        (r"<think>perhaps \boxed{204}", false, false),
        (r"<think>perhaps \boxed{204}</think>I do not know.", false, false),
        ("<think>7</think>It is 204.", false, true),
        ("we try 204. No, that does not work because", true, false),
        ("    <think>we try x = 204. No, that does not work because", false, false),
        ("\t<think>we try x = 204. No, that does not work because", false, false),
        ("@<think>we try x = 204. No", false, false),
        ("```\n<think>we try x = 204. No", false, false),
        ("'<think>we try x = 204. No, that doesn't work because", false, false),
        (r"so \boxed{204}", true, false),
        (r"7</think>\boxed{204}", true, true),
        (r"7</think>\boxed{204} </think> 7", true, true),
        ("7</think>It is 204.", false, true),
        (r"<|channel|>analysis<|message|>\boxed{204}", false, false),
        (
            "<|channel|>analysis<|message|>7<|end|><|start|>assistant<|channel|>final<|message|>204<|return|>",
            false,
            true,
        ),
    ] {
        verdict(&math, &json!({ "gold": "204", "pred": pred, "thinking": thinking }), expected);
    }
    for (pred, expected) in
        [("<think>Answer: B", false), ("<think>A</think>Answer: B", true), ("Answer: A</think>B", true)]
    {
        verdict(&["--grader", "choice"], &json!({ "gold": "B", "pred": pred }), expected);
    }
    for (pred, expected) in [(r"<think>\boxed{1+2}", false), (r"<think>so</think>\boxed{1+2}", true)] {
        let gold = json!({ "numbers": [1, 2], "target": 3 });
        verdict(&["--grader", "expression"], &json!({ "gold": gold, "pred": pred }), expected);
    }
}

#[test]
fn what_was_cut_off_has_an_answer_only_where_it_says_so() {
    let math = ["--grader", "math"];
    let strict = ["--grader", "math", "--extract", "strict"];
    for (pred, explicit) in [
        ("9*8=72 ", false),
        ("72", false),
        ("So it is $72$", false),
        ("The answer is 72", true),
        ("The answer is found by multiplying 9 by 8, so first 63 and then 72", false),
        ("Let us see whether the answer is even: 9*8 = 72", false),
        ("So the answers are all wrong but the last: 9*8=72", false),
        (r"so \boxed{72}. To check,", true),
        (r"so \boxed{72", false),
    ] {
        let line = |finish: &str| json!({ "gold": "72", "pred": pred, "finish": finish });
        verdict(&math, &line("length"), explicit);
        verdict(&strict, &line("stop"), explicit);
        verdict(&math, &line("stop"), true);
    }
    for (pred, explicit) in [
        ("Answer: B", true),
        ("B is the correct answer, and", true),
        ("I would go with option B", false),
        ("So B is the best candidate so far", false),
        ("Option: B says that", false),
        ("(B)", false),
    ] {
        let line = |finish: &str| json!({ "gold": "B", "pred": pred, "finish": finish });
        verdict(&["--grader", "choice"], &line("length"), explicit);
        verdict(&["--grader", "choice", "--extract", "strict"], &line("stop"), explicit);
        verdict(&["--grader", "choice"], &line("stop"), true);
    }
    verdict(&strict, &json!({ "gold": "east", "pred": "The answer is east." }), true);
    // Other programs write other reasons, and text, under these names.
    for (finish, expected) in [(json!("halted"), false), (json!("abort"), false), (Value::Null, true)] {
        verdict(&math, &json!({ "gold": "72", "pred": "9*8=72", "finish": finish }), expected);
    }
    for (thinking, expected) in [(json!("9*8 is easy"), true), (json!(false), true), (json!(true), false)] {
        verdict(&math, &json!({ "gold": "72", "pred": "72", "thinking": thinking }), expected);
    }
    refused(&["--grader", "math", "--extract", "loose"], "", 2, "use lenient or strict");
}

#[cfg(target_os = "linux")]
#[test]
fn programs_are_not_taken_from_thoughts_nor_cut_short() {
    if std::env::var_os("EAGER_DATA").is_none() {
        println!("skipped: EAGER_DATA does not name a folder with the benchmarks");
        return;
    }
    let block = "```python\ndef add(x, y):\n    return x + y\n```";
    let open = block.trim_end_matches('`');
    let line = |pred: &str, finish: &str| json!({ "gold": "HumanEval/53", "pred": pred, "finish": finish });
    let input = [
        (line(&format!("<think>{block}"), "stop"), false),
        (line(&format!("<think>so</think>{block}"), "stop"), true),
        (line(&block.replace("x + y", "x + y  # </think>"), "stop"), true),
        (line(open, "stop"), true),
        (line(open, "length"), false),
        (line(block, "length"), true),
    ];
    let (lines, expected): (Vec<Value>, Vec<bool>) = input.into_iter().unzip();
    assert_eq!(verdicts(&["--grader", "code"], &lines), expected);
}
