//! `eager serve` on the command line: its options reach the requests that it serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

const HARD: &str = "Using each of 5, 8, 30, 43, 28 exactly once, make 68.";

/// The command, serving; gone when it is dropped.
struct Serve {
    child: Child,
    address: String,
}

fn eager(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eager"));
    command.args(args);
    command
}

impl Serve {
    fn start(args: &[&str]) -> Self {
        let mut child = eager(&["serve", "--port", "0"]).args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = lines
            .find_map(|line| Some(line.split("at http://").nth(1)?.split(' ').next()?.to_owned()))
            .expect("the server says where it is");
        // What nobody reads would stop the server's log sooner or later.
        std::thread::spawn(move || lines.for_each(drop));
        Serve { child, address }
    }

    /// The head and the body of an answer to a chat.
    fn chat(&self, more: &Value) -> (String, Value) {
        let mut body = json!({"messages": [{"role": "user", "content": HARD}], "seed": 7, "eager": {}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = body.to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\norigin: https://app.example.org\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), serde_json::from_str(body).unwrap())
    }

    fn forks(&self) -> u64 {
        let (_, answer) = self.chat(&json!({"n": 8}));
        answer["eager"]["forks"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn refused(args: &[&str]) -> String {
    let Output { status, stderr, .. } = eager(args).output().unwrap();
    assert_eq!(status.code(), Some(2), "{args:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn what_acts_on_one_prompt_can_be_said_to_a_server() {
    let plain = Serve::start(&[]);
    let all = plain.forks();
    assert!(all > 2, "{all}");
    let (head, _) = plain.chat(&json!({"max_tokens": 2}));
    assert!(!head.contains("access-control-allow-origin"), "{head}");

    // One fork of each sequence at most, and that far apart there are few.
    let spaced =
        Serve::start(&["--fork-spacing", "1000", "--window", "3", "--cors", "https://app.example.org"]);
    assert!(spaced.forks() < all);
    let (head, _) = spaced.chat(&json!({"max_tokens": 2}));
    assert!(head.contains("access-control-allow-origin: https://app.example.org"), "{head}");

    // Two candidates only have so much entropy, and a relaxed theta lets a second pass in where a strict one does not.
    let narrow = Serve::start(&["--entropy-top-k", "2", "--relax", "0", "--top-k", "1", "--min-tokens", "9"]);
    let (head, answer) = narrow.chat(&json!({"eager": {"theta": 1}}));
    assert!(head.starts_with("http/1.1 400") && answer["error"]["param"] == "eager.theta", "{answer}");
    let texts: Vec<Value> = (0..3)
        .map(|seed| narrow.chat(&json!({"seed": seed, "max_tokens": 20})).1["choices"][0]["message"].clone())
        .collect();
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "--top-k 1 leaves nothing to chance");
}

#[test]
fn what_a_server_cannot_mean_is_refused() {
    assert!(refused(&["serve", "--cors", "app.example.org"]).contains("https://app.example.org"));
    assert!(refused(&["serve", "--esc-window", "2", "--esc-windows", "3"]).contains("--esc-window"));
    assert!(refused(&["serve", "--logit-bias", "42"]).contains("TOKEN=LOGITS"));
    assert!(refused(&["solve", "1", "--repetition-penalty", "0"]).contains("0.01"));
}

/// The same options where nothing is served.
#[test]
fn rules_about_tokens_reach_solve() {
    let solve = |more: &[&str]| -> Value {
        let base = ["solve", "What is 888 * 27 + 271?", "-m", "1", "--temperature", "0", "--json"];
        let Output { status, stdout, stderr } = eager(&base).args(more).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).unwrap()
    };
    let tokens = |answer: &Value| answer["tokens_generated"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    let plain = tokens(&solve(&[]));
    let least = (plain + 50).to_string();
    assert!(tokens(&solve(&["--min-tokens", &least])) >= plain + 50);
    assert_eq!(tokens(&solve(&["--ignore-eos", "--max-tokens", &least])), plain + 50);
    let Output { status, stderr, .. } = eager(&["solve", "1+1", "--logit-bias", "99999=1"]).output().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stderr).contains("logit_bias names token 99999"));
}
