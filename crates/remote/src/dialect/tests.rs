//! Chunks as live servers write them, shortened to a few candidates.

use serde_json::json;

use super::*;

static RULES: TokenRules = TokenRules::NONE;

fn ask(prompt: &[Token]) -> Ask<'_> {
    let sampling = Sampling { temperature: 0.5, top_p: 0.9, top_k: 0, min_p: 0.1 };
    let (stop, rules) = (&[2, 3], &RULES);
    Ask { model: "m", name: "n", prompt, tokens: 7, top_k: 2, sampling, seed: 11, stop, rules, seat: None }
}

#[test]
fn rules_that_a_server_follows_as_we_do_are_passed_on() {
    let rules =
        TokenRules { logit_bias: vec![(4, -100.0)], stop_token_ids: vec![3], ..TokenRules::default() };
    let body = |dialect: Dialect, rules: &TokenRules| -> serde_json::Value {
        serde_json::from_str(&dialect.request(&Ask { rules, ..ask(&[5]) })).unwrap()
    };
    let sampling = &body(Dialect::Sglang, &rules)["sampling_params"];
    assert_eq!((&sampling["logit_bias"]["4"], &sampling["stop_token_ids"]), (&json!(-100.0), &json!([2, 3])));
    let rules = TokenRules { ignore_eos: true, ..rules };
    let sampling = &body(Dialect::Sglang, &rules)["sampling_params"];
    assert_eq!((&sampling["ignore_eos"], sampling.get("stop_token_ids")), (&json!(true), None));
    assert_eq!(body(Dialect::Vllm, &rules)["stop_token_ids"], json!([2, 3]));
    // A rule is refused or passed on, never dropped.
    for dialect in Dialect::ALL {
        let refused: Vec<&str> = dialect.refused().iter().map(|(rule, _)| *rule).collect();
        let passed: &[&str] = match dialect {
            Dialect::LlamaServer => &["stop_token_ids"],
            Dialect::Vllm => &["ignore_eos", "stop_token_ids"],
            Dialect::Sglang => &["logit_bias", "ignore_eos", "stop_token_ids"],
        };
        let every = TokenRules {
            repetition_penalty: 2.0,
            presence_penalty: 1.0,
            frequency_penalty: 1.0,
            logit_bias: vec![(1, 1.0)],
            min_tokens: 1,
            ignore_eos: true,
            stop_token_ids: vec![1],
        };
        assert!(every.asked().all(|rule| refused.contains(&rule) != passed.contains(&rule)), "{dialect}");
    }
}

fn c(token: Token, logprob: f32) -> Candidate {
    Candidate { token, logprob }
}

fn read(dialect: Dialect, chunks: &[&str]) -> Vec<Result<Chunk, Flaw>> {
    let mut reading = dialect.reading(&ask(&[1]));
    chunks.iter().map(|chunk| reading.chunk(chunk.as_bytes())).collect()
}

fn steps(dialect: Dialect, chunks: &[&str]) -> Vec<Step> {
    read(dialect, chunks).into_iter().flat_map(|chunk| chunk.unwrap().steps).collect()
}

fn near(step: &Step, sampled: Candidate, top: &[Candidate]) {
    let close = |a: &Candidate, b: &Candidate| a.token == b.token && (a.logprob - b.logprob).abs() < 1e-5;
    assert!(close(&step.sampled, &sampled), "{step:?}");
    assert!(step.top.len() == top.len() && step.top.iter().zip(top).all(|(a, b)| close(a, b)), "{step:?}");
}

const LLAMA: [&str; 3] = [
    r#"{"index":0,"content":"9","tokens":[24],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":3,
        "completion_probabilities":[{"id":24,"token":"9","bytes":[57],"logprob":-0.25,"top_logprobs":[
        {"id":24,"token":"9","bytes":[57],"logprob":-0.25},{"id":23,"token":"8","bytes":[56],"logprob":-1.5}]}]}"#,
    r#"{"index":0,"content":"","tokens":[2],"stop":false,"id_slot":-1,"tokens_predicted":2,"tokens_evaluated":3,
        "completion_probabilities":[{"id":2,"token":"","bytes":[],"logprob":-8.5,"top_logprobs":[
        {"id":15,"token":"0","bytes":[48],"logprob":-0.125},{"id":16,"token":"1","bytes":[49],"logprob":-3.4028234663852886e+38}]}]}"#,
    r#"{"index":0,"content":"","tokens":[],"id_slot":1,"stop":true,"model":"m","tokens_predicted":2,"stop_type":"eos",
        "timings":{"cache_n":5,"prompt_n":1}}"#,
];

