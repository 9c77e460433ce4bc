//! A [`Config`] from Hugging Face's JSON files.

use serde_json::Value;

use super::LoadError;
use super::config::{Architecture, Config, Experts, LayerShape, RopeStyle};
use super::rope::{Stretch, Yarn};
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
        self.refuse_what_we_do_not_run(architecture)?;

        let (hidden, heads) = (self.size("hidden_size")?, self.size("num_attention_heads")?);
        let head_dim = match self.optional("head_dim")? {
            Some(len) => len,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        let context = self.size("max_position_embeddings")?;
        let Rope { theta: rope_theta, factors: rope_factors, scale: rope_scale } =
            self.rope(head_dim, context)?;
        let layers = self.size("num_hidden_layers")?;
        let biased = self.flag("attention_bias")?;
        let config = Config {
            architecture,
            vocab,
            hidden,
            layers,
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
            rope_scale,
            qk_norm: architecture == Architecture::Qwen3,
            qkv_bias: biased || architecture == Architecture::Qwen2,
            output_bias: biased,
            sinks: architecture == Architecture::GptOss,
            experts: self.experts(architecture)?,
            shapes: self.shapes(layers)?,
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

    fn refuse_what_we_do_not_run(&self, architecture: Architecture) -> Result<(), LoadError> {
        let refuse = |what: &str| Err(LoadError::unsupported(self.file, what));
        let of_experts = architecture == Architecture::GptOss;
        if self.flag("mlp_bias")? {
            return refuse("biases in the feed-forward layers");
        }
        for key in ["num_experts", "num_local_experts"] {
            if !of_experts && self.optional(key)?.is_some_and(|n| n > 0) {
                return refuse("a mixture of experts");
            }
        }
        // Without a list of layers, their number alone says which slide, differently from model to model.
        if self.flag("use_sliding_window")? && self.config["layer_types"].is_null() {
            return refuse("sliding-window attention in layers that it does not name");
        }
        if let Some(act) = self.config["hidden_act"].as_str()
            && act != "silu"
        {
            return refuse(&format!("the activation \"{act}\""));
        }
        if self.number(&self.config, "partial_rotary_factor")?.is_some_and(|x| x != 1.0) {
            return refuse("rotation of a part of each head");
        }
        let quantised = &self.config["quantization_config"];
        let known = quantised.is_null() || of_experts && quantised["quant_method"] == "mxfp4";
        if !known {
            return refuse("quantised safetensors (take the GGUF of this model instead)");
        }
        Ok(())
    }

    fn experts(&self, architecture: Architecture) -> Result<Option<Experts>, LoadError> {
        if architecture != Architecture::GptOss {
            return Ok(None);
        }
        Ok(Some(Experts {
            count: self.size("num_local_experts")?,
            used: self.size("num_experts_per_tok")?,
            limit: self.number(&self.config, "swiglu_limit")?.unwrap_or(Experts::LIMIT),
            alpha: self.number(&self.config, "swiglu_alpha")?.unwrap_or(Experts::ALPHA),
        }))
    }

    /// Which layers rotate, and which see only a window.
    fn shapes(&self, layers: usize) -> Result<Vec<LayerShape>, LoadError> {
        let list = |key: &str| match &self.config[key] {
            Value::Null => Ok(None),
            Value::Array(list) if list.len() == layers => Ok(Some(list)),
            _ => Err(self.wrong(key, "a list with an entry for each layer")),
        };
        let mut shapes = LayerShape::list(layers, |_| LayerShape::PLAIN);
        if let Some(list) = list("layer_types")? {
            for (shape, kind) in shapes.iter_mut().zip(list) {
                shape.window = match kind.as_str() {
                    Some("full_attention") => None,
                    Some("sliding_attention") => Some(self.size("sliding_window")?),
                    _ => return Err(LoadError::unsupported(self.file, format!("layers of type {kind}"))),
                };
            }
        }
        // In spite of its name, it has a 1 for every layer that rotates.
        if let Some(list) = list("no_rope_layers")? {
            for (shape, rotates) in shapes.iter_mut().zip(list) {
                shape.rope =
                    rotates.as_u64().ok_or_else(|| self.wrong("no_rope_layers", "a list of 0 and 1"))? != 0;
            }
        }
        Ok(shapes)
    }

    fn rope(&self, head_dim: usize, context: usize) -> Result<Rope, LoadError> {
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
        let maybe = |key: &str| self.number(scaling, key);
        let need = |key: &str| {
            maybe(key)?
                .filter(|x| *x > 0.0)
                .ok_or_else(|| LoadError::malformed(self.file, format!("its rope scaling has no \"{key}\"")))
        };
        let mut scale = 1.0;
        let stretch = match kind {
            "default" => None,
            "linear" => Some(Stretch::Linear { factor: need("factor")? }),
            "llama3" => Some(Stretch::Llama3 {
                factor: need("factor")?,
                low: need("low_freq_factor")?,
                high: need("high_freq_factor")?,
                original: maybe("original_max_position_embeddings")?.unwrap_or(context as f32),
            }),
            "yarn" => {
                let yarn = self.yarn(scaling, need("factor")?, need("original_max_position_embeddings")?)?;
                scale = self.yarn_scale(scaling, yarn.factor)?;
                Some(Stretch::Yarn(yarn))
            }
            other => {
                let what = format!("rope scaling of type \"{other}\"");
                return Err(LoadError::unsupported(self.file, what));
            }
        };
        Ok(Rope { theta, factors: stretch.and_then(|stretch| stretch.divisors(theta, head_dim)), scale })
    }

    fn yarn(&self, scaling: &Value, factor: f32, original: f32) -> Result<Yarn, LoadError> {
        let turns = |key: &str, usual| Ok(self.number(scaling, key)?.filter(|x| *x > 0.0).unwrap_or(usual));
        Ok(Yarn {
            factor,
            original,
            fast: turns("beta_fast", Yarn::FAST)?,
            slow: turns("beta_slow", Yarn::SLOW)?,
            truncate: scaling["truncate"].as_bool().unwrap_or(true),
        })
    }

    /// What YaRN scales by: as given, or by its own formula. `attn_factor`, which DeepSeek's Qwen3 has, comes on top of
    /// the formula: there it is one over it, and takes it away again.
    fn yarn_scale(&self, scaling: &Value, factor: f32) -> Result<f32, LoadError> {
        if let Some(scale) = self.number(scaling, "attention_factor")? {
            return Ok(scale);
        }
        let part = |key: &str| Ok::<_, LoadError>(self.number(scaling, key)?.filter(|part| *part != 0.0));
        let scale = match (part("mscale")?, part("mscale_all_dim")?) {
            (Some(part), Some(all)) => Yarn::scale(factor, part) / Yarn::scale(factor, all),
            _ => Yarn::scale(factor, 1.0),
        };
        Ok(scale * self.number(scaling, "attn_factor")?.unwrap_or(1.0))
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

/// How positions turn queries and keys.
struct Rope {
    theta: f32,
    factors: Option<Vec<f32>>,
    scale: f32,
}
