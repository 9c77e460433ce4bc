//! The weights of a decoder-only transformer, packed for this machine.
//!
//! All architectures are one network with parts that are there or not: a norm on queries and keys (Qwen3), something added
//! to them (Qwen2), layers that do not rotate (SmolLM3), and in gpt-oss sinks, windows and experts in place of the
//! feed-forward layer. So there is one [`Model`], and one [forward pass](crate::forward), with a configuration.

use std::ops::Range;

use crate::kernel::{Attention, Isa, KvType, PAGE, Packed, Plan, Tables, View};
use crate::load::{Checkpoint, Config, LayerShape, LoadError};
use crate::mixture::Mixture;
use crate::pages::PageId;

/// The weights, packed for this machine.
#[derive(Debug)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) isa: Isa,
    /// Also the output matrix where the file has no other.
    pub(crate) embedding: Packed,
    pub(crate) output: Option<Packed>,
    pub(crate) norm: Vec<f32>,
    pub(crate) layers: Vec<Layer>,
    /// How fast each pair of a head turns with position.
    pub(crate) frequencies: Vec<f32>,
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub shape: LayerShape,
    pub attention_norm: Vec<f32>,
    /// Queries, keys and values in one product.
    pub qkv: Packed,
    pub qkv_bias: Option<Vec<f32>>,
    pub query_norm: Option<Vec<f32>>,
    pub key_norm: Option<Vec<f32>>,
    /// A score of each head that brings no value.
    pub sinks: Option<Vec<f32>>,
    pub attention_out: Packed,
    pub attention_bias: Option<Vec<f32>>,
    pub ffn_norm: Vec<f32>,
    pub ffn: FeedForward,
}

#[derive(Debug)]
pub(crate) enum FeedForward {
    Dense { gate_up: Packed, down: Packed },
    Mixture(Mixture),
}

impl FeedForward {
    fn bytes(&self) -> usize {
        match self {
            Self::Dense { gate_up, down } => gate_up.bytes() + down.bytes(),
            Self::Mixture(mixture) => mixture.bytes(),
        }
    }
}

/// One token to compute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub token: u32,
    pub position: usize,
    /// Which of the batch's page tables holds its past.
    pub table: usize,
    /// Are this row's logits asked for?
    pub logits: bool,
}

/// Rows of one step, with the page tables they refer to. Every row's own slot is in its table already. The memory is kept for
/// the next step.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub rows: Vec<Row>,
    pub tables: Tables,
    /// Stretches of rows that write to the same page, of which each row is in one.
    pub same_page: Vec<Range<usize>>,
    /// The rows whose logits are asked for.
    pub asked: Vec<usize>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.rows.clear();
        self.tables.clear();
        self.same_page.clear();
        self.asked.clear();
    }

    /// Adds the rows of one sequence, whose page table is its own from the first of them on.
    pub fn add(&mut self, rows: impl Iterator<Item = Row>) {
        for row in rows {
            let at = self.rows.len();
            let page = |row: &Row| row.position / PAGE;
            match (self.same_page.last_mut(), self.rows.last()) {
                (Some(stretch), Some(last)) if last.table == row.table && page(last) == page(&row) => {
                    stretch.end += 1
                }
                _ => self.same_page.push(at..at + 1),
            }
            if row.logits {
                self.asked.push(at);
            }
            self.rows.push(row);
        }
    }

    /// The page that a row's keys and values are in.
    pub fn page(&self, row: &Row) -> PageId {
        self.tables.pages(row.table)[row.position / PAGE]
    }

    /// Works out who sees what in layers with this window, where so many queries share a head of keys and values.
    pub fn plan(&self, window: Option<usize>, queries: usize, plan: &mut Plan) {
        let view = |(at, row): (usize, &Row)| {
            let len = row.position + 1;
            let first = window.map_or(0, |window| len.saturating_sub(window));
            View { row: at, table: row.table, first, len }
        };
        plan.work_out(&self.tables, self.rows.iter().enumerate().map(view), queries);
    }
}

