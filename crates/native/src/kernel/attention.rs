//! Attention that walks pages, not sequences.
//!
//! A page holds the keys and values of [`PAGE`] tokens. Branches of a tree share the pages of what they have in common,
//! always at the same index of their page tables, because what is shared is a prefix. So the queries of a step are sorted
//! by their page tables and walked index by index: neighbours with the same page are answered together, while its keys
//! and values are in the cache. Each query keeps a running softmax (maximum, sum, weighted values), which the next page
//! extends; a query's arithmetic is the same alone or in company.

use half::f16;
use rayon::prelude::*;

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, Lanes, exp, fma};

/// Tokens in a page: one lane each, so that a dot product with a whole page is one vector.
pub(crate) const PAGE: usize = LANES;
/// Queries answered together, so that a page's numbers are used several times while they are in registers.
const BLOCK: usize = 4;
/// Rows of one task. More would share pages better, fewer would balance better over threads.
const TASK_ROWS: usize = 16;

/// The shape of a layer's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// One row's view of the past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub row: usize,
    /// Its page table.
    pub pages: &'a [u32],
    /// How many tokens it sees, itself included.
    pub len: usize,
}

impl Attention {
    /// `head_dim`, rounded up to whole lanes.
    fn value_width(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Numbers of one head in one layer of one page: keys (`[dim][token]`), then values (`[token][dim]`).
    fn head_size(&self) -> usize {
        PAGE * (self.head_dim + self.value_width())
    }

    /// Numbers of one layer of one page.
    pub fn page_size(&self) -> usize {
        self.kv_heads * self.head_size()
    }

    /// Keys and values of one head.
    fn head<'a>(&self, page: &'a [f16], kv_head: usize) -> (&'a [f16], &'a [f16]) {
        page[kv_head * self.head_size()..][..self.head_size()].split_at(PAGE * self.head_dim)
    }

    /// Writes a token's keys and values (all heads, one after the other) into its slot of a page.
    pub fn store(&self, page: &mut [f16], slot: usize, keys: &[f32], values: &[f32]) {
        let (dim, width) = (self.head_dim, self.value_width());
        let heads = page.chunks_mut(self.head_size());
        for ((head, keys), values) in heads.zip(keys.chunks(dim)).zip(values.chunks(dim)) {
            let (page_keys, page_values) = head.split_at_mut(PAGE * dim);
            for (column, &key) in page_keys.chunks_exact_mut(PAGE).zip(keys) {
                column[slot] = stored(key);
            }
            for (into, &value) in page_values[slot * width..].iter_mut().zip(values) {
                *into = stored(value);
            }
        }
    }

    /// Attends for every view: `queries` and `out` are rows of all heads. `page` gives this layer's part of a page.
    ///
    /// `views` should be sorted by page table; any order is right, but only neighbours share work.
    pub fn attend<'p>(
        &self,
        isa: Isa,
        views: &[View<'_>],
        page: impl Fn(u32) -> &'p [f16] + Sync,
        queries: &[f32],
        scratch: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let group = self.heads / self.kv_heads;
        let width = self.heads * self.head_dim;
        let task_floats = TASK_ROWS * group * self.head_dim;
        let tasks = views.len().div_ceil(TASK_ROWS) * self.kv_heads;
        scratch.resize(tasks * task_floats, 0.0);
        let task_views = |task: usize| {
            let first = task / self.kv_heads * TASK_ROWS;
            &views[first..views.len().min(first + TASK_ROWS)]
        };
        scratch.par_chunks_mut(task_floats).enumerate().for_each_init(
            Running::default,
            |running, (task, out)| {
                let (views, kv_head) = (task_views(task), task % self.kv_heads);
                let first = kv_head * group * self.head_dim;
                running.start(views, group, self, |view| {
                    &queries[view.row * width + first..][..group * self.head_dim]
                });
                let levels = views.iter().map(|v| v.len.div_ceil(PAGE)).max().unwrap_or(0);
                for level in 0..levels {
                    self.walk_level(isa, views, level, kv_head, &page, running);
                }
                running.finish(self.head_dim, self.value_width(), out);
            },
        );
        for (task, result) in scratch.chunks(task_floats).enumerate() {
            let first = task % self.kv_heads * group * self.head_dim;
            for (view, result) in task_views(task).iter().zip(result.chunks(group * self.head_dim)) {
                out[view.row * width + first..][..group * self.head_dim].copy_from_slice(result);
            }
        }
    }

