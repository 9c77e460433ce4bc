//! Tokenisation, against the tokens that `transformers` gave for the same prompts.

use proptest::prelude::*;
use serde_json::Value;

use super::{acorn_folder, acorn_gguf, gguf_writer::tiny, smollm2};
use eager_native::load::{Checkpoint, Tokenizer};

fn same_prompts(checkpoint: &Checkpoint, fixture: &str) {
    let rows: Vec<Value> = serde_json::from_str(fixture).unwrap();
    for row in rows {
        let prompt = row["prompt"].as_str().unwrap();
        let ids: Vec<u32> = serde_json::from_value(row["prompt_ids"].clone()).unwrap();
        assert_eq!(checkpoint.encode_prompt(prompt).unwrap(), ids, "{prompt:?}");
        assert_eq!(checkpoint.tokenizer.decode(&ids), prompt);
    }
}

#[test]
fn acorn_prompts() {
    same_prompts(&acorn_gguf(), include_str!("../fixtures/acorn_prompts.json"));
    same_prompts(&acorn_folder(), include_str!("../fixtures/acorn_prompts.json"));
}

#[test]
fn smollm2_prompts() {
    if let Some(checkpoint) = smollm2() {
        same_prompts(&checkpoint, include_str!("../fixtures/smollm2_prompts.json"));
    }
}

#[test]
fn both_forms_of_acorn_cut_every_text_alike() {
    let (gguf, folder) = (acorn_gguf().tokenizer, acorn_folder().tokenizer);
    assert_eq!(gguf.len(), folder.len());
    let special = prop_oneof![Just("<|im_end|>"), Just("<think>"), Just("</think>"), Just("<|endoftext|>")];
    let piece = prop_oneof![
        3 => "[ -~\\n\\r\\t]{0,20}",
        2 => "\\PC{0,10}",
        1 => any::<String>(),
        1 => special.prop_map(str::to_owned),
    ];
    let text = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let config = ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(text in text)| {
        let ids = gguf.encode(&text).unwrap();
        prop_assert_eq!(&ids, &folder.encode(&text).unwrap());
        let decoded = gguf.decode(&ids);
        prop_assert_eq!(&decoded, &folder.decode(&ids));
        // Accents come back composed, and then stay so.
        prop_assert!(decoded == text || !text.is_ascii());
        prop_assert_eq!(gguf.decode(&gguf.encode(&decoded).unwrap()), decoded);
    });
}

