//! Answers as they grow: every stream adds up to the answer in one piece.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::service::{HARD, Service, chat, contents};

/// The text and the end of every choice, put together from chunks, and who forked from whom where.
#[derive(Debug, Default)]
struct Heard {
    text: BTreeMap<u64, String>,
    reason: BTreeMap<u64, String>,
    fork: BTreeMap<u64, (u64, u64)>,
    logprobs: BTreeMap<u64, Vec<Value>>,
    usage: Option<Value>,
    eager: Option<Value>,
    /// The indices in the order in which they were heard.
    order: Vec<u64>,
}

fn hear(events: &[(String, Value)]) -> Heard {
    let mut heard = Heard::default();
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(last.1, json!("[DONE]"));
    for (_, chunk) in chunks {
        assert!(chunk.get("error").is_none(), "{chunk}");
        for choice in chunk["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap();
            let piece = choice["text"].as_str().or(choice["delta"]["content"].as_str()).unwrap_or_default();
            assert!(!heard.reason.contains_key(&index), "nothing comes after the end");
            heard.order.push(index);
            if let Some(fork) = choice.get("eager") {
                assert!(!heard.text.contains_key(&index), "a fork is announced with its first chunk");
                let number = |key: &str| fork[key].as_u64().unwrap();
                heard.fork.insert(index, (number("parent"), number("fork_at")));
            }
            heard.text.entry(index).or_default().push_str(piece);
            if let Some(content) = choice["logprobs"]["content"].as_array() {
                heard.logprobs.entry(index).or_default().extend(content.iter().cloned());
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                heard.reason.insert(index, reason.to_owned());
            }
        }
        heard.usage = heard.usage.or_else(|| chunk.get("usage").cloned());
        heard.eager = heard.eager.or_else(|| chunk.get("eager").cloned());
    }
    heard
}

#[tokio::test]
async fn a_stream_adds_up_to_the_whole_answer() {
    let service = Service::start();
    let cases = [
        json!({"n": 1}),
        json!({"n": 8, "eager": {}}),
        json!({"n": 8, "stop": ["\n4", "30"], "eager": {}}),
        json!({"n": 6, "eager": {"method": "full-parallel"}}),
        json!({"n": 8, "eager": {"method": "eager-adapt", "theta": 0.6}}),
        json!({"n": 4, "logprobs": true, "top_logprobs": 2, "eager": {}}),
        json!({"n": 4, "eager": {"vote": "majority"}}),
        json!({"n": 8, "max_tokens": 20, "eager": {}}),
    ];
    for case in cases {
        let whole = service.chat(case.clone()).await;
        let mut body = chat(HARD, case.clone());
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        let heard = hear(&service.events("/v1/chat/completions", &body).await);
        let texts: Vec<&str> = heard.text.values().map(String::as_str).collect();
        assert_eq!(texts, contents(&whole), "{case}");
        assert_eq!(heard.usage.as_ref(), Some(&whole["usage"]), "{case}");
        for (choice, reason) in whole["choices"].as_array().unwrap().iter().zip(heard.reason.values()) {
            assert_eq!(choice["finish_reason"], *reason, "{case}");
        }
        if case.get("eager").is_some() {
            assert_eq!(heard.eager.as_ref(), Some(&whole["eager"]), "{case}");
        }
        if case.get("logprobs").is_some() {
            for (choice, logprobs) in whole["choices"].as_array().unwrap().iter().zip(heard.logprobs.values())
            {
                assert_eq!(choice["logprobs"]["content"], json!(logprobs));
            }
        }
        for (index, fork) in &heard.fork {
            let told = &whole["eager"]["choices"][*index as usize];
            assert_eq!((told["parent"].as_u64(), told["fork_at"].as_u64()), (Some(fork.0), Some(fork.1)));
        }
    }
}

#[tokio::test]
async fn choices_interleave() {
    let service = Service::start();
    let body = chat(HARD, json!({"n": 4, "stream": true, "eager": {"method": "full-parallel"}}));
    let heard = hear(&service.events("/v1/chat/completions", &body).await);
    let first_end = heard.order.iter().rposition(|&index| index == 0).unwrap();
    let others = heard.order[..first_end].iter().filter(|&&index| index != 0).count();
    assert!(others > 20, "only {others} chunks of others before the first was done");
}

#[tokio::test]
async fn completions_stream_too() {
    let service = Service::start();
    let mut body = json!({"prompt": ["1+1=", "2+2="], "n": 2, "max_tokens": 12, "seed": 3});
    let whole = service.ask("/v1/completions", &body).await;
    body["stream"] = json!(true);
    let heard = hear(&service.events("/v1/completions", &body).await);
    let expected: BTreeMap<u64, String> = whole["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["index"].as_u64().unwrap(), c["text"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(heard.text, expected);
}