    /// Answers the queries of all rows against the page at one index of their tables, run by run of equal pages.
    fn walk_level<'p>(
        &self,
        isa: Isa,
        views: &[View<'_>],
        level: usize,
        kv_head: usize,
        page: &impl Fn(u32) -> &'p [f16],
        running: &mut Running,
    ) {
        let sees = |v: &View<'_>| v.len.saturating_sub(level * PAGE).min(PAGE);
        let group = self.heads / self.kv_heads;
        let mut at = 0;
        while at < views.len() {
            if sees(&views[at]) == 0 {
                at += 1;
                continue;
            }
            let id = views[at].pages[level];
            let same = |v: &&View<'_>| sees(v) > 0 && v.pages[level] == id;
            let run = views[at..].iter().take_while(same).count();
            running.visible.clear();
            running
                .visible
                .extend(views[at..at + run].iter().flat_map(|v| std::iter::repeat_n(sees(v), group)));
            // Private pages lie anywhere in memory: ask for the next one while this one is being used.
            if let Some(next) = views.get(at + run).filter(|v| sees(v) > 0) {
                let (keys, values) = self.head(page(next.pages[level]), kv_head);
                prefetch(keys);
                prefetch(values);
            }
            let (keys, values) = self.head(page(id), kv_head);
            let shape = Shape { dim: self.head_dim, width: self.value_width(), first: at * group };
            attend_page(isa, shape, keys, values, running);
            at += run;
        }
    }
}

