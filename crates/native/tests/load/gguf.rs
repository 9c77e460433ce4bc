//! GGUF files: what is read from them, and what is refused.

use super::gguf_writer::{Writer, tiny};
use super::{acorn, acorn_folder, acorn_gguf, smollm2};
use eager_native::load::{Architecture, Checkpoint, DType, RopeStyle};

fn open(writer: &Writer) -> Checkpoint {
    Checkpoint::from_gguf_bytes(writer.leak()).unwrap()
}

fn message(writer: &Writer) -> String {
    Checkpoint::from_gguf_bytes(writer.leak()).unwrap_err().to_string()
}

/// The error must be one line and contain every one of these.
#[track_caller]
fn refused(writer: &Writer, expected: &[&str]) {
    let message = message(writer);
    assert!(!message.contains('\n'), "{message}");
    assert!(message.contains("the embedded model"), "{message}");
    for part in expected {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn acorn_has_one_config_in_both_forms() {
    let (gguf, folder) = (acorn_gguf(), acorn_folder());
    assert_eq!(gguf.config, folder.config);
    let config = &gguf.config;
    assert_eq!(config.architecture, Architecture::Qwen3);
    assert_eq!((config.vocab, config.hidden, config.layers), (384, 256, 8));
    assert_eq!((config.heads, config.kv_heads, config.head_dim, config.ffn), (8, 4, 32, 768));
    assert_eq!((config.context, config.rms_eps, config.rope_theta), (1024, 1e-6, 10_000.0));
    assert_eq!((config.rope, &config.rope_factors, config.qk_norm), (RopeStyle::Halves, &None, true));
    assert_eq!((config.stop_tokens[0], config.bos), (378, None));
    assert!(!gguf.has("output.weight") && !folder.has("output.weight"));
    assert_eq!(gguf.tensor("blk.0.attn_q.weight").unwrap().dtype, DType::Q8_0);
    assert_eq!(folder.tensor("blk.0.attn_q.weight").unwrap().dtype, DType::BF16);
}

#[test]
fn embedded_acorn_is_acorn() {
    let bytes = std::fs::read(acorn().join("acorn-q8_0.gguf")).unwrap().leak();
    let embedded = Checkpoint::from_gguf_bytes(bytes).unwrap();
    assert_eq!(embedded.config, acorn_gguf().config);
    assert_eq!(embedded.name, acorn_gguf().name);
}

#[test]
fn smollm2_is_a_llama() {
    let Some(checkpoint) = smollm2() else { return };
    let config = &checkpoint.config;
    assert_eq!((config.architecture, config.rope), (Architecture::Llama, RopeStyle::Interleaved));
    assert_eq!((config.hidden, config.layers, config.heads, config.kv_heads), (576, 30, 9, 3));
    assert_eq!((config.head_dim, config.ffn, config.vocab), (64, 1536, 49152));
    assert_eq!((config.rope_theta, config.qk_norm, config.bos), (100_000.0, false, None));
    assert_eq!(config.stop_tokens, [2, 0]);
}

#[test]
fn tensors_are_found_by_name_and_shape() {
    let model = open(&tiny("llama"));
    let tensor = model.tensor("blk.0.ffn_up.weight").unwrap();
    assert_eq!((tensor.shape.as_slice(), tensor.rows(), tensor.cols()), (&[6, 4][..], 6, 4));
    let mut row = [0.0; 4];
    tensor.rows_to_f32(2, 1, &mut row);
    assert_eq!(row, [8.0, 9.0, 10.0, 11.0]);
    assert!(model.tensor_with_shape("blk.0.ffn_up.weight", &[6, 4]).is_ok());
    let shape = model.tensor_with_shape("blk.0.ffn_up.weight", &[4, 6]).unwrap_err().to_string();
    assert!(shape.contains("blk.0.ffn_up.weight") && shape.contains("[6, 4]"), "{shape}");
    let missing = model.tensor("blk.1.ffn_up.weight").unwrap_err().to_string();
    assert!(missing.contains("no tensor \"blk.1.ffn_up.weight\""), "{missing}");
}

#[test]
fn versions_two_and_three_are_read() {
    let with = |version| Writer { version, ..tiny("qwen3") };
    assert_eq!(open(&with(2)).config, open(&with(3)).config);
    refused(&with(1), &["GGUF version 1"]);
    refused(&with(4), &["GGUF version 4"]);
    refused(&with(3u32.swap_bytes()), &["big-endian"]);
}

#[test]
fn defaults_fill_what_files_leave_out() {
    let model = open(
        &tiny("llama")
            .without("llama.attention.key_length")
            .without("tokenizer.ggml.token_type")
            .without("general.name"),
    );
    assert_eq!(model.config.head_dim, 2);
    assert_eq!(model.config.rope_theta, 10_000.0);
    assert_eq!(model.name, "embedded");
    assert!(model.chat.is_none());
}

#[test]
fn rope_scaling_is_applied_or_refused() {
    let scaled = |kind: &str, factor: f32| {
        tiny("llama").str("llama.rope.scaling.type", kind).f32("llama.rope.scaling.factor", factor)
    };
    assert_eq!(open(&scaled("none", 1.0)).config.rope_factors, None);
    assert_eq!(open(&scaled("yarn", 1.0)).config.rope_factors, None);
    assert_eq!(open(&scaled("linear", 4.0)).config.rope_factors, Some(vec![4.0]));
    refused(&scaled("yarn", 4.0), &["llama.rope.scaling.original_context_length"]);
    let yarn = scaled("yarn", 4.0).u32("llama.rope.scaling.original_context_length", 64);
    let config = open(&yarn).config;
    assert_eq!(config.rope_scale, 0.1 * 4f32.ln() + 1.0);
    let unscaled = open(&yarn.f32("llama.rope.scaling.yarn_attn_factor", 1.0 / config.rope_scale));
    assert!((unscaled.config.rope_scale - 1.0).abs() < 1e-6);
    refused(&scaled("longrope", 1.0), &["\"longrope\""]);

    let listed = tiny("llama").tensor("rope_freqs.weight", &[1]).change("rope_freqs.weight", |t| {
        t.data = 8f32.to_le_bytes().to_vec();
    });
    assert_eq!(open(&listed).config.rope_factors, Some(vec![8.0]));
    assert!(!open(&listed).has("rope_freqs.weight"));
    refused(&tiny("llama").tensor("rope_freqs.weight", &[2]), &["rope factors"]);
    refused(&tiny("llama").tensor("rope_freqs.weight", &[1]), &["rope factors"]); // it is zero
    let unreadable =
        tiny("llama").tensor("rope_freqs.weight", &[1]).change("rope_freqs.weight", |t| t.kind = 28);
    refused(&unreadable, &["F64", "rope_freqs.weight"]);
}

#[test]
fn what_would_run_wrongly_is_refused() {
    refused(
        &tiny("llama").str("general.architecture", "mamba"),
        &["\"mamba\"", "llama, smollm3, qwen2, qwen3, gpt-oss"],
    );
    refused(&tiny("llama").without("general.architecture"), &["architecture"]);
    refused(&tiny("llama").u32("llama.expert_count", 8), &["experts"]);
    refused(&tiny("llama").u32("split.count", 2), &["part 1 of 2"]);
    refused(&tiny("qwen3").u32("qwen3.attention.sliding_window", 8), &["sliding"]);
    refused(&tiny("llama").f32("llama.logit_scale", 0.5), &["llama.logit_scale"]);
    refused(&tiny("llama").bool("llama.attention.causal", false), &["causal"]);
    refused(&tiny("llama").u32("llama.rope.dimension_count", 1), &["rope.dimension_count"]);
    refused(&tiny("qwen3").tensor("blk.0.attn_q.bias", &[4]), &["blk.0.attn_q.bias"]);
    refused(&tiny("llama").tensor("blk.1.attn_norm.weight", &[4]), &["blk.1.attn_norm.weight"]);
    refused(
        &tiny("llama").change("blk.0.ffn_up.weight", |t| t.kind = 16),
        &["IQ2_XXS", "blk.0.ffn_up.weight"],
    );
    refused(&tiny("llama").change("blk.0.ffn_up.weight", |t| t.kind = 40), &["NVFP4"]);
    refused(&tiny("llama").change("blk.0.ffn_up.weight", |t| t.kind = 777), &["777"]);
}

#[test]
fn impossible_sizes_are_refused() {
    let with = |key: &str, value: u32| tiny("llama").u32(&format!("llama.{key}"), value);
    refused(&with("embedding_length", 0), &["hidden size is 0"]);
    refused(&with("block_count", 0), &["number of layers is 0"]);
    refused(&with("block_count", 2), &["no tensor \"blk.1.attn_norm.weight\""]);
    refused(&with("attention.head_count", 0), &["number of heads is 0"]);
    refused(&with("attention.head_count", 3).u32("llama.attention.head_count_kv", 2), &["evenly"]);
    refused(&with("attention.key_length", 3), &["odd"]);
    refused(&with("attention.key_length", 4), &["blk.0.attn_q.weight", "[4, 4]", "[8, 4]"]);
    refused(&with("context_length", 0), &["context length is 0"]);
    refused(&tiny("llama").without("llama.context_length"), &["llama.context_length"]);
    refused(&tiny("llama").str("llama.context_length", "many"), &["not an integer"]);
    refused(&tiny("llama").f32("llama.attention.layer_norm_rms_epsilon", f32::NAN), &["epsilon"]);
    refused(&tiny("llama").f32("llama.rope.freq_base", -1.0), &["rope base"]);
    refused(&tiny("llama").u32("tokenizer.ggml.eos_token_id", 8), &["end token 8"]);
}

#[test]
fn files_that_are_not_models_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let message = |name: &str| Checkpoint::open(&folder.path().join(name)).unwrap_err().to_string();
    std::fs::write(folder.path().join("notes.txt"), "hello").unwrap();
    std::fs::write(folder.path().join("page.gguf"), "<!DOCTYPE html>").unwrap();
    std::fs::write(folder.path().join("empty.gguf"), "").unwrap();
    std::fs::write(folder.path().join("model"), tiny("llama").bytes()).unwrap();
    assert!(message("absent.gguf").contains("there is no model at"));
    assert!(message("notes.txt").contains("notes.txt is not a model"));
    assert!(message("page.gguf").contains("does not start with \"GGUF\""));
    assert!(message("empty.gguf").contains("truncated"));
    assert!(Checkpoint::open(&folder.path().join("model")).is_ok());
}
