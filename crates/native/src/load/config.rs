//! The shape of a model: everything the engine must know before it looks at a weight.
//!
//! GGUF metadata and Hugging Face's `config.json` say the same things in different words. Both are read
//! into one [`Config`], and a `Config` that leaves this module has been checked: no size is zero or absurd,
//! heads divide evenly, and nothing in the file asks for an operation that the engine does not have. A model
//! that we would run wrongly is refused here, by name, rather than answered with nonsense later.

use super::LoadError;

/// A family of models that differ only in what [`Config`] can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    Llama,
    SmolLm3,
    Qwen2,
    Qwen3,
    GptOss,
}

impl Architecture {
    const ALL: [Self; 5] = [Self::Llama, Self::SmolLm3, Self::Qwen2, Self::Qwen3, Self::GptOss];

    /// The name used by GGUF's `general.architecture` and, with `_` for `-`, by `model_type` in config.json.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::SmolLm3 => "smollm3",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::GptOss => "gpt-oss",
        }
    }

    pub(super) fn from_name(found: &str, file: &str) -> Result<Self, LoadError> {
        let name = found.replace('_', "-");
        Self::ALL.into_iter().find(|a| a.name() == name).ok_or_else(|| LoadError::Architecture {
            file: file.to_owned(),
            found: found.to_owned(),
            supported: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// What one layer may do differently from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// Are queries and keys rotated by their positions?
    pub rope: bool,
    /// How many tokens a query sees at most, its own included.
    pub window: Option<usize>,
}

impl LayerShape {
    pub(super) const PLAIN: Self = Self { rope: true, window: None };

    /// One for each layer, as `shape` says. Sizes are checked later; until then a wild one must not be allocated.
    pub(super) fn list(layers: usize, shape: impl Fn(usize) -> Self) -> Vec<Self> {
        (0..layers.min(MOST_LAYERS)).map(shape).collect()
    }
}

/// A feed-forward layer of which every token uses a few parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    pub count: usize,
    /// How many a token is sent to.
    pub used: usize,
    /// What their gate is limited to, and how steep it is.
    pub limit: f32,
    pub alpha: f32,
}

impl Experts {
    /// gpt-oss's, whose files do not always say it.
    pub(super) const LIMIT: f32 = 7.0;
    pub(super) const ALPHA: f32 = 1.702;
}

const MOST_LAYERS: usize = 1 << 10;

/// Which two elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(2i, 2i + 1)`: GGUF stores Llama's query and key rows permuted for this.
    Interleaved,
    /// `(i, i + head_dim / 2)`: Hugging Face's layout, and Qwen3's everywhere.
    Halves,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub architecture: Architecture,
    /// Rows of the embedding: the number of logits, at least the number of tokens.
    pub vocab: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Inner width of a feed-forward layer, or of one expert.
    pub ffn: usize,
    /// The longest sequence the model was made for.
    pub context: usize,
    pub rms_eps: f32,
    pub rope_theta: f32,
    pub rope: RopeStyle,
    /// Divisors of the rotation frequencies, `head_dim / 2` of them; `None` means all ones.
    pub rope_factors: Option<Vec<f32>>,
    /// What rotated queries and keys are multiplied with.
    pub rope_scale: f32,
    /// Queries and keys are RMS-normalised per head before the rotation.
    pub qk_norm: bool,
    /// Something is added to queries, keys and values.
    pub qkv_bias: bool,
    /// And to what attention gives.
    pub output_bias: bool,
    /// Every head has a score that weighs in its softmax and brings no value.
    pub sinks: bool,
    pub experts: Option<Experts>,
    /// One for each layer.
    pub shapes: Vec<LayerShape>,
    /// Tokens that end a sequence.
    pub stop_tokens: Vec<u32>,
    /// The token to put before a text, only where the model's files ask for it.
    pub bos: Option<u32>,
}

