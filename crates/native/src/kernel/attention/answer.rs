//! One head of some rows against one segment.
//!
//! First all scores, then their weights, then the weighted values: a segment is short enough for its scores to stay in the
//! cache, and the softmax is taken once over all of them.

use super::page::{HeadPage, Numbers};
use super::plan::{Part, Plan, SEGMENT, View};
use super::{Answers, Attention, PAGE};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, exp};

/// Tokens in a segment.
const TOKENS: usize = SEGMENT * PAGE;
/// From so many queries on, a page is first turned into floats: fewer would not use them often enough.
const MANY: usize = 9;

/// A thread's memory.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Scaled by 1 / sqrt(dim).
    queries: Vec<f32>,
    /// For each query, those of the segment's tokens; then their weights.
    scores: Vec<f32>,
    /// For each query.
    sums: Vec<f32>,
    /// Keys or values of a page that many queries meet.
    floats: Vec<f32>,
}

impl Worker {
    #[allow(clippy::too_many_arguments)] // what a task is made of
    pub fn answer<'p>(
        &mut self,
        isa: Isa,
        shape: &Attention,
        plan: &Plan<'_>,
        part: &Part,
        head: usize,
        page: &impl Fn(u32) -> &'p [u8],
        queries: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        let (views, runs, group) = (plan.views(part), plan.runs(part), shape.group());
        let (dim, width) = (shape.head_dim, shape.value_width());
        self.start(shape, views, head, queries, stride);
        for (at, run) in runs.iter().enumerate() {
            if let Some(next) = runs.get(at + 1) {
                prefetch(shape.head(page(next.page), head), true);
            }
            let stretch =
                Stretch { first: run.first * group, count: run.count * group, level: run.level, dim, width };
            match shape.head(page(run.page), head) {
                HeadPage::F16 { keys, .. } => scores_half(isa, stretch, keys, self),
                HeadPage::Q8 { keys, key_scales, .. } => scores_bytes(isa, stretch, keys, key_scales, self),
            }
        }
        let first_token = part.segment * TOKENS;
        let rows = views.iter().zip(self.scores.chunks_exact_mut(group * TOKENS));
        for (view, scores) in rows.filter(|(view, _)| view.len < first_token + TOKENS) {
            for scores in scores.chunks_exact_mut(TOKENS) {
                scores[view.len.saturating_sub(first_token)..].fill(f32::NEG_INFINITY);
            }
        }
        let answer = Answers::stride(shape);
        for (scores, out) in self.scores.chunks_exact_mut(TOKENS).zip(out.chunks_exact_mut(answer)) {
            (out[width], out[width + 1]) = softmax(isa, scores);
        }
        for (at, run) in runs.iter().enumerate() {
            if let Some(next) = runs.get(at + 1) {
                prefetch(shape.head(page(next.page), head), false);
            }
            let stretch =
                Stretch { first: run.first * group, count: run.count * group, level: run.level, dim, width };
            match shape.head(page(run.page), head) {
                HeadPage::F16 { values, .. } => values_half(isa, stretch, values, self),
                HeadPage::Q8 { values, value_scales, .. } => {
                    values_bytes(isa, stretch, values, value_scales, self)
                }
            }
        }
        for (sums, out) in self.sums.chunks_exact(width).zip(out.chunks_exact_mut(answer)) {
            out[..width].copy_from_slice(sums);
        }
    }

    fn start(&mut self, shape: &Attention, views: &[View<'_>], head: usize, queries: &[f32], stride: usize) {
        let (dim, group) = (shape.head_dim, shape.group());
        let scale = 1.0 / (dim as f32).sqrt();
        self.queries.clear();
        for view in views {
            let first = view.row * stride + head * group * dim;
            self.queries.extend(queries[first..][..group * dim].iter().map(|q| q * scale));
        }
        let count = views.len() * group;
        // All of it is written before it is read.
        self.scores.resize(count * TOKENS, 0.0);
        self.sums.clear();
        self.sums.resize(count * shape.value_width(), 0.0);
    }
}

/// Brings keys or values into the cache before they are needed, where the machine can be asked to.
#[inline]
fn prefetch(page: HeadPage<'_>, keys: bool) {
    let bytes: &[u8] = match (page, keys) {
        (HeadPage::F16 { keys, .. }, true) => bytemuck::cast_slice(keys),
        (HeadPage::F16 { values, .. }, false) => bytemuck::cast_slice(values),
        (HeadPage::Q8 { keys, .. }, true) => bytemuck::cast_slice(keys),
        (HeadPage::Q8 { values, .. }, false) => bytemuck::cast_slice(values),
    };
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        // SAFETY: prefetching is a hint that reads nothing and cannot fault; SSE is part of x86-64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Which queries of a [`Worker`] meet a page, and where its tokens are in the segment.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: usize,
    count: usize,
    level: usize,
    dim: usize,
    width: usize,
}