impl Model {
    /// Packs the weights for these instructions. What is packed is let go of in the file: weights are in memory once.
    pub fn load(checkpoint: &Checkpoint, isa: Isa) -> Result<Self, LoadError> {
        let config = checkpoint.config.clone();
        let pack = Packing { checkpoint, isa };
        // First, because it is the largest: until it is packed it is in memory twice.
        let embedding = pack.matrix("token_embd")?;
        let output = checkpoint.has("output.weight").then(|| pack.matrix("output")).transpose()?;
        let layers = (0..config.layers).map(|layer| pack.layer(layer)).collect::<Result<_, _>>()?;
        let norm = pack.vector("output_norm.weight")?;
        Ok(Model { embedding, output, norm, layers, frequencies: config.frequencies(), config, isa })
    }

    pub(crate) fn attention(&self, kv: KvType) -> Attention {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        Attention { heads, kv_heads, head_dim, kv }
    }

    /// Bytes of the packed weights.
    pub fn weight_bytes(&self) -> usize {
        let layer = |l: &Layer| l.qkv.bytes() + l.attention_out.bytes() + l.ffn.bytes();
        let output = self.output.as_ref().map_or(0, Packed::bytes);
        self.embedding.bytes() + output + self.layers.iter().map(layer).sum::<usize>()
    }

    /// What the model's files say of its shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes in one page of keys and values, all layers.
    pub(crate) fn page_bytes(&self, kv: KvType) -> usize {
        self.config.layers * self.attention(kv).page_bytes()
    }
}

/// From a checkpoint's tensors to packed weights.
pub(crate) struct Packing<'a> {
    pub checkpoint: &'a Checkpoint,
    pub isa: Isa,
}

impl Packing<'_> {
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, LoadError> {
        Ok(self.checkpoint.tensor(name)?.to_f32())
    }

    pub fn matrix(&self, name: &str) -> Result<Packed, LoadError> {
        self.stack(&[format!("{name}.weight")])
    }

    fn stack(&self, names: &[String]) -> Result<Packed, LoadError> {
        let parts = names.iter().map(|name| self.checkpoint.tensor(name)).collect::<Result<Vec<_>, _>>()?;
        let packed = Packed::stack(self.isa, &parts);
        names.iter().for_each(|name| self.checkpoint.let_go(name));
        Ok(packed)
    }

    fn layer(&self, layer: usize) -> Result<Layer, LoadError> {
        let config = &self.checkpoint.config;
        let weight = |part: &str| format!("blk.{layer}.{part}.weight");
        let vector = |part: &str| self.vector(&format!("blk.{layer}.{part}"));
        let vector_if = |there: bool, part: &str| there.then(|| vector(part)).transpose();
        let qkv = ["attn_q", "attn_k", "attn_v"];
        let qkv_bias =
            || qkv.iter().map(|part| vector(&format!("{part}.bias"))).collect::<Result<Vec<_>, _>>();
        let ffn = match config.experts {
            Some(experts) => FeedForward::Mixture(Mixture::load(self, layer, experts)?),
            None => FeedForward::Dense {
                gate_up: self.stack(&[weight("ffn_gate"), weight("ffn_up")])?,
                down: self.stack(&[weight("ffn_down")])?,
            },
        };
        Ok(Layer {
            shape: config.shapes[layer],
            attention_norm: vector("attn_norm.weight")?,
            qkv: self.stack(&qkv.map(weight))?,
            qkv_bias: config.qkv_bias.then(qkv_bias).transpose()?.map(|parts| parts.concat()),
            query_norm: vector_if(config.qk_norm, "attn_q_norm.weight")?,
            key_norm: vector_if(config.qk_norm, "attn_k_norm.weight")?,
            sinks: vector_if(config.sinks, "attn_sinks.weight")?,
            attention_out: self.stack(&[weight("attn_output")])?,
            attention_bias: vector_if(config.output_bias, "attn_output.bias")?,
            ffn_norm: vector("ffn_norm.weight")?,
            ffn,
        })
    }
}
