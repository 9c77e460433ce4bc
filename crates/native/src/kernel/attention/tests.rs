//! Against attention by the book.

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
    let mut pool = Pool::new(1000, shape.page_bytes());
    let width = shape.kv_heads * shape.head_dim;
    // What the system gives is zero; what a sequence leaves behind is anything that is finite, read in any way.
    let mut litter = Table::default();
    litter.grow(&mut pool, 100 * PAGE).unwrap();
    for &id in litter.pages() {
        pool.data_mut(id).fill(0x7b);
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
            shape.store(page, position % PAGE, &encoded(shape, random));
            branch.tokens.push((keys.to_vec(), values.to_vec()));
        }
        branches.push(branch);
    }
    (pool, branches)
}

fn encoded(shape: &Attention, keys_and_values: &[f32]) -> Vec<u8> {
    // As floats, so that they are aligned.
    let mut token = vec![0f32; shape.token_bytes().div_ceil(4)];
    shape.encode(
        Isa::detect(),
        keys_and_values,
        &mut bytemuck::cast_slice_mut(&mut token)[..shape.token_bytes()],
    );
    bytemuck::cast_slice(&token)[..shape.token_bytes()].to_vec()
}

/// Numbers of one token and head as whole ones of at most `most` would have them.
fn rounded(most: i32, numbers: &[f32]) -> Vec<f64> {
    let most = most as f32;
    let largest = numbers.iter().fold(0f32, |a, b| a.max(b.abs()));
    let code = |x: &f32| f64::from((x * (most / largest)).round_ties_even());
    numbers.iter().map(|x| code(x) * f64::from(largest / most)).collect()
}

/// One head: softmax over all tokens at once, in double precision, of what pages keep.
fn head(kv: KvType, query: &[f32], past: &[(&[f32], &[f32])], sink: Option<f32>) -> Vec<f64> {
    let most = match kv {
        KvType::Q16 => Some(4095),
        KvType::Q8 => Some(127),
        KvType::F32 => None,
    };
    let as_is = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect();
    let kept = |numbers: &[f32]| most.map_or_else(|| as_is(numbers), |most| rounded(most, numbers));
    let products = |most: i32| query.len().next_multiple_of(2) as i32 * most;
    let sharp = |most| rounded((i32::MAX / products(most)).min(i16::MAX.into()), query);
    let sharp = most.map_or_else(|| as_is(query), sharp);
    let score = |keys: &[f32]| {
        let products = sharp.iter().zip(kept(keys)).map(|(q, k)| q * k);
        products.sum::<f64>() / (query.len() as f64).sqrt()
    };
    let weights: Vec<f64> = past.iter().map(|(keys, _)| score(keys).exp()).collect();
    let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| f64::from(sink).exp());
    let mut out = vec![0.0; query.len()];
    for (weight, (_, values)) in weights.iter().zip(past) {
        for (out, value) in out.iter_mut().zip(kept(values)) {
            *out += weight / total * value;
        }
    }
    out
}

