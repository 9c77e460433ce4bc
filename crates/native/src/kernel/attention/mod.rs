//! Attention that walks pages, not sequences.
//!
//! A page holds the keys and values of [`PAGE`] tokens. Branches of a tree share the pages of what they have in common,
//! always at the same index of their page tables, because what is shared is a prefix. So the queries of a step are sorted
//! by their page tables and walked index by index: neighbours with the same page are answered together, while its keys
//! and values are in the cache.
//!
//! The past is cut into [segments](plan) of a fixed number of pages. A task answers some rows against one segment for one
//! head ([`answer`]); the answers of a row's segments are then [merged](Answers::merge). A long sequence thus
//! occupies all threads, and because segments begin at fixed places, a row's arithmetic is the same alone or in company.
//! A layer with a sliding window has a plan of its own, from which the pages before every window are missing.

mod answer;
mod floats;
mod page;
mod plan;
mod softmax;
mod tables;

use std::f32::consts::LOG2_E;

use super::buffer::Buffer;
use super::isa::{Isa, multiversion};
use super::lanes::{LANES, exp2, fma};
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

use answer::Worker;
pub use page::KvType;
use plan::Answered;
pub(crate) use plan::{Plan, View};
pub(crate) use tables::Tables;

/// Tokens in a page: one lane each, so that a dot product with a whole page is one vector.
pub(crate) const PAGE: usize = LANES;

/// The shape of a layer's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub kv: KvType,
}

impl Attention {
    /// Query heads that share a head of keys and values.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// `head_dim`, rounded up to whole lanes.
    fn value_width(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }
}

/// What one layer asks in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a, P> {
    pub shape: &'a Attention,
    pub plan: &'a Plan,
    /// Gives this layer's part of a page.
    pub page: P,
    /// Of each row, all heads, as [`Attention::encode_queries`] leaves them.
    pub queries: &'a [i32],
    pub scales: &'a [f32],
}

/// What every row's queries found in every segment, and the memory to find it.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    workers: Vec<Worker>,
    /// For each part of the plan, each head and each of its queries: the weighted values.
    sums: Buffer<f32>,
    /// Their largest score, and the sum of their weights.
    weights: Buffer<[f32; 2]>,
}

impl Answers {
    /// Answers a step's queries in one layer.
    pub fn find<'p>(
        &mut self,
        threads: &Threads,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8] + Sync>,
    ) {
        let Step { shape, plan, .. } = *step;
        let (group, width) = (shape.group(), shape.value_width());
        let count = plan.answers() * shape.heads;
        let sums = SharedSlice::new(self.sums.at_least(count * width));
        let weights = SharedSlice::new(self.weights.at_least(count));
        self.workers.resize_with(self.workers.len().max(threads.count()), Worker::default);
        let workers = SharedSlice::new(&mut self.workers);
        // What was asked for ahead of time was asked for in this order.
        threads.deal(plan.parts.len() * shape.kv_heads, |worker, task| {
            let (part, head) = (&plan.parts[task / shape.kv_heads], task % shape.kv_heads);
            let views = plan.views(part).len();
            let first = (part.first_answer * shape.kv_heads + head * views) * group;
            let own = first..first + views * group;
            // SAFETY: a worker runs one task at a time, and every task has its own answers.
            unsafe {
                let out =
                    Out { sums: sums.part(own.start * width..own.end * width), weights: weights.part(own) };
                workers.part(worker..worker + 1)[0].answer(isa, step, part, head, out);
            }
        });
    }

    /// The row's attention, all heads, from what its segments gave: each weighed by how its largest score compares. A head's
    /// sink is one more score, which weighs and brings nothing.
    pub fn merge(
        &self,
        isa: Isa,
        shape: &Attention,
        plan: &Plan,
        sinks: Option<&[f32]>,
        row: usize,
        out: &mut [f32],
    ) {
        let answered = plan.answers_of(row);
        for (head, out) in out.chunks_exact_mut(shape.head_dim).enumerate() {
            let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head] * LOG2_E);
            merge(isa, self, shape, answered, head, sink, out);
        }
    }
}

/// Where the answers of some queries go.
#[derive(Debug)]
struct Out<'a> {
    sums: &'a mut [f32],
    weights: &'a mut [[f32; 2]],
}

multiversion! {
    /// One head of [`Answers::merge`].
    fn merge(answers: &Answers, shape: &Attention, from: &[Answered], head: usize, sink: f32, out: &mut [f32]) = merge_lanes
}

#[inline(always)]
fn merge_lanes<const FMA: bool>(
    answers: &Answers,
    shape: &Attention,
    from: &[Answered],
    head: usize,
    sink: f32,
    out: &mut [f32],
) {
    let (group, width) = (shape.group(), shape.value_width());
    let (kv_head, query) = (head / group, head % group);
    let place = |answered: &Answered| answered.place(kv_head, shape.kv_heads) * group + query;
    let mut top = sink;
    for answered in from {
        let own = answers.weights[place(answered)][0];
        top = if own > top { own } else { top };
    }
    let mut total = exp2::<FMA>(sink - top);
    out.fill(0.0);
    for answered in from {
        let at = place(answered);
        let [own, weight] = answers.weights[at];
        let share = exp2::<FMA>(own - top);
        total = fma::<FMA>(weight, share, total);
        // A plain loop: iterators are not always inlined into code for a vector unit.
        let sums = &answers.sums[at * width..][..out.len()];
        for i in 0..out.len() {
            out[i] = fma::<FMA>(sums[i], share, out[i]);
        }
    }
    let part = 1.0 / total;
    for out in out {
        *out *= part;
    }
}

#[cfg(test)]
mod tests;
