//! Hugging Face folders: shards, settings, and what is missing or refused.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::acorn;
use eager_native::load::{Architecture, Checkpoint, Config, RopeStyle};

const VOCAB: usize = 384; // the tokenizer is acorn's

fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, 4]),
        ("model.norm.weight".to_owned(), vec![4]),
        ("lm_head.weight".to_owned(), vec![VOCAB, 4]),
    ];
    for (name, shape) in [
        ("input_layernorm", vec![4]),
        ("self_attn.q_proj", vec![4, 4]),
        ("self_attn.k_proj", vec![2, 4]),
        ("self_attn.v_proj", vec![2, 4]),
        ("self_attn.o_proj", vec![4, 4]),
        ("post_attention_layernorm", vec![4]),
        ("mlp.gate_proj", vec![6, 4]),
        ("mlp.up_proj", vec![6, 4]),
        ("mlp.down_proj", vec![4, 6]),
    ] {
        shapes.push((format!("model.layers.0.{name}.weight"), shape));
    }
    shapes
}

fn write_tensors(path: &Path, shapes: &[(String, Vec<usize>)], dtype: Dtype) {
    let zeros = vec![0u8; VOCAB * 4 * 4];
    let views: HashMap<&str, TensorView<'_>> = shapes
        .iter()
        .map(|(name, shape)| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (name.as_str(), TensorView::new(dtype, shape.clone(), &zeros[..bytes]).unwrap())
        })
        .collect();
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn settings() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false, "eos_token_id": [378, 376],
    })
}

fn folder_with(config: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "config.json", &config.to_string());
    std::fs::copy(acorn().join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    write_tensors(&folder.path().join("model.safetensors"), &shapes(), Dtype::BF16);
    folder
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

fn changed(key: &str, value: Value) -> Value {
    let mut config = settings();
    config[key] = value;
    config
}

fn config_of(key: &str, value: Value) -> Config {
    Checkpoint::open(folder_with(&changed(key, value)).path()).unwrap().config
}

#[track_caller]
fn refused(path: &Path, expected: &[&str]) {
    let message = Checkpoint::open(path).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in expected {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn a_folder_and_the_file_inside_it_are_the_same_model() {
    let folder = folder_with(&settings());
    let model = Checkpoint::open(folder.path()).unwrap();
    assert_eq!((model.config.architecture, model.config.rope), (Architecture::Llama, RopeStyle::Halves));
    assert_eq!((model.config.vocab, model.config.head_dim, model.config.qk_norm), (VOCAB, 2, false));
    assert_eq!(model.config.stop_tokens, [378, 376]);
    assert!(model.has("output.weight") && model.chat.is_none());
    assert_eq!(model.name, folder.path().file_name().unwrap().to_str().unwrap());
    let file = Checkpoint::open(&folder.path().join("model.safetensors")).unwrap();
    assert_eq!(file.config, model.config);
}

#[test]
fn a_model_in_the_cache_of_the_hub_has_its_own_name() {
    let hub = tempfile::tempdir().unwrap();
    let snapshot = hub.path().join("models--Qwen--Qwen3-4B/snapshots/0123abcd");
    std::fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
    std::fs::rename(folder_with(&settings()).keep(), &snapshot).unwrap();
    assert_eq!(Checkpoint::open(&snapshot).unwrap().name, "Qwen3-4B");
}

#[test]
fn shards_are_found_through_their_index() {
    let folder = folder_with(&settings());
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let (first, second) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    let shapes = shapes();
    write_tensors(&folder.path().join(first), &shapes[..5], Dtype::F16);
    write_tensors(&folder.path().join(second), &shapes[5..], Dtype::F32);
    let place = |i: usize| if i < 5 { first } else { second };
    let map: HashMap<_, _> = shapes.iter().enumerate().map(|(i, (name, _))| (name, place(i))).collect();
    write(&folder, "model.safetensors.index.json", &json!({"weight_map": map}).to_string());
    for path in [folder.path().to_owned(), folder.path().join(second)] {
        assert!(Checkpoint::open(&path).unwrap().has("blk.0.ffn_down.weight"));
    }

    std::fs::remove_file(folder.path().join(second)).unwrap();
    refused(folder.path(), &[second, "missing"]);
    for outside in ["../other.safetensors", "/etc/x.safetensors", "..\\x.safetensors", "weights.bin"] {
        let index = json!({"weight_map": {"model.norm.weight": outside}});
        write(&folder, "model.safetensors.index.json", &index.to_string());
        refused(folder.path(), &["model.safetensors.index.json", "beside it"]);
    }
}

#[test]
fn missing_files_are_named_with_what_to_do() {
    for missing in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = folder_with(&settings());
        std::fs::remove_file(folder.path().join(missing)).unwrap();
        let name = missing.trim_start_matches("model");
        refused(folder.path(), &[name, "download the whole folder"]);
    }
    let lonely = tempfile::tempdir().unwrap();
    write_tensors(&lonely.path().join("model.safetensors"), &shapes(), Dtype::F32);
    refused(&lonely.path().join("model.safetensors"), &["config.json"]);
}

#[test]
fn what_would_run_wrongly_is_refused() {
    for (key, value, expected) in [
        ("model_type", json!("gpt_neox"), "\"gpt_neox\""),
        ("use_sliding_window", json!(true), "sliding"),
        ("attention_bias", json!(true), "blk.0.attn_q.bias"),
        ("mlp_bias", json!(true), "biases"),
        ("num_local_experts", json!(8), "experts"),
        ("layer_types", json!(["chunked_attention"]), "chunked_attention"),
        ("layer_types", json!(["sliding_attention"]), "\"sliding_window\""),
        ("layer_types", json!([]), "an entry for each layer"),
        ("no_rope_layers", json!(["no"]), "no_rope_layers"),
        ("hidden_act", json!("gelu"), "\"gelu\""),
        ("partial_rotary_factor", json!(0.5), "part of each head"),
        ("quantization_config", json!({"quant_method": "gptq"}), "quantised"),
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0}), "original_max_position_embeddings"),
        ("rope_scaling", json!({"rope_type": "longrope", "factor": 4.0}), "\"longrope\""),
        ("rope_scaling", json!({"type": "linear"}), "\"factor\""),
        ("num_hidden_layers", json!(0), "layers is 0"),
        ("num_hidden_layers", json!(2), "blk.1.attn_norm.weight"),
        ("hidden_size", json!(-4), "hidden_size"),
        ("hidden_size", json!(8), "token_embd.weight"),
        ("max_position_embeddings", Value::Null, "max_position_embeddings"),
        ("num_key_value_heads", json!(u64::MAX), "key/value heads"),
        ("head_dim", json!(u64::MAX), "head dimension"),
        ("eos_token_id", json!(384), "end token 384"),
    ] {
        refused(folder_with(&changed(key, value)).path(), &[expected]);
    }
    let folder = folder_with(&settings());
    let mut with_bias = shapes();
    with_bias.push(("model.layers.0.self_attn.q_proj.bias".into(), vec![4]));
    write_tensors(&folder.path().join("model.safetensors"), &with_bias, Dtype::F32);
    refused(folder.path(), &["blk.0.attn_q.bias"]);
    write_tensors(&folder.path().join("model.safetensors"), &shapes(), Dtype::I32);
    refused(folder.path(), &["I32"]);
    write(&folder, "config.json", "{");
    refused(folder.path(), &["config.json", "not JSON"]);
    write(&folder, "config.json", "[]");
    refused(folder.path(), &["config.json"]);
}

