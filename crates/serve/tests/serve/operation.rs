//! Who may ask, how much, and who comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eager_core::{Engine, Forest};
use eager_native::{EngineError, NativeEngine};
use eager_serve::{Defaults, Keys, Limits, Model, Options};
use serde_json::{Value, json};

use crate::service::{EASY, HARD, Service, acorn, chat, contents};

/// SHA-256 of "alpha" and of "beta".
const KEYS: &str = "
alice 8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8  n=4 requests=1
bob   f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753  tokens-per-minute=30
";

#[tokio::test]
async fn keys_open_the_door_and_limit_what_is_taken() {
    let keys = Keys::parse(KEYS, "keys").unwrap();
    let service = Service::with(Options { keys: Some(keys), ..Options::default() });
    let ask = |key: &str, more: Value| {
        let request = service.client.post(service.url("/v1/chat/completions")).json(&chat(HARD, more));
        request.bearer_auth(key).send()
    };
    assert_eq!(service.get("/healthz").await.status(), 200, "health needs no key");
    for path in ["/v1/models", "/metrics", "/eager/runs"] {
        assert_eq!(service.get(path).await.status(), 401, "{path}");
    }
    for key in ["", "gamma", "alphaa"] {
        let refused = ask(key, json!({})).await.unwrap();
        assert_eq!(refused.status(), 401);
        assert_eq!(refused.json::<Value>().await.unwrap()["error"]["code"], "invalid_api_key");
    }
    let short = json!({"max_tokens": 5});
    assert_eq!(ask("alpha", short.clone()).await.unwrap().status(), 200);
    assert_eq!(ask("alpha", json!({"n": 5})).await.unwrap().status(), 400, "alice has n=4");
    let (one, two) = tokio::join!(ask("alpha", json!({"n": 4})), ask("alpha", json!({"n": 4})));
    let mut both = [one.unwrap().status(), two.unwrap().status()];
    both.sort();
    assert_eq!(both.map(|status| status.as_u16()), [200, 429], "alice has one request at a time");
    assert_eq!(ask("beta", json!({"max_tokens": 60})).await.unwrap().status(), 200);
    let spent = ask("beta", short).await.unwrap();
    assert_eq!(spent.status(), 429, "bob has used up his minute");
    let seconds: u64 = spent.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=120).contains(&seconds), "{seconds}");
}

/// What a browser asks and looks for before it lets a page of another origin read an answer.
#[tokio::test]
async fn pages_of_named_origins_may_ask() {
    const APP: &str = "https://app.example.org";
    let keys = Keys::parse(KEYS, "keys").unwrap();
    let limits = Limits { body: 4096, ..Limits::default() };
    let cors = vec![APP.parse().unwrap(), "http://localhost:3000".parse().unwrap()];
    let service = Service::with(Options { keys: Some(keys), cors, limits, ..Options::default() });
    let allowed = |response: &reqwest::Response| {
        response
            .headers()
            .get("access-control-allow-origin")
            .map(|origin| origin.to_str().unwrap().to_owned())
    };
    let url = service.url("/v1/chat/completions");
    let preflight = |origin: &'static str| {
        let request = service.client.request(reqwest::Method::OPTIONS, &url).header("origin", origin);
        let headers = "authorization,content-type,x-stainless-os";
        request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", headers)
            .send()
    };
    let answer = preflight(APP).await.unwrap();
    assert_eq!((answer.status().as_u16(), allowed(&answer).as_deref()), (204, Some(APP)), "no key needed");
    assert_eq!(answer.headers()["access-control-allow-headers"], "authorization,content-type,x-stainless-os");
    assert!(answer.headers()["access-control-allow-methods"].to_str().unwrap().contains("POST"));
    assert_eq!(answer.headers()["vary"], "origin");
    let stranger = preflight("https://evil.example.org").await.unwrap();
    assert_eq!((stranger.status().as_u16(), allowed(&stranger)), (405, None));

    // Answers, streams, and errors of all kinds.
    let long = "7".repeat(5000);
    for (key, more, status) in [
        ("alpha", json!({"max_tokens": 2}), 200),
        ("alpha", json!({"max_tokens": 2, "stream": true}), 200),
        ("alpha", json!({"temperature": 9}), 400),
        ("gamma", json!({}), 401),
        ("alpha", json!({"user": long}), 413),
    ] {
        let request = service.client.post(&url).header("origin", APP).bearer_auth(key);
        let answer = request.json(&chat(EASY, more.clone())).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), allowed(&answer).as_deref()), (status, Some(APP)), "{more}");
        let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
        assert!(exposed.contains("x-eager-ignored"));
        let stream = answer.headers()["content-type"] == "text/event-stream";
        assert_eq!(stream, more["stream"] == true);
        answer.text().await.unwrap();
    }
    // Without an origin there is nobody to be told.
    let plain = service.get("/healthz").await;
    assert_eq!((plain.status().as_u16(), allowed(&plain)), (200, None));
    // Nobody is allowed by default.
    let service = Service::start();
    let request = service.client.get(service.url("/healthz")).header("origin", APP);
    assert_eq!(allowed(&request.send().await.unwrap()), None);
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let limits = Limits { queue: 2, ..Limits::default() };
    let service = Service::with(Options { width: 8, limits, ..Options::default() });
    let long = chat(HARD, json!({"n": 8, "eager": {"method": "full-parallel"}}));
    let ask = || {
        let request = service.client.post(service.url("/v1/chat/completions")).json(&long);
        tokio::spawn(request.send())
    };
    let growing = ask();
    service.until("eager_prompts_growing", |growing| growing == 1).await;
    let waiting = [ask(), ask()];
    service.until("eager_prompts_waiting", |waiting| waiting == 2).await;
    let refused = ask().await.unwrap().unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["type"], "rate_limit_error");
    for answered in [growing].into_iter().chain(waiting) {
        assert_eq!(answered.await.unwrap().unwrap().status(), 200, "those who waited are served");
    }
}

