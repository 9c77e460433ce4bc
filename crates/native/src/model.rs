//! A decoder-only transformer: token in, logits out.
//!
//! Llama and Qwen3 are the same network with and without a norm on queries and keys, so there is one forward pass and a
//! configuration. It works on a batch of rows. A row is one token of one sequence; decoding contributes one row per
//! sequence, a prompt contributes many, and the pass does not care which is which.

use std::ops::Range;

use crate::kernel::{
    Answers, Attention, Input, Isa, KvType, PAGE, Packed, Plan, Step, View, add, at_least, matmul, rms_norm,
    rms_norm_in_place, rope, swiglu,
};
use crate::load::{Checkpoint, Config, LoadError};
use crate::pages::{PageId, Pool};
use crate::phases::{Phase, Stopwatch};
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

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
    /// How fast each pair of a head turns with position.
    frequencies: Vec<f32>,
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
    /// Stretches of rows that write to the same page, of which each row is in one.
    pub same_page: Vec<Range<usize>>,
}

impl<'a> Batch<'a> {
    /// Adds the rows of one sequence, whose page table is its own from the first of them on.
    pub fn add(&mut self, table: &'a [PageId], rows: impl Iterator<Item = Row>) {
        self.tables.push(table);
        for row in rows {
            let at = self.rows.len();
            let page = |row: &Row| row.position / PAGE;
            match (self.same_page.last_mut(), self.rows.last()) {
                (Some(stretch), Some(last)) if last.table == row.table && page(last) == page(&row) => {
                    stretch.end += 1
                }
                _ => self.same_page.push(at..at + 1),
            }
            self.rows.push(row);
        }
    }

    fn plan(&self) -> Plan<'a> {
        let view =
            |(at, row): (usize, &Row)| View { row: at, pages: self.tables[row.table], len: row.position + 1 };
        Plan::new(self.rows.iter().enumerate().map(view).collect())
    }
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
        let output = checkpoint.has("output.weight").then(|| stack(&["output.weight".into()])).transpose()?;
        Ok(Model {
            embedding: stack(&["token_embd.weight".into()])?,
            output,
            norm: vector("output_norm.weight")?,
            layers,
            frequencies: frequencies(&config),
            config,
            isa,
        })
    }

    fn attention(&self, kv: KvType) -> Attention {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        Attention { heads, kv_heads, head_dim, kv }
    }

    /// Bytes of the packed weights.
    pub fn weight_bytes(&self) -> usize {
        let layer = |l: &Layer| l.qkv.bytes() + l.attention_out.bytes() + l.gate_up.bytes() + l.down.bytes();
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

fn frequencies(config: &Config) -> Vec<f32> {
    let frequency = |i: usize| {
        let plain = config.rope_theta.powf(-((2 * i) as f32) / config.head_dim as f32);
        config.rope_factors.as_ref().map_or(plain, |factors| plain / factors[i])
    };
    (0..config.head_dim / 2).map(frequency).collect()
}

/// Buffers that a forward pass needs, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub watch: Stopwatch,
    hidden: Vec<f32>,
    input: Input,
    product: Vec<f32>,
    /// Keys and values of the rows, as pages keep them.
    tokens: Vec<u8>,
    /// Queries of the rows as whole numbers, and their scales.
    queries: Vec<i32>,
    query_scales: Vec<f32>,
    answers: Answers,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// One pass over a batch.
pub(crate) struct Forward<'a> {
    pub model: &'a Model,
    pub threads: &'a Threads,
    pub kv: KvType,
    pub pool: &'a mut Pool,
    pub scratch: &'a mut Scratch,
}

