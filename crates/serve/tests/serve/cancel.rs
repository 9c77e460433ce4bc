//! Nobody decodes for somebody who has gone.

use std::time::{Duration, Instant};

use eager_serve::{Limits, Options};
use serde_json::{Value, json};

use crate::service::{HARD, Service, chat};

fn long() -> Value {
    chat(HARD, json!({"n": 64, "temperature": 1.5, "eager": {"method": "full-parallel"}}))
}

/// Everything as it was before anybody asked.
async fn is_idle(service: &Service) {
    for gauge in ["eager_prompts_growing", "eager_prompts_waiting", "eager_sequences_live", "eager_kv_pages"]
    {
        service.until(gauge, |value| value == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_is_forgotten_within_a_step() {
    let service = Service::start();
    for stream in [false, true] {
        let mut body = long();
        body["stream"] = json!(stream);
        let before = service.metric("eager_tokens_decoded_total").await;
        let asking = service.client.post(service.url("/v1/chat/completions")).json(&body);
        let asking = tokio::spawn(async move {
            let mut response = asking.send().await.unwrap();
            while response.chunk().await.unwrap().is_some() {}
        });
        service.until("eager_tokens_decoded_total", |decoded| decoded > before + 200).await;
        asking.abort();
        is_idle(&service).await;
        let decoded = service.metric("eager_tokens_decoded_total").await - before;
        // To the end it would take 64 times hundreds of tokens.
        assert!(decoded < 10_000, "{decoded} tokens for nobody");
    }
}

#[tokio::test]
async fn one_that_only_waits_is_forgotten_at_once() {
    let service = Service::with(Options { width: 64, ..Options::default() });
    let first = service.client.post(service.url("/v1/chat/completions")).json(&long());
    let first = tokio::spawn(first.send());
    service.until("eager_prompts_growing", |growing| growing == 1).await;
    let second = service.client.post(service.url("/v1/chat/completions")).json(&long());
    let second = tokio::spawn(second.send());
    service.until("eager_prompts_waiting", |waiting| waiting == 1).await;
    second.abort();
    service.until("eager_prompts_waiting", |waiting| waiting == 0).await;
    first.abort();
    is_idle(&service).await;
}

#[tokio::test]
async fn a_request_whose_time_is_up_gets_what_there_is() {
    let limits = Limits { time: Duration::from_millis(400), ..Limits::default() };
    let service = Service::with(Options { limits, ..Options::default() });
    let begun = Instant::now();
    let answer = service.ask("/v1/chat/completions", &long()).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(answer["eager"]["cut"], "time");
    assert_eq!(answer["choices"].as_array().unwrap().len(), 64);
    let cut = |choice: &&Value| choice["finish"] == "cut";
    assert!(answer["eager"]["choices"].as_array().unwrap().iter().any(|choice| cut(&choice)));
    let mut body = long();
    body["stream"] = json!(true);
    let events = service.events("/v1/chat/completions", &body).await;
    let ends = events.iter().filter(|(_, chunk)| chunk["choices"][0]["finish_reason"].is_string()).count();
    assert_eq!(ends, 64, "every choice ends");
    is_idle(&service).await;
}

#[tokio::test]
async fn a_server_that_stops_returns_what_is_there() {
    let limits = Limits { grace: Duration::from_millis(300), ..Limits::default() };
    let mut service = Service::with(Options { limits, ..Options::default() });
    let asking = service.client.post(service.url("/v1/chat/completions")).json(&long());
    let asking = tokio::spawn(async move { asking.send().await.unwrap().json::<Value>().await.unwrap() });
    service.until("eager_tokens_decoded_total", |decoded| decoded > 100).await;
    let begun = Instant::now();
    let stopped = service.stop();
    let answer = asking.await.unwrap();
    assert_eq!(answer["eager"]["cut"], "shutdown", "{answer}");
    assert!(answer["usage"]["completion_tokens"].as_u64() > Some(100));
    stopped.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(service.client.get(service.url("/healthz")).send().await.is_err(), "it is gone");
}
