//! A decoder-only transformer: token in, logits out.
//!
//! Llama and Qwen3 are the same network with and without a norm on queries and keys, so there is one forward pass and a
//! configuration. It works on a batch of rows. A row is one token of one sequence; decoding contributes one row per
//! sequence, a prompt contributes many, and the pass does not care which is which.

use crate::kernel::{Attention, Isa, PAGE, Packed, Panels, View, matmul, rms_norm, rope, swiglu};
use crate::load::{Checkpoint, Config, LoadError};
use crate::pages::{PageId, Pool};

/// The weights, packed for this machine.
#[derive(Debug)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) isa: Isa,
    /// Also the output matrix where the file has no other.
    embedding: Packed,
    output: Option<Packed>,
    norm: Vec<f32>,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    /// Queries, keys and values in one product.
    qkv: Packed,
    query_norm: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
    attention_out: Packed,
    ffn_norm: Vec<f32>,
    gate_up: Packed,
    down: Packed,
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

/// Rows of one step, with the page tables they refer to. Every row's own slot is in its table already.
#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    pub rows: Vec<Row>,
    pub tables: Vec<&'a [PageId]>,
}

impl Model {
    /// Packs the weights for these instructions.
    pub fn load(checkpoint: &Checkpoint, isa: Isa) -> Result<Self, LoadError> {
        let config = checkpoint.config.clone();
        let vector = |name: &str| Ok::<_, LoadError>(checkpoint.tensor(name)?.to_f32());
        let stack = |names: &[String]| {
            let parts = names.iter().map(|n| checkpoint.tensor(n)).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, LoadError>(Packed::stack(isa, &parts))
        };
        let mut layers = Vec::with_capacity(config.layers);
        for layer in 0..config.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let norm_if = |part: &str| config.qk_norm.then(|| vector(&name(part))).transpose();
            layers.push(Layer {
                attention_norm: vector(&name("attn_norm"))?,
                qkv: stack(&[name("attn_q"), name("attn_k"), name("attn_v")])?,
                query_norm: norm_if("attn_q_norm")?,
                key_norm: norm_if("attn_k_norm")?,
                attention_out: stack(&[name("attn_output")])?,
                ffn_norm: vector(&name("ffn_norm"))?,
                gate_up: stack(&[name("ffn_gate"), name("ffn_up")])?,
                down: stack(&[name("ffn_down")])?,
            });
        }
        // Rounding here would go straight into the log-probabilities, so this product is one of floats.
        let floats = |name: &str| Ok::<_, LoadError>(Packed::floats(&[checkpoint.tensor(name)?]));
        let output = checkpoint.has("output.weight").then(|| floats("output.weight")).transpose()?;
        Ok(Model {
            embedding: floats("token_embd.weight")?,
            output,
            norm: vector("output_norm.weight")?,
            layers,
            config,
            isa,
        })
    }

    fn attention(&self) -> Attention {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        Attention { heads, kv_heads, head_dim }
    }

    /// Numbers in one page of keys and values, all layers.
    pub(crate) fn page_size(&self) -> usize {
        self.config.layers * self.attention().page_size()
    }
}

/// Buffers that a forward pass needs, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    hidden: Vec<f32>,
    normed: Vec<f32>,
    product: Panels,
    row: Vec<f32>,
    queries: Vec<f32>,
    attended: Vec<f32>,
    tasks: Vec<f32>,
    gated: Vec<f32>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    logits: Vec<f32>,
}

/// One pass over a batch.
pub(crate) struct Forward<'a> {
    pub model: &'a Model,
    pub pool: &'a mut Pool,
    pub scratch: &'a mut Scratch,
}

