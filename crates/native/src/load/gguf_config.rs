//! A [`Config`] from GGUF metadata.

use super::config::{Architecture, Config, RopeStyle};
use super::gguf::Gguf;
use super::tokenizer::{Tokenizer, end_tokens};
use super::{LoadError, pretokenize};

pub(super) fn read(gguf: &Gguf<'_>, tokenizer: &Tokenizer) -> Result<Config, LoadError> {
    let file = gguf.file;
    let found = gguf
        .str("general.architecture")?
        .ok_or_else(|| LoadError::malformed(file, "it does not name its architecture"))?;
    let architecture = Architecture::from_name(found, file)?;
    let keys = Keys { gguf, prefix: found };
    refuse_what_we_do_not_run(&keys)?;

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
    let config = Config {
        architecture,
        vocab,
        hidden,
        layers: keys.size("block_count")?,
        heads,
        kv_heads: keys.optional("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        ffn: keys.size("feed_forward_length")?,
        context: keys.size("context_length")?,
        rms_eps: keys
            .float("attention.layer_norm_rms_epsilon")?
            .ok_or_else(|| LoadError::malformed(file, "it has no RMS epsilon"))?,
        rope_theta: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
        rope: match architecture {
            Architecture::Llama => RopeStyle::Interleaved,
            Architecture::Qwen3 => RopeStyle::Halves,
        },
        rope_factors: rope_factors(&keys, head_dim)?,
        qk_norm: architecture == Architecture::Qwen3,
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

fn refuse_what_we_do_not_run(keys: &Keys<'_, '_>) -> Result<(), LoadError> {
    let file = keys.gguf.file;
    if keys.gguf.usize("split.count")?.is_some_and(|n| n > 1) {
        let what = "the other parts of a split GGUF (join them with llama-gguf-split --merge)";
        return Err(LoadError::unsupported(file, what));
    }
    if keys.optional("expert_count")?.is_some_and(|n| n > 0) {
        return Err(LoadError::unsupported(file, "a mixture of experts"));
    }
    if keys.optional("attention.sliding_window")?.is_some_and(|n| n > 0) {
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

/// The divisors in the tensor `rope_freqs.weight`, times the factor of linear scaling.
fn rope_factors(keys: &Keys<'_, '_>, head_dim: usize) -> Result<Option<Vec<f32>>, LoadError> {
    let file = keys.gguf.file;
    let kind = keys.gguf.str(&keys.key("rope.scaling.type"))?;
    let factor = match keys.float("rope.scaling.factor")? {
        Some(factor) => factor,
        None => keys.float("rope.scale_linear")?.unwrap_or(1.0), // its name in files of 2023
    };
    let factor = if factor == 0.0 { 1.0 } else { factor };
    let linear = match kind {
        Some("none") => 1.0,
        Some("linear") | None => factor,
        Some(other) if factor != 1.0 || other == "longrope" => {
            return Err(LoadError::unsupported(file, format!("rope scaling of type \"{other}\"")));
        }
        Some(_) => 1.0,
    };
    // Sizes are checked later, with everything else; until then a wild one must not be allocated.
    let frequencies = (head_dim / 2).min(1 << 12);
    let factors = match keys.gguf.tensor("rope_freqs.weight")? {
        Some(tensor) if tensor.shape == [frequencies] => tensor.to_f32(),
        Some(_) => return Err(LoadError::malformed(file, "its rope factors are not one per frequency")),
        None if linear == 1.0 => return Ok(None),
        None => vec![1.0; frequencies],
    };
    Ok(Some(factors.into_iter().map(|f| f * linear).collect()))
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
