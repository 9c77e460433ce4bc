//! What some rows' queries find in one segment.
//!
//! First all scores, then their weights ([`softmax`]), then the weighted values: a segment is short enough for its scores to stay
//! in the cache, and the softmax is taken once over all of them.
//!
//! Queries become whole numbers, as keys are; weights become whole numbers, as values are. They are cut so finely that no sum
//! overflows and little is lost.

use std::ops::Range;

use super::page::{Code, HeadPage, KvType};
use super::plan::{BLOCK_ROWS, Block, PART_RUNS, Part, Run, SEGMENT, View};
use super::softmax::{Found, TOKENS, Values, WORDS, softmax};
use super::{Attention, Out, PAGE, Step};
use crate::kernel::buffer::Buffer;
use crate::kernel::isa::{Isa, multiversion};
use crate::kernel::lanes::LANES;
use crate::kernel::unit::{Factors, Pairs, Walk, ask_for_later, on_pairs};

/// Words of weights in a page.
const PAGE_WORDS: usize = PAGE / 2;

/// Pages that are asked for ahead of the one in use, into the second cache: it takes longer to fetch one from memory than to work
/// through it, and the first cache cannot wait for so many lines.
const AHEAD: usize = 8;

/// A thread's memory.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Queries in words of two numbers.
    pub(super) queries: Buffer<i32>,
    /// Their scales.
    pub(super) scales: Buffer<f32>,
    /// For each query, those of the segment's tokens.
    pub(super) scores: Buffer<f32>,
    /// The same as whole numbers, in words of two.
    weights: Buffer<i32>,
    /// For each query, what its scores came to.
    found: Vec<Found>,
    /// For each query, the weighted values.
    sums: Buffer<i32>,
}

