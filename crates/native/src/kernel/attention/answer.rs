//! What some rows' queries find in one segment.
//!
//! First all scores, then their weights, then the weighted values: a segment is short enough for its scores to stay in the
//! cache, and the softmax is taken once over all of them.
//!
//! Queries become whole numbers, as keys are; weights become whole numbers, as values are. They are cut so finely that no sum
//! overflows and little is lost: a weight has up to 15 bits, and in a segment where many weigh alike, at least 12.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use bytemuck::Pod;

use super::page::{Code, HeadPage, KvType};
use super::plan::{PART_ROWS, PART_RUNS, Part, Run, SEGMENT, View};
use super::{Answers, Attention, PAGE, Step};
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::{LANES, Lanes, ROUND, exp2, fma};
use crate::kernel::matmul::at_least;
use crate::kernel::unit::{Factors, Pairs, on_pairs};

/// Tokens in a segment.
pub(super) const TOKENS: usize = SEGMENT * PAGE;

/// Words of weights in a segment, and in a page.
const WORDS: usize = TOKENS / 2;
const PAGE_WORDS: usize = PAGE / 2;

/// Pages that are asked for ahead of the one in use: it takes longer to fetch one from memory than to work through it.
const AHEAD: usize = 8;

/// A thread's memory.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Queries in words of two numbers.
    pub(super) queries: Vec<i32>,
    /// Their scales.
    pub(super) scales: Vec<f32>,
    /// For each query, those of the segment's tokens.
    pub(super) scores: Vec<f32>,
    /// For each query, those of the segment's tokens, in words of two.
    weights: Vec<i32>,
    /// For each query, the weighted values.
    sums: Vec<i32>,
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
        match step.shape.kv {
            KvType::Q16 => self.answer_codes::<i16>(isa, step, part, head, out),
            KvType::Q8 => self.answer_codes::<i8>(isa, step, part, head, out),
            KvType::F32 => self.answer_floats(isa, step, part, head, out),
        }
    }

    fn answer_codes<'p, T: Code>(
        &mut self,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8]>,
        part: &Part,
        head: usize,
        out: &mut [f32],
    ) {
        let Step { shape, plan, .. } = step;
        let (views, runs) = (plan.views(part), plan.runs(part));
        // Looked up once: what is done with a page of a single branch does not take much longer than to find it.
        let page = |run: &Run| shape.head::<T>((step.page)(run.page), head);
        let Some(first) = runs.first() else { return }; // nobody sees anything of the segment, and nobody will ask
        let mut found = [page(first); PART_RUNS];
        for (found, run) in found.iter_mut().zip(runs).skip(1) {
            *found = page(run);
        }
        let pages = &found[..runs.len()];
        self.start(step, views, head);
        for_chains(runs, |chain, coming| {
            for next in &pages[coming] {
                prefetch(next.keys.as_flattened());
                prefetch(next.key_scales);
                // Those are wanted soon after, by the softmax.
                prefetch(next.value_scales);
            }
            score::<T>(isa, Stretch::new(shape, &runs[chain.start]), &pages[chain], self);
        });
        self.weigh_scores(isa, step, part, pages, out);
        for_chains(runs, |chain, coming| {
            for next in &pages[coming] {
                prefetch(next.values.as_flattened());
            }
            weigh::<T>(isa, Stretch::new(shape, &runs[chain.start]), &pages[chain], self);
        });
        let (width, stride) = (shape.value_width(), Answers::stride(shape));
        let sums = self.sums.chunks_exact(width).zip(&self.scales);
        for (out, (sums, scale)) in out.chunks_exact_mut(stride).zip(sums) {
            to_floats(isa, sums, *scale, out);
        }
    }

    /// Brings the queries together, and makes room for what follows: all of it is written before it is read.
    pub(super) fn start<P>(&mut self, step: &Step<'_, P>, views: &[View<'_>], head: usize) {
        let (shape, group) = (step.shape, step.shape.group());
        let words = shape.query_words();
        let count = views.len() * group;
        let queries = at_least(&mut self.queries, count * words).chunks_exact_mut(group * words);
        let scales = at_least(&mut self.scales, count).chunks_exact_mut(group);
        for ((view, queries), scales) in views.iter().zip(queries).zip(scales) {
            let first = view.row * shape.heads + head * group;
            queries.copy_from_slice(&step.queries[first * words..][..group * words]);
            scales.copy_from_slice(&step.scales[first..][..group]);
        }
        at_least(&mut self.scores, count * TOKENS);
        at_least(&mut self.weights, count * WORDS);
        at_least(&mut self.sums, count * shape.value_width()).fill(0);
    }

    /// Turns all scores into weights, and notes their largest and their sum. The queries' scales become those of the weights.
    fn weigh_scores<T: Code, P>(
        &mut self,
        isa: Isa,
        step: &Step<'_, P>,
        part: &Part,
        pages: &[HeadPage<'_, T>],
        out: &mut [f32],
    ) {
        let (group, stride) = (step.shape.group(), Answers::stride(step.shape));
        let views = step.plan.views(part);
        let mut value_scales = [[&[0.0; PAGE]; SEGMENT]; PART_ROWS];
        for (run, page) in step.plan.runs(part).iter().zip(pages) {
            for scales in &mut value_scales[run.first..][..run.count] {
                scales[run.level] = page.value_scales;
            }
        }
        for (at, (view, value_scales)) in views.iter().zip(&value_scales).enumerate() {
            let seen = view.seen(part.segment);
            if seen.is_empty() {
                continue; // it is here for its neighbours' sake, and nobody will ask
            }
            for query in at * group..(at + 1) * group {
                let scores = &mut self.scores[query * TOKENS..][..seen.end.next_multiple_of(PAGE)];
                scores[..seen.start].fill(f32::NEG_INFINITY);
                scores[seen.end..].fill(f32::NEG_INFINITY);
                let weights = &mut self.weights[query * WORDS..][..scores.len() / 2];
                let [top, total, scale] = softmax(isa, scores, value_scales, T::MOST, weights);
                self.scales[query] = scale;
                out[(query + 1) * stride - 2..(query + 1) * stride].copy_from_slice(&[top, total]);
            }
        }
    }
}

