//! A [`Config`] from GGUF metadata.

use super::config::{Architecture, Config, Experts, LayerShape, RopeStyle};
use super::gguf::Gguf;
use super::rope::{Stretch, Yarn};
use super::tokenizer::{Tokenizer, end_tokens};
use super::{LoadError, pretokenize};

pub(super) fn read(gguf: &Gguf<'_>, tokenizer: &Tokenizer) -> Result<Config, LoadError> {
    let file = gguf.file;
    let found = gguf
        .str("general.architecture")?
        .ok_or_else(|| LoadError::malformed(file, "it does not name its architecture"))?;
    let architecture = Architecture::from_name(found, file)?;
    let keys = Keys { gguf, prefix: found };
    refuse_what_we_do_not_run(&keys, architecture)?;

    let (hidden, heads) = (keys.size("embedding_length")?, keys.size("attention.head_count")?);
    let head_dim = match keys.optional("attention.key_length")? {
        Some(len) => len,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    for other in ["attention.value_length", "rope.dimension_count"] {
        if let Some(len) = keys.optional(other)?
            && len != head_dim
        {
            let what = format!("{other} {len} beside heads of {head_dim}");
            return Err(LoadError::unsupported(file, what));
        }
    }
    let vocab = match gguf.tensors.get("token_embd.weight") {
        Some(entry) => entry.shape.first().copied().unwrap_or(0),
        None => {
            return Err(LoadError::MissingTensor { file: file.to_owned(), name: "token_embd.weight".into() });
        }
    };
    let of_experts = architecture == Architecture::GptOss;
    let layers = keys.size("block_count")?;
    let rope_theta = keys.float("rope.freq_base")?.unwrap_or(10_000.0);
    let (rope_factors, rope_scale) = rope_factors(&keys, architecture, rope_theta, head_dim)?;
    // No key says it: a Llama model with biases is one whose layers have them.
    let biased = |part: &str| {
        architecture == Architecture::Llama && gguf.tensors.contains_key(&format!("blk.0.{part}.bias"))
    };
    let config = Config {
        architecture,
        vocab,
        hidden,
        layers,
        heads,
        kv_heads: keys.optional("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        ffn: keys.size(if of_experts { "expert_feed_forward_length" } else { "feed_forward_length" })?,
        context: keys.size("context_length")?,
        rms_eps: keys
            .float("attention.layer_norm_rms_epsilon")?
            .ok_or_else(|| LoadError::malformed(file, "it has no RMS epsilon"))?,
        rope_theta,
        rope: match architecture {
            Architecture::Llama | Architecture::SmolLm3 => RopeStyle::Interleaved,
            Architecture::Qwen2 | Architecture::Qwen3 | Architecture::GptOss => RopeStyle::Halves,
        },
        rope_factors,
        rope_scale,
        qk_norm: architecture == Architecture::Qwen3,
        qkv_bias: of_experts || architecture == Architecture::Qwen2 || biased("attn_q"),
        output_bias: of_experts || biased("attn_output"),
        sinks: of_experts,
        experts: experts(&keys, architecture)?,
        shapes: shapes(&keys, architecture, layers)?,
        stop_tokens: stop_tokens(gguf, tokenizer, vocab)?,
        bos: bos(gguf)?,
    };
    config.check(file)?;
    Ok(config)
}

/// Metadata under the architecture's own prefix, as in `qwen3.block_count`.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    prefix: &'a str,
}

impl Keys<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn optional(&self, name: &str) -> Result<Option<usize>, LoadError> {
        self.gguf.usize(&self.key(name))
    }

    fn size(&self, name: &str) -> Result<usize, LoadError> {
        self.optional(name)?
            .ok_or_else(|| LoadError::malformed(self.gguf.file, format!("it has no \"{}\"", self.key(name))))
    }

    fn float(&self, name: &str) -> Result<Option<f32>, LoadError> {
        self.gguf.f32(&self.key(name))
    }
}

fn refuse_what_we_do_not_run(keys: &Keys<'_, '_>, architecture: Architecture) -> Result<(), LoadError> {
    let file = keys.gguf.file;
    let of_experts = architecture == Architecture::GptOss;
    if !of_experts && keys.optional("expert_count")?.is_some_and(|n| n > 0) {
        return Err(LoadError::unsupported(file, "a mixture of experts"));
    }
    if !of_experts && keys.optional("attention.sliding_window")?.is_some_and(|n| n > 0) {
        return Err(LoadError::unsupported(file, "sliding-window attention"));
    }
    for scale in ["attention.scale", "logit_scale", "residual_scale", "embedding_scale"] {
        if keys.float(scale)?.is_some_and(|x| x != 0.0) {
            return Err(LoadError::unsupported(file, format!("\"{}\"", keys.key(scale))));
        }
    }
    if keys.gguf.bool(&keys.key("attention.causal"))? == Some(false) {
        return Err(LoadError::unsupported(file, "attention that is not causal"));
    }
    Ok(())
}

