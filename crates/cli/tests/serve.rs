//! `eager serve` on the command line: its options reach the requests that it serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
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
    assert!(refused(&["serve", "--cap", "live"]).contains("--cap live"));
    let told = refused(&["serve", "--stop-token-id", "999999"]);
    assert!(told.contains("stop_token_ids names token 999999"), "{told}");
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
    let told = refused(&["solve", "1+1", "--logit-bias", "99999=1"]);
    assert_eq!(told.matches("logit_bias names token 99999").count(), 1, "{told}");
    let told = refused(&["solve", "1+1", "--min-tokens", "2000", "--max-tokens", "20"]);
    assert!(told.contains("--min-tokens is 2000, but --max-tokens only 20"), "{told}");
}

/// In front of a llama-server: what it does as we do is passed on, and what it would do otherwise is refused by name.
#[test]
fn a_server_behind_a_server_follows_or_refuses() {
    let Some(python) = std::env::var_os("EAGER_TEST_XLLAMACPP") else {
        eprintln!("skipped: EAGER_TEST_XLLAMACPP names no Python with xllamacpp");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = root.join("models/acorn/weights/acorn-q8_0.gguf");
    let mut behind = Command::new(python)
        .arg(root.join("crates/remote/tests/live/serve.py"))
        .arg(&model)
        .args(["4", "1024", "1"])
        // The script ends when this pipe is closed, whatever becomes of us.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(behind.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let (url, model) = (url.trim(), model.to_str().unwrap());
    let serve = Serve::start(&["--url", url, "--model", model]);

    let text = |more: Value| serve.chat(&more).1["choices"][0]["message"]["content"].clone();
    let texts: Vec<Value> = (0..3)
        .map(|seed| text(json!({"seed": seed, "top_k": 1, "temperature": 1.5, "max_tokens": 20})))
        .collect();
    assert!(texts[0].is_string() && texts.windows(2).all(|pair| pair[0] == pair[1]), "{texts:?}");
    // Every number a token may have: the first one ends it.
    let ends: Vec<u32> = (1..=100).collect();
    let (_, answer) = serve.chat(&json!({"stop_token_ids": ends, "max_tokens": 200}));
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() < 20, "{answer}");
    for (name, value) in [
        ("presence_penalty", json!(1)),
        ("repetition_penalty", json!(1.2)),
        ("logit_bias", json!({"5": -100})),
        ("min_tokens", json!(5)),
        ("ignore_eos", json!(true)),
        ("guided_regex", json!("a")),
    ] {
        let (head, answer) = serve.chat(&json!({ name: value, "max_tokens": 5 }));
        assert!(head.starts_with("http/1.1 400"), "{head}");
        assert_eq!(answer["error"]["param"], name);
    }
    let refused = refused(&["serve", "--port", "0", "--url", url, "--model", model, "--min-tokens", "5"]);
    assert!(refused.contains("--min-tokens"), "{refused}");
    drop(behind.stdin.take());
    behind.wait().unwrap();
}
