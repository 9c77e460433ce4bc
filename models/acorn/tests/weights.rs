//! The embedded file is the model it says it is.

use eager_acorn::GGUF;

#[test]
fn the_weights_are_a_gguf_of_qwen3() {
    assert_eq!(&GGUF[..4], b"GGUF");
    let header = &GGUF[..4096];
    assert!(header.windows(5).any(|bytes| bytes == b"qwen3"));
}

#[test]
fn the_tokenizer_beside_the_weights_has_a_token_for_every_row() {
    let read = |name: &str| -> serde_json::Value {
        let path = format!("{}/weights/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let (config, tokenizer) = (read("config.json"), read("tokenizer.json"));
    let learnt = tokenizer["model"]["vocab"].as_object().unwrap().len();
    let added = tokenizer["added_tokens"].as_array().unwrap().len();
    assert_eq!(config["vocab_size"], learnt + added);
}
