//! What a request says about single tokens is done, or refused by name.

use eager_core::{Token, TokenRules};
use eager_native::load::Checkpoint;
use eager_serve::{Defaults, Limits, Options};
use serde_json::{Value, json};

use crate::service::{EASY, HARD, Service, chat, contents};

/// The token of a character.
fn token(text: &str) -> Token {
    let checkpoint = Checkpoint::from_gguf_bytes(eager_acorn::GGUF).unwrap();
    let tokens = checkpoint.tokenizer.encode(text).unwrap();
    assert_eq!(tokens.len(), 1, "{text}");
    tokens[0]
}

/// Asks for one greedy sequence.
async fn greedy(service: &Service, more: Value) -> Value {
    let mut body = chat(EASY, json!({"temperature": 0, "eager": {}}));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service.ask("/v1/chat/completions", &body).await
}

fn decoded(answer: &Value) -> u64 {
    answer["usage"]["completion_tokens"].as_u64().unwrap()
}

async fn param(service: &Service, more: Value) -> (u16, Value, String) {
    let response = service.post("/v1/chat/completions", &chat(EASY, more)).await;
    let (status, answer): (_, Value) = (response.status().as_u16(), response.json().await.unwrap());
    let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    (status, answer["error"]["param"].clone(), message)
}

#[tokio::test]
async fn with_one_token_to_choose_from_all_seeds_agree() {
    let service = Service::start();
    let texts = async |more: Value| {
        let mut texts = Vec::new();
        for seed in 0..6 {
            let mut body = chat(HARD, json!({"temperature": 1.5, "seed": seed, "max_tokens": 30}));
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            texts.push(contents(&service.ask("/v1/chat/completions", &body).await)[0].to_owned());
        }
        texts.sort();
        texts.dedup();
        texts.len()
    };
    assert_eq!(texts(json!({"top_k": 1})).await, 1);
    assert_eq!(texts(json!({"min_p": 1.0})).await, 1);
    assert!(texts(json!({"top_k": -1, "min_p": 0, "top_p": 1})).await > 1);
}

#[tokio::test]
async fn biases_forbid_and_force() {
    let service = Service::start();
    let plain = greedy(&service, json!({})).await;
    assert!(contents(&plain)[0].contains('='));
    let never =
        greedy(&service, json!({"logit_bias": {token("=").to_string(): -100}, "max_tokens": 60})).await;
    assert!(!contents(&never)[0].contains('='), "{}", contents(&never)[0]);
    let forced = json!({"logit_bias": {token("7").to_string(): 100}, "max_tokens": 5, "logprobs": true});
    let always = greedy(&service, forced).await;
    assert_eq!(contents(&always)[0], "77777");
    // Entropy and log-probabilities are those after the bias.
    assert!(always["eager"]["choices"][0]["entropy"]["max"].as_f64().unwrap() < 1e-3);
    assert!(always["choices"][0]["logprobs"]["content"][0]["logprob"].as_f64().unwrap() > -1e-3);
}

#[tokio::test]
async fn penalties_make_repetition_rarer() {
    let service = Service::start();
    // Acorn repeats itself for as long as it may.
    let seven = token("7").to_string();
    let distinct = async |more: Value| {
        let mut body = json!({"logit_bias": {seven.clone(): 30}, "max_tokens": 12});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = greedy(&service, body).await;
        contents(&answer)[0].matches('7').count()
    };
    assert_eq!(distinct(json!({})).await, 12);
    for penalty in [
        json!({"frequency_penalty": 2.0, "logit_bias": {seven.clone(): 20}}),
        json!({"repetition_penalty": 20.0}),
        json!({"presence_penalty": 2.0, "logit_bias": {seven.clone(): 0}}),
    ] {
        assert!(distinct(penalty.clone()).await < 12, "{penalty}");
    }
}

