//! One head of some rows against one segment.
//!
//! First all scores, then their weights, then the weighted values: a segment is short enough for its scores to stay in the
//! cache, and the softmax is taken once over all of them.

use super::page::{HeadPage, Numbers};
use super::plan::{Part, Run, SEGMENT, View};
use super::{Answers, PAGE, Step};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, exp};
use crate::kernel::matmul::at_least;

/// Tokens in a segment.
const TOKENS: usize = SEGMENT * PAGE;
/// From so many queries on, a page is first turned into floats: fewer would not use them often enough.
const MANY: usize = 9;

/// Pages that are asked for ahead of the one in use: it takes longer to fetch one from memory than to work through it.
const AHEAD: usize = 4;

/// A thread's memory.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Scaled by 1 / sqrt(dim).
    queries: Vec<f32>,
    /// For each query, those of the segment's tokens; then their weights.
    scores: Vec<f32>,
    /// Keys or values of pages that many queries meet.
    floats: Vec<f32>,
}

impl Worker {
    /// Answers a part's views for one head.
    pub fn answer<'p>(
        &mut self,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8]>,
        part: &Part,
        head: usize,
        out: &mut [f32],
    ) {
        let Step { shape, plan, page, .. } = step;
        let (views, runs, group) = (plan.views(part), plan.runs(part), shape.group());
        let (dim, width) = (shape.head_dim, shape.value_width());
        let answer = Answers::stride(shape);
        self.start(step, views, head);
        let stretch = |run: &Run| Stretch {
            first: run.first * group,
            count: run.count * group,
            level: run.level,
            dim,
            width,
            stride: answer,
        };
        let mut at = 0;
        while at < runs.len() {
            // Two pages of the same queries at once, where there are.
            let pair = runs.get(at + 1).is_some_and(|next| runs[at].goes_on_as(next));
            let now = &runs[at..at + 1 + usize::from(pair)];
            at += now.len();
            for next in runs.iter().skip(at + AHEAD).take(now.len()) {
                prefetch(shape.head(page(next.page), head), true);
            }
            let pages =
                [shape.head(page(now[0].page), head), shape.head(page(now[now.len() - 1].page), head)];
            score(isa, stretch(&now[0]), &pages[..now.len()], self);
        }
        let first_token = part.segment * TOKENS;
        let rows = views.iter().zip(self.scores.chunks_exact_mut(group * TOKENS));
        for (view, scores) in rows.filter(|(view, _)| view.len < first_token + TOKENS) {
            for scores in scores.chunks_exact_mut(TOKENS) {
                scores[view.len.saturating_sub(first_token)..].fill(f32::NEG_INFINITY);
            }
        }
        for (scores, out) in self.scores.chunks_exact_mut(TOKENS).zip(out.chunks_exact_mut(answer)) {
            let (sums, rest) = out.split_at_mut(width);
            (rest[0], rest[1]) = softmax(isa, scores, sums);
        }
        for (at, run) in runs.iter().enumerate() {
            if let Some(next) = runs.get(at + AHEAD) {
                prefetch(shape.head(page(next.page), head), false);
            }
            let stretch = stretch(run);
            match shape.head(page(run.page), head) {
                HeadPage::F16 { values, .. } => values_half(isa, stretch, values, self, out),
                HeadPage::Q8 { values, value_scales, .. } => {
                    values_bytes(isa, stretch, values, value_scales, self, out)
                }
            }
        }
    }

    fn start<P>(&mut self, step: &Step<'_, P>, views: &[View<'_>], head: usize) {
        let (dim, group) = (step.shape.head_dim, step.shape.group());
        let scale = 1.0 / (dim as f32).sqrt();
        self.queries.clear();
        for view in views {
            let first = view.row * step.stride + head * group * dim;
            self.queries.extend(step.queries[first..][..group * dim].iter().map(|q| q * scale));
        }
        let count = views.len() * group;
        // All of it is written before it is read.
        at_least(&mut self.scores, count * TOKENS);
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
    /// Numbers of a value in the page.
    width: usize,
    /// Numbers from one query's sums to the next.
    stride: usize,
}