#[test]
fn a_long_text_without_breaks_is_no_trouble() {
    let tokenizer = acorn_gguf().tokenizer;
    for text in [" ".repeat(100_000), "a".repeat(100_000), "\n ".repeat(50_000)] {
        let ids = tokenizer.encode(&text).unwrap();
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn control_and_user_defined_tokens_are_whole() {
    let checkpoint = Checkpoint::from_gguf_bytes(tiny("llama").leak()).unwrap();
    let tokenizer = &checkpoint.tokenizer;
    assert_eq!(tokenizer.encode("abc<tool>ab c<|end|>").unwrap(), [4, 7, 3, 5, 2, 6]);
    assert_eq!(tokenizer.decode(&[4, 7, 3, 5, 2, 6]), "abc<tool>ab c<|end|>");
    assert_eq!(tokenizer.token("<tool>"), Some(7));
    assert_eq!(tokenizer.token("nothing"), None);
    assert_eq!(tokenizer.decode(&[0, 999, 1]), "ab");
    assert_eq!(tokenizer.len(), 8);
}

#[test]
fn a_first_token_is_added_once_where_the_file_asks() {
    let asks = tiny("llama").bool("tokenizer.ggml.add_bos_token", true).u32("tokenizer.ggml.bos_token_id", 7);
    let checkpoint = Checkpoint::from_gguf_bytes(asks.leak()).unwrap();
    assert_eq!(checkpoint.config.bos, Some(7));
    assert_eq!(checkpoint.encode_prompt("abc").unwrap(), [7, 4]);
    assert_eq!(checkpoint.encode_prompt("<tool>abc").unwrap(), [7, 4]);

    let silent = tiny("llama").u32("tokenizer.ggml.bos_token_id", 7);
    assert_eq!(Checkpoint::from_gguf_bytes(silent.leak()).unwrap().config.bos, None);
}

fn sentencepiece(fixture: &Value) -> Checkpoint {
    let tokens: Vec<&str> =
        fixture["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let scores: Vec<f32> = serde_json::from_value(fixture["scores"].clone()).unwrap();
    let kinds: Vec<i32> = serde_json::from_value(fixture["kinds"].clone()).unwrap();
    let writer = tiny("llama")
        .str("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .f32s("tokenizer.ggml.scores", &scores)
        .i32s("tokenizer.ggml.token_type", &kinds)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .change("token_embd.weight", |t| {
            t.shape[0] = tokens.len() as u64;
            t.data.resize(tokens.len() * 16, 0);
        });
    Checkpoint::from_gguf_bytes(writer.leak()).unwrap()
}

fn sentencepiece_fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/sentencepiece.json")).unwrap()
}

#[test]
fn sentencepiece_vocabularies_encode_as_sentencepiece_does() {
    let fixture = sentencepiece_fixture();
    let checkpoint = sentencepiece(&fixture);
    assert_eq!(checkpoint.config.bos, Some(1));
    for row in fixture["texts"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let ids: Vec<u32> = serde_json::from_value(row["ids"].clone()).unwrap();
        assert_eq!(checkpoint.tokenizer.encode(text).unwrap(), ids, "{text:?}");
        if !text.contains('▁') {
            assert_eq!(checkpoint.tokenizer.decode(&ids), text);
        }
    }
}

#[test]
fn unknown_tokenizers_are_named() {
    let message = |writer: super::gguf_writer::Writer| {
        Checkpoint::from_gguf_bytes(writer.leak()).unwrap_err().to_string()
    };
    let pre = message(tiny("llama").str("tokenizer.ggml.pre", "klingon"));
    assert!(pre.contains("\"klingon\"") && pre.contains("qwen2"), "{pre}");
    let model = message(tiny("llama").str("tokenizer.ggml.model", "rwkv"));
    assert!(model.contains("\"rwkv\""), "{model}");
    let merge = message(tiny("llama").strings("tokenizer.ggml.merges", &["a z"]));
    assert!(merge.contains("tokenizer"), "{merge}");
}

#[test]
fn a_token_that_the_model_cannot_embed_is_refused_when_it_comes_up() {
    let writer = tiny("llama").change("token_embd.weight", |t| t.shape[0] = 7);
    let checkpoint = Checkpoint::from_gguf_bytes(writer.leak()).unwrap();
    assert!(checkpoint.tokenizer.encode("abc").is_ok());
    assert!(checkpoint.tokenizer.encode("<tool>").is_err());
}

/// What a stream says token by token, and at the end.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> (Vec<String>, String) {
    let mut stream = tokenizer.stream();
    let pieces = ids.iter().map(|&id| stream.push(id).to_owned()).collect();
    (pieces, stream.finish())
}

#[test]
fn a_stream_never_shows_half_a_character() {
    let acorn = acorn_gguf().tokenizer;
    // Acorn spells what it does not know in bytes: one token each.
    let ids = acorn.encode("é日🌳!").unwrap();
    let (pieces, end) = streamed(&acorn, &ids);
    let expected = ["", "é", "", "", "日", "", "", "", "🌳", "!"];
    assert_eq!((pieces, end.as_str()), (expected.map(str::to_owned).to_vec(), ""));

    // Cut short, or gone astray: told as soon as it is certain.
    let (mut stream, tree) = (acorn.stream(), acorn.encode("🌳").unwrap());
    assert_eq!(stream.push(tree[0]), "");
    assert!(stream.is_within_character());
    assert_eq!(stream.clone().finish(), "\u{fffd}");
    let plain = acorn.encode("a").unwrap()[0];
    assert_eq!(stream.push(plain), "\u{fffd}a");
    assert!(!stream.is_within_character());
    assert_eq!(stream.push(tree[3]), "\u{fffd}");
    assert_eq!(stream.push(999_999), "");
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_stream_says_what_decoding_the_whole_says() {
    let pieces = sentencepiece(&sentencepiece_fixture()).tokenizer;
    let tokenizers: Vec<Tokenizer> = [acorn_gguf().tokenizer, acorn_folder().tokenizer]
        .into_iter()
        .chain(smollm2().map(|s| s.tokenizer))
        .collect();
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    let text = prop_oneof!["\\PC{0,30}", any::<String>(), "[ -~\\n]{0,40}"];
    proptest!(config, |(text in text, noise in prop::collection::vec(any::<prop::sample::Index>(), 0..40))| {
        for tokenizer in &tokenizers {
            let ids = tokenizer.encode(&text).unwrap();
            let (said, end) = streamed(tokenizer, &ids);
            prop_assert_eq!(said.concat(), tokenizer.decode(&ids));
            prop_assert!(said.concat() == text || !text.is_ascii());
            prop_assert_eq!(end, "");
            // Any tokens at all, most of them no text.
            let noise: Vec<u32> = noise.iter().map(|id| id.index(tokenizer.len() + 3) as u32).collect();
            let (said, end) = streamed(tokenizer, &noise);
            prop_assert_eq!(said.concat() + &end, tokenizer.decode(&noise));
        }
        let ids = pieces.encode(&text).unwrap();
        let (said, end) = streamed(&pieces, &ids);
        prop_assert_eq!(said.concat() + &end, pieces.decode(&ids));
    });
}