impl Worker {
    /// Answers a part's views for one head.
    pub fn answer<'p>(
        &mut self,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8]>,
        part: &Part,
        head: usize,
        mut out: Out<'_>,
    ) {
        for block in step.plan.blocks(part) {
            let views = step.plan.views_of(part, block);
            let count = views.len() * step.shape.group();
            let (sums, rest_sums) = out.sums.split_at_mut(count * step.shape.value_width());
            let (weights, rest) = out.weights.split_at_mut(count);
            let own = Out { sums, weights };
            let of = Of { segment: part.segment, block, views, head };
            match step.shape.kv {
                KvType::Q16 => self.answer_codes::<i16>(isa, step, of, own),
                KvType::Q8 => self.answer_codes::<i8>(isa, step, of, own),
                KvType::F32 => self.answer_floats(isa, step, of, own),
            }
            out = Out { sums: rest_sums, weights: rest };
        }
    }

    fn answer_codes<'p, T: Code>(
        &mut self,
        isa: Isa,
        step: &Step<'_, impl Fn(u32) -> &'p [u8]>,
        of: Of<'_>,
        out: Out<'_>,
    ) {
        let Step { shape, plan, .. } = step;
        let runs = plan.runs(of.block);
        // Looked up once: what is done with a page of a single branch does not take much longer than to find it.
        let page = |run: &Run| shape.head::<T>((step.page)(run.page), of.head);
        let Some(first) = runs.first() else { return }; // nobody sees anything of the segment, and nobody will ask
        let mut found = [page(first); PART_RUNS];
        for (found, run) in found.iter_mut().zip(runs).skip(1) {
            *found = page(run);
        }
        let pages = Pages(&found[..runs.len()]);
        self.start(step, of);
        for_chains(runs, |chain| {
            score::<T>(isa, Stretch::new(shape, &runs[chain.start]), pages, chain, self);
        });
        self.weigh_scores(isa, step, of, pages);
        for_chains(runs, |chain| {
            weigh::<T>(isa, Stretch::new(shape, &runs[chain.start]), pages, chain, self);
        });
        let sums = self.sums.chunks_exact(shape.value_width()).zip(&self.found);
        let out = out.sums.chunks_exact_mut(shape.value_width()).zip(out.weights);
        for ((out, weights), (sums, found)) in out.zip(sums) {
            to_floats(isa, sums, found.scale, out);
            *weights = [found.top, found.total];
        }
    }

    /// Brings the queries together, and makes room for what follows: all of it is written before it is read.
    pub(super) fn start<P>(&mut self, step: &Step<'_, P>, of: Of<'_>) {
        let (shape, group) = (step.shape, step.shape.group());
        let words = shape.query_words();
        let count = of.views.len() * group;
        let queries = self.queries.at_least(count * words).chunks_exact_mut(group * words);
        let scales = self.scales.at_least(count).chunks_exact_mut(group);
        for ((view, queries), scales) in of.views.iter().zip(queries).zip(scales) {
            let first = view.row * shape.heads + of.head * group;
            queries.copy_from_slice(&step.queries[first * words..][..group * words]);
            scales.copy_from_slice(&step.scales[first..][..group]);
        }
        self.scores.at_least(count * TOKENS);
        self.weights.at_least(count * WORDS);
        self.sums.at_least(count * shape.value_width()).fill(0);
        self.found.resize(count, Found::default());
    }

    /// Turns all scores into weights.
    fn weigh_scores<T: Code, P>(&mut self, isa: Isa, step: &Step<'_, P>, of: Of<'_>, pages: Pages<'_, T>) {
        let group = step.shape.group();
        let mut value_scales = [[&[0.0; PAGE]; SEGMENT]; BLOCK_ROWS];
        for (run, page) in step.plan.runs(of.block).iter().zip(pages.0) {
            for scales in &mut value_scales[run.first..][..run.count] {
                scales[run.level] = page.value_scales;
            }
        }
        for (at, (view, value_scales)) in of.views.iter().zip(&value_scales).enumerate() {
            let seen = view.seen(of.segment);
            if seen.is_empty() {
                continue; // it is here for its neighbours' sake, and nobody will ask
            }
            let count = seen.end.div_ceil(PAGE);
            let queries = at * group..(at + 1) * group;
            let scores = &mut self.scores[queries.start * TOKENS..queries.end * TOKENS];
            for scores in scores.chunks_exact_mut(TOKENS) {
                scores[..seen.start].fill(f32::NEG_INFINITY);
                scores[seen.end..count * PAGE].fill(f32::NEG_INFINITY);
            }
            let values = Values { scales: &value_scales[..count], most: T::MOST };
            let weights = &mut self.weights[queries.start * WORDS..queries.end * WORDS];
            softmax(isa, values, scores, weights, &mut self.found[queries]);
        }
    }
}

/// What a [`Worker`] is to answer: a block's views, for one head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub segment: usize,
    pub block: &'a Block,
    pub views: &'a [View],
    pub head: usize,
}

/// The pages of a block's runs.
#[derive(Debug, Clone, Copy)]
struct Pages<'a, T>(&'a [HeadPage<'a, T>]);

impl<'a, T> Pages<'a, T> {
    /// What to ask for while a page's keys are in use: other keys, and when there are no more, values.
    #[inline(always)]
    fn keys_ahead(self, at: usize) -> &'a [[T; 2 * PAGE]] {
        match self.0.get(at + AHEAD) {
            Some(page) => page.keys,
            None => self.0[(at + AHEAD - self.0.len()).min(at)].values,
        }
    }

    /// The same while its values are.
    #[inline(always)]
    fn values_ahead(self, at: usize) -> &'a [[T; 2 * PAGE]] {
        self.0[(at + AHEAD).min(self.0.len() - 1)].values
    }
}