#[tokio::test]
async fn one_small_question_does_not_wait_for_sixty_four_sequences() {
    let service = Service::start();
    let small = chat(EASY, json!({"max_tokens": 10}));
    service.ask("/v1/chat/completions", &small).await;
    // Nine requests of sixty-four, three times what the engine decodes at a time, from clients of their own.
    let large = chat(HARD, json!({"n": 64, "max_tokens": 60, "eager": {"method": "full-parallel"}}));
    let begun = Instant::now();
    let crowd: Vec<_> = (0..9)
        .map(|_| tokio::spawn(service.client.post(service.url("/v1/chat/completions")).json(&large).send()))
        .collect();
    service.until("eager_prompts_waiting", |waiting| waiting > 4).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let begun = Instant::now();
        service.ask("/v1/chat/completions", &small).await;
        slowest = slowest.max(begun.elapsed());
    }
    assert!(service.metric("eager_prompts_waiting").await > 0, "the crowd must still be waiting");
    for answered in crowd {
        assert_eq!(answered.await.unwrap().unwrap().status(), 200);
    }
    let all = begun.elapsed();
    println!("slowest small request {slowest:?}, the crowd {all:?}");
    assert!(slowest < all / 4, "a small request took {slowest:?} of {all:?}");
}

#[tokio::test]
async fn only_requests_for_this_machine_are_answered() {
    let service = Service::start();
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ] {
        let response =
            service.client.get(service.url("/v1/models")).header("host", host).send().await.unwrap();
        assert_eq!(response.status(), status, "{host}");
    }
    let body = chat(EASY, json!({"max_tokens": 1})).to_string();
    let plain = service.client.post(service.url("/v1/chat/completions")).header("content-type", "text/plain");
    assert_eq!(plain.body(body).send().await.unwrap().status(), 415, "what a foreign page may send unasked");
}

/// An engine that decodes nothing until it is let go.
struct Held(NativeEngine, Arc<AtomicBool>);

impl Engine for Held {
    type Error = EngineError;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), EngineError> {
        while !self.1.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.0.grow(forest)
    }
}

/// Nobody has calibrated the model: it gets a theta before anybody is answered, and so the same one whoever asks first.
#[tokio::test]
async fn a_server_finds_theta_before_it_is_ready() {
    let mut seen = Vec::new();
    for first in [EASY, "Tell me a joke."] {
        let (engine, model) = acorn();
        let go = Arc::new(AtomicBool::new(false));
        let model = Model { finds_theta: true, ..model };
        let service = Service::of((Held(engine, Arc::clone(&go)), model), Options::default());
        let health = service.get("/healthz").await;
        assert_eq!((health.status().as_u16(), health.text().await.unwrap().trim()), (503, "finding theta"));
        assert_eq!(service.get("/readyz").await.status(), 503);
        let refused = service.post("/v1/chat/completions", &chat(HARD, json!({}))).await;
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().contains_key("retry-after"));
        let models: Value = service.get("/v1/models").await.json().await.unwrap();
        assert!(models["data"][0]["eager"]["theta"].is_null(), "{models}");
        go.store(true, Ordering::Relaxed);
        while service.get("/healthz").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert_eq!(service.get("/readyz").await.status(), 200);
        let models: Value = service.get("/v1/models").await.json().await.unwrap();
        let eager = &models["data"][0]["eager"];
        assert_eq!(
            (&eager["theta"], &eager["found_theta"]["samples"]),
            (&eager["found_theta"]["theta"], &json!(10))
        );
        assert!((1..=10 * 512).contains(&eager["found_theta"]["tokens"].as_u64().unwrap()), "{eager}");
        service.ask("/v1/chat/completions", &chat(first, json!({"max_tokens": 20}))).await;
        let answer = service.chat(json!({"n": 4, "max_tokens": 100})).await;
        let told = json!({"n": 4, "max_tokens": 100, "eager": {"theta": eager["theta"]}});
        assert_eq!(contents(&service.chat(told).await), contents(&answer), "it is the theta that is used");
        seen.push((eager["theta"].clone(), answer["choices"].clone()));
    }
    assert_eq!(seen[0], seen[1], "the same seed gives the same answer whoever asked before");
}

/// Theta is found where it will be used: after the system message that conversations begin with.
#[tokio::test]
async fn theta_is_found_in_the_mode_that_is_served() {
    let mut found = Vec::new();
    for system in [None, Some("Using each of 5, 8, 30, 43, 28 exactly once, make 68.".to_owned())] {
        let (engine, model) = acorn();
        let defaults = Defaults { system, ..Defaults::default() };
        let options = Options { defaults, ..Options::default() };
        let service = Service::of((engine, Model { finds_theta: true, ..model }), options);
        while service.get("/healthz").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let models: Value = service.get("/v1/models").await.json().await.unwrap();
        found.push(models["data"][0]["eager"]["found_theta"].clone());
    }
    assert!(found[0]["tokens"].is_u64() && found[0] != found[1], "{found:?}");
}