#[test]
fn llama_server_is_understood() {
    let chunks = read(Dialect::LlamaServer, &LLAMA);
    let chunks: Vec<Chunk> = chunks.into_iter().map(Result::unwrap).collect();
    assert_eq!(chunks[0].steps, [Step { top: vec![c(24, -0.25), c(23, -1.5)], sampled: c(24, -0.25) }]);
    // The end of the sequence is a token like any other, and what is impossible is written as the lowest number.
    assert_eq!(
        chunks[1].steps,
        [Step { top: vec![c(15, -0.125), c(16, f32::NEG_INFINITY)], sampled: c(2, -8.5) }]
    );
    assert_eq!(chunks[2], Chunk { ended: true, cached: Some(5), ..Chunk::default() });
}

#[test]
fn llama_server_keeps_tokens_within_a_character_to_itself() {
    let jump = LLAMA[1]
        .replace(r#""tokens_predicted":2"#, r#""tokens_predicted":4"#)
        .replace(r#""content":"""#, r#""content":"€""#);
    let chunks = read(Dialect::LlamaServer, &[LLAMA[0], &jump]);
    let missing = chunks[1].as_ref().unwrap().missing.clone();
    assert_eq!(missing, Some(Missing { count: 2, text: "€".to_owned() }));
}

const VLLM: [&str; 3] = [
    r#"{"id":"cmpl-1","object":"text_completion","model":"m","choices":[{"index":0,"text":" so","logprobs":{"text_offset":[0,3],
        "token_logprobs":[-2.5,-0.5],"tokens":["token_id:7","token_id:9"],"top_logprobs":[
        {"token_id:7":-2.5,"token_id:4":-0.25,"token_id:5":-1.75},{"token_id:9":-0.5,"token_id:8":-1.0}]},
        "finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":[7,9]}],"usage":null}"#,
    r#"{"id":"cmpl-1","choices":[{"index":0,"text":"","logprobs":{"token_logprobs":[-0.5],"tokens":["token_id:2"],
        "top_logprobs":[{"token_id:2":-0.5,"token_id:8":-9999.0}]},"finish_reason":"stop","stop_reason":null,"token_ids":[2]}]}"#,
    r#"{"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":64,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":32}}}"#,
];

#[test]
fn vllm_is_understood() {
    let chunks: Vec<Chunk> = read(Dialect::Vllm, &VLLM).into_iter().map(Result::unwrap).collect();
    // Two tokens in a chunk; the first was outside the candidates and stands before them.
    let first = Step { top: vec![c(4, -0.25), c(5, -1.75)], sampled: c(7, -2.5) };
    let second = Step { top: vec![c(9, -0.5), c(8, -1.0)], sampled: c(9, -0.5) };
    assert_eq!(chunks[0].steps, [first, second]);
    assert!(!chunks[0].ended && chunks[1].ended);
    assert_eq!(
        chunks[1].steps,
        [Step { top: vec![c(2, -0.5), c(8, f32::NEG_INFINITY)], sampled: c(2, -0.5) }]
    );
    assert_eq!(chunks[2], Chunk { cached: Some(32), ..Chunk::default() });
}

const SGLANG: [&str; 2] = [
    r#"{"text":"a","output_ids":[7],"meta_info":{"id":"n","finish_reason":null,"prompt_tokens":3,"completion_tokens":1,"cached_tokens":2,
        "output_token_logprobs":[[-0.5,7,null]],"output_top_logprobs":[[[-0.5,7,null],[-2.0,8,null]]]}}"#,
    r#"{"text":"ab","output_ids":[7,2],"meta_info":{"id":"n","finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,
        "completion_tokens":2,"cached_tokens":2,"output_token_logprobs":[[-0.5,7,null],[-1.0,2,"b"]],
        "output_top_logprobs":[[[-0.5,7,null],[-2.0,8,null]],[[-1.0,2,"b"],[-1.0,8,"c"]]]}}"#,
];

#[test]
fn sglang_is_understood_whether_it_repeats_itself_or_not() {
    let fresh = SGLANG[1]
        .replace("[-0.5,7,null],[-1.0,2", "[-1.0,2")
        .replace("[[-0.5,7,null],[-2.0,8,null]],[[", "[[");
    for second in [SGLANG[1], &fresh] {
        let chunks: Vec<Chunk> =
            read(Dialect::Sglang, &[SGLANG[0], second]).into_iter().map(Result::unwrap).collect();
        assert_eq!(chunks.iter().map(|chunk| chunk.steps.len()).collect::<Vec<_>>(), [1, 1]);
        // At temperature 0.5 the differences of log-probabilities are twice those at 1.
        let total = ((-0.25f32).exp() + (-1.0f32).exp()).ln();
        near(&chunks[0].steps[0], c(7, -0.25 - total), &[c(7, -0.25 - total), c(8, -1.0 - total)]);
        near(&chunks[1].steps[0], c(2, 0.5f32.ln()), &[c(2, 0.5f32.ln()), c(8, 0.5f32.ln())]);
        assert_eq!((chunks[1].ended, chunks[1].cached), (true, Some(2)));
    }
}