multiversion! {
    fn scores_half(at: Stretch, keys: &[half::f16], worker: &mut Worker) = scores_half_lanes
}

multiversion! {
    fn scores_bytes(at: Stretch, keys: &[i8], scales: &[f32; PAGE], worker: &mut Worker) = scores_bytes_lanes
}

multiversion! {
    fn values_half(at: Stretch, values: &[half::f16], worker: &mut Worker) = values_half_lanes
}

multiversion! {
    fn values_bytes(at: Stretch, values: &[i8], scales: &[f32; PAGE], worker: &mut Worker) = values_bytes_lanes
}

multiversion! {
    /// Turns scores into weights, relative to the largest. Gives the largest and the sum of the weights.
    fn softmax(scores: &mut [f32]) -> (f32, f32) = softmax_lanes
}

#[inline(always)]
fn scores_half_lanes<const FMA: bool>(at: Stretch, keys: &[half::f16], worker: &mut Worker) {
    scores::<_, FMA>(at, keys, &Lanes::splat(1.0), worker);
}

#[inline(always)]
fn scores_bytes_lanes<const FMA: bool>(at: Stretch, keys: &[i8], scales: &[f32; PAGE], worker: &mut Worker) {
    scores::<_, FMA>(at, keys, &Lanes(*scales), worker);
}

#[inline(always)]
fn values_half_lanes<const FMA: bool>(at: Stretch, values: &[half::f16], worker: &mut Worker) {
    weigh::<_, FMA>(at, values, worker);
}

#[inline(always)]
fn values_bytes_lanes<const FMA: bool>(
    at: Stretch,
    values: &[i8],
    scales: &[f32; PAGE],
    worker: &mut Worker,
) {
    for scores in worker.scores[at.first * TOKENS..][..at.count * TOKENS].chunks_exact_mut(TOKENS) {
        for (weight, scale) in scores[at.level * PAGE..][..PAGE].iter_mut().zip(scales) {
            *weight *= scale;
        }
    }
    weigh::<_, FMA>(at, values, worker);
}

#[inline(always)]
fn scores<T: Numbers, const FMA: bool>(at: Stretch, keys: &[T], scales: &Lanes, worker: &mut Worker) {
    let Worker { queries, scores, floats, .. } = worker;
    let queries = &queries[at.first * at.dim..][..at.count * at.dim];
    let scores = &mut scores[at.first * TOKENS..][..at.count * TOKENS];
    if at.count < MANY {
        return score_all::<T, FMA>(at, keys, scales, queries, scores);
    }
    to_floats::<T, FMA>(keys, floats);
    score_all::<f32, FMA>(at, floats, scales, queries, scores);
}

/// Calls `$one::<N>` for stretches of at most `$most` queries until all are done.
macro_rules! by_queries {
    ($at:ident, $most:literal, |$n:ident, $first:ident| $one:expr) => {{
        let mut $first = 0;
        while $first < $at.count {
            macro_rules! run {
                ($size:literal) => {{
                    const $n: usize = $size;
                    $one;
                    $n
                }};
            }
            $first += match $at.count - $first {
                6.. if $most >= 6 => run!(6),
                4.. => run!(4),
                3 => run!(3),
                2 => run!(2),
                _ => run!(1),
            };
        }
    }};
}

#[inline(always)]
fn score_all<T: Numbers, const FMA: bool>(
    at: Stretch,
    keys: &[T],
    scales: &Lanes,
    queries: &[f32],
    scores: &mut [f32],
) {
    by_queries!(at, 6, |N, first| score_some::<N, T, FMA>(
        at,
        keys,
        scales,
        &queries[first * at.dim..],
        &mut scores[first * TOKENS..]
    ));
}

/// Sums run in two chains, for the even and the odd dimensions: one would make every addition wait for the one before.
#[inline(always)]
fn score_some<const N: usize, T: Numbers, const FMA: bool>(
    at: Stretch,
    keys: &[T],
    scales: &Lanes,
    queries: &[f32],
    scores: &mut [f32],
) {
    // Plain loops: iterators over arrays are not always inlined into code for a vector unit.
    let mut of: [&[f32]; N] = [&[]; N];
    for n in 0..N {
        of[n] = &queries[n * at.dim..][..at.dim];
    }
    let mut chains = [[Lanes::ZERO; 2]; N];
    for (pair, keys) in keys.chunks_exact(2 * PAGE).enumerate() {
        let (even, odd) = (T::lanes::<FMA>(&keys[..PAGE]), T::lanes::<FMA>(&keys[PAGE..]));
        for n in 0..N {
            chains[n][0].add_product::<FMA>(of[n][2 * pair], &even);
            chains[n][1].add_product::<FMA>(of[n][2 * pair + 1], &odd);
        }
    }
    for n in 0..N {
        let sum = chains[n][0].plus(&chains[n][1]);
        for (score, i) in scores[n * TOKENS + at.level * PAGE..][..PAGE].iter_mut().zip(0..) {
            *score = sum.0[i] * scales.0[i];
        }
    }
}

