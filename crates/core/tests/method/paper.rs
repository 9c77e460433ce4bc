//! The real strategies against a transcription of the paper: the same sequences, in the same order, to the token.

use std::collections::HashSet;

use crate::reference::{self, Chosen, Generated};
use crate::scripted::{Case, Schedule, cases, root_of, schedules};
use eager_core::strategy::CapRule;
use eager_core::{Method, Reallocation, Token, Tree};
use proptest::prelude::*;

/// Every sequence of the tree is the reference's.
pub fn assert_sequences(tree: &Tree, expected: &Generated) {
    let paths = |g: &Generated| g.paths.iter().map(|p| p.tokens.clone()).collect::<Vec<Vec<Token>>>();
    assert_eq!(tree.ids().map(|id| tree.path(id)).collect::<Vec<_>>(), paths(expected));
    for (sequence, path) in tree.sequences().iter().zip(&expected.paths) {
        assert_eq!(sequence.parent.map(|p| p.0), path.parent);
        assert_eq!(sequence.fork_at, path.fork_at);
        assert_eq!(sequence.forced, path.forced);
        assert!(sequence.finish.is_some());
    }
}

/// Nothing but the model and the length ends a sequence.
pub fn assert_ended(case: &Case, tree: &Tree) {
    for id in tree.ids() {
        assert_eq!(tree.get(id).finish, case.finish(&tree.path(id)));
    }
}

fn assert_same_spots(tree: &Tree, expected: &Generated) {
    let mut remembered = expected.remembered.clone();
    remembered.sort_by_key(|r| (r.path, r.at));
    assert_eq!(tree.spots().count(), remembered.len());
    for ((id, at, spot), expected) in tree.spots().zip(&remembered) {
        assert_eq!((id.0, at), (expected.path, expected.at));
        assert!((f64::from(spot.entropy) - expected.entropy).abs() < 1e-6);
        assert_eq!(spot.untaken.len(), expected.untaken.len());
        for (untaken, &(token, probability)) in spot.untaken.iter().zip(&expected.untaken) {
            assert_eq!(untaken.candidate.token, token);
            assert!((f64::from(untaken.probability) - probability).abs() < 1e-6);
        }
    }
}

/// What the tree says of every token it holds is what the model said.
pub fn assert_measured(case: &Case, prompt: usize, tree: &Tree) {
    for id in tree.ids() {
        let (sequence, path) = (tree.get(id), tree.path(id));
        assert_eq!(sequence.logprobs.len(), sequence.tokens.len());
        assert_eq!(sequence.entropy.len(), sequence.tokens.len());
        assert_eq!(sequence.reasoning, !reference::closed(&path, &case.settings.reasoning_end));
        for (own, at) in (sequence.fork_at..path.len()).enumerate() {
            let candidates = case.script.candidates(&case.prompt(prompt), &path[..at]);
            let taken = candidates.iter().find(|c| c.token == path[at]);
            assert_eq!(taken.map(|c| c.logprob), Some(sequence.logprobs[own]));
            let top = &candidates[..case.settings.top_k.min(candidates.len())];
            let expected =
                reference::entropy(&reference::softmax(top, reference::measured_at(&case.settings)));
            assert!((f64::from(sequence.entropy[own]) - expected).abs() < 1e-6);
        }
    }
}

/// Tokens are counted once per node of the trie that the paths of each root make.
pub fn assert_counted_once(tree: &Tree, expected: &Generated) {
    let mut nodes = HashSet::new();
    for (id, path) in tree.ids().zip(&expected.paths) {
        for end in 1..=path.tokens.len() {
            nodes.insert((root_of(tree, id), &path.tokens[..end]));
        }
    }
    assert_eq!(tree.tokens_generated(), nodes.len());
}

/// Real engines draw by key: two sequences with one key would draw the same numbers.
pub fn assert_keys_differ(tree: &Tree) {
    let keys: HashSet<_> = tree.sequences().iter().map(|s| s.key).collect();
    assert_eq!(keys.len(), tree.len());
}

fn assert_equal(case: &Case, prompt: usize, tree: &Tree, expected: &Generated) {
    assert_sequences(tree, expected);
    assert_ended(case, tree);
    assert_same_spots(tree, expected);
    assert_measured(case, prompt, tree);
    assert_counted_once(tree, expected);
    assert_keys_differ(tree);
}

/// Algorithm 2 as the paper has it: Algorithm 1 again for the prompts in I.
fn assert_rerun(case: &Case, method: Method, chosen: Chosen, schedule: Schedule) {
    let first = case.first_pass(method, schedule, &mut ());
    let second = case.second_pass(method, schedule, &first, &mut ());
    let expected = reference::algorithm_2(case, chosen);
    assert_eq!(second.len(), expected.len());
    for (i, (tree, expected)) in second.iter().zip(&expected).enumerate() {
        assert_equal(case, i, tree, expected);
    }
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn eager_init_is_algorithm_1(case in cases(1)) {
        let trees = case.first_pass(Method::EagerInit, Schedule::PAPER, &mut ());
        assert_equal(&case, 0, &trees[0], &reference::init(&case, 0));
        if case.forking.cap_rule == CapRule::All {
            prop_assert!(trees[0].len() <= case.forking.cap);
        }
    }

    #[test]
    fn eager_init_is_algorithm_1_on_any_engine(case in cases(4), schedule in schedules()) {
        let trees = case.first_pass(Method::EagerInit, schedule, &mut ());
        for (i, tree) in trees.iter().enumerate() {
            assert_equal(&case, i, tree, &reference::init(&case, i));
        }
    }

    #[test]
    fn full_parallel_is_m_independent_paths(case in cases(3), schedule in schedules()) {
        let trees = case.first_pass(Method::FullParallel, schedule, &mut ());
        for (i, tree) in trees.iter().enumerate() {
            prop_assert_eq!(tree.len(), case.forking.cap);
            assert_equal(&case, i, tree, &reference::full_parallel(&case, i));
        }
    }

    #[test]
    fn eager_adapt_reruns_as_algorithm_2(case in cases(6), schedule in schedules()) {
        assert_rerun(&case, Method::EagerAdapt(Reallocation::Rerun), Chosen::Saturated, schedule);
    }

    #[test]
    fn eager_reruns_as_algorithm_2(case in cases(6), schedule in schedules()) {
        assert_rerun(&case, Method::Eager(Reallocation::Rerun), Chosen::Failing, schedule);
    }

    #[test]
    fn methods_without_a_second_pass_are_left_alone(case in cases(3)) {
        for method in [Method::FullParallel, Method::EagerInit] {
            let first = case.first_pass(method, Schedule::PAPER, &mut ());
            prop_assert_eq!(&case.second_pass(method, Schedule::PAPER, &first, &mut ()), &first);
        }
    }
}