multiversion! {
    /// Scores of a stretch of queries against a page or two.
    fn score(at: Stretch, pages: &[HeadPage<'_>], worker: &mut Worker) = score_lanes
}

multiversion! {
    fn values_half(at: Stretch, values: &[half::f16], worker: &mut Worker, out: &mut [f32]) = values_half_lanes
}

multiversion! {
    fn values_bytes(at: Stretch, values: &[i8], scales: &[f32; PAGE], worker: &mut Worker, out: &mut [f32]) = values_bytes_lanes
}

multiversion! {
    /// Turns scores into weights, relative to the largest, and clears the sums that they will weigh. Gives the largest and the
    /// sum of the weights.
    fn softmax(scores: &mut [f32], sums: &mut [f32]) -> (f32, f32) = softmax_lanes
}

#[inline(always)]
fn score_lanes<const FMA: bool>(at: Stretch, pages: &[HeadPage<'_>], worker: &mut Worker) {
    let ones = Lanes::splat(1.0);
    match *pages {
        [HeadPage::F16 { keys: a, .. }, HeadPage::F16 { keys: b, .. }] => {
            scores::<_, 2, FMA>(at, [a, b], [ones; 2], worker);
        }
        [HeadPage::Q8 { keys: a, key_scales: x, .. }, HeadPage::Q8 { keys: b, key_scales: y, .. }] => {
            scores::<_, 2, FMA>(at, [a, b], [Lanes(*x), Lanes(*y)], worker);
        }
        _ => {
            for page in pages {
                match *page {
                    HeadPage::F16 { keys, .. } => scores::<_, 1, FMA>(at, [keys], [ones], worker),
                    HeadPage::Q8 { keys, key_scales, .. } => {
                        scores::<_, 1, FMA>(at, [keys], [Lanes(*key_scales)], worker);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn values_half_lanes<const FMA: bool>(
    at: Stretch,
    values: &[half::f16],
    worker: &mut Worker,
    out: &mut [f32],
) {
    weigh::<_, FMA>(at, values, worker, out);
}

#[inline(always)]
fn values_bytes_lanes<const FMA: bool>(
    at: Stretch,
    values: &[i8],
    scales: &[f32; PAGE],
    worker: &mut Worker,
    out: &mut [f32],
) {
    for scores in worker.scores[at.first * TOKENS..][..at.count * TOKENS].chunks_exact_mut(TOKENS) {
        for (weight, scale) in scores[at.level * PAGE..][..PAGE].iter_mut().zip(scales) {
            *weight *= scale;
        }
    }
    weigh::<_, FMA>(at, values, worker, out);
}

#[inline(always)]
fn scores<T: Numbers, const PAGES: usize, const FMA: bool>(
    at: Stretch,
    keys: [&[T]; PAGES],
    scales: [Lanes; PAGES],
    worker: &mut Worker,
) {
    let Worker { queries, scores, floats, .. } = worker;
    let queries = &queries[at.first * at.dim..][..at.count * at.dim];
    let scores = &mut scores[at.first * TOKENS..][..at.count * TOKENS];
    if at.count < MANY {
        return score_all::<T, PAGES, FMA>(at, keys, scales, queries, scores);
    }
    let size = keys[0].len();
    let floats = at_least(floats, PAGES * size);
    for p in 0..PAGES {
        to_floats::<T, FMA>(keys[p], &mut floats[p * size..][..size]);
    }
    let mut keys: [&[f32]; PAGES] = [&[]; PAGES];
    for p in 0..PAGES {
        keys[p] = &floats[p * size..][..size];
    }
    score_all::<f32, PAGES, FMA>(at, keys, scales, queries, scores);
}

/// Does `$one` for stretches of `$n` queries, from query `$first` on, until all are done.
macro_rules! by_queries {
    ($at:ident, |$n:ident, $first:ident| $one:expr) => {{
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
                6.. => run!(6),
                4.. => run!(4),
                3 => run!(3),
                2 => run!(2),
                _ => run!(1),
            };
        }
    }};
}

#[inline(always)]
fn score_all<T: Numbers, const PAGES: usize, const FMA: bool>(
    at: Stretch,
    keys: [&[T]; PAGES],
    scales: [Lanes; PAGES],
    queries: &[f32],
    scores: &mut [f32],
) {
    by_queries!(at, |N, first| score_some::<N, PAGES, T, FMA>(
        at,
        &keys,
        &scales,
        &queries[first * at.dim..],
        &mut scores[first * TOKENS..]
    ));
}

/// Sums run in two chains, for the even and the odd dimensions: one would make every addition wait for the one before.
#[inline(always)]
fn score_some<const N: usize, const PAGES: usize, T: Numbers, const FMA: bool>(
    at: Stretch,
    keys: &[&[T]; PAGES],
    scales: &[Lanes; PAGES],
    queries: &[f32],
    scores: &mut [f32],
) {
    // Plain loops: iterators over arrays are not always inlined into code for a vector unit.
    let mut of: [&[f32]; N] = [&[]; N];
    for n in 0..N {
        of[n] = &queries[n * at.dim..][..at.dim];
    }
    let mut chains = [[[Lanes::ZERO; 2]; PAGES]; N];
    for pair in 0..at.dim / 2 {
        let mut lanes = [[Lanes::ZERO; 2]; PAGES];
        for p in 0..PAGES {
            let keys = &keys[p][pair * 2 * PAGE..][..2 * PAGE];
            lanes[p] = [T::lanes::<FMA>(&keys[..PAGE]), T::lanes::<FMA>(&keys[PAGE..])];
        }
        for n in 0..N {
            for odd in 0..2 {
                // Read once for all pages.
                let query = of[n][2 * pair + odd];
                for p in 0..PAGES {
                    chains[n][p][odd].add_product::<FMA>(query, &lanes[p][odd]);
                }
            }
        }
    }
    for n in 0..N {
        for p in 0..PAGES {
            let sum = chains[n][p][0].plus(&chains[n][p][1]);
            let scores = &mut scores[n * TOKENS + (at.level + p) * PAGE..][..PAGE];
            for i in 0..PAGE {
                scores[i] = sum.0[i] * scales[p].0[i];
            }
        }
    }
}

#[inline(always)]
fn softmax_lanes<const FMA: bool>(scores: &mut [f32], sums: &mut [f32]) -> (f32, f32) {
    for sums in sums.chunks_exact_mut(LANES) {
        Lanes::ZERO.store(sums);
    }
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
fn weigh<T: Numbers, const FMA: bool>(at: Stretch, values: &[T], worker: &mut Worker, out: &mut [f32]) {
    let Worker { scores, floats, .. } = worker;
    let weights = &scores[at.first * TOKENS..][..at.count * TOKENS];
    let sums = &mut out[at.first * at.stride..][..at.count * at.stride];
    if at.count < MANY {
        return weigh_all::<T, FMA>(at, values, weights, sums);
    }
    let floats = at_least(floats, values.len());
    to_floats::<T, FMA>(values, floats);
    weigh_all::<f32, FMA>(at, floats, weights, sums);
}

#[inline(always)]
fn weigh_all<T: Numbers, const FMA: bool>(at: Stretch, values: &[T], weights: &[f32], sums: &mut [f32]) {
    by_queries!(at, |N, first| weigh_some::<N, T, FMA>(
        at,
        values,
        &weights[first * TOKENS..],
        &mut sums[first * at.stride..]
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
        weigh_lanes::<N, WIDE, T, FMA>(at, lane, values, &of, sums);
        lane += WIDE * LANES;
    }
    while lane < at.width {
        weigh_lanes::<N, 1, T, FMA>(at, lane, values, &of, sums);
        lane += LANES;
    }
}

#[inline(always)]
fn weigh_lanes<const N: usize, const WIDE: usize, T: Numbers, const FMA: bool>(
    at: Stretch,
    lane: usize,
    values: &[T],
    weights: &[&[f32]; N],
    sums: &mut [f32],
) {
    let mut chains = [[Lanes::ZERO; WIDE]; N];
    for n in 0..N {
        for w in 0..WIDE {
            chains[n][w] = Lanes::load(&sums[n * at.stride + lane + w * LANES..][..LANES]);
        }
    }
    for t in 0..PAGE {
        let mut lanes = [Lanes::ZERO; WIDE];
        for w in 0..WIDE {
            lanes[w] = T::lanes::<FMA>(&values[t * at.width + lane + w * LANES..][..LANES]);
        }
        for n in 0..N {
            // Read once for all lanes.
            let weight = weights[n][t];
            for w in 0..WIDE {
                chains[n][w].add_product::<FMA>(weight, &lanes[w]);
            }
        }
    }
    for n in 0..N {
        for w in 0..WIDE {
            chains[n][w].store(&mut sums[n * at.stride + lane + w * LANES..][..LANES]);
        }
    }
}

#[inline(always)]
fn to_floats<T: Numbers, const FMA: bool>(from: &[T], into: &mut [f32]) {
    for (from, into) in from.chunks_exact(LANES).zip(into.chunks_exact_mut(LANES)) {
        T::lanes::<FMA>(from).store(into);
    }
}