/// Calls `f` for runs that are the next page of the same views each.
fn for_chains(runs: &[Run], mut f: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at < runs.len() {
        let mut end = at + 1;
        while end < runs.len() && runs[end - 1].goes_on_as(&runs[end]) {
            end += 1;
        }
        f(at..end);
        at = end;
    }
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
    fn score<T: Code>(at: Stretch, pages: Pages<'_, T>, chain: Range<usize>, worker: &mut Worker) = score_on
}

on_pairs! {
    /// Adds the values of some pages, weighted, to the sums of a stretch of queries.
    fn weigh<T: Code>(at: Stretch, pages: Pages<'_, T>, chain: Range<usize>, worker: &mut Worker) = weigh_on
}

/// Most pages that all queries meet before the next: a few, so that they are still in a near cache for the last of them.
const MOST_PAGES: usize = 4;

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
unsafe fn score_on<U: Pairs, T: Code>(
    at: Stretch,
    pages: Pages<'_, T>,
    chain: Range<usize>,
    worker: &mut Worker,
) {
    let Worker { queries, scales, scores, .. } = worker;
    let queries = &queries[at.first * at.words..][..at.count * at.words];
    let scales = &scales[at.first..][..at.count];
    let scores = &mut scores[at.first * TOKENS..][..at.count * TOKENS];
    let mut next = chain.start;
    while next < chain.end {
        let some = next..chain.end.min(next + MOST_PAGES);
        let level = (at.level + next - chain.start) * PAGE;
        next = some.end;
        by_queries!(at, |N, first| {
            let (queries, scales) = (&queries[first * at.words..], &scales[first..]);
            let scores = &mut scores[first * TOKENS + level..];
            // SAFETY: the caller vouches for the instructions.
            unsafe {
                score_some::<U, T, N>(at.words, pages, some.clone(), first == 0, queries, scales, scores)
            }
        });
    }
}

/// As many pages at a time as there are registers for, with the sums of all queries: so no sum waits for the one before, and
/// what is read of a query serves several pages. Asks for what is needed later if these are the `first` queries that meet the
/// pages.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn score_some<U: Pairs, T: Code, const N: usize>(
    words: usize,
    pages: Pages<'_, T>,
    mut some: Range<usize>,
    first: bool,
    queries: &[i32],
    scales: &[f32],
    scores: &mut [f32],
) {
    // Plain loops: iterators over arrays are not always inlined into code for a vector unit.
    let mut of = [std::ptr::null(); N];
    let mut scale_of = [0.0; N];
    for n in 0..N {
        of[n] = queries[n * words..][..words].as_ptr();
        scale_of[n] = scales[n];
    }
    let mut scores = scores.as_chunks_mut::<PAGE>().0;
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        while 4 * (N + 1) <= U::HELD && some.len() >= 4 {
            score_pages::<U, T, N, 4>(words, pages, some.start, first, of, scale_of, scores);
            (some.start, scores) = (some.start + 4, &mut scores[4..]);
        }
        while 2 * (N + 1) <= U::HELD && some.len() >= 2 {
            score_pages::<U, T, N, 2>(words, pages, some.start, first, of, scale_of, scores);
            (some.start, scores) = (some.start + 2, &mut scores[2..]);
        }
        while !some.is_empty() {
            score_pages::<U, T, N, 1>(words, pages, some.start, first, of, scale_of, scores);
            (some.start, scores) = (some.start + 1, &mut scores[1..]);
        }
    }
}

/// # Safety
/// The machine must have the unit's instructions, and queries must have as many words.
#[inline(always)]
unsafe fn score_pages<U: Pairs, T: Code, const N: usize, const PAGES: usize>(
    words: usize,
    pages: Pages<'_, T>,
    at: usize,
    first: bool,
    queries: [*const i32; N],
    scales: [f32; N],
    scores: &mut [[f32; PAGE]],
) {
    let mut keys = [std::ptr::null(); PAGES];
    let mut ahead = [std::ptr::null(); PAGES];
    for p in 0..PAGES {
        keys[p] = pages.0[at + p].keys[..words].as_ptr();
        ahead[p] = if first { pages.keys_ahead(at + p).as_ptr() } else { keys[p] };
        if let (true, Some(page)) = (first, pages.0.get(at + p + AHEAD)) {
            ask_for_later(page.key_scales);
            // Those are wanted soon after, by the softmax.
            ask_for_later(page.value_scales);
        }
    }
    // SAFETY: the caller vouches for the instructions and for the queries, and keys were counted.
    unsafe {
        let mut sums = [[U::begin(0); PAGES]; N];
        U::walk(Walk { count: words, words: queries, lines: keys, step: 1, ahead }, &mut sums);
        for p in 0..PAGES {
            let factors = U::factors(Factors::Full(pages.0[at + p].key_scales));
            for n in 0..N {
                scores[n * SEGMENT + p] = U::store(U::add_sums(U::zero(), sums[n][p], factors, scales[n]));
            }
        }
    }
}

