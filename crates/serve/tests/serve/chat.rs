//! Answers in one piece.

use eager_native::load::{ChatOptions, ChatTemplate};
use eager_serve::{Defaults, Options};
use serde_json::{Value, json};

use crate::service::{EASY, HARD, Service, acorn_saying, chat, contents, events};

#[tokio::test]
async fn a_plain_request_gets_what_an_openai_client_expects() {
    let service = Service::start();
    let answer = service.ask("/v1/chat/completions", &chat(EASY, json!({"temperature": 0}))).await;
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"].as_array().unwrap().len(), 1);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    let content = contents(&answer)[0];
    assert!(content.starts_with("<think>") && content.ends_with("\\boxed{24247}"), "{content}");
    let usage = &answer["usage"];
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);
    assert!(answer.get("eager").is_none(), "nobody asked for it");
}

#[tokio::test]
async fn n_is_the_cap_and_the_eager_object_says_what_was_saved() {
    let service = Service::start();
    let answer = service.chat(json!({"n": 8, "eager": {}})).await;
    let told = &answer["eager"];
    let choices = answer["choices"].as_array().unwrap();
    assert!((2..=8).contains(&choices.len()), "{} sequences", choices.len());
    assert_eq!(told["sequences"], choices.len());
    assert_eq!(told["forks"], choices.len() - 1, "every sequence but the first is a fork");
    assert_eq!(told["method"], "eager-init");
    assert_eq!(told["tokens_decoded"], answer["usage"]["completion_tokens"]);
    let (mut apart, mut own) = (0, 0);
    for (at, choice) in told["choices"].as_array().unwrap().iter().enumerate() {
        let number = |key: &str| choice[key].as_u64().unwrap();
        assert_eq!(choice["index"], at);
        assert_eq!(choice["parent"].is_null(), at == 0);
        apart += number("tokens");
        own += number("tokens") - number("fork_at");
        if at > 0 {
            let forced: Vec<u64> = serde_json::from_value(choice["forced"].clone()).unwrap();
            assert!(forced.contains(&number("fork_at")), "a fork's first token is forced: {choice}");
            assert!(number("fork_at") > 0 && choice["parent"].as_u64().unwrap() < at as u64);
        }
        let entropy = &choice["entropy"];
        assert!(entropy["mean"].as_f64() <= entropy["peak"].as_f64());
        assert!(entropy["peak"].as_f64() <= entropy["max"].as_f64());
    }
    assert_eq!(
        (told["tokens_full_parallel"].as_u64(), told["tokens_decoded"].as_u64()),
        (Some(apart), Some(own))
    );
    assert!(own < apart, "sharing saves");
    // Two comparisons, each under a name of its own.
    let samples = (apart as f64 / choices.len() as f64 * 8.0).round();
    assert_eq!(
        (told["tokens_apart"].as_u64(), told["tokens_full_samples"].as_f64()),
        (Some(apart), Some(samples))
    );
    assert_eq!(told["shared"].as_f64(), Some(1.0 - own as f64 / apart as f64));
    assert_eq!(told["saved"].as_f64(), Some(1.0 - own as f64 / samples));
    let votes: u64 = told["votes"][0].as_array().unwrap().iter().map(|v| v["count"].as_u64().unwrap()).sum();
    let answers = told["choices"].as_array().unwrap().iter().filter(|c| c["answer"].is_string()).count();
    assert_eq!(votes as usize, answers);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_answer_whatever_else_is_running() {
    let service = Service::start();
    let (alone, _) = (service.chat(json!({"n": 4})).await, ());
    let other = chat(EASY, json!({"n": 16, "seed": 1, "eager": {"method": "full-parallel"}}));
    let (together, _, another) = tokio::join!(
        service.chat(json!({"n": 4})),
        service.ask("/v1/chat/completions", &other),
        service.chat(json!({"n": 4, "seed": 8})),
    );
    assert_eq!(contents(&alone), contents(&together));
    assert_ne!(contents(&alone), contents(&another));
}

/// With the right answer in the request there is no need to go on once it is found.
#[tokio::test]
async fn labels_end_the_sampling() {
    let service = Service::start();
    let ask = |eager: Value| service.chat(json!({"n": 8, "seed": 4, "eager": eager}));
    let full = ask(json!({"method": "full-parallel", "answer": "68"})).await;
    let choices = full["eager"]["choices"].as_array().unwrap();
    let first = choices.iter().position(|c| c["answer"].is_string()).expect("somebody answers");
    // What acorn gives as an answer is taken for the right one.
    let answer = &choices[first]["answer"];
    let told = ask(json!({"method": "full-parallel", "answer": answer})).await;
    let right =
        told["eager"]["choices"].as_array().unwrap().iter().position(|c| c["correct"] == true).unwrap();
    let until = ask(json!({"method": "until-right", "answer": answer})).await;
    assert_eq!(until["eager"]["sequences"], right + 1);
    let contents = |answer: &Value, most: usize| {
        let choices = answer["choices"].as_array().unwrap().iter().take(most);
        choices.map(|c| c["message"]["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(contents(&until, 8), contents(&full, right + 1));
    let staged = ask(json!({"method": "two-stage", "answer": answer})).await;
    assert_eq!(staged["eager"]["sequences"], if right < 2 { 2 } else { 8 });
}

#[tokio::test]
async fn a_question_that_the_model_does_not_know_is_told() {
    let service = Service::start();
    let ask = async |question: &str| {
        let body = chat(question, json!({"n": 2, "max_tokens": 40, "eager": {}}));
        let answer = service.ask("/v1/chat/completions", &body).await;
        let grown = service.post("/eager/grow", &body).await.text().await.unwrap();
        let start = events(&grown)[0].1["notice"].clone();
        assert_eq!(start.as_str(), answer["eager"].get("notice").and_then(Value::as_str));
        start
    };
    let notice = ask("What is the capital of France?").await;
    assert!(notice.as_str().is_some_and(|notice| notice.contains("--model")), "{notice}");
    assert!(ask(HARD).await.is_null());
}

#[tokio::test]
async fn methods_and_votes() {
    let service = Service::start();
    let cases = [
        (json!({"method": "full-parallel"}), 6, "full-parallel"),
        (json!({"method": "eager-init", "theta": 0.2}), 6, "eager-init"),
        (json!({"method": "eager-adapt"}), 6, "eager-adapt/regrow"),
        (json!({"method": "eager-adapt", "reallocation": "rerun"}), 6, "eager-adapt/rerun"),
        (json!({"method": "eager", "answer": "68"}), 6, "eager/regrow"),
        // Nothing says this, so there is a second pass, which may not go beyond n.
        (json!({"method": "eager", "answer": "-1", "theta": 0.6}), 6, "eager/regrow"),
        (json!({"method": "eager", "answer": "-1", "theta": 0.6, "reallocation": "rerun"}), 6, "eager/rerun"),
        (
            json!({"method": "eager", "answer": "-1", "theta": 0.6, "reallocation": "rerun-literal"}),
            6,
            "eager/rerun-literal",
        ),
        (json!({"method": "esc"}), 6, "esc"),
        (json!({"method": "deepconf"}), 6, "deepconf"),
        (json!({"method": "until-right", "answer": "-1"}), 6, "until-right"),
        (json!({"method": "two-stage", "answer": "-1"}), 6, "two-stage"),
        (json!({"vote": "majority"}), 1, "eager-init"),
    ];
    for (eager, most, method) in cases {
        let answer = service.chat(json!({"n": 6, "eager": eager})).await;
        let choices = answer["choices"].as_array().unwrap();
        assert!((1..=most).contains(&choices.len()), "{method}: {} sequences", choices.len());
        assert_eq!(answer["eager"]["method"], method);
        if ["full-parallel", "until-right", "two-stage"].contains(&method) {
            assert_eq!(choices.len(), 6);
            assert_eq!(answer["eager"]["tokens_decoded"], answer["eager"]["tokens_full_parallel"]);
        }
        if most == 1 {
            assert_eq!(choices[0]["index"], 0);
            let winner = &answer["eager"]["votes"][0][0]["answer"];
            assert_eq!(&answer["eager"]["choices"][0]["answer"], winner);
            assert!(answer["eager"]["sequences"].as_u64() > Some(1));
        }
    }
}

#[tokio::test]
async fn a_tie_is_told() {
    let service = Service::start();
    let torn = chat("What is 9432 * 3104?", json!({"n": 2, "eager": {}}));
    let answer = service.ask("/v1/chat/completions", &torn).await;
    let votes = answer["eager"]["votes"][0].as_array().unwrap();
    let told: Vec<_> = votes.iter().map(|v| (v["count"].as_u64(), v["tied"].as_bool())).collect();
    assert_eq!(told, [(Some(1), Some(true)), (Some(1), Some(true))]);
    let agreed = service.ask("/v1/chat/completions", &chat(EASY, json!({"n": 2, "eager": {}}))).await;
    assert!(agreed["eager"]["votes"][0][0].get("tied").is_none());
}

#[tokio::test]
async fn completions_take_text_and_tokens_and_several_prompts() {
    let service = Service::start();
    let whole = format!("<|im_start|>user\n{EASY}<|im_end|>\n<|im_start|>assistant\n");
    let ask = |prompt: Value| json!({"model": "acorn", "prompt": prompt, "temperature": 0, "n": 1, "max_tokens": 40});
    let one = service.ask("/v1/completions", &ask(json!(whole))).await;
    assert_eq!(one["object"], "text_completion");
    assert_eq!(one["choices"][0]["finish_reason"], "length");
    assert_eq!(one["usage"]["completion_tokens"], 40);
    let chat =
        service.ask("/v1/chat/completions", &chat(EASY, json!({"temperature": 0, "max_tokens": 40}))).await;
    assert_eq!(one["choices"][0]["text"], chat["choices"][0]["message"]["content"]);
    assert_eq!(one["usage"], chat["usage"], "a chat is its template's text");
    let two = service.ask("/v1/completions", &ask(json!([whole, "1+1="]))).await;
    let indices: Vec<u64> =
        two["choices"].as_array().unwrap().iter().map(|c| c["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1]);
    assert_eq!(two["choices"][0]["text"], one["choices"][0]["text"]);
    service.ask("/v1/completions", &ask(json!([1, 2, 3]))).await;
    service.ask("/v1/completions", &ask(json!([[1, 2, 3], [4]]))).await;
}

#[tokio::test]
async fn stop_strings_end_a_sequence_and_are_not_said() {
    let service = Service::start();
    let whole = service.ask("/v1/chat/completions", &chat(EASY, json!({"temperature": 0}))).await;
    let whole_text = contents(&whole)[0];
    for stop in [json!("*7"), json!(["never", "="]), json!("</think>"), json!("17760\n")] {
        let body = chat(EASY, json!({"temperature": 0, "stop": stop}));
        let answer = service.ask("/v1/chat/completions", &body).await;
        let stops: Vec<String> =
            serde_json::from_value(if stop.is_string() { json!([stop]) } else { stop }).unwrap();
        let at = stops.iter().filter_map(|s| whole_text.find(s.as_str())).min().unwrap();
        assert_eq!(contents(&answer), [&whole_text[..at]]);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        let (short, long) = (&answer["usage"]["completion_tokens"], &whole["usage"]["completion_tokens"]);
        assert!(short.as_u64() < long.as_u64(), "decoding stops there: {short} of {long}");
    }
}

#[tokio::test]
async fn log_probabilities_fit_their_tokens() {
    let service = Service::start();
    let answer = service.chat(json!({"n": 4, "logprobs": true, "top_logprobs": 3, "temperature": 0})).await;
    for choice in answer["choices"].as_array().unwrap() {
        let content = choice["logprobs"]["content"].as_array().unwrap();
        let said: String = content.iter().map(|t| t["token"].as_str().unwrap()).collect();
        assert_eq!(said, choice["message"]["content"].as_str().unwrap());
        for token in content {
            let top = token["top_logprobs"].as_array().unwrap();
            assert_eq!(top.len(), 3);
            assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64());
            let known: Vec<_> = top.iter().filter(|t| t["token"] == token["token"]).collect();
            assert_eq!(known[0]["logprob"], token["logprob"], "greedy takes the first, a fork the second");
        }
    }
    let body = json!({"prompt": "1+1=", "logprobs": 2, "max_tokens": 5});
    let answer = service.ask("/v1/completions", &body).await;
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 5);
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
    assert_eq!(logprobs["text_offset"][0], 0);
}

#[tokio::test]
async fn a_chat_template_is_told_how_to_think() {
    // Every digit is a token of acorn's, so the prompt's length tells what the template was told.
    let source = r#"{% if enable_thinking is false %}1234{% endif %}{{ extra or "" }}{{
        {"low": "1", "medium": "12", "high": "123"}[reasoning_effort] or "" }}?"#;
    let acorn = acorn_saying(|words| words.chat = Some(ChatTemplate::new(source, None, None, "made up")));
    let service = Service::of(acorn, Options::default());
    let cases = [
        (json!({}), 1),
        (json!({"reasoning_effort": null, "chat_template_kwargs": null}), 1),
        (json!({"reasoning_effort": "none"}), 5),
        (json!({"reasoning_effort": "minimal"}), 2),
        (json!({"reasoning_effort": "medium"}), 3),
        (json!({"reasoning_effort": "xhigh"}), 4),
        (json!({"chat_template_kwargs": {"enable_thinking": false, "extra": "56"}}), 7),
    ];
    let plain = service.chat(json!({"max_tokens": 1})).await["usage"]["prompt_tokens"].as_u64().unwrap();
    for (mut more, tokens) in cases {
        more["max_tokens"] = 1.into();
        let answer = service.chat(more.clone()).await;
        assert_eq!(answer["usage"]["prompt_tokens"], plain - 1 + tokens, "{more}");
    }
    // What a request does not say the server's defaults say.
    let acorn = acorn_saying(|words| words.chat = Some(ChatTemplate::new(source, None, None, "made up")));
    let options = ChatOptions { thinking: Some(false), ..ChatOptions::default() };
    let defaults = Defaults { chat: options, ..Defaults::default() };
    let unthinking = Service::of(acorn, Options { defaults, ..Options::default() });
    for (mut more, tokens) in [
        (json!({}), 5),
        (json!({"reasoning_effort": "medium"}), 3),
        (json!({"chat_template_kwargs": {"enable_thinking": true}}), 1),
    ] {
        more["max_tokens"] = 1.into();
        let answer = unthinking.chat(more.clone()).await;
        assert_eq!(answer["usage"]["prompt_tokens"], plain - 1 + tokens, "{more}");
    }
    let system = Defaults { system: Some("1234".to_owned()), ..Defaults::default() };
    let told = Service::with(Options { defaults: system, ..Options::default() });
    let tokens = async |more: Value| told.chat(more).await["usage"]["prompt_tokens"].as_u64().unwrap();
    let with = tokens(json!({"max_tokens": 1})).await;
    let turns = json!([{"role": "system", "content": "1234"}, {"role": "user", "content": HARD}]);
    assert_eq!(tokens(json!({"max_tokens": 1, "messages": turns})).await, with, "said once");
    assert!(with > plain);
    let refused =
        service.post("/v1/chat/completions", &chat(HARD, json!({"reasoning_effort": "lots"}))).await;
    assert_eq!(refused.status(), 400);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["param"], "reasoning_effort");
}

#[tokio::test]
async fn models_and_health() {
    let service = Service::start();
    let models: Value = service.get("/v1/models").await.json().await.unwrap();
    assert_eq!(models["data"][0]["id"], "acorn");
    assert_eq!(service.get("/v1/models/acorn").await.status(), 200);
    assert_eq!(service.get("/v1/models/gpt-9").await.status(), 404);
    for path in ["/healthz", "/readyz", "/", "/openapi.json"] {
        let response = service.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert!(response.headers().contains_key("content-security-policy"));
        assert!(response.headers().contains_key("x-request-id"));
    }
    service.ask("/v1/chat/completions", &chat(HARD, json!({"max_tokens": 5}))).await;
    service.until("eager_tokens_decoded_total", |decoded| decoded == 5).await;
}

/// The same thoughts, opened by the response and by the prompt, and broken off by a limit and by a stop string.
#[tokio::test]
async fn a_thought_is_no_answer() {
    let service = Service::start();
    let asked = |more: Value| {
        let mut body =
            json!({"model": "acorn", "temperature": 0, "n": 2, "eager": {"method": "full-parallel"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let question = format!("<|im_start|>user\n{EASY}<|im_end|>\n<|im_start|>assistant\n");
    for prompt in [question.clone(), format!("{question}<think>\n")] {
        for (more, finish, answer) in [
            (json!({}), "stop", json!("24247")),
            (json!({"max_tokens": 20}), "length", json!(null)),
            (json!({"stop": "</think>"}), "stop", json!(null)),
        ] {
            let mut body = asked(more);
            body["prompt"] = json!(prompt);
            let told = service.ask("/v1/completions", &body).await;
            let text = told["choices"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains('='), "{text}");
            let votes = told["eager"]["votes"][0].as_array().unwrap().len();
            let choice = &told["eager"]["choices"][0];
            assert_eq!((&choice["finish"], &choice["answer"]), (&json!(finish), &answer), "{body}: {text}");
            assert_eq!(votes == 0, answer.is_null(), "{body}");
        }
    }
}
