//! A server to ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use eager_core::{Engine, Profile};
use eager_native::load::{Checkpoint, Words};
use eager_native::{Isa, Model as Weights, NativeEngine, Options as EngineOptions};
use eager_serve::{Model, Options, Server};
use reqwest::{Client, Response};
use serde_json::{Value, json};

/// A problem that acorn finds hard enough to fork.
pub const HARD: &str = "Using each of 5, 8, 30, 43, 28 exactly once, make 68.";
pub const EASY: &str = "What is 888 * 27 + 271?";

static WEIGHTS: OnceLock<Arc<Weights>> = OnceLock::new();

/// acorn's engine and what the server knows of it.
pub fn acorn() -> (NativeEngine, Model) {
    acorn_saying(|_| {})
}

/// The same, with words that are not quite acorn's.
pub fn acorn_saying(change: impl FnOnce(&mut Words)) -> (NativeEngine, Model) {
    let checkpoint = Checkpoint::from_gguf_bytes(eager_acorn::GGUF).unwrap();
    let load = || Arc::new(Weights::load(&checkpoint, Isa::detect()).unwrap());
    let weights = Arc::clone(WEIGHTS.get_or_init(load));
    let engine =
        NativeEngine::new(weights, EngineOptions { threads: 2, ..EngineOptions::default() }).unwrap();
    let (context, vocab) = (checkpoint.config.context, checkpoint.config.vocab);
    let mut words = checkpoint.into();
    change(&mut words);
    let model = Model::new(words, Profile::of("acorn"), context, vocab).unwrap();
    (engine, Model { notice: Some(eager_acorn::notice), ..model })
}

/// A running server, stopped when it is dropped.
pub struct Service {
    server: Option<Server>,
    pub address: SocketAddr,
    pub client: Client,
}

impl Service {
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::of(acorn(), options)
    }

    pub fn of<E: Engine + Send + 'static>((engine, model): (E, Model), options: Options) -> Self {
        let options = Options { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..options };
        // The server has a runtime of its own, and must not be started from within a test's.
        let server =
            std::thread::spawn(move || Server::start(engine, model, options)).join().unwrap().unwrap();
        let address = server.address();
        Service { server: Some(server), address, client: client() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.client.post(self.url(path)).json(body).send().await.unwrap()
    }

    /// The answer to a request that must succeed.
    pub async fn ask(&self, path: &str, body: &Value) -> Value {
        let response = self.post(path, body).await;
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub async fn chat(&self, more: Value) -> Value {
        self.ask("/v1/chat/completions", &chat(HARD, more)).await
    }

    /// The events of a stream that must succeed: names, which OpenAI's do not have, and data.
    pub async fn events(&self, path: &str, body: &Value) -> Vec<(String, Value)> {
        let response = self.post(path, body).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        events(&response.text().await.unwrap())
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    /// One of the server's own numbers.
    pub async fn metric(&self, name: &str) -> usize {
        let text = self.get("/metrics").await.text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until one of the server's numbers is as it should be.
    pub async fn until(&self, name: &str, holds: impl Fn(usize) -> bool) {
        for _ in 0..400 {
            if holds(self.metric(name).await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{name} is {}", self.metric(name).await);
    }

    /// Has the server stop, as a signal would; done when it has.
    pub fn stop(&mut self) -> std::thread::JoinHandle<()> {
        let server = self.server.take().unwrap();
        std::thread::spawn(move || server.stop().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            std::thread::spawn(move || server.stop()).join().unwrap().unwrap();
        }
    }
}

fn client() -> Client {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder().no_proxy().build().unwrap()
}

/// A chat's body: a question and whatever else.
pub fn chat(question: &str, more: Value) -> Value {
    let mut body = json!({"model": "acorn", "messages": [{"role": "user", "content": question}], "seed": 7});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// Server-sent events in a text.
pub fn events(text: &str) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    for event in text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':')) {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let data = field("data: ");
        let data = if data == "[DONE]" { json!("[DONE]") } else { serde_json::from_str(data).unwrap() };
        events.push((field("event: ").to_owned(), data));
    }
    events
}

pub fn contents(answer: &Value) -> Vec<&str> {
    let choices = answer["choices"].as_array().unwrap();
    choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap()).collect()
}