fn attend(
    threads: &Threads,
    shape: &Attention,
    isa: Isa,
    pool: &Pool,
    (tables, views): (&Tables, &[View]),
    queries: &[f32],
    sinks: Option<&[f32]>,
) -> Vec<f32> {
    let width = shape.heads * shape.head_dim;
    let mut plan = Plan::default();
    // Used before, by another step.
    plan.work_out(tables, views.iter().rev().zip(0..).map(|(view, row)| View { row, ..*view }), 1);
    plan.work_out(tables, views.iter().copied(), shape.group());
    let mut answers = Answers { ..Answers::default() };
    answers.sums.at_least(7).fill(f32::NAN);
    let page = |id| pool.data(id);
    let (mut words, mut scales) = (
        vec![-1; views.len() * shape.heads * shape.query_words()],
        vec![f32::NAN; views.len() * shape.heads],
    );
    shape.encode_queries(isa, queries, &mut words, &mut scales);
    answers.find(threads, isa, &Step { shape, plan: &plan, page, queries: &words, scales: &scales });
    let mut out = vec![f32::NAN; queries.len()];
    for (row, out) in out.chunks_mut(width).enumerate() {
        answers.merge(isa, shape, &plan, sinks, row, out);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against the book. Those who fuse agree to the last bit, and a row in company with the same row alone.
    #[test]
    fn rows_attend_to_their_own_past(
        seed: u64,
        group in 1usize..4,
        kv_heads in 1usize..4,
        head_dim in prop::sample::select(vec![2usize, 6, 16, 20, 32, 64, 80]),
        kv in prop::sample::select(vec![KvType::Q16, KvType::Q8, KvType::F32]),
        // Some longer than a segment.
        plan in prop::collection::vec((any::<prop::sample::Index>(), 0usize..300, 1usize..200), 1..8),
        rows in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40),
        window in prop::option::of(1usize..250),
        sinks in any::<bool>(),
    ) {
        let shape = Attention { heads: group * kv_heads, kv_heads, head_dim, kv };
        let (pool, branches) = branches(&shape, seed, &plan);
        let seen = |(branch, len): &(prop::sample::Index, prop::sample::Index)| {
            let branch = &branches[branch.index(branches.len())];
            (branch, 1 + len.index(branch.tokens.len()))
        };
        let seen: Vec<(&Branch, usize)> = rows.iter().map(seen).collect();
        let mut tables = Tables::default();
        let views = seen.iter().enumerate();
        let views: Vec<View> =
            views.map(|(row, &(branch, len))| {
                let first = window.map_or(0, |window| len.saturating_sub(window));
                View { row, table: tables.add(branch.table.pages()), first, len }
            }).collect();
        let sinks = sinks.then(|| numbers(seed, u64::MAX, shape.heads));
        let sinks = sinks.as_deref();
        let width = shape.heads * head_dim;
        let queries = numbers(seed, 0, rows.len() * width);
        let threads = Threads::new(2).unwrap();
        let mut fused: Option<Vec<f32>> = None;
        for isa in Isa::available() {
            let out = attend(&threads, &shape, isa, &pool, (&tables, &views), &queries, sinks);
            for view in &views {
                let (query, got) = (&queries[view.row * width..][..width], &out[view.row * width..][..width]);
                let alone = attend(&threads, &shape, isa, &pool, (&tables, &[View { row: 0, ..*view }]), query, sinks);
                let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(got), bits(&alone), "{} alone", isa);
                let (branch, len) = seen[view.row];
                for (h, (query, got)) in query.chunks(head_dim).zip(got.chunks(head_dim)).enumerate() {
                    let part = h / group * head_dim..(h / group + 1) * head_dim;
                    let past: Vec<(&[f32], &[f32])> =
                        branch.tokens[view.first..len].iter().map(|(k, v)| (&k[part.clone()], &v[part.clone()])).collect();
                    for (got, want) in got.iter().zip(head(kv, query, &past, sinks.map(|sinks| sinks[h]))) {
                        let tolerance = if kv == KvType::F32 { 2e-6 } else { 3e-4 };
                        prop_assert!(near(*got, want, 2.0, tolerance), "{isa}: {got} for {want}");
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
fn what_a_page_cannot_hold_stays_finite() {
    let shape = |kv| Attention { heads: 1, kv_heads: 1, head_dim: 4, kv };
    let threads = Threads::new(2).unwrap();
    let hostile = [1e38, f32::NEG_INFINITY, f32::NAN, 0.5];
    for kv in [KvType::Q16, KvType::Q8] {
        let shape = shape(kv);
        let mut pool = Pool::new(1, shape.page_bytes());
        let mut table = Table::default();
        table.grow(&mut pool, 1).unwrap();
        let page = pool.data_mut(table.pages()[0]);
        shape.store(page, 0, &encoded(&shape, &[hostile, hostile].concat()));
        let mut tables = Tables::default();
        let view = View { row: 0, table: tables.add(table.pages()), first: 0, len: 1 };
        for isa in Isa::available() {
            let out = attend(&threads, &shape, isa, &pool, (&tables, &[view]), &[0.0; 4], None);
            assert!(out.iter().all(|x| x.is_finite()), "{kv:?} {isa}: {out:?}");
        }
    }
}

/// Scores so large that their rounding is more than the whole of a softmax: the largest takes all.
#[test]
fn the_largest_of_enormous_scores_takes_all() {
    let threads = Threads::new(2).unwrap();
    for kv in [KvType::Q16, KvType::Q8, KvType::F32] {
        let shape = Attention { heads: 1, kv_heads: 1, head_dim: 2, kv };
        let mut pool = Pool::new(1, shape.page_bytes());
        let mut table = Table::default();
        table.grow(&mut pool, 3).unwrap();
        let page = pool.data_mut(table.pages()[0]);
        for (slot, (key, value)) in [(1e5, 1.0), (3e5, 2.0), (2e5, 4.0)].into_iter().enumerate() {
            shape.store(page, slot, &encoded(&shape, &[key, key, value, value]));
        }
        let mut tables = Tables::default();
        let view = View { row: 0, table: tables.add(table.pages()), first: 0, len: 3 };
        for isa in Isa::available() {
            let out = attend(&threads, &shape, isa, &pool, (&tables, &[view]), &[7e4, 7e4], None);
            assert!(out.iter().all(|x| near(*x, 2.0, 2.0, 1e-3)), "{kv:?} {isa}: {out:?}");
        }
    }
}
