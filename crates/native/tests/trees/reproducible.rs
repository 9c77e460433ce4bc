//! The same seed gives the same trees, bit for bit, whatever the machine is doing: threads, company in the batch, memory.

use eager_core::{Forking, Method, Plan, Prompt, Reallocation, Regrowing, Tree};
use eager_native::{EngineError, Isa, Options};

use crate::acorn::{Acorn, grow};

const PROBLEMS: [&str; 6] = [
    "Using each of 5, 8, 30, 43, 28 exactly once, make 68.",
    "What is 8507 * 1275 + 656?",
    "Using each of 47, 50, 48, 23 exactly once, make 25.",
    "Two numbers have sum 486 and product 14528. What is the larger?",
    "Using each of 13, 22, 10 exactly once, make 66.",
    "What is 888 * 27 + 271?",
];
const CAP: usize = 8;
const MAX_TOKENS: usize = 160;

fn plan() -> Plan {
    Plan { regrowing: Regrowing { wave: 4, ..Regrowing::default() }, ..Plan::new(7, Forking::new(0.3, CAP)) }
}

const METHODS: [Method; 3] =
    [Method::FullParallel, Method::Eager(Reallocation::Regrow), Method::Eager(Reallocation::Rerun)];

#[test]
fn threads_and_batches_change_nothing() {
    let acorn = Acorn::open();
    let prompts = acorn.prompts(&PROBLEMS, MAX_TOKENS);
    for method in METHODS {
        let base =
            grow(&mut acorn.engine(Options { threads: 1, ..Options::default() }), &plan(), method, &prompts)
                .unwrap();
        assert!(
            base.iter().map(Tree::len).max() > Some(CAP / 2),
            "{method}: the trees are too small to tell"
        );
        for options in [
            // Sequences enough for each thread to take some by itself, now and then.
            Options { threads: 2, ..Options::default() },
            Options { threads: 3, ..Options::default() },
            Options { rows: 5, chunk: 3, ..Options::default() },
            Options { threads: 2, rows: 17, chunk: 64, ..Options::default() },
        ] {
            let trees = grow(&mut acorn.engine(options), &plan(), method, &prompts).unwrap();
            assert!(trees == base, "{method} differs with {options:?}");
        }
    }
}

/// A matrix unit always has all rows, so this is asked of another kernel as well.
#[test]
fn threads_that_compute_apart_change_nothing() {
    let plain = Isa::available().into_iter().find(|isa| isa.to_string() != "amx");
    let acorn = Acorn::on(plain.unwrap());
    let prompts = acorn.prompts(&PROBLEMS, MAX_TOKENS);
    let trees = |threads| {
        let mut engine = acorn.engine(Options { threads, ..Options::default() });
        grow(&mut engine, &plan(), Method::FullParallel, &prompts).unwrap()
    };
    assert!(trees(1) == trees(2));
}

#[test]
fn a_prompt_alone_grows_as_in_company() {
    let acorn = Acorn::open();
    let prompts = acorn.prompts(&PROBLEMS, MAX_TOKENS);
    // One pass: the budget of a second depends on the other prompts by design.
    for method in [Method::FullParallel, Method::EagerInit] {
        let engine = &mut acorn.engine(Options::default());
        let together = grow(engine, &plan(), method, &prompts).unwrap();
        for (prompt, tree) in prompts.iter().zip(&together) {
            let alone = grow(engine, &plan(), method, std::slice::from_ref(prompt)).unwrap();
            assert!(alone[0] == *tree, "{method} differs alone");
        }
    }
}

#[test]
fn scarce_memory_slows_down_but_changes_nothing() {
    let acorn = Acorn::open();
    let prompts = &acorn.prompts(&PROBLEMS, MAX_TOKENS)[..3];
    for method in METHODS {
        let mut ample = acorn.engine(Options::default());
        let base = grow(&mut ample, &plan(), method, prompts).unwrap();
        let page = ample.kv_use().page_bytes;
        // One sequence of the longest kind needs 14 pages; a tree of 8 would like many more.
        for pages in [14, 25] {
            let mut scarce = acorn.engine(Options { kv_bytes: pages * page, ..Options::default() });
            let trees = grow(&mut scarce, &plan(), method, prompts).unwrap();
            assert!(trees == base, "{method} differs with {pages} pages");
            let kv = scarce.kv_use();
            assert_eq!(kv.pages, 0);
            assert!(kv.peak_pages <= pages && kv.peak_pages < ample.kv_use().peak_pages);
        }
    }
}

#[test]
fn too_little_memory_is_an_error_that_says_so() {
    let acorn = Acorn::open();
    let page = acorn.engine(Options::default()).kv_use().page_bytes;
    let mut engine = acorn.engine(Options { kv_bytes: 3 * page, ..Options::default() });
    let error =
        grow(&mut engine, &plan(), Method::FullParallel, &acorn.prompts(&PROBLEMS, MAX_TOKENS)).unwrap_err();
    assert!(matches!(error, EngineError::KvMemory { limit: 48, .. }), "{error}");
    assert_eq!(engine.kv_use().pages, 0);
}

#[test]
fn memory_is_proportional_to_distinct_tokens() {
    let acorn = Acorn::open();
    let prompts = &acorn.prompts(&PROBLEMS, MAX_TOKENS)[..1];
    let mut engine = acorn.engine(Options::default());
    let trees = grow(&mut engine, &plan(), Method::EagerInit, prompts).unwrap();
    let kv = engine.kv_use();
    let distinct = prompts[0].tokens.len() + trees[0].tokens_generated();
    // Beside full pages, every sequence may have two that hold less of its own: at the fork and at its end.
    let most = distinct / kv.page_tokens + 2 * trees[0].len();
    assert!(
        kv.peak_pages <= most,
        "{} pages for {distinct} tokens in {} sequences",
        kv.peak_pages,
        trees[0].len()
    );
    assert_eq!(kv.pages, 0);
}

/// AVX2 and AVX-512 do the same operations in the same order.
#[test]
fn vector_widths_agree_to_the_last_bit() {
    let grow_on = |isa: Isa| {
        let acorn = Acorn::on(isa);
        grow(
            &mut acorn.engine(Options::default()),
            &plan(),
            Method::EagerInit,
            &acorn.prompts(&PROBLEMS, MAX_TOKENS),
        )
        .unwrap()
    };
    let trees: Vec<Vec<Tree>> = ["avx2", "avx512"].into_iter().filter_map(Isa::named).map(grow_on).collect();
    assert!(trees.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn prompts_that_cannot_be_decoded_are_refused() {
    let acorn = Acorn::open();
    let mut engine = acorn.engine(Options::default());
    let mut refused = |tokens: Vec<u32>| {
        let prompt = Prompt { tokens: tokens.into(), ..acorn.prompts(&PROBLEMS, MAX_TOKENS)[0].clone() };
        grow(&mut engine, &plan(), Method::EagerInit, &[prompt]).unwrap_err()
    };
    assert_eq!(refused(vec![]), EngineError::EmptyPrompt);
    assert_eq!(
        refused(vec![1; 1000]),
        EngineError::Context { prompt: 1000, more: MAX_TOKENS, context: 1024 }
    );
    assert_eq!(refused(vec![1, 384]), EngineError::Token { token: 384, vocab: 384 });
}