fn experts(keys: &Keys<'_, '_>, architecture: Architecture) -> Result<Option<Experts>, LoadError> {
    if architecture != Architecture::GptOss {
        return Ok(None);
    }
    let (count, used) = (keys.size("expert_count")?, keys.size("expert_used_count")?);
    Ok(Some(Experts { count, used, limit: Experts::LIMIT, alpha: Experts::ALPHA }))
}

/// What files leave to the architecture: SmolLM3 rotates in all but every fourth layer, and gpt-oss's layers slide by turns.
fn shapes(
    keys: &Keys<'_, '_>,
    architecture: Architecture,
    layers: usize,
) -> Result<Vec<LayerShape>, LoadError> {
    let plain = LayerShape::PLAIN;
    Ok(match architecture {
        Architecture::SmolLm3 => {
            LayerShape::list(layers, |layer| LayerShape { rope: layer % 4 != 3, ..plain })
        }
        Architecture::GptOss => {
            let window = keys.size("attention.sliding_window")?;
            LayerShape::list(layers, |layer| LayerShape {
                window: (layer % 2 == 0).then_some(window),
                ..plain
            })
        }
        Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 => {
            LayerShape::list(layers, |_| plain)
        }
    })
}

/// The divisors of frequencies, from the tensor `rope_freqs.weight` and the scaling, and what the scaling multiplies with.
fn rope_factors(
    keys: &Keys<'_, '_>,
    architecture: Architecture,
    theta: f32,
    head_dim: usize,
) -> Result<(Option<Vec<f32>>, f32), LoadError> {
    let file = keys.gguf.file;
    let kind = keys.gguf.str(&keys.key("rope.scaling.type"))?;
    let factor = match keys.float("rope.scaling.factor")? {
        Some(factor) => factor,
        None => keys.float("rope.scale_linear")?.unwrap_or(1.0), // its name in files of 2023
    };
    let factor = if factor == 0.0 { 1.0 } else { factor };
    let mut scale = 1.0;
    let stretch = match kind {
        Some("none") => None,
        Some("linear") | None => Some(Stretch::Linear { factor }),
        Some("yarn") if factor == 1.0 => None,
        Some("yarn") => {
            let yarn = yarn(keys, architecture, factor)?;
            scale = Yarn::scale(factor, 1.0) * keys.float("rope.scaling.yarn_attn_factor")?.unwrap_or(1.0);
            Some(Stretch::Yarn(yarn))
        }
        Some(other) if factor != 1.0 || other == "longrope" => {
            return Err(LoadError::unsupported(file, format!("rope scaling of type \"{other}\"")));
        }
        Some(_) => None,
    };
    let stretched = stretch.and_then(|stretch| stretch.divisors(theta, head_dim));
    let factors = match keys.gguf.tensor("rope_freqs.weight")? {
        None => stretched,
        Some(tensor) if tensor.shape == [(head_dim / 2).min(1 << 12)] => {
            let mut factors = tensor.to_f32();
            for (factor, more) in factors.iter_mut().zip(stretched.unwrap_or_default()) {
                *factor *= more;
            }
            Some(factors)
        }
        Some(_) => return Err(LoadError::malformed(file, "its rope factors are not one per frequency")),
    };
    Ok((factors, scale))
}

/// GGUF cannot say that the range is not to be rounded. gpt-oss's is not: its own files say so.
fn yarn(keys: &Keys<'_, '_>, architecture: Architecture, factor: f32) -> Result<Yarn, LoadError> {
    let turns = |key: &str, usual| Ok(keys.float(key)?.filter(|x| *x > 0.0).unwrap_or(usual));
    Ok(Yarn {
        factor,
        original: keys.size("rope.scaling.original_context_length")? as f32,
        fast: turns("rope.scaling.yarn_beta_fast", Yarn::FAST)?,
        slow: turns("rope.scaling.yarn_beta_slow", Yarn::SLOW)?,
        truncate: architecture != Architecture::GptOss,
    })
}

pub(super) fn stop_tokens(
    gguf: &Gguf<'_>,
    tokenizer: &Tokenizer,
    vocab: usize,
) -> Result<Vec<u32>, LoadError> {
    let mut stop = Vec::new();
    for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
        stop.extend(gguf.token(&format!("tokenizer.ggml.{key}"))?);
    }
    end_tokens(stop, tokenizer, vocab, gguf.file)
}

pub(super) fn bos(gguf: &Gguf<'_>) -> Result<Option<u32>, LoadError> {
    let by_default = match gguf.str("tokenizer.ggml.model")? {
        Some("llama") => true,
        _ => gguf.str("tokenizer.ggml.pre")?.and_then(pretokenize::find).is_some_and(|pre| pre.adds_bos),
    };
    match gguf.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(by_default) {
        true => gguf.token("tokenizer.ggml.bos_token_id"),
        false => Ok(None),
    }
}