/// Calls `f` for runs that are the next page of the same views each, with those that it should ask for meanwhile.
fn for_chains(runs: &[Run], mut f: impl FnMut(Range<usize>, Range<usize>)) {
    let mut at = 0;
    while at < runs.len() {
        let mut end = at + 1;
        while end < runs.len() && runs[end - 1].goes_on_as(&runs[end]) {
            end += 1;
        }
        let coming = |at: usize| (at + AHEAD).min(runs.len());
        f(at..end, coming(at)..coming(end));
        at = end;
    }
}

/// Brings numbers into the cache before they are needed, where the machine can be asked to.
#[inline]
fn prefetch<T: Pod>(numbers: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytemuck::cast_slice::<T, u8>(numbers).chunks(64) {
        // SAFETY: prefetching is a hint that reads nothing and cannot fault; SSE is part of x86-64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// Which queries of a [`Worker`] meet a page, and where its tokens are in the segment.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: usize,
    count: usize,
    level: usize,
    /// Words of a query.
    words: usize,
    /// Numbers of a value in the page.
    width: usize,
}

impl Stretch {
    fn new(shape: &Attention, run: &Run) -> Self {
        let group = shape.group();
        Stretch {
            first: run.first * group,
            count: run.count * group,
            level: run.level,
            words: shape.query_words(),
            width: shape.value_width(),
        }
    }
}

on_pairs! {
    /// Scores of a stretch of queries against some pages.
    fn score<T: Code>(at: Stretch, pages: &[HeadPage<'_, T>], worker: &mut Worker) = score_on
}

on_pairs! {
    /// Adds the values of some pages, weighted, to the sums of a stretch of queries.
    fn weigh<T: Code>(at: Stretch, pages: &[HeadPage<'_, T>], worker: &mut Worker) = weigh_on
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

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn score_on<U: Pairs, T: Code>(at: Stretch, pages: &[HeadPage<'_, T>], worker: &mut Worker) {
    let Worker { queries, scales, scores, .. } = worker;
    let queries = &queries[at.first * at.words..][..at.count * at.words];
    let scales = &scales[at.first..][..at.count];
    let scores = &mut scores[at.first * TOKENS..][..at.count * TOKENS];
    let mut p = 0;
    while p < pages.len() {
        // So many that no sum waits for the one before, and that what is read of a query serves several pages.
        let together = match pages.len() - p {
            4.. if at.count <= 3 => 4,
            2.. => 2,
            _ => 1,
        };
        let level = (at.level + p) * PAGE;
        by_queries!(at, |N, first| {
            let (queries, scales) = (&queries[first * at.words..], &scales[first..]);
            let scores = &mut scores[first * TOKENS + level..];
            let pages = &pages[p..];
            // SAFETY: the caller vouches for the instructions.
            unsafe {
                match together {
                    4 if N <= 3 => score_some::<U, T, N, 4>(at.words, pages, queries, scales, scores),
                    2.. => score_some::<U, T, N, 2>(at.words, pages, queries, scales, scores),
                    _ => score_some::<U, T, N, 1>(at.words, pages, queries, scales, scores),
                }
            }
        });
        p += together;
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn score_some<U: Pairs, T: Code, const N: usize, const PAGES: usize>(
    words: usize,
    pages: &[HeadPage<'_, T>],
    queries: &[i32],
    scales: &[f32],
    scores: &mut [f32],
) {
    // Plain loops: iterators over arrays are not always inlined into code for a vector unit.
    let mut of: [&[i32]; N] = [&[]; N];
    for n in 0..N {
        of[n] = &queries[n * words..][..words];
    }
    let mut keys: [&[[T; 2 * PAGE]]; PAGES] = [&[]; PAGES];
    for p in 0..PAGES {
        keys[p] = &pages[p].keys[..words];
    }
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let mut sums = [[U::begin(0); PAGES]; N];
        for word in 0..words {
            let mut codes = [T::pairs::<U>(&keys[0][word]); PAGES];
            for p in 1..PAGES {
                codes[p] = T::pairs::<U>(&keys[p][word]);
            }
            for n in 0..N {
                // Read once for all pages.
                let query = of[n][word];
                for p in 0..PAGES {
                    sums[n][p] = U::dot(sums[n][p], codes[p], query);
                }
            }
        }
        let (scores, _) = scores.as_chunks_mut::<PAGE>();
        for p in 0..PAGES {
            let factors = U::factors(Factors::Full(pages[p].key_scales));
            for n in 0..N {
                scores[n * SEGMENT + p] = U::store(U::add_sums(U::zero(), sums[n][p], factors, scales[n]));
            }
        }
    }
}

multiversion! {
    /// Turns scores into weights, relative to the largest, and those, times the scales of the values that they will weigh, into
    /// whole numbers. Gives the largest score, the sum of the weights, and the scale of the whole numbers.
    fn softmax(
        scores: &mut [f32],
        value_scales: &[&[f32; PAGE]; SEGMENT],
        most_value: i32,
        codes: &mut [i32],
    ) -> [f32; 3] = softmax_lanes
}

#[inline(always)]
fn softmax_lanes<const FMA: bool>(
    scores: &mut [f32],
    value_scales: &[&[f32; PAGE]; SEGMENT],
    most_value: i32,
    codes: &mut [i32],
) -> [f32; 3] {
    let (pages, _) = scores.as_chunks_mut::<LANES>();
    let mut tops = Lanes::splat(f32::NEG_INFINITY);
    for scores in pages.iter() {
        for i in 0..LANES {
            tops.0[i] = if scores[i] > tops.0[i] { scores[i] } else { tops.0[i] };
        }
    }
    let top = tops.max();
    let (mut totals, mut sums, mut largest) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    for p in 0..pages.len() {
        // Copies: the compiler cannot know that what these refer to lies apart.
        let (mut weights, scales) = (pages[p], *value_scales[p]);
        for i in 0..LANES {
            let weight = exp2::<FMA>((weights[i] - top) * LOG2_E);
            totals.0[i] += weight;
            weights[i] = weight * scales[i];
            sums.0[i] += weights[i];
            largest.0[i] = if weights[i] > largest.0[i] { weights[i] } else { largest.0[i] };
        }
        pages[p] = weights;
    }
    // As fine as 16 bits and the sum over the segment allow. Rounding adds at most a half to each.
    let room = (i32::MAX / most_value) as f32 - TOKENS as f32;
    let (largest, sum) = (largest.max(), sums.sum());
    let (by_size, by_sum) = (f32::from(i16::MAX) / largest, room / sum);
    let steps = if by_size < by_sum { by_size } else { by_sum };
    let steps = if largest > 1e-30 { steps } else { 0.0 };
    let (codes, _) = bytemuck::cast_slice_mut::<i32, i16>(codes).as_chunks_mut::<LANES>();
    for p in 0..pages.len() {
        let (weights, mut whole) = (pages[p], [0; LANES]);
        for i in 0..LANES {
            whole[i] = fma::<FMA>(weights[i], steps, ROUND).to_bits() as i16;
        }
        codes[p] = whole;
    }
    [top, totals.sum(), if steps > 0.0 { 1.0 / steps } else { 0.0 }]
}

multiversion! {
    /// What weighted values sum to.
    fn to_floats(sums: &[i32], scale: f32, out: &mut [f32]) = to_floats_lanes
}

#[inline(always)]
fn to_floats_lanes<const FMA: bool>(sums: &[i32], scale: f32, out: &mut [f32]) {
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = *sum as f32 * scale;
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_on<U: Pairs, T: Code>(at: Stretch, pages: &[HeadPage<'_, T>], worker: &mut Worker) {
    let Worker { weights, sums, .. } = worker;
    let weights = &weights[at.first * WORDS..][..at.count * WORDS];
    let sums = &mut sums[at.first * at.width..][..at.count * at.width];
    by_queries!(at, |N, first| {
        let weights = &weights[first * WORDS + at.level * PAGE_WORDS..];
        let sums = &mut sums[first * at.width..];
        // SAFETY: the caller vouches for the instructions.
        unsafe { weigh_some::<U, T, N>(at.width / LANES, pages, weights, sums) }
    });
}

/// A token that a query does not see has weight zero.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_some<U: Pairs, T: Code, const N: usize>(
    lanes: usize,
    pages: &[HeadPage<'_, T>],
    weights: &[i32],
    sums: &mut [i32],
) {
    /// Lanes of sums at a time, so that those of all queries stay in registers.
    const WIDE: usize = 4;
    let mut lane = 0;
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        while lane + WIDE <= lanes {
            weigh_lanes::<U, T, N, WIDE>(lanes, lane, pages, weights, sums);
            lane += WIDE;
        }
        while lane + 2 <= lanes {
            weigh_lanes::<U, T, N, 2>(lanes, lane, pages, weights, sums);
            lane += 2;
        }
        if lane < lanes {
            weigh_lanes::<U, T, N, 1>(lanes, lane, pages, weights, sums);
        }
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_lanes<U: Pairs, T: Code, const N: usize, const WIDE: usize>(
    lanes: usize,
    lane: usize,
    pages: &[HeadPage<'_, T>],
    weights: &[i32],
    sums: &mut [i32],
) {
    let (sums, _) = sums.as_chunks_mut::<LANES>();
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let mut chains = [[U::begin(0); WIDE]; N];
        for n in 0..N {
            for w in 0..WIDE {
                chains[n][w] = U::load_sums(&sums[n * lanes + lane + w]);
            }
        }
        for p in 0..pages.len() {
            let values = pages[p].values;
            for pair in 0..PAGE_WORDS {
                let values = &values[pair * lanes + lane..][..WIDE];
                let mut codes = [T::pairs::<U>(&values[0]); WIDE];
                for w in 1..WIDE {
                    codes[w] = T::pairs::<U>(&values[w]);
                }
                for n in 0..N {
                    // Read once for all lanes.
                    let weight = weights[n * WORDS + p * PAGE_WORDS + pair];
                    for w in 0..WIDE {
                        chains[n][w] = U::dot(chains[n][w], codes[w], weight);
                    }
                }
            }
        }
        for n in 0..N {
            for w in 0..WIDE {
                U::store_sums(chains[n][w], &mut sums[n * lanes + lane + w]);
            }
        }
    }
}