#[test]
fn tied_embeddings_need_no_output_matrix() {
    let folder = folder_with(&changed("tie_word_embeddings", json!(true)));
    assert!(!Checkpoint::open(folder.path()).unwrap().has("output.weight"), "the tie wins over a stray copy");
    let folder = folder_with(&settings());
    let without: Vec<_> = shapes().into_iter().filter(|(name, _)| name != "lm_head.weight").collect();
    write_tensors(&folder.path().join("model.safetensors"), &without, Dtype::F32);
    refused(folder.path(), &["lm_head.weight"]);
}

#[test]
fn rope_settings_of_both_generations_are_read() {
    let config = config_of("rope_scaling", json!({"type": "linear", "factor": 2.0}));
    assert_eq!((config.rope_theta, config.rope_factors), (500_000.0, Some(vec![2.0])));
    let config = config_of("rope_parameters", json!({"rope_type": "default", "rope_theta": 1e6}));
    assert_eq!((config.rope_theta, config.rope_factors), (1e6, None));
}

/// Expected values from transformers' formula, worked out in double precision for Llama 3.2's settings.
#[test]
fn llama3_scaling_stretches_long_waves_only() {
    let mut config = changed(
        "rope_scaling",
        json!({
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }),
    );
    config["head_dim"] = json!(64);
    let folder = folder_with(&config);
    let mut wide = shapes();
    for (name, shape) in &mut wide {
        match name.rsplit('.').nth(1).unwrap() {
            "q_proj" => shape[0] = 128,
            "k_proj" | "v_proj" => shape[0] = 64,
            "o_proj" => shape[1] = 128,
            _ => {}
        }
    }
    write_tensors(&folder.path().join("model.safetensors"), &wide, Dtype::F32);
    let factors = Checkpoint::open(folder.path()).unwrap().config.rope_factors.unwrap();
    let expected = LLAMA3_FACTORS;
    assert_eq!(factors.len(), 32);
    for (i, (got, want)) in factors.iter().zip(expected).enumerate() {
        assert!((got / want - 1.0).abs() < 1e-4, "frequency {i}: {got} {want}");
    }
}

const LLAMA3_FACTORS: [f32; 32] = [
    1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.65133, 3.29226, 9.66673,
    32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0, 32.0,
];

#[test]
fn end_and_first_tokens_come_from_all_the_files() {
    let folder = folder_with(&changed("eos_token_id", Value::Null));
    write(&folder, "generation_config.json", &json!({"eos_token_id": [380, 378]}).to_string());
    let tokenizer = json!({
        "eos_token": {"content": "<|endoftext|>"}, "bos_token": "<|im_start|>", "add_bos_token": true,
        "chat_template": [{"name": "rag", "template": "no"}, {"name": "default", "template": "{{ bos_token }}yes"}],
    });
    write(&folder, "tokenizer_config.json", &tokenizer.to_string());
    let model = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(model.config.stop_tokens, [380, 378, 376]);
    assert_eq!(model.config.bos, Some(377));
    assert_eq!(model.chat.unwrap().render(&[], &Default::default()).unwrap(), "<|im_start|>yes");

    write(&folder, "chat_template.jinja", "from its own file");
    let model = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(model.chat.unwrap().render(&[], &Default::default()).unwrap(), "from its own file");
}

#[test]
fn a_post_processor_that_adds_the_first_token_is_noticed() {
    let folder = folder_with(&settings());
    write(&folder, "tokenizer_config.json", &json!({"bos_token": "<|im_start|>"}).to_string());
    assert_eq!(Checkpoint::open(folder.path()).unwrap().config.bos, None);
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [377], "tokens": ["<|im_start|>"]}},
    });
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let model = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(model.config.bos, Some(377));
    assert!(!model.tokenizer.encode("1").unwrap().contains(&377));
}
