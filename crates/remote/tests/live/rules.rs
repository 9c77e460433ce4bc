//! Penalties and biases of the embedded engine beside llama.cpp's, which nobody here wrote.
//!
//! The server is asked for the distribution after its samplers at every position of what the embedded engine has decoded.

use std::sync::Arc;

use eager_core::{Method, Prompt, Sampling, Settings, Token, TokenRules};
use eager_native::load::Checkpoint;
use serde_json::{Value, json};

use crate::agreement::{embedded, grow, plan};
use crate::server::{Live, acorn};

/// As in `llama_server.rs`.
const ROUNDING: f32 = 0.1;

/// Log-probabilities of the likeliest next tokens after the server's samplers.
fn after_samplers(url: &str, tokens: &[Token], more: &Value) -> Vec<(Token, f32)> {
    let mut body = json!({"prompt": tokens, "n_predict": 1, "n_probs": 20, "post_sampling_probs": true,
        "temperature": 1.0, "samplers": ["penalties", "temperature"], "seed": 1});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer: Value = runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{url}/completion")).body(body.to_string());
        let answer = request.header("content-type", "application/json").send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    });
    let top = answer["completion_probabilities"][0]["top_probs"].as_array().cloned().unwrap_or_default();
    let one = |c: &Value| (c["id"].as_u64().unwrap() as Token, c["prob"].as_f64().unwrap().ln() as f32);
    top.iter().map(one).collect()
}

#[test]
fn penalties_and_biases_are_llama_cpps() {
    let file = acorn("acorn-q8_0.gguf");
    let Some(live) = Live::llama_server(&file, 1) else { return };
    let checkpoint = Checkpoint::open(&file).unwrap();
    let tokens = |text: &str| checkpoint.tokenizer.encode(text).unwrap();
    let question = tokens(
        "<|im_start|>user\nUsing each of 5, 8, 30 exactly once, make 35.<|im_end|>\n<|im_start|>assistant\n",
    );
    let (five, equals) = (tokens("5")[0], tokens("=")[0]);
    let none = TokenRules::default;
    let cases = [
        (TokenRules { repetition_penalty: 1.3, ..none() }, json!({"repeat_penalty": 1.3})),
        (TokenRules { repetition_penalty: 0.8, ..none() }, json!({"repeat_penalty": 0.8})),
        (
            TokenRules { presence_penalty: 0.9, frequency_penalty: 0.4, ..none() },
            json!({"presence_penalty": 0.9, "frequency_penalty": 0.4}),
        ),
        (
            TokenRules { logit_bias: vec![(five, 2.5), (equals, -4.0)], repetition_penalty: 1.1, ..none() },
            json!({"logit_bias": [[five, 2.5], [equals, -4.0]], "repeat_penalty": 1.1}),
        ),
    ];
    for (rules, theirs) in cases {
        // The server counts as many of the last tokens as it is told: all for what the prompt is part of, and else the path.
        let whole = rules.repetition_penalty != 1.0;
        let window = |path: usize| if whole { 1024 } else { path };
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let settings = Arc::new(Settings { sampling, rules, max_tokens: 30, ..Settings::default() });
        let prompts = [Prompt {
            tokens: question.as_slice().into(),
            settings: settings.clone(),
            key: 0,
            answers: None,
        }];
        let tree = grow(&mut embedded(&checkpoint), Method::FullParallel, &plan(1), &prompts).remove(0);
        let sequence = &tree.sequences()[0];
        let (mut compared, mut changed) = (0, 0.0f32);
        for (at, (token, logprob)) in sequence.tokens.iter().zip(&sequence.logprobs).enumerate() {
            let path = [question.as_slice(), &sequence.tokens[..at]].concat();
            let find = |more: &Value| {
                let mut more = more.clone();
                more["repeat_last_n"] = window(at).into();
                let top = after_samplers(&live.url, &path, &more);
                top.iter().find(|(id, _)| id == token).map(|(_, logprob)| *logprob)
            };
            // The server is silent within a character.
            let Some(said) = find(&theirs) else { continue };
            assert!((said - logprob).abs() < ROUNDING, "{theirs}, token {at}: {logprob} here, {said} there");
            compared += 1;
            changed = changed.max(find(&json!({})).map_or(f32::MAX, |plain| (plain - said).abs()));
        }
        eprintln!(
            "{theirs}: {compared} of {} tokens agree; the rules change up to {changed}",
            sequence.len()
        );
        assert!(compared > 20 && changed > 3.0 * ROUNDING, "{theirs}");
    }
}
