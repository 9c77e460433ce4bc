//! A [`Config`] from Hugging Face's JSON files.

use std::f32::consts::PI;

use serde_json::Value;

use super::LoadError;
use super::config::{Architecture, Config, RopeStyle};
use super::tokenizer::{Tokenizer, end_tokens};

/// The JSON files of a folder; a missing one is `null`.
pub(super) struct Settings<'a> {
    /// config.json
    pub config: Value,
    /// generation_config.json
    pub generation: Value,
    /// tokenizer_config.json
    pub tokenizer: Value,
    /// What to call config.json in errors.
    pub file: &'a str,
}

impl Settings<'_> {
    pub fn read(&self, tokenizer: &Tokenizer, vocab: usize) -> Result<Config, LoadError> {
        let found = self.config.get("model_type").and_then(Value::as_str);
        let found = found.ok_or_else(|| LoadError::malformed(self.file, "it has no \"model_type\""))?;
        let architecture = Architecture::from_name(found, self.file)?;
        self.refuse_what_we_do_not_run()?;

        let (hidden, heads) = (self.size("hidden_size")?, self.size("num_attention_heads")?);
        let head_dim = match self.optional("head_dim")? {
            Some(len) => len,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        let context = self.size("max_position_embeddings")?;
        let (rope_theta, rope_factors) = self.rope(head_dim, context)?;
        let config = Config {
            architecture,
            vocab,
            hidden,
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: self.optional("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            ffn: self.size("intermediate_size")?,
            context,
            rms_eps: self
                .number(&self.config, "rms_norm_eps")?
                .ok_or_else(|| LoadError::malformed(self.file, "it has no \"rms_norm_eps\""))?,
            rope_theta,
            rope: RopeStyle::Halves,
            rope_factors,
            qk_norm: architecture == Architecture::Qwen3,
            stop_tokens: self.stop_tokens(tokenizer, vocab)?,
            bos: self.bos(tokenizer),
        };
        config.check(self.file)?;
        Ok(config)
    }

    /// Whether the embedding is also the output matrix.
    pub fn tied(&self) -> Result<bool, LoadError> {
        self.flag("tie_word_embeddings")
    }

    pub fn chat_template(&self) -> Option<&str> {
        let template = self.tokenizer.get("chat_template")?;
        if let Some(list) = template.as_array() {
            let default = list.iter().find(|one| one["name"] == "default").or(list.first())?;
            return default["template"].as_str();
        }
        template.as_str()
    }

    /// The text of `bos_token` or `eos_token`, written plainly or as a token with its properties.
    pub fn token_text(&self, key: &str) -> Option<&str> {
        let token = self.tokenizer.get(key)?;
        token.as_str().or_else(|| token.get("content")?.as_str())
    }

    fn wrong(&self, key: &str, expected: &str) -> LoadError {
        LoadError::malformed(self.file, format!("\"{key}\" is not {expected}"))
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, LoadError> {
        match &self.config[key] {
            Value::Null => Ok(None),
            value => {
                let size = value.as_u64().and_then(|n| usize::try_from(n).ok());
                size.map(Some).ok_or_else(|| self.wrong(key, "a size"))
            }
        }
    }

    fn size(&self, key: &str) -> Result<usize, LoadError> {
        self.optional(key)?.ok_or_else(|| LoadError::malformed(self.file, format!("it has no \"{key}\"")))
    }

    fn number(&self, object: &Value, key: &str) -> Result<Option<f32>, LoadError> {
        match &object[key] {
            Value::Null => Ok(None),
            value => value.as_f64().map(|x| Some(x as f32)).ok_or_else(|| self.wrong(key, "a number")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, LoadError> {
        match &self.config[key] {
            Value::Null => Ok(false),
            value => value.as_bool().ok_or_else(|| self.wrong(key, "true or false")),
        }
    }

    fn refuse_what_we_do_not_run(&self) -> Result<(), LoadError> {
        let refuse = |what: &str| Err(LoadError::unsupported(self.file, what));
        for (key, what) in [
            ("use_sliding_window", "sliding-window attention"),
            ("attention_bias", "biases in attention"),
            ("mlp_bias", "biases in the feed-forward layers"),
        ] {
            if self.flag(key)? {
                return refuse(what);
            }
        }
        for key in ["num_experts", "num_local_experts"] {
            if self.optional(key)?.is_some_and(|n| n > 0) {
                return refuse("a mixture of experts");
            }
        }
        if let Some(layers) = self.config["layer_types"].as_array()
            && let Some(other) = layers.iter().find(|layer| *layer != "full_attention")
        {
            return refuse(&format!("layers of type {other}"));
        }
        if let Some(act) = self.config["hidden_act"].as_str()
            && act != "silu"
        {
            return refuse(&format!("the activation \"{act}\""));
        }
        if self.number(&self.config, "partial_rotary_factor")?.is_some_and(|x| x != 1.0) {
            return refuse("rotation of a part of each head");
        }
        if !self.config["quantization_config"].is_null() {
            return refuse("quantised safetensors (take the GGUF of this model instead)");
        }
        Ok(())
    }

    /// The base of the rotation and the divisors of its frequencies.
    fn rope(&self, head_dim: usize, context: usize) -> Result<(f32, Option<Vec<f32>>), LoadError> {
        // Since version 5 transformers writes `rope_parameters`, with the base inside.
        let scaling = match &self.config["rope_parameters"] {
            Value::Null => &self.config["rope_scaling"],
            parameters => parameters,
        };
        let theta = match self.number(scaling, "rope_theta")? {
            Some(theta) => theta,
            None => self.number(&self.config, "rope_theta")?.unwrap_or(10_000.0),
        };
        let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str()).unwrap_or("default");
        let need = |key: &str| {
            self.number(scaling, key)?
                .filter(|x| *x > 0.0)
                .ok_or_else(|| LoadError::malformed(self.file, format!("its rope scaling has no \"{key}\"")))
        };
        // Checked with everything else later; until then a wild size must not be allocated.
        let frequencies = (head_dim / 2).min(1 << 12);
        let factors = match kind {
            "default" => None,
            "linear" => Some(vec![need("factor")?; frequencies]),
            "llama3" => {
                let original = self.number(scaling, "original_max_position_embeddings")?;
                let stretch = Llama3 {
                    factor: need("factor")?,
                    low: need("low_freq_factor")?,
                    high: need("high_freq_factor")?,
                    original: original.unwrap_or(context as f32),
                };
                let wavelength = |i: usize| 2.0 * PI * theta.powf(2.0 * i as f32 / head_dim as f32);
                Some((0..frequencies).map(|i| stretch.divisor(wavelength(i))).collect())
            }
            other => {
                let what = format!("rope scaling of type \"{other}\"");
                return Err(LoadError::unsupported(self.file, what));
            }
        };
        Ok((theta, factors.filter(|f: &Vec<f32>| f.iter().any(|x| *x != 1.0))))
    }

    pub(super) fn stop_tokens(&self, tokenizer: &Tokenizer, vocab: usize) -> Result<Vec<u32>, LoadError> {
        let mut named = Vec::new();
        for settings in [&self.config, &self.generation] {
            let ids = match &settings["eos_token_id"] {
                Value::Null => &[][..],
                Value::Array(list) => list,
                one => std::slice::from_ref(one),
            };
            for id in ids {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                named.push(id.ok_or_else(|| self.wrong("eos_token_id", "a token"))?);
            }
        }
        named.extend(self.token_text("eos_token").and_then(|text| tokenizer.token(text)));
        end_tokens(named, tokenizer, vocab, self.file)
    }

    pub(super) fn bos(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let bos = self.token_text("bos_token").and_then(|text| tokenizer.token(text));
        match self.tokenizer.get("add_bos_token").and_then(Value::as_bool) {
            Some(true) => bos,
            Some(false) => None,
            None => tokenizer.first_of_all().filter(|first| Some(*first) == bos),
        }
    }
}

/// Llama 3's stretch of the context: long waves are slowed down by `factor`, short ones left alone, and those
/// in between blended. Short and long are relative to the context that the model was first trained with.
struct Llama3 {
    factor: f32,
    low: f32,
    high: f32,
    original: f32,
}

impl Llama3 {
    fn divisor(&self, wavelength: f32) -> f32 {
        let turns = self.original / wavelength;
        if turns > self.high {
            1.0
        } else if turns < self.low {
            self.factor
        } else {
            let smooth = (turns - self.low) / (self.high - self.low);
            1.0 / ((1.0 - smooth) / self.factor + smooth)
        }
    }
}
