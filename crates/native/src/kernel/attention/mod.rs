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

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, exp, fma};
use super::matmul::at_least;
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

use answer::Worker;
pub use page::KvType;
pub(crate) use plan::{Plan, View};

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
    fn group(&self) -> usize {
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
    pub plan: &'a Plan<'a>,
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
    /// For each part of the plan and each of its queries: [`Answers::stride`] numbers.
    found: Vec<f32>,
}

impl Answers {
    /// Weighted values, their largest score, and the sum of their weights.
    fn stride(shape: &Attention) -> usize {
        shape.value_width() + 2
    }

    /// Answers a step's queries in one layer.
    pub fn find<'p>(
        &mut self,
        threads: &Threads,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8] + Sync>,
    ) {
        let Step { shape, plan, .. } = *step;
        let per_view = shape.group() * Self::stride(shape);
        let found = at_least(&mut self.found, plan.answers() * shape.kv_heads * per_view);
        self.workers.resize_with(threads.count(), Worker::default);
        let (found, workers) = (SharedSlice::new(found), SharedSlice::new(&mut self.workers));
        threads.run(plan.parts.len() * shape.kv_heads, |worker, task| {
            let (part, head) = (&plan.parts[task / shape.kv_heads], task % shape.kv_heads);
            let views = plan.views(part).len();
            let first = (part.first_answer * shape.kv_heads + head * views) * per_view;
            // SAFETY: a worker runs one task at a time, and every task has its own answers.
            let (worker, found) = unsafe {
                (&mut workers.part(worker..worker + 1)[0], found.part(first..first + views * per_view))
            };
            worker.answer(isa, step, part, head, found);
        });
    }

    /// The row's attention, all heads, from what its segments gave: each weighed by how its largest score compares. A head's
    /// sink is one more score, which weighs and brings nothing.
    pub fn merge(
        &self,
        isa: Isa,
        shape: &Attention,
        plan: &Plan<'_>,
        sinks: Option<&[f32]>,
        row: usize,
        out: &mut [f32],
    ) {
        let (stride, group) = (Self::stride(shape), shape.group());
        for (head, out) in out.chunks_exact_mut(shape.head_dim).enumerate() {
            let answers = || {
                plan.answers_of(row).map(|(part, view)| {
                    let views = plan.views(part).len();
                    let first = part.first_answer * shape.kv_heads + head / group * views + view;
                    let found = &self.found[(first * group + head % group) * stride..][..stride];
                    let (sums, rest) = found.split_at(stride - 2);
                    (&sums[..shape.head_dim], rest[0], rest[1])
                })
            };
            let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head]);
            let top = answers().fold(sink, |top, (_, other, _)| if other > top { other } else { top });
            out.fill(0.0);
            let mut total = exp::<false>(sink - top);
            for (sums, own, weight) in answers() {
                let share = exp::<false>(own - top);
                total += weight * share;
                add_scaled(isa, out, sums, share);
            }
            let part = 1.0 / total;
            for out in out {
                *out *= part;
            }
        }
    }
}

multiversion! {
    /// `out += x * scale`
    fn add_scaled(out: &mut [f32], x: &[f32], scale: f32) = add_scaled_lanes
}

#[inline(always)]
fn add_scaled_lanes<const FMA: bool>(out: &mut [f32], x: &[f32], scale: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = fma::<FMA>(*x, scale, *out);
    }
}

#[cfg(test)]
mod tests;