#[test]
fn what_is_wrong_with_a_chunk_is_told_apart() {
    use Dialect::*;
    let whole = |dialect| match dialect {
        LlamaServer => LLAMA[0],
        Vllm => VLLM[0],
        Sglang => SGLANG[0],
    };
    for dialect in Dialect::ALL {
        let cut = &whole(dialect)[..whole(dialect).len() / 2];
        assert!(matches!(read(dialect, &[cut])[0], Err(Flaw::Damaged(_))), "{dialect}: cut off");
        assert!(matches!(read(dialect, &["<html>"])[0], Err(Flaw::Damaged(_))), "{dialect}: no JSON");
        let error = r#"{"error":{"code":500,"message":"out of memory","type":"server_error"}}"#;
        assert_eq!(
            read(dialect, &[error])[0],
            Err(Flaw::Failed("out of memory".to_owned())),
            "{dialect}: an error"
        );
    }
    let lacking = [
        (LlamaServer, LLAMA[0].replace("\"tokens\":[24],", "")),
        (LlamaServer, LLAMA[0].replace("completion_probabilities", "nothing")),
        (LlamaServer, LLAMA[0].replace("top_logprobs", "nothing")),
        (Vllm, VLLM[0].replace("\"token_ids\":[7,9]", "\"x\":0")),
        (Vllm, VLLM[0].replace("token_id:", "word ")),
        (Vllm, VLLM[0].replace("\"logprobs\"", "\"nothing\"")),
        (Sglang, SGLANG[0].replace("output_token_logprobs", "nothing")),
        (Sglang, SGLANG[0].replace("output_top_logprobs", "nothing")),
    ];
    for (dialect, chunk) in lacking {
        assert!(matches!(read(dialect, &[&chunk])[0], Err(Flaw::Lacking { .. })), "{dialect}: {chunk}");
    }
}

#[test]
fn the_end_of_a_stream_is_no_chunk() {
    for dialect in Dialect::ALL {
        assert_eq!(read(dialect, &["[DONE]"]), [Ok(Chunk::default())]);
    }
    assert_eq!(steps(Dialect::LlamaServer, &LLAMA).len(), 2);
}

#[test]
fn requests_say_all_that_a_default_could_change() {
    let cases: [(Dialect, &[(&str, &str)]); 3] = [
        (
            Dialect::LlamaServer,
            &[
                ("/prompt", "[5,6]"),
                ("/n_predict", "7"),
                ("/n_probs", "2"),
                ("/return_tokens", "true"),
                ("/stream", "true"),
                ("/temperature", "0.5"),
                ("/top_k", "0"),
                ("/seed", "11"),
            ],
        ),
        (
            Dialect::Vllm,
            &[
                ("/model", "\"m\""),
                ("/prompt", "[5,6]"),
                ("/max_tokens", "7"),
                ("/logprobs", "2"),
                ("/return_tokens_as_token_ids", "true"),
                ("/return_token_ids", "true"),
                ("/top_k", "-1"),
                ("/stop_token_ids", "[2,3]"),
                ("/ignore_eos", "true"),
                ("/seed", "11"),
            ],
        ),
        (
            Dialect::Sglang,
            &[
                ("/input_ids", "[5,6]"),
                ("/sampling_params/max_new_tokens", "7"),
                ("/top_logprobs_num", "2"),
                ("/return_logprob", "true"),
                ("/sampling_params/top_k", "-1"),
                ("/rid", "\"n\""),
                ("/sampling_params/stop_token_ids", "[2,3]"),
                ("/sampling_params/sampling_seed", "11"),
            ],
        ),
    ];
    for (dialect, fields) in cases {
        let body: serde_json::Value = serde_json::from_str(&dialect.request(&ask(&[5, 6]))).unwrap();
        for (field, expected) in fields {
            let found = body.pointer(field).map(ToString::to_string);
            assert_eq!(found.as_deref(), Some(*expected), "{dialect}: {field}");
        }
    }
}

#[test]
fn dialects_have_names() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.name().parse(), Ok(dialect));
    }
    let error = "ollama".parse::<Dialect>().unwrap_err().to_string();
    assert_eq!(error, "'ollama' is no dialect; there are llama-server, vllm, sglang");
}
