//! Runs whose tokens come from a server that dies in the middle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{command, samples, stdout};

/// A real llama-server with acorn.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts one at a port, 0 for any, if there is one to start.
    fn start(port: &str) -> Option<Self> {
        let Some(python) = std::env::var_os("EAGER_TEST_XLLAMACPP") else {
            eprintln!("skipped: EAGER_TEST_XLLAMACPP names no Python with xllamacpp");
            return None;
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut process = Command::new(python)
            .arg(root.join("crates/remote/tests/live/serve.py"))
            .arg(root.join("models/acorn/weights/acorn-q8_0.gguf"))
            .args(["4", "1024", "1", "--port", port])
            // The script ends when this pipe is closed, whatever becomes of us.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "the server did not start");
        Some(Server { process, url: url.trim().to_owned() })
    }

    fn port(&self) -> String {
        self.url.rsplit(':').next().unwrap().to_owned()
    }

    /// As `kill -9` does.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It may be gone already.
        let _ = self.process.wait();
    }
}

fn bench(url: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = command(&["bench", "--suite", "acorn", "--limit", "12", "--method", "full-parallel"]);
    // Greedy, so that what is decoded after a break is what would have been decoded without it.
    command.args(["-m", "2", "--temperature", "0", "--max-tokens", "300", "--at-once", "2", "--url", url]);
    command.arg("--out").arg(out).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Every sequence of every problem.
fn sequences(run: &Path) -> Vec<Value> {
    samples(run).iter().flat_map(|sample| sample["sequences"].as_array().unwrap().clone()).collect()
}

/// Holds two runs to be one: every sequence has the same tokens, or had them until two were equally good.
///
/// A sequence that is taken up again has its beginning computed in one batch, where it had been computed token by token,
/// and llama.cpp rounds the two differently. Greedy decoding can then end either way where two tokens tie; what a request
/// loses or says twice shows as a difference without a tie.
fn assert_same(torn: &Path, whole: &Path) {
    const ROUNDING: f64 = 0.05;
    let (torn, whole) = (sequences(torn), sequences(whole));
    assert_eq!(torn.len(), whole.len());
    let mut equal = 0;
    for (number, (torn, whole)) in torn.iter().zip(&whole).enumerate() {
        let steps = |sequence: &Value, field: &str| sequence[field].as_array().unwrap().clone();
        let (left, right) = (steps(torn, "tokens"), steps(whole, "tokens"));
        if left == right {
            equal += 1;
            continue;
        }
        let at = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
        let logprob =
            |sequence: &Value| steps(sequence, "logprobs").get(at).and_then(Value::as_f64).unwrap_or(0.0);
        let (left, right) = (logprob(torn), logprob(whole));
        // Two that tie have at most half of the probability each.
        let tie = (left - right).abs() < ROUNDING && left.max(right) < 0.5_f64.ln() + ROUNDING;
        assert!(
            tie,
            "sequence {number} differs from token {at} on, chosen with {left} and {right}:\n{torn}\n{whole}"
        );
    }
    assert!(equal * 4 >= whole.len() * 3, "{equal} of {} sequences are the same", whole.len());
}

/// Waits until a run has so many finished prompts.
fn wait_for(run: &Path, lines: usize) {
    let begun = Instant::now();
    let count = || std::fs::read_to_string(run.join("samples.jsonl")).unwrap_or_default().lines().count();
    while count() < lines {
        assert!(begun.elapsed() < Duration::from_secs(120), "the run does not get on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_server_that_is_killed_in_a_bench_and_comes_back_costs_nothing() {
    let Some(server) = Server::start("0") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (whole, torn) = (folder.path().join("whole"), folder.path().join("torn"));
    stdout(&bench(&server.url, &whole, &[]).output().unwrap());

    let (url, port) = (server.url.clone(), server.port());
    let running = bench(&url, &torn, &[]).spawn().unwrap();
    wait_for(&torn, 3);
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    let again = Server::start(&port).unwrap();
    let output = running.wait_with_output().unwrap();
    stdout(&output);
    assert!(said(&output).contains("broke off and were taken up again"), "{}", said(&output));
    assert_same(&torn, &whole);
    drop(again);
}

#[test]
fn a_server_that_stays_away_ends_a_bench_that_can_go_on_elsewhere() {
    let Some(server) = Server::start("0") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (whole, torn) = (folder.path().join("whole"), folder.path().join("torn"));
    stdout(&bench(&server.url, &whole, &[]).output().unwrap());

    let running = bench(&server.url, &torn, &["--give-up", "2"]).spawn().unwrap();
    wait_for(&torn, 3);
    server.kill();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("--resume goes on"), "{}", said(&output));
    let finished = samples(&torn).len();
    assert!((3..12).contains(&finished));

    let elsewhere = Server::start("0").unwrap();
    stdout(&bench(&elsewhere.url, &torn, &["--resume"]).output().unwrap());
    assert_same(&torn, &whole);
}

#[test]
fn mistakes_are_told_in_a_sentence() {
    let cases: [(&[&str], i32, &str); 4] = [
        (&["solve", "1+1", "--url", "http://127.0.0.1:9"], 1, "is the server running"),
        (&["solve", "1+1", "--url", "localhost"], 1, "write it like http://localhost:8000"),
        (&["solve", "1+1", "--streams", "4"], 2, "--streams is about a server: name it with --url"),
        (&["remote", "check"], 2, "name the server with --url"),
    ];
    for (args, code, sentence) in cases {
        let begun = Instant::now();
        let output = crate::eager(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(sentence), "{args:?}: {}", said(&output));
        assert!(begun.elapsed() < Duration::from_secs(5), "{args:?}");
    }
}