#[tokio::test]
async fn sequences_end_where_the_request_says() {
    let service = Service::start();
    let plain = greedy(&service, json!({})).await;
    let (tokens, text) = (decoded(&plain), contents(&plain)[0].to_owned());
    assert_eq!(plain["choices"][0]["finish_reason"], "stop");

    let longer = greedy(&service, json!({"min_tokens": tokens + 20})).await;
    assert!(decoded(&longer) >= tokens + 20, "{} of {}", decoded(&longer), tokens + 20);
    assert!(contents(&longer)[0].starts_with(&text));

    let on = greedy(&service, json!({"ignore_eos": true, "max_tokens": tokens + 10})).await;
    assert_eq!((decoded(&on), &on["choices"][0]["finish_reason"]), (tokens + 10, &json!("length")));
    assert!(contents(&on)[0].starts_with(&text));

    let end = json!({"stop_token_ids": [token("=")]});
    let short = greedy(&service, end.clone()).await;
    let before = &text[..text.find('=').unwrap()];
    assert_eq!((contents(&short)[0], &short["choices"][0]["finish_reason"]), (before, &json!("stop")));
    // A stream says the same.
    let mut body = chat(EASY, json!({"temperature": 0, "stream": true}));
    body.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
    let streamed: String = service
        .events("/v1/chat/completions", &body)
        .await
        .iter()
        .filter_map(|(_, data)| data["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(streamed, before);

    // Neither a token nor a stop string ends it before its time.
    let late = greedy(&service, json!({"stop": "=", "min_tokens": before.len() + 10})).await;
    assert!(contents(&late)[0].len() > before.len());
    let late = greedy(&service, json!({"stop_token_ids": [token("=")], "min_tokens": 20})).await;
    assert!(decoded(&late) >= 20);
}

/// The token that ends a sequence is no part of its answer, as it is none of its text.
#[tokio::test]
async fn answers_are_read_from_what_is_sent() {
    let service = Service::start();
    // 310 is ")}".
    let more = json!({"temperature": 0, "stop_token_ids": [310], "eager": {"answer": "66"}});
    let body = chat("Using each of 13, 22, 10 exactly once, make 66.", more);
    let answer = service.ask("/v1/chat/completions", &body).await;
    assert!(contents(&answer)[0].ends_with("\\boxed{22*(13-10"), "{answer}");
    let events = service.events("/eager/grow", &body).await;
    let (_, grown) = events.iter().find(|(name, _)| name == "finish").unwrap();
    let told = &answer["eager"]["choices"][0];
    assert_eq!((&told["answer"], &told["correct"]), (&grown["answer"], &grown["correct"]));
    assert_eq!(told["correct"], false);
}

/// A server's own least is not the client's mistake.
#[tokio::test]
async fn the_servers_least_gives_way_to_what_a_request_allows() {
    let rules = TokenRules { min_tokens: 100, ..TokenRules::default() };
    let service =
        Service::with(Options { defaults: Defaults { rules, ..Defaults::default() }, ..Options::default() });
    assert_eq!(decoded(&greedy(&service, json!({"max_tokens": 50})).await), 50);
    assert!(decoded(&greedy(&service, json!({})).await) >= 100);
    let (status, param, _) = param(&service, json!({"max_tokens": 50, "min_tokens": 60})).await;
    assert_eq!((status, param), (400, json!("min_tokens")));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_name() {
    let service = Service::start();
    for (name, value) in [
        ("top_k", json!(-2)),
        ("min_p", json!(1.5)),
        ("repetition_penalty", json!(0)),
        ("presence_penalty", json!(2.5)),
        ("frequency_penalty", json!(-3)),
        ("logit_bias", json!([[1, 2]])),
        ("logit_bias", json!({"x": 1})),
        ("logit_bias", json!({"1": 101})),
        ("logit_bias", json!({"100000": 1})),
        ("min_tokens", json!(-1)),
        ("min_tokens", json!(5000)),
        ("stop_token_ids", json!([-1])),
        ("stop_token_ids", json!([100_000])),
        ("guided_json", json!({"type": "object"})),
        ("tool_choice", json!("required")),
        ("mirostat", json!(2)),
        ("prompt_logprobs", json!(1)),
        ("return_token_ids", json!(true)),
        ("continue_final_message", json!(true)),
    ] {
        let (status, param, message) = param(&service, json!({ name: value, "max_tokens": 100 })).await;
        assert_eq!((status, param), (400, json!(name)), "{name} = {value}: {message}");
        assert!(message.contains(name), "{message}");
    }
    // What belongs to a turn, or to the other API, is not dropped either.
    let turn = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]});
    let (status, name, _) = param(&service, json!({"messages": [turn]})).await;
    assert_eq!((status, name), (400, json!("messages.tool_calls")));
    let (status, name, _) = param(&service, json!({"prompt": "1+1="})).await;
    assert_eq!((status, name), (400, json!("prompt")));
    let body = json!({"prompt": "1+1=", "reasoning_effort": "low"});
    let answer: Value = service.post("/v1/completions", &body).await.json().await.unwrap();
    assert_eq!(answer["error"]["param"], "reasoning_effort");
    // An engine that cannot follow a rule says why.
    let limits = Limits { refused: vec![("min_tokens", "it cannot wait")], ..Limits::default() };
    let service = Service::with(Options { limits, ..Options::default() });
    let (status, param, message) = param(&service, json!({"min_tokens": 3})).await;
    assert_eq!(
        (status, param, message.as_str()),
        (400, json!("min_tokens"), "min_tokens: it cannot wait; leave it out")
    );
    greedy(&service, json!({"min_tokens": 0, "max_tokens": 2})).await;
}

#[tokio::test]
async fn what_nobody_knows_is_named_in_a_header() {
    let service = Service::start();
    let quiet = json!({"max_tokens": 2, "user": "me", "store": true, "tool_choice": "auto", "top_k": null, "tools": []});
    let known = service.post("/v1/chat/completions", &chat(EASY, quiet)).await;
    assert_eq!((known.status(), known.headers().get("x-eager-ignored")), (reqwest::StatusCode::OK, None));
    for (path, stream) in
        [("/v1/chat/completions", false), ("/v1/chat/completions", true), ("/eager/grow", true)]
    {
        let mut body = chat(EASY, json!({"max_tokens": 2, "stream": stream, "tempature": 0, "caf\u{e9}": 1}));
        body["messages"][0]["mood"] = "good".into();
        let response = service.post(path, &body).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-eager-ignored"], "caf?, messages.mood, tempature", "{path}");
    }
}