impl Forward<'_> {
    /// Computes the batch, stores its keys and values, and returns the logits of the rows that asked, in order.
    pub fn run(&mut self, batch: &Batch<'_>) -> &[f32] {
        self.embed(batch);
        self.angles(batch);
        let order = by_table(batch);
        for (index, layer) in self.model.layers.iter().enumerate() {
            self.attend(index, layer, batch, &order);
            self.feed_forward(layer);
        }
        self.logits(batch)
    }

    fn embed(&mut self, batch: &Batch<'_>) {
        let width = self.model.config.hidden;
        let hidden = &mut self.scratch.hidden;
        hidden.resize(batch.rows.len() * width, 0.0);
        for (row, into) in batch.rows.iter().zip(hidden.chunks_mut(width)) {
            self.model.embedding.output(row.token as usize, into);
        }
    }

    /// The rotations of every row's position, once for all layers.
    fn angles(&mut self, batch: &Batch<'_>) {
        let config = &self.model.config;
        let half = config.head_dim / 2;
        let frequency = |i: usize| {
            let plain = config.rope_theta.powf(-((2 * i) as f32) / config.head_dim as f32);
            config.rope_factors.as_ref().map_or(plain, |factors| plain / factors[i])
        };
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let Scratch { cos, sin, .. } = &mut *self.scratch;
        cos.clear();
        sin.clear();
        for row in &batch.rows {
            for frequency in &frequencies {
                let (s, c) = (row.position as f32 * frequency).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
    }

    fn attend(&mut self, index: usize, layer: &Layer, batch: &Batch<'_>, order: &[View<'_>]) {
        let (model, isa) = (self.model, self.model.isa);
        let attention = model.attention();
        let config = &model.config;
        let (dim, half) = (config.head_dim, config.head_dim / 2);
        let (q, kv) = (config.heads * dim, config.kv_heads * dim);
        self.normalise(&layer.attention_norm);
        matmul(isa, &layer.qkv, &self.scratch.normed, &mut self.scratch.product);

        let Scratch { product, row: qkv, queries, cos, sin, .. } = &mut *self.scratch;
        qkv.resize(q + 2 * kv, 0.0);
        queries.resize(batch.rows.len() * q, 0.0);
        let size = attention.page_size();
        let mut normed = vec![0.0; dim];
        for (at, (row, queries)) in batch.rows.iter().zip(queries.chunks_mut(q)).enumerate() {
            product.copy_row(at, qkv);
            let (cos, sin) = (&cos[at * half..][..half], &sin[at * half..][..half]);
            for (i, head) in qkv[..q + kv].chunks_mut(dim).enumerate() {
                let norm = if i < config.heads { &layer.query_norm } else { &layer.key_norm };
                if let Some(norm) = norm {
                    rms_norm(isa, head, norm, config.rms_eps, &mut normed);
                    head.copy_from_slice(&normed);
                }
                rope(head, cos, sin, config.rope);
            }
            queries.copy_from_slice(&qkv[..q]);
            let page = batch.tables[row.table][row.position / PAGE];
            let page = &mut self.pool.data_mut(page)[index * size..][..size];
            attention.store(page, row.position % PAGE, &qkv[q..q + kv], &qkv[q + kv..]);
        }

        let Scratch { queries, attended, tasks, .. } = &mut *self.scratch;
        attended.resize(batch.rows.len() * q, 0.0);
        let pool = &*self.pool;
        let page = |id: PageId| &pool.data(id)[index * size..][..size];
        attention.attend(isa, order, page, queries, tasks, attended);
        matmul(isa, &layer.attention_out, &self.scratch.attended, &mut self.scratch.product);
        self.add_residual();
    }

    fn feed_forward(&mut self, layer: &Layer) {
        use rayon::prelude::*;
        let (isa, ffn) = (self.model.isa, self.model.config.ffn);
        self.normalise(&layer.ffn_norm);
        matmul(isa, &layer.gate_up, &self.scratch.normed, &mut self.scratch.product);
        let Scratch { hidden, product, gated, .. } = &mut *self.scratch;
        gated.resize(hidden.len() / self.model.config.hidden * ffn, 0.0);
        let product = &*product;
        gated.par_chunks_mut(ffn).enumerate().with_min_len(8).for_each_init(
            || vec![0.0; 2 * ffn],
            |both, (row, out)| {
                product.copy_row(row, both);
                swiglu(isa, &both[..ffn], &both[ffn..], out);
            },
        );
        matmul(isa, &layer.down, &self.scratch.gated, &mut self.scratch.product);
        self.add_residual();
    }

    fn normalise(&mut self, weight: &[f32]) {
        let width = self.model.config.hidden;
        let Scratch { hidden, normed, .. } = &mut *self.scratch;
        normed.resize(hidden.len(), 0.0);
        for (x, out) in hidden.chunks(width).zip(normed.chunks_mut(width)) {
            rms_norm(self.model.isa, x, weight, self.model.config.rms_eps, out);
        }
    }

    fn add_residual(&mut self) {
        let Scratch { hidden, product, .. } = &mut *self.scratch;
        for (row, hidden) in hidden.chunks_mut(self.model.config.hidden).enumerate() {
            product.row(row, |first, values| {
                for (hidden, value) in hidden[first..].iter_mut().zip(values) {
                    *hidden += value;
                }
            });
        }
    }

    fn logits(&mut self, batch: &Batch<'_>) -> &[f32] {
        let (model, width) = (self.model, self.model.config.hidden);
        let asked = || batch.rows.iter().enumerate().filter(|(_, row)| row.logits).map(|(at, _)| at);
        let Scratch { hidden, normed, product, logits, .. } = &mut *self.scratch;
        normed.resize(asked().count() * width, 0.0);
        for (at, out) in asked().zip(normed.chunks_mut(width)) {
            rms_norm(self.model.isa, &hidden[at * width..][..width], &model.norm, model.config.rms_eps, out);
        }
        let output = model.output.as_ref().unwrap_or(&model.embedding);
        logits.resize(asked().count() * output.outputs(), 0.0);
        if !logits.is_empty() {
            matmul(model.isa, output, normed, product);
            for (row, logits) in logits.chunks_mut(output.outputs()).enumerate() {
                product.copy_row(row, logits);
            }
        }
        logits
    }
}

/// The rows in the order in which attention shares most: by page table, so that branches of one trunk are neighbours.
fn by_table<'a>(batch: &Batch<'a>) -> Vec<View<'a>> {
    let view =
        |(at, row): (usize, &Row)| View { row: at, pages: batch.tables[row.table], len: row.position + 1 };
    let mut views: Vec<View<'a>> = batch.rows.iter().enumerate().map(view).collect();
    views.sort_by(|a, b| a.pages.cmp(b.pages).then(a.len.cmp(&b.len)));
    views
}
