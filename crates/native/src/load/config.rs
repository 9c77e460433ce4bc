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
    Qwen3,
}

impl Architecture {
    const ALL: [Self; 2] = [Self::Llama, Self::Qwen3];

    /// The name used by GGUF's `general.architecture` and by `model_type` in config.json.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen3 => "qwen3",
        }
    }

    pub(super) fn from_name(found: &str, file: &str) -> Result<Self, LoadError> {
        Self::ALL.into_iter().find(|a| a.name() == found).ok_or_else(|| LoadError::Architecture {
            file: file.to_owned(),
            found: found.to_owned(),
            supported: Self::ALL.map(Self::name).join(" and "),
        })
    }
}

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
    pub ffn: usize,
    /// The longest sequence the model was made for.
    pub context: usize,
    pub rms_eps: f32,
    pub rope_theta: f32,
    pub rope: RopeStyle,
    /// Divisors of the rotation frequencies, `head_dim / 2` of them; `None` means all ones.
    pub rope_factors: Option<Vec<f32>>,
    /// Queries and keys are RMS-normalised per head before the rotation.
    pub qk_norm: bool,
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
            ("number of layers", self.layers, 1 << 10),
            ("number of heads", self.heads, 1 << 12),
            ("number of key/value heads", self.kv_heads, 1 << 12),
            ("head dimension", self.head_dim, 1 << 12),
            ("feed-forward size", self.ffn, 1 << 20),
            ("context length", self.context, 1 << 30),
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
        if let Some(factors) = &self.rope_factors {
            let positive = factors.iter().all(|f| *f > 0.0 && f.is_finite());
            if factors.len() != self.head_dim / 2 || !positive {
                let why = "its rope factors are not one positive number per frequency";
                return Err(LoadError::malformed(file, why));
            }
        }
        Ok(())
    }

    /// Every tensor the engine reads, with the shape it must have. `output.weight` is absent from this list:
    /// it is optional, and where it is missing the embedding serves as the output matrix.
    pub(super) fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut list = vec![
            ("token_embd.weight".to_owned(), vec![self.vocab, self.hidden]),
            ("output_norm.weight".to_owned(), vec![self.hidden]),
        ];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                list.push((format!("blk.{layer}.{name}.weight"), shape.to_vec()))
            };
            add("attn_norm", &[self.hidden]);
            add("attn_q", &[q, self.hidden]);
            add("attn_k", &[kv, self.hidden]);
            add("attn_v", &[kv, self.hidden]);
            add("attn_output", &[self.hidden, q]);
            add("ffn_norm", &[self.hidden]);
            add("ffn_gate", &[self.ffn, self.hidden]);
            add("ffn_up", &[self.ffn, self.hidden]);
            add("ffn_down", &[self.hidden, self.ffn]);
            if self.qk_norm {
                add("attn_q_norm", &[self.head_dim]);
                add("attn_k_norm", &[self.head_dim]);
            }
        }
        list
    }
}