/// Brings numbers into the cache before they are needed, where the machine can be asked to.
#[inline]
fn prefetch(numbers: &[f16]) {
    #[cfg(target_arch = "x86_64")]
    for line in numbers.chunks(64 / size_of::<f16>()) {
        // SAFETY: prefetching is a hint that reads nothing and cannot fault; SSE is part of x86-64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// Half precision holds what a model computes. What it cannot hold becomes the largest number that it can, and what is no
/// number becomes zero (the row's logits will tell): attention multiplies stale slots by zero and relies on finite ones.
fn stored(value: f32) -> f16 {
    let most = f16::MAX.to_f32_const();
    if value.is_nan() { f16::ZERO } else { f16::from_f32(value.clamp(-most, most)) }
}

/// Which queries of [`Running`] meet a page, and how long their vectors are.
#[derive(Debug, Clone, Copy)]
struct Shape {
    dim: usize,
    width: usize,
    first: usize,
}

/// The running softmax of a task's queries.
#[derive(Debug, Default)]
struct Running {
    /// Scaled by 1 / sqrt(dim).
    queries: Vec<f32>,
    /// `value_width` floats a query.
    sums: Vec<f32>,
    top: Vec<f32>,
    total: Vec<f32>,
    /// How many tokens of the current page each query of the current run sees.
    visible: Vec<usize>,
}

impl Running {
    fn start<'q>(
        &mut self,
        views: &[View<'_>],
        group: usize,
        shape: &Attention,
        query: impl Fn(&View<'_>) -> &'q [f32],
    ) {
        let scale = 1.0 / (shape.head_dim as f32).sqrt();
        self.queries.clear();
        for view in views {
            self.queries.extend(query(view).iter().map(|q| q * scale));
        }
        let count = views.len() * group;
        self.sums.clear();
        self.sums.resize(count * shape.value_width(), 0.0);
        self.top.clear();
        self.top.resize(count, f32::NEG_INFINITY);
        self.total.clear();
        self.total.resize(count, 0.0);
    }

    fn finish(&self, dim: usize, width: usize, out: &mut [f32]) {
        for ((out, sums), total) in out.chunks_mut(dim).zip(self.sums.chunks(width)).zip(&self.total) {
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum / total;
            }
        }
    }
}

multiversion! {
    /// Extends the running softmax of a run of queries by one page.
    fn attend_page(shape: Shape, keys: &[f16], values: &[f16], running: &mut Running) = attend_page_lanes
}

#[inline(always)]
fn attend_page_lanes<const FMA: bool>(shape: Shape, keys: &[f16], values: &[f16], running: &mut Running) {
    let count = running.visible.len();
    let mut at = 0;
    while at < count {
        at += match count - at {
            BLOCK.. => attend_block::<BLOCK, FMA>(shape, keys, values, running, at),
            2.. => attend_block::<2, FMA>(shape, keys, values, running, at),
            _ => attend_block::<1, FMA>(shape, keys, values, running, at),
        }
    }
}

/// Answers `N` queries and returns `N`. Sums run in two chains, for the even and the odd terms: one would make every
/// addition wait for the one before.
#[inline(always)]
fn attend_block<const N: usize, const FMA: bool>(
    shape: Shape,
    keys: &[f16],
    values: &[f16],
    running: &mut Running,
    at: usize,
) -> usize {
    let first = shape.first + at;
    let queries: [&[f32]; N] =
        std::array::from_fn(|n| &running.queries[(first + n) * shape.dim..][..shape.dim]);
    let mut chains = [[Lanes::ZERO; 2]; N];
    for (pair, keys) in keys.chunks_exact(2 * PAGE).enumerate() {
        let (even, odd) = (Lanes::load_half::<FMA>(&keys[..PAGE]), Lanes::load_half::<FMA>(&keys[PAGE..]));
        for n in 0..N {
            chains[n][0].add_product::<FMA>(queries[n][2 * pair], &even);
            chains[n][1].add_product::<FMA>(queries[n][2 * pair + 1], &odd);
        }
    }
    let mut weights = [Lanes::ZERO; N];
    let mut shrink = [0.0; N];
    for n in 0..N {
        let scores = chains[n][0].plus(&chains[n][1]).first(running.visible[at + n], f32::NEG_INFINITY);
        let (old, page) = (running.top[first + n], scores.max());
        let top = if page > old { page } else { old };
        shrink[n] = exp::<FMA>(old - top);
        weights[n] = scores.map(|s| exp::<FMA>(s - top));
        running.top[first + n] = top;
        running.total[first + n] = running.total[first + n] * shrink[n] + weights[n].sum();
    }
    for lane in (0..shape.width).step_by(LANES) {
        let mut chains = [[Lanes::ZERO; 2]; N];
        for t in (0..PAGE).step_by(2) {
            let even = Lanes::load_half::<FMA>(&values[t * shape.width + lane..][..LANES]);
            let odd = Lanes::load_half::<FMA>(&values[(t + 1) * shape.width + lane..][..LANES]);
            for n in 0..N {
                // A token that this query does not see has weight zero, and what its slot still holds is finite.
                chains[n][0].add_product::<FMA>(weights[n].0[t], &even);
                chains[n][1].add_product::<FMA>(weights[n].0[t + 1], &odd);
            }
        }
        for n in 0..N {
            let sums = &mut running.sums[(first + n) * shape.width + lane..][..LANES];
            let page = chains[n][0].plus(&chains[n][1]);
            for i in 0..LANES {
                sums[i] = fma::<FMA>(sums[i], shrink[n], page.0[i]);
            }
        }
    }
    N
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::tests::{near, numbers};
    use crate::pages::{Pool, Table};
    use proptest::prelude::*;

    /// A sequence and what was stored for each of its tokens: keys and values of all heads.
    #[derive(Debug, Default)]
    struct Branch {
        table: Table,
        tokens: Vec<(Vec<f32>, Vec<f32>)>,
    }

    /// Branches that leave each other at any token, in pages that others used before.
    fn branches(
        shape: &Attention,
        seed: u64,
        plan: &[(prop::sample::Index, usize, usize)],
    ) -> (Pool, Vec<Branch>) {
        let mut pool = Pool::new(1000, shape.page_size());
        let width = shape.kv_heads * shape.head_dim;
        // What the system gives is zero; what a sequence leaves behind is anything that is finite.
        let mut litter = Table::default();
        litter.grow(&mut pool, 100 * PAGE).unwrap();
        for &id in litter.pages() {
            pool.data_mut(id).fill(f16::MAX);
        }
        litter.clear(&mut pool);
        let mut branches: Vec<Branch> = Vec::new();
        for (name, (parent, shared, more)) in (1..).zip(plan) {
            let mut branch = Branch::default();
            if let Some(parent) = (!branches.is_empty()).then(|| &branches[parent.index(branches.len())]) {
                let shared = shared.min(&parent.tokens.len()).to_owned();
                branch = Branch {
                    table: parent.table.share(&mut pool, shared),
                    tokens: parent.tokens[..shared].to_vec(),
                };
            }
            let first = branch.table.len();
            branch.table.grow(&mut pool, *more).unwrap();
            let random = numbers(seed, name, more * 2 * width);
            for (position, random) in (first..).zip(random.chunks(2 * width)) {
                let (keys, values) = random.split_at(width);
                let page = pool.data_mut(branch.table.pages()[position / PAGE]);
                shape.store(page, position % PAGE, keys, values);
                branch.tokens.push((keys.to_vec(), values.to_vec()));
            }
            branches.push(branch);
        }
        (pool, branches)
    }

    /// One head by the book: softmax over all tokens at once, in double precision, of what half precision keeps.
    fn head(query: &[f32], past: &[(&[f32], &[f32])]) -> Vec<f64> {
        let half = |x: f32| f16::from_f32(x).to_f64();
        let score = |keys: &[f32]| {
            query.iter().zip(keys).map(|(&q, &k)| f64::from(q) * half(k)).sum::<f64>()
                / (query.len() as f64).sqrt()
        };
        let weights: Vec<f64> = past.iter().map(|(keys, _)| score(keys).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; query.len()];
        for (weight, (_, values)) in weights.iter().zip(past) {
            for (out, &value) in out.iter_mut().zip(*values) {
                *out += weight / total * half(value);
            }
        }
        out
    }

    fn attend(shape: &Attention, isa: Isa, pool: &Pool, views: &[View<'_>], queries: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; queries.len()];
        shape.attend(isa, views, |id| pool.data(id), queries, &mut vec![f32::NAN; 7], &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against the book. Those who fuse agree to the last bit, and a row in company with the same row alone.
        #[test]
        fn rows_attend_to_their_own_past(
            seed: u64,
            group in 1usize..4,
            kv_heads in 1usize..4,
            head_dim in prop::sample::select(vec![2usize, 6, 16, 20, 32, 64]),
            plan in prop::collection::vec((any::<prop::sample::Index>(), 0usize..70, 1usize..40), 1..8),
            rows in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40),
            sorted: bool,
        ) {
            let shape = Attention { heads: group * kv_heads, kv_heads, head_dim };
            let (pool, branches) = branches(&shape, seed, &plan);
            let seen = |(branch, len): &(prop::sample::Index, prop::sample::Index)| {
                let branch = &branches[branch.index(branches.len())];
                (branch, 1 + len.index(branch.tokens.len()))
            };
            let seen: Vec<(&Branch, usize)> = rows.iter().map(seen).collect();
            let views = seen.iter().enumerate();
            let mut views: Vec<View<'_>> =
                views.map(|(row, &(branch, len))| View { row, pages: branch.table.pages(), len }).collect();
            if sorted {
                views.sort_by_key(|v| (v.pages, v.len));
            }
            let width = shape.heads * head_dim;
            let queries = numbers(seed, 0, rows.len() * width);
            let mut fused: Option<Vec<f32>> = None;
            for isa in Isa::available() {
                let out = attend(&shape, isa, &pool, &views, &queries);
                for view in &views {
                    let (query, got) = (&queries[view.row * width..][..width], &out[view.row * width..][..width]);
                    let alone = attend(&shape, isa, &pool, &[View { row: 0, ..*view }], query);
                    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    prop_assert_eq!(bits(got), bits(&alone), "{} alone", isa);
                    let (branch, len) = seen[view.row];
                    for (h, (query, got)) in query.chunks(head_dim).zip(got.chunks(head_dim)).enumerate() {
                        let part = h / group * head_dim..(h / group + 1) * head_dim;
                        let past: Vec<(&[f32], &[f32])> =
                            branch.tokens[..len].iter().map(|(k, v)| (&k[part.clone()], &v[part.clone()])).collect();
                        for (got, want) in got.iter().zip(head(query, &past)) {
                            prop_assert!(near(*got, want, 2.0, 5e-6), "{isa}: {got} for {want}");
                        }
                    }
                }
                if isa.to_string() != "portable" {
                    prop_assert!(fused.get_or_insert(out.clone()) == &out, "{isa} differs from a wider unit");
                }
            }
        }
    }

    #[test]
    fn what_half_precision_cannot_hold_stays_finite() {
        let most = f16::MAX;
        for (value, want) in
            [(1e9, most), (f32::NEG_INFINITY, -most), (f32::NAN, f16::ZERO), (0.5, f16::from_f32(0.5))]
        {
            assert_eq!(stored(value), want);
        }
    }
}