impl Forward<'_> {
    /// Computes the batch, stores its keys and values, and returns the logits of the rows that asked, in order.
    pub fn run(&mut self, batch: &Batch<'_>) -> &[f32] {
        self.embed(batch);
        self.angles(batch);
        let plan = batch.plan();
        for (index, layer) in self.model.layers.iter().enumerate() {
            self.attend(index, layer, batch, &plan);
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
        let Scratch { cos, sin, .. } = &mut *self.scratch;
        cos.clear();
        sin.clear();
        for row in &batch.rows {
            for frequency in &self.model.frequencies {
                let (s, c) = (row.position as f32 * frequency).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
    }

    fn attend(&mut self, index: usize, layer: &Layer, batch: &Batch<'_>, plan: &Plan<'_>) {
        let (model, isa, threads) = (self.model, self.model.isa, self.threads);
        let attention = model.attention(self.kv);
        let config = &model.config;
        let (dim, half) = (config.head_dim, config.head_dim / 2);
        let (q, kv) = (config.heads * dim, config.kv_heads * dim);
        self.normalise(&layer.attention_norm, &layer.qkv, index > 0);

        let Scratch { watch, input, product, tokens, queries, query_scales, cos, sin, answers, .. } =
            &mut *self.scratch;
        watch.lap(Phase::Between);
        matmul(threads, isa, &layer.qkv, input, product);
        watch.lap(Phase::Matrices);
        let width = q + 2 * kv;
        let (bytes, size) = (attention.token_bytes(), attention.page_bytes());
        let words = config.heads * attention.query_words();
        let tokens = at_least(tokens, batch.rows.len() * bytes);
        let queries = at_least(queries, batch.rows.len() * words);
        let query_scales = at_least(query_scales, batch.rows.len() * config.heads);
        let (rows, encoded, pages) =
            (SharedSlice::new(product), SharedSlice::new(tokens), self.pool.shared());
        let (codes, scales) = (SharedSlice::new(queries), SharedSlice::new(query_scales));
        threads.run(batch.same_page.len(), |_, task| {
            for at in batch.same_page[task].clone() {
                // SAFETY: every row is in one task only, as are all rows that write to the same page.
                let (qkv, encoded) = unsafe {
                    (rows.part(at * width..(at + 1) * width), encoded.part(at * bytes..(at + 1) * bytes))
                };
                let (cos, sin) = (&cos[at * half..][..half], &sin[at * half..][..half]);
                for (i, head) in qkv[..q + kv].chunks_exact_mut(dim).enumerate() {
                    let norm = if i < config.heads { &layer.query_norm } else { &layer.key_norm };
                    if let Some(norm) = norm {
                        rms_norm_in_place(isa, head, norm, config.rms_eps);
                    }
                    rope(isa, head, cos, sin, config.rope);
                }
                // SAFETY: as above.
                let (codes, scales) = unsafe {
                    (
                        codes.part(at * words..(at + 1) * words),
                        scales.part(at * config.heads..(at + 1) * config.heads),
                    )
                };
                attention.encode_queries(isa, &qkv[..q], codes, scales);
                attention.encode(isa, &qkv[q..], encoded);
                let row = &batch.rows[at];
                // SAFETY: as above.
                let page = unsafe { pages.page(batch.tables[row.table][row.position / PAGE]) };
                attention.store(&mut page[index * size..][..size], row.position % PAGE, encoded);
            }
        });

        let pool = &*self.pool;
        let page = |id: PageId| &pool.data(id)[index * size..][..size];
        watch.lap(Phase::Between);
        let step = Step { shape: &attention, plan, page, queries, scales: query_scales };
        answers.find(threads, isa, &step);
        watch.lap(Phase::Attention);
        input.fill(threads, isa, batch.rows.len(), &layer.attention_out, |row, into| {
            answers.merge(isa, &attention, plan, row, into);
        });
        watch.lap(Phase::Between);
        matmul(threads, isa, &layer.attention_out, input, product);
        watch.lap(Phase::Matrices);
    }

    fn feed_forward(&mut self, layer: &Layer) {
        let (isa, threads, ffn) = (self.model.isa, self.threads, self.model.config.ffn);
        self.normalise(&layer.ffn_norm, &layer.gate_up, true);
        let Scratch { watch, hidden, input, product, .. } = &mut *self.scratch;
        let rows = hidden.len() / self.model.config.hidden;
        watch.lap(Phase::Between);
        matmul(threads, isa, &layer.gate_up, input, product);
        watch.lap(Phase::Matrices);
        input.fill(threads, isa, rows, &layer.down, |row, into| {
            let (gate, up) = product[row * 2 * ffn..][..2 * ffn].split_at(ffn);
            swiglu(isa, gate, up, into);
        });
        watch.lap(Phase::Between);
        matmul(threads, isa, &layer.down, input, product);
        watch.lap(Phase::Matrices);
    }

    /// Adds the last product to the hidden rows, if there was one, and prepares them for a product with these weights.
    fn normalise(&mut self, norm: &[f32], weights: &Packed, residual: bool) {
        let (isa, width, eps) = (self.model.isa, self.model.config.hidden, self.model.config.rms_eps);
        let Scratch { hidden, product, input, .. } = &mut *self.scratch;
        let rows = hidden.len() / width;
        let hidden = SharedSlice::new(hidden);
        input.fill(self.threads, isa, rows, weights, |row, into| {
            // SAFETY: every row is filled once.
            let hidden = unsafe { hidden.part(row * width..(row + 1) * width) };
            if residual {
                add(isa, hidden, &product[row * width..][..width]);
            }
            rms_norm(isa, hidden, norm, eps, into);
        });
    }

    fn logits(&mut self, batch: &Batch<'_>) -> &[f32] {
        let (model, isa) = (self.model, self.model.isa);
        let (width, eps) = (model.config.hidden, model.config.rms_eps);
        let asked: Vec<usize> = (0..batch.rows.len()).filter(|&at| batch.rows[at].logits).collect();
        let Scratch { watch, hidden, input, product, .. } = &mut *self.scratch;
        let output = model.output.as_ref().unwrap_or(&model.embedding);
        input.fill(self.threads, isa, asked.len(), output, |row, into| {
            let at = asked[row] * width;
            into.copy_from_slice(&hidden[at..][..width]);
            add(isa, into, &product[at..][..width]);
            rms_norm_in_place(isa, into, &model.norm, eps);
        });
        watch.lap(Phase::Between);
        matmul(self.threads, isa, output, input, product);
        watch.lap(Phase::Logits);
        &product[..asked.len() * model.config.vocab]
    }
}
