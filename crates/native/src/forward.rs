//! From tokens to logits.
//!
//! A pass works on a batch of rows. A row is one token of one sequence; decoding contributes one row per sequence, a prompt
//! contributes many, and the pass does not care which is which.

use crate::kernel::{
    Ahead, Answers, Buffer, Input, KvType, PAGE, Packed, Patches, Plan, Product, Results, Step, Together,
    add, matmul, matmul_asking, matmul_passing, rms_norm, rms_norm_in_place, rope, swiglu,
};
use crate::load::LayerShape;
use crate::mixture::Mixing;
use crate::model::{Batch, FeedForward, Layer, Model};
use crate::pages::{PageId, SharedPages};
use crate::phases::{Phase, Stopwatch};
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

/// Tasks that a thread should find where rows are shared out.
const TASKS_PER_THREAD: usize = 4;

/// Buffers that a forward pass needs, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub watch: Stopwatch,
    pub hidden: Results,
    pub input: Input,
    /// What the feed-forward layer's second product is given.
    gated: Input,
    patches: Patches,
    /// Of the last product: what is to be added to the hidden rows, when a layer is done.
    pub product: Results,
    pub mixing: Mixing,
    /// Keys and values of the rows, as pages keep them.
    tokens: Buffer<u8>,
    /// Queries of the rows as whole numbers, and their scales.
    queries: Buffer<i32>,
    query_scales: Buffer<f32>,
    answers: Answers,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// What is to be added to the hidden rows before they are used next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Residual<'a> {
    None,
    Product,
    /// The product, and this to every row.
    Biased(&'a [f32]),
}

impl<'a> Residual<'a> {
    fn of(bias: Option<&'a [f32]>) -> Self {
        bias.map_or(Self::Product, Self::Biased)
    }
}

/// Who sees what: one for all layers, unless some have windows.
#[derive(Debug)]
struct Seen {
    window: Option<usize>,
    plan: Plan,
    pages: Places,
}

/// Where the pages are that somebody sees.
#[derive(Debug, Default)]
struct Places(Vec<*const u8>);

// SAFETY: addresses that are asked for and never read.
unsafe impl Send for Places {}

/// Of all kinds of layers. The memory is kept from step to step.
#[derive(Debug)]
pub(crate) struct Plans(Vec<Seen>);

impl Plans {
    pub fn new(model: &Model) -> Self {
        let mut plans: Vec<Seen> = Vec::new();
        for LayerShape { window, .. } in model.layers.iter().map(|layer| layer.shape) {
            if plans.iter().all(|seen| seen.window != window) {
                plans.push(Seen { window, plan: Plan::default(), pages: Places::default() });
            }
        }
        Plans(plans)
    }

    fn work_out(&mut self, queries: usize, pool: SharedPages<'_>, batch: &Batch) {
        for Seen { window, plan, pages } in &mut self.0 {
            batch.plan(*window, queries, plan);
            pages.0.clear();
            pages.0.extend(plan.pages().iter().map(|&id| pool.address(id)));
        }
    }

    fn of(&self, layer: &Layer) -> &Seen {
        let found = self.0.iter().find(|seen| seen.window == layer.shape.window);
        found.expect("there is a plan for the window of every layer")
    }
}

/// One pass over a batch.
pub(crate) struct Forward<'a> {
    pub model: &'a Model,
    pub threads: &'a Threads,
    pub kv: KvType,
    pub pool: SharedPages<'a>,
    pub scratch: &'a mut Scratch,
}

