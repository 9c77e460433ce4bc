//! Writes small GGUF files, and lies in them where a test wants that.

#![allow(dead_code)] // each test binary uses its part

pub const U32: u32 = 4;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
pub const F32: u32 = 0;

#[derive(Clone)]
pub struct Writer {
    pub version: u32,
    pub tensor_count: Option<u64>,
    pub metadata_count: Option<u64>,
    pub metadata: Vec<(String, Vec<u8>)>,
    pub tensors: Vec<TensorInfo>,
}

#[derive(Clone)]
pub struct TensorInfo {
    pub name: String,
    /// Rows first, as everywhere in this crate.
    pub shape: Vec<u64>,
    pub kind: u32,
    /// `None`: after the one before, aligned.
    pub offset: Option<u64>,
    pub data: Vec<u8>,
}

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes(), s.as_bytes()].concat()
}

impl Writer {
    pub fn new() -> Self {
        Self { version: 3, tensor_count: None, metadata_count: None, metadata: vec![], tensors: vec![] }
    }

    /// Sets a key, replacing the value it had.
    pub fn raw(mut self, key: &str, kind: u32, value: impl AsRef<[u8]>) -> Self {
        let typed = [&kind.to_le_bytes(), value.as_ref()].concat();
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = typed,
            None => self.metadata.push((key.to_owned(), typed)),
        }
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(k, _)| k != key);
        self
    }

    pub fn twice(mut self, key: &str) -> Self {
        let again = self.metadata.iter().find(|(k, _)| k == key).cloned();
        self.metadata.extend(again);
        self
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, U32, value.to_le_bytes())
    }

    pub fn u64(self, key: &str, value: u64) -> Self {
        self.raw(key, 10, value.to_le_bytes())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, 6, value.to_le_bytes())
    }

    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, [u8::from(value)])
    }

    pub fn str(self, key: &str, value: &str) -> Self {
        self.raw(key, STRING, text(value))
    }

    /// An array of `len` elements, or so it says.
    pub fn array(self, key: &str, kind: u32, len: u64, elements: impl AsRef<[u8]>) -> Self {
        let value = [&kind.to_le_bytes()[..], &len.to_le_bytes(), elements.as_ref()].concat();
        self.raw(key, ARRAY, value)
    }

    pub fn strings(self, key: &str, values: &[&str]) -> Self {
        let elements: Vec<u8> = values.iter().flat_map(|s| text(s)).collect();
        self.array(key, STRING, values.len() as u64, elements)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let elements: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.array(key, 5, values.len() as u64, elements)
    }

    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let elements: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.array(key, 6, values.len() as u64, elements)
    }

    /// A float tensor of 0, 1, 2, …
    pub fn tensor(mut self, name: &str, shape: &[u64]) -> Self {
        let count: u64 = shape.iter().product();
        let data = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
        self.tensors.push(TensorInfo {
            name: name.into(),
            shape: shape.into(),
            kind: F32,
            offset: None,
            data,
        });
        self
    }

    pub fn change(mut self, name: &str, change: impl Fn(&mut TensorInfo)) -> Self {
        self.tensors.iter_mut().filter(|t| t.name == name).for_each(change);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.metadata_count.unwrap_or(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            out.extend(text(key));
            out.extend(value);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            data.resize(data.len().next_multiple_of(32), 0);
            out.extend(text(&tensor.name));
            out.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().rev().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out
    }

    /// As bytes that live as long as an embedded model would.
    pub fn leak(&self) -> &'static [u8] {
        self.bytes().leak()
    }
}

/// The smallest whole model of an architecture: one layer, eight tokens.
pub fn tiny(architecture: &str) -> Writer {
    let key = |name: &str| format!("{architecture}.{name}");
    let mut writer = Writer::new()
        .str("general.architecture", architecture)
        .u32(&key("embedding_length"), 4)
        .u32(&key("block_count"), 1)
        .u32(&key("attention.head_count"), 2)
        .u32(&key("attention.head_count_kv"), 1)
        .u32(&key("attention.key_length"), 2)
        .u32(&key("feed_forward_length"), 6)
        .u32(&key("context_length"), 16)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-5)
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &["a", "b", "c", "ab", "abc", "Ġ", "<|end|>", "<tool>"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 1, 1, 1, 3, 4])
        .strings("tokenizer.ggml.merges", &["a b", "ab c"])
        .u32("tokenizer.ggml.eos_token_id", 6)
        .tensor("token_embd.weight", &[8, 4])
        .tensor("output_norm.weight", &[4]);
    for (name, shape) in [
        ("attn_norm", &[4][..]),
        ("attn_q", &[4, 4]),
        ("attn_k", &[2, 4]),
        ("attn_v", &[2, 4]),
        ("attn_output", &[4, 4]),
        ("ffn_norm", &[4]),
        ("ffn_gate", &[6, 4]),
        ("ffn_up", &[6, 4]),
        ("ffn_down", &[4, 6]),
    ] {
        writer = writer.tensor(&format!("blk.0.{name}.weight"), shape);
    }
    if architecture == "qwen3" {
        writer = writer.tensor("blk.0.attn_q_norm.weight", &[2]).tensor("blk.0.attn_k_norm.weight", &[2]);
    }
    writer
}