impl Config {
    /// Refuses what cannot be a real model, so that no later arithmetic on sizes can overflow or divide by zero.
    pub(super) fn check(&self, file: &str) -> Result<(), LoadError> {
        let sizes = [
            ("vocabulary size", self.vocab, 1 << 22),
            ("hidden size", self.hidden, 1 << 17),
            ("number of layers", self.layers, MOST_LAYERS),
            ("number of heads", self.heads, 1 << 12),
            ("number of key/value heads", self.kv_heads, 1 << 12),
            ("head dimension", self.head_dim, 1 << 12),
            ("feed-forward size", self.ffn, 1 << 20),
            ("context length", self.context, 1 << 30),
            ("number of experts", self.experts.map_or(1, |e| e.count), 1 << 12),
            ("number of experts in use", self.experts.map_or(1, |e| e.used), 1 << 6),
            ("smallest window", self.shapes.iter().filter_map(|s| s.window).min().unwrap_or(1), 1 << 30),
        ];
        for (what, value, limit) in sizes {
            if value == 0 || value > limit {
                let why = format!("its {what} is {value}, outside 1..={limit}");
                return Err(LoadError::malformed(file, why));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let why =
                format!("its {} heads cannot share {} key/value heads evenly", self.heads, self.kv_heads);
            return Err(LoadError::malformed(file, why));
        }
        if let Some(Experts { count, used, limit, alpha }) = self.experts
            && (used > count || !(limit > 0.0 && alpha > 0.0 && alpha.is_finite()))
        {
            let why =
                format!("it uses {used} of {count} experts, limited to {limit} with a slope of {alpha}");
            return Err(LoadError::malformed(file, why));
        }
        if self.shapes.len() != self.layers {
            let why = format!("it describes {} of its {} layers", self.shapes.len(), self.layers);
            return Err(LoadError::malformed(file, why));
        }
        if !self.head_dim.is_multiple_of(2) {
            let why = format!("its head dimension {} is odd", self.head_dim);
            return Err(LoadError::malformed(file, why));
        }
        if !(self.rms_eps > 0.0 && self.rms_eps < 1.0) {
            let why = format!("its RMS epsilon is {}", self.rms_eps);
            return Err(LoadError::malformed(file, why));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta.is_finite()) {
            let why = format!("its rope base is {}", self.rope_theta);
            return Err(LoadError::malformed(file, why));
        }
        if !(self.rope_scale > 0.0 && self.rope_scale.is_finite()) {
            let why = format!("its rotations scale by {}", self.rope_scale);
            return Err(LoadError::malformed(file, why));
        }
        if let Some(factors) = &self.rope_factors {
            let positive = factors.iter().all(|f| *f > 0.0 && f.is_finite());
            if factors.len() != self.head_dim / 2 || !positive {
                let why = "its rope factors are not one positive number per frequency";
                return Err(LoadError::malformed(file, why));
            }
        }
        Ok(())
    }

    /// Every tensor the engine reads, with the shape it must have, apart from those of [experts](super::experts).
    /// `output.weight` is absent from this list: it is optional, and where it is missing the embedding serves as the
    /// output matrix.
    pub(super) fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut list = vec![
            ("token_embd.weight".to_owned(), vec![self.vocab, self.hidden]),
            ("output_norm.weight".to_owned(), vec![self.hidden]),
        ];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                list.push((format!("blk.{layer}.{name}"), shape.to_vec()));
            };
            add("attn_norm.weight", &[self.hidden]);
            for (part, rows) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
                add(&format!("{part}.weight"), &[rows, self.hidden]);
                if self.qkv_bias {
                    add(&format!("{part}.bias"), &[rows]);
                }
            }
            add("attn_output.weight", &[self.hidden, q]);
            if self.output_bias {
                add("attn_output.bias", &[self.hidden]);
            }
            if self.qk_norm {
                add("attn_q_norm.weight", &[self.head_dim]);
                add("attn_k_norm.weight", &[self.head_dim]);
            }
            if self.sinks {
                add("attn_sinks.weight", &[self.heads]);
            }
            add("ffn_norm.weight", &[self.hidden]);
            if let Some(Experts { count, .. }) = self.experts {
                add("ffn_gate_inp.weight", &[count, self.hidden]);
                add("ffn_gate_inp.bias", &[count]);
            } else {
                add("ffn_gate.weight", &[self.ffn, self.hidden]);
                add("ffn_up.weight", &[self.ffn, self.hidden]);
                add("ffn_down.weight", &[self.hidden, self.ffn]);
            }
        }
        list
    }
}
