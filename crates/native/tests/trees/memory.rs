//! Memory and batches may be as small as they like, down to what one sequence needs: the trees stay the same.
//!
//! In a debug build this also exercises the assertions of the pages: nobody writes into a page that others read.

use std::sync::Arc;

use eager_core::{Forking, Method, Plan, Prompt, Reallocation, Regrowing, TokenRules, Tree};
use eager_native::{EngineError, Options};
use proptest::prelude::*;

use crate::acorn::{Acorn, grow};

const PROBLEMS: [&str; 3] = [
    "Using each of 5, 8, 30, 43, 28 exactly once, make 68.",
    "What is 8507 * 1275 + 656?",
    "Using each of 13, 22, 10 exactly once, make 66.",
];
const METHODS: [Method; 4] = [
    Method::EagerInit,
    Method::Eager(Reallocation::Regrow),
    Method::FullParallel,
    Method::Eager(Reallocation::Rerun),
];
/// Tokens in a page.
const PAGE: usize = 16;
const MOST_PAGES: usize = 30;

/// Pages of the longest sequence: its prompt and its path but for the last token, which nobody continues.
fn pages_of_the_longest(prompts: &[Prompt], trees: &[Tree]) -> usize {
    let longest = |tree: &Tree| tree.sequences().iter().map(|s| s.len()).max().unwrap_or(0);
    let stored = prompts.iter().zip(trees).map(|(prompt, tree)| prompt.tokens.len() + longest(tree) - 1);
    stored.max().unwrap_or(0).div_ceil(PAGE)
}

#[derive(Debug, Clone)]
struct Case {
    method: Method,
    plan: Plan,
    max_tokens: usize,
    rows: usize,
    chunk: usize,
    /// Pages beyond those of the longest sequence.
    spare: usize,
    rules: TokenRules,
}

fn cases() -> impl Strategy<Value = Case> {
    let plan = (any::<u64>(), 0.1f32..0.6, 2usize..=6).prop_map(|(seed, theta, cap)| Plan {
        regrowing: Regrowing { wave: 2, ..Regrowing::default() },
        ..Plan::new(seed, Forking::new(theta, cap))
    });
    let method = prop::sample::select(METHODS.to_vec());
    // Nothing to spare is where it is hardest.
    let spare = prop_oneof![1 => Just(0), 1 => 1usize..4, 1 => 4usize..MOST_PAGES];
    // What a path has counts, whoever computed it and however often.
    let ruled = TokenRules {
        repetition_penalty: 1.2,
        presence_penalty: 0.3,
        frequency_penalty: 0.1,
        logit_bias: vec![(20, 1.0)],
        min_tokens: 40,
        ..TokenRules::default()
    };
    let rules = prop::sample::select(vec![TokenRules::default(), ruled]);
    (method, plan, 48usize..=80, 1usize..=40, 1usize..=40, spare, rules).prop_map(
        |(method, plan, max_tokens, rows, chunk, spare, rules)| Case {
            method,
            plan,
            max_tokens,
            rows,
            chunk,
            spare,
            rules,
        },
    )
}

fn check(acorn: &Acorn, case: &Case) -> Result<(), TestCaseError> {
    let Case { method, ref plan, max_tokens, rows, chunk, spare, ref rules } = *case;
    let mut prompts = acorn.prompts(&PROBLEMS, max_tokens);
    for prompt in &mut prompts {
        Arc::make_mut(&mut prompt.settings).rules = rules.clone();
    }
    let mut ample = acorn.engine(Options::default());
    let base = grow(&mut ample, plan, method, &prompts).unwrap();
    let page = ample.kv_use().page_bytes;
    prop_assert_eq!(ample.kv_use().page_tokens, PAGE);
    prop_assert_eq!(ample.kv_use().pages, 0);

    let fewest = pages_of_the_longest(&prompts, &base);
    let pages = (fewest + spare).min(MOST_PAGES);
    let mut scarce =
        acorn.engine(Options { threads: 0, kv_bytes: pages * page, rows, chunk, ..Options::default() });
    let trees = match grow(&mut scarce, plan, method, &prompts) {
        Ok(trees) => trees,
        Err(error) => {
            return Err(TestCaseError::fail(format!("{pages} pages, {fewest} are enough: {error}")));
        }
    };
    prop_assert!(trees == base, "the trees differ with {} pages", pages);
    prop_assert_eq!(scarce.kv_use().pages, 0);
    prop_assert!(scarce.kv_use().peak_pages <= pages);

    // With one page less the longest cannot be held, and that is said.
    let mut short = acorn.engine(Options {
        threads: 0,
        kv_bytes: (fewest - 1) * page,
        rows,
        chunk,
        ..Options::default()
    });
    let error = grow(&mut short, plan, method, &prompts).err();
    prop_assert!(matches!(error, Some(EngineError::KvMemory { .. })), "{:?}", error);
    prop_assert_eq!(short.kv_use().pages, 0);
    Ok(())
}

#[test]
fn memory_and_batches_never_change_trees() {
    let acorn = Acorn::open();
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let config = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default,
        // Unoptimised kernels take a minute for a case.
        None => ProptestConfig { cases: if cfg!(debug_assertions) { 1 } else { 12 }, ..default },
    };
    proptest!(config, |(case in cases())| check(&acorn, &case)?);
}