#[inline(always)]
fn softmax_lanes<const FMA: bool>(scores: &mut [f32]) -> (f32, f32) {
    let mut tops = Lanes::splat(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(LANES) {
        for i in 0..LANES {
            tops.0[i] = if scores[i] > tops.0[i] { scores[i] } else { tops.0[i] };
        }
    }
    let top = tops.max();
    // A row that sees nothing of this segment: its weights are zero.
    let base = if top == f32::NEG_INFINITY { 0.0 } else { top };
    let mut totals = Lanes::ZERO;
    for scores in scores.chunks_exact_mut(LANES) {
        for i in 0..LANES {
            scores[i] = exp::<FMA>(scores[i] - base);
            totals.0[i] += scores[i];
        }
    }
    (top, totals.sum())
}

#[inline(always)]
fn weigh<T: Numbers, const FMA: bool>(at: Stretch, values: &[T], worker: &mut Worker) {
    let Worker { scores, sums, floats, .. } = worker;
    let weights = &scores[at.first * TOKENS..][..at.count * TOKENS];
    let sums = &mut sums[at.first * at.width..][..at.count * at.width];
    if at.count < MANY {
        return weigh_all::<T, FMA>(at, values, weights, sums);
    }
    to_floats::<T, FMA>(values, floats);
    weigh_all::<f32, FMA>(at, floats, weights, sums);
}

#[inline(always)]
fn weigh_all<T: Numbers, const FMA: bool>(at: Stretch, values: &[T], weights: &[f32], sums: &mut [f32]) {
    by_queries!(at, 6, |N, first| weigh_some::<N, T, FMA>(
        at,
        values,
        &weights[first * TOKENS..],
        &mut sums[first * at.width..]
    ));
}

/// A token that a query does not see has weight zero, and what its slot still holds is finite.
#[inline(always)]
fn weigh_some<const N: usize, T: Numbers, const FMA: bool>(
    at: Stretch,
    values: &[T],
    weights: &[f32],
    sums: &mut [f32],
) {
    /// Lanes of sums at a time, so that those of all queries stay in registers.
    const WIDE: usize = 4;
    let mut of: [&[f32]; N] = [&[]; N];
    for n in 0..N {
        of[n] = &weights[n * TOKENS + at.level * PAGE..][..PAGE];
    }
    let mut lane = 0;
    while lane + WIDE * LANES <= at.width {
        weigh_lanes::<N, WIDE, T, FMA>(at.width, lane, values, &of, sums);
        lane += WIDE * LANES;
    }
    while lane < at.width {
        weigh_lanes::<N, 1, T, FMA>(at.width, lane, values, &of, sums);
        lane += LANES;
    }
}

#[inline(always)]
fn weigh_lanes<const N: usize, const WIDE: usize, T: Numbers, const FMA: bool>(
    width: usize,
    lane: usize,
    values: &[T],
    weights: &[&[f32]; N],
    sums: &mut [f32],
) {
    let mut chains = [[Lanes::ZERO; WIDE]; N];
    for n in 0..N {
        for w in 0..WIDE {
            chains[n][w] = Lanes::load(&sums[n * width + lane + w * LANES..][..LANES]);
        }
    }
    for t in 0..PAGE {
        for w in 0..WIDE {
            let values = T::lanes::<FMA>(&values[t * width + lane + w * LANES..][..LANES]);
            for n in 0..N {
                chains[n][w].add_product::<FMA>(weights[n][t], &values);
            }
        }
    }
    for n in 0..N {
        for w in 0..WIDE {
            chains[n][w].store(&mut sums[n * width + lane + w * LANES..][..LANES]);
        }
    }
}

#[inline(always)]
fn to_floats<T: Numbers, const FMA: bool>(from: &[T], into: &mut Vec<f32>) {
    into.resize(from.len(), 0.0);
    for (from, into) in from.chunks_exact(LANES).zip(into.chunks_exact_mut(LANES)) {
        T::lanes::<FMA>(from).store(into);
    }
}
