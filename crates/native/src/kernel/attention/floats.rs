//! The same as [`answer`](super::answer) with floats: nothing is rounded, and nothing is fast.

use super::answer::{Of, Worker};
use super::page::HeadPage;
use super::softmax::TOKENS;
use super::{Out, PAGE, Step};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, exp2, fma};

impl Worker {
    pub(super) fn answer_floats<'p>(
        &mut self,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8]>,
        of: Of<'_>,
        out: Out<'_>,
    ) {
        let Step { shape, plan, .. } = step;
        let (group, width, words) = (shape.group(), shape.value_width(), shape.query_words());
        let page = |id: u32| shape.head::<f32>((step.page)(id), of.head);
        self.start(step, of);
        for run in plan.runs(of.block) {
            for query in run.first * group..(run.first + run.count) * group {
                let numbers = bytemuck::cast_slice(&self.queries[query * words..][..words]);
                let scores = &mut self.scores[query * TOKENS + run.level * PAGE..][..PAGE];
                score(isa, numbers, self.scales[query], page(run.page), scores);
            }
        }
        for (at, view) in of.views.iter().enumerate() {
            let seen = view.seen(of.segment);
            for query in at * group..(at + 1) * group {
                let scores = &mut self.scores[query * TOKENS..][..TOKENS];
                scores[..seen.start].fill(f32::NEG_INFINITY);
                scores[seen.end..].fill(f32::NEG_INFINITY);
                if !seen.is_empty() {
                    out.weights[query] = softmax(isa, scores);
                }
            }
        }
        out.sums.fill(0.0);
        for run in plan.runs(of.block) {
            for query in run.first * group..(run.first + run.count) * group {
                let weights = &self.scores[query * TOKENS + run.level * PAGE..][..PAGE];
                weigh(isa, weights, page(run.page), &mut out.sums[query * width..][..width]);
            }
        }
    }
}

multiversion! {
    /// Scores of one query against a page.
    fn score(query: &[f32], scale: f32, page: HeadPage<'_, f32>, scores: &mut [f32]) = score_lanes
}

#[inline(always)]
fn score_lanes<const FMA: bool>(query: &[f32], scale: f32, page: HeadPage<'_, f32>, scores: &mut [f32]) {
    let mut sums = Lanes::ZERO;
    for (pair, keys) in query.chunks(2).zip(page.keys) {
        for (which, &number) in pair.iter().enumerate() {
            for i in 0..LANES {
                sums.0[i] = fma::<FMA>(number, keys[2 * i + which], sums.0[i]);
            }
        }
    }
    for (score, sum) in scores.iter_mut().zip(sums.0) {
        *score = sum * scale;
    }
}

multiversion! {
    /// Turns scores into weights, relative to the largest; gives that and the sum of the weights.
    fn softmax(scores: &mut [f32]) -> [f32; 2] = softmax_lanes
}

#[inline(always)]
fn softmax_lanes<const FMA: bool>(scores: &mut [f32]) -> [f32; 2] {
    let top = scores.iter().fold(f32::NEG_INFINITY, |top, &score| if score > top { score } else { top });
    let mut totals = Lanes::ZERO;
    for scores in scores.chunks_exact_mut(LANES) {
        for i in 0..LANES {
            scores[i] = exp2::<FMA>(scores[i] - top);
            totals.0[i] += scores[i];
        }
    }
    [top, totals.sum()]
}

multiversion! {
    /// Adds a page's values, weighted.
    fn weigh(weights: &[f32], page: HeadPage<'_, f32>, out: &mut [f32]) = weigh_lanes
}

#[inline(always)]
fn weigh_lanes<const FMA: bool>(weights: &[f32], page: HeadPage<'_, f32>, out: &mut [f32]) {
    for (token, &weight) in weights.iter().enumerate() {
        // What a query does not see may be left over from another sequence: it is not even looked at.
        if weight == 0.0 {
            continue;
        }
        let values = page.values[token / 2 * (out.len() / LANES)..].as_flattened();
        for (out, value) in out.iter_mut().zip(values[token % 2..].iter().step_by(2)) {
            *out = fma::<FMA>(weight, *value, *out);
        }
    }
}