impl Forward<'_> {
    /// Computes the batch, stores its keys and values, and returns the logits of the rows that asked, in order.
    ///
    /// # Safety
    /// Meanwhile nobody else may read or write the pages that its rows write to, nor write to those that they see.
    pub unsafe fn run(&mut self, batch: &Batch, plans: &mut Plans) -> &Results {
        self.embed(batch);
        self.angles(batch);
        let (layers, attention) = (&self.model.layers, self.model.attention(self.kv));
        let size = attention.page_bytes();
        plans.work_out(attention.group(), self.pool, batch);
        let plans = &*plans;
        // What a layer's attention will read.
        let read = |index: usize| match layers.get(index) {
            Some(layer) => Ahead::new(&plans.of(layer).pages.0, index * size, size),
            None => Ahead::new(&[], 0, 0),
        };
        let mut before = Residual::None;
        let mut now = read(0);
        for (index, layer) in layers.iter().enumerate() {
            let next = read(index + 1);
            self.attend(index, layer, batch, &plans.of(layer).plan, before, [&now, &next]);
            let attended = Residual::of(layer.attention_bias.as_deref());
            match &layer.ffn {
                FeedForward::Dense { gate_up, down } => {
                    self.feed_forward(layer, gate_up, down, attended, &next);
                }
                FeedForward::Mixture(mixture) => self.mix(layer, mixture, attended),
            }
            (before, now) = (Residual::Product, next);
        }
        self.logits(batch)
    }

    fn embed(&mut self, batch: &Batch) {
        let (model, hidden) = (self.model, &mut self.scratch.hidden);
        hidden.resize(batch.rows.len(), model.config.hidden);
        let hidden = hidden.shared();
        self.threads.run(batch.rows.len(), |_, at| {
            // SAFETY: every row is in one task only.
            let into = unsafe { hidden.row(at) };
            model.embedding.output(batch.rows[at].token as usize, into);
        });
    }

    /// The rotations of every row's position, once for all layers.
    fn angles(&mut self, batch: &Batch) {
        let scale = self.model.config.rope_scale;
        let Scratch { cos, sin, .. } = &mut *self.scratch;
        cos.clear();
        sin.clear();
        for row in &batch.rows {
            for frequency in &self.model.frequencies {
                let (s, c) = (row.position as f32 * frequency).sin_cos();
                cos.push(c * scale);
                sin.push(s * scale);
            }
        }
    }

    /// While products are computed, asks for what this layer's attention will read, and then for what the next one's will.
    fn attend(
        &mut self,
        index: usize,
        layer: &Layer,
        batch: &Batch,
        plan: &Plan,
        before: Residual<'_>,
        [now, next]: [&Ahead<'_>; 2],
    ) {
        let (model, isa, threads) = (self.model, self.model.isa, self.threads);
        let attention = model.attention(self.kv);
        let config = &model.config;
        let (dim, half) = (config.head_dim, config.head_dim / 2);
        let (q, kv) = (config.heads * dim, config.kv_heads * dim);
        self.normalise(&layer.attention_norm, &layer.qkv, before);

        let Scratch { watch, input, product, tokens, queries, query_scales, cos, sin, answers, .. } =
            &mut *self.scratch;
        watch.lap(Phase::Between);
        matmul_asking(threads, isa, &layer.qkv, input, Some(now), product);
        watch.lap(Phase::Matrices);
        let (bytes, size) = (attention.token_bytes(), attention.page_bytes());
        let words = config.heads * attention.query_words();
        let tokens = tokens.at_least(batch.rows.len() * bytes);
        let queries = queries.at_least(batch.rows.len() * words);
        let query_scales = query_scales.at_least(batch.rows.len() * config.heads);
        let (rows, encoded, pages) = (product.shared(), SharedSlice::new(tokens), self.pool);
        let (codes, scales) = (SharedSlice::new(queries), SharedSlice::new(query_scales));
        let stretches = &batch.same_page;
        let share = stretches.len().div_ceil(TASKS_PER_THREAD * threads.count()).max(1);
        threads.run(stretches.len().div_ceil(share), |_, task| {
            let own = &stretches[task * share..stretches.len().min((task + 1) * share)];
            for rows in own {
                let row = &batch.rows[rows.start];
                attention
                    .expect(pages.address(batch.page(row)).wrapping_add(index * size), row.position % PAGE);
            }
            for at in own.iter().cloned().flatten() {
                // SAFETY: every row is in one task only, as are all rows that write to the same page.
                let (qkv, encoded) = unsafe { (rows.row(at), encoded.part(at * bytes..(at + 1) * bytes)) };
                if let Some(bias) = &layer.qkv_bias {
                    add(isa, qkv, bias);
                }
                let (cos, sin) = (&cos[at * half..][..half], &sin[at * half..][..half]);
                for (i, head) in qkv[..q + kv].chunks_exact_mut(dim).enumerate() {
                    let norm = if i < config.heads { &layer.query_norm } else { &layer.key_norm };
                    if let Some(norm) = norm {
                        rms_norm_in_place(isa, head, norm, config.rms_eps);
                    }
                    if layer.shape.rope {
                        rope(isa, head, cos, sin, config.rope);
                    }
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
                // SAFETY: as above, and by the promise to `run`.
                let page = unsafe { pages.page(batch.page(row)) };
                attention.store(&mut page[index * size..][..size], row.position % PAGE, encoded);
            }
        });

        // SAFETY: the batch has written above; nobody else writes to what its rows see, by the promise to `run`.
        let page = |id: PageId| &unsafe { pages.read(id) }[index * size..][..size];
        watch.lap(Phase::Between);
        let step = Step { shape: &attention, plan, page, queries, scales: query_scales };
        answers.find(threads, isa, &step);
        watch.lap(Phase::Attention);
        input.fill(threads, isa, batch.rows.len(), &layer.attention_out, |row, into| {
            answers.merge(isa, &attention, plan, layer.sinks.as_deref(), row, into);
        });
        watch.lap(Phase::Between);
        matmul_asking(threads, isa, &layer.attention_out, input, Some(next), product);
        watch.lap(Phase::Matrices);
    }

    fn feed_forward(
        &mut self,
        layer: &Layer,
        gate_up: &Packed,
        down: &Packed,
        before: Residual<'_>,
        next: &Ahead<'_>,
    ) {
        let (isa, threads) = (self.model.isa, self.threads);
        self.normalise(&layer.ffn_norm, gate_up, before);
        let Scratch { watch, input, gated, patches, product, .. } = &mut *self.scratch;
        watch.lap(Phase::Between);
        let filling = gated.begin(isa, input.rows(), down);
        let together = Together { matrices: 2, columns: filling.columns() };
        let gates = Product { weights: gate_up, x: input, ahead: Some(next) };
        matmul_passing(threads, isa, gates, together, patches, |mut patch| {
            let (rows, columns) = (patch.rows.clone(), patch.columns.clone());
            // SAFETY: every row and column is passed on once.
            unsafe {
                filling.put(rows, columns, |row, into| {
                    let (gate, up) = patch.row(row).split_at(into.len());
                    swiglu(isa, gate, up, into);
                });
            }
        });
        filling.finish(threads);
        matmul_asking(threads, isa, down, gated, Some(next), product);
        watch.lap(Phase::Matrices);
    }

    /// Adds what came before to the hidden rows, and prepares them for a product with these weights.
    pub(crate) fn normalise(&mut self, norm: &[f32], weights: &Packed, before: Residual<'_>) {
        let (isa, eps) = (self.model.isa, self.model.config.rms_eps);
        let Scratch { hidden, product, input, .. } = &mut *self.scratch;
        let rows = hidden.rows();
        let hidden = hidden.shared();
        input.fill(self.threads, isa, rows, weights, |row, into| {
            // SAFETY: every row is filled once.
            let hidden = unsafe { hidden.row(row) };
            if before != Residual::None {
                add(isa, hidden, product.row(row));
            }
            if let Residual::Biased(bias) = before {
                add(isa, hidden, bias);
            }
            rms_norm(isa, hidden, norm, eps, into);
        });
    }

    fn logits(&mut self, batch: &Batch) -> &Results {
        let (model, isa) = (self.model, self.model.isa);
        let eps = model.config.rms_eps;
        let asked = &batch.asked;
        let Scratch { watch, hidden, input, product, .. } = &mut *self.scratch;
        let output = model.output.as_ref().unwrap_or(&model.embedding);
        input.fill(self.threads, isa, asked.len(), output, |row, into| {
            into.copy_from_slice(hidden.row(asked[row]));
            add(isa, into, product.row(asked[row]));
            rms_norm_in_place(isa, into, &model.norm, eps);
        });
        watch.lap(Phase::Between);
        matmul(self.threads, isa, output, input, product);
        watch.lap(Phase::Logits);
        product
    }
}