multiversion! {
    /// What weighted values sum to.
    fn to_floats(sums: &[i32], scale: f32, out: &mut [f32]) = to_floats_lanes
}

#[inline(always)]
fn to_floats_lanes<const FMA: bool>(sums: &[i32], scale: f32, out: &mut [f32]) {
    // A plain loop: iterators are not always inlined into code for a vector unit.
    let sums = &sums[..out.len()];
    for i in 0..out.len() {
        out[i] = sums[i] as f32 * scale;
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_on<U: Pairs, T: Code>(
    at: Stretch,
    pages: Pages<'_, T>,
    chain: Range<usize>,
    worker: &mut Worker,
) {
    let Worker { weights, sums, .. } = worker;
    let weights = &weights[at.first * WORDS..][..at.count * WORDS];
    let sums = &mut sums[at.first * at.width..][..at.count * at.width];
    by_queries!(at, |N, first| {
        let weights = &weights[first * WORDS..];
        let sums = &mut sums[first * at.width..];
        // SAFETY: the caller vouches for the instructions.
        unsafe { weigh_some::<U, T, N>(at, pages, chain.clone(), first == 0, weights, sums) }
    });
}

/// A token that a query does not see has weight zero.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_some<U: Pairs, T: Code, const N: usize>(
    at: Stretch,
    pages: Pages<'_, T>,
    chain: Range<usize>,
    first: bool,
    weights: &[i32],
    sums: &mut [i32],
) {
    let lanes = at.width / LANES;
    let mut lane = 0;
    // As many lanes at a time as there are registers for, with the sums of all queries.
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        while 4 * (N + 1) <= U::HELD && lane + 4 <= lanes {
            weigh_lanes::<U, T, N, 4>(at, lane, pages, chain.clone(), first, weights, sums);
            lane += 4;
        }
        while 2 * (N + 1) <= U::HELD && lane + 2 <= lanes {
            weigh_lanes::<U, T, N, 2>(at, lane, pages, chain.clone(), first, weights, sums);
            lane += 2;
        }
        while lane < lanes {
            weigh_lanes::<U, T, N, 1>(at, lane, pages, chain.clone(), first, weights, sums);
            lane += 1;
        }
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn weigh_lanes<U: Pairs, T: Code, const N: usize, const WIDE: usize>(
    at: Stretch,
    lane: usize,
    pages: Pages<'_, T>,
    chain: Range<usize>,
    first: bool,
    weights: &[i32],
    sums: &mut [i32],
) {
    let lanes = at.width / LANES;
    let (sums, _) = sums.as_chunks_mut::<LANES>();
    let (weights, _) = weights.as_chunks::<PAGE_WORDS>();
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let mut chains = [[U::begin(0); WIDE]; N];
        for n in 0..N {
            for w in 0..WIDE {
                chains[n][w] = U::load_sums(&sums[n * lanes + lane + w]);
            }
        }
        for p in chain.clone() {
            let values = &pages.0[p].values[..PAGE_WORDS * lanes];
            let ahead = if first { pages.values_ahead(p) } else { values }.as_ptr();
            let mut of = [std::ptr::null(); N];
            for n in 0..N {
                of[n] = weights[n * SEGMENT + at.level + p - chain.start].as_ptr();
            }
            let (mut lines, mut later) = ([std::ptr::null(); WIDE], [std::ptr::null(); WIDE]);
            for w in 0..WIDE {
                lines[w] = values[lane + w..].as_ptr();
                later[w] = ahead.wrapping_add(lane + w);
            }
            U::walk(Walk { count: PAGE_WORDS, words: of, lines, step: lanes, ahead: later }, &mut chains);
        }
        for n in 0..N {
            for w in 0..WIDE {
                U::store_sums(chains[n][w], &mut sums[n * lanes + lane + w]);
            }
        }
    }
}
