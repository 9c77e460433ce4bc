//! The real strategies against a transcription of the paper: the same sequences, in the same order, to the token.

use std::collections::HashSet;

use crate::reference::{self, Chosen, Generated, Reading};
use crate::scripted::{Case, Draws, Schedule, ScriptedEngine, cases, is_answer, root_of, schedules};
use eager_core::strategy::CapRule;
use eager_core::{Judged, Method, Prompt, Reallocation, SurplusLimit, Token, Tree};
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

/// A rerun under one reading of the paper: how it reallocates, and the limit on the surplus.
fn readings() -> impl Strategy<Value = (Reading, Reallocation, SurplusLimit)> {
    proptest::sample::select(vec![
        (Reading::TotalEach, Reallocation::Rerun, SurplusLimit::EachPrompt(2)),
        (Reading::TotalUnlimited, Reallocation::Rerun, SurplusLimit::EachPrompt(0)),
        (Reading::TotalOverAll, Reallocation::Rerun, SurplusLimit::AllPrompts(2)),
        (Reading::NewOverAll, Reallocation::RerunLiteral, SurplusLimit::EachPrompt(2)),
        (Reading::NewOverAll, Reallocation::RerunLiteral, SurplusLimit::AllPrompts(2)),
    ])
}

/// Algorithm 2 under a reading: Algorithm 1 again for the prompts in I.
fn assert_rerun(case: &Case, method: Method, reading: Reading, chosen: Chosen, schedule: Schedule) {
    let first = case.first_pass(method, schedule, &mut ());
    let second = case.second_pass(method, schedule, &first, &mut ());
    let expected = reference::algorithm_2(case, reading, chosen);
    assert_eq!(second.len(), expected.len());
    for (i, (tree, expected)) in second.iter().zip(&expected).enumerate() {
        assert_equal(case, i, tree, expected);
    }
}

/// Both passes of a method over prompts in any order.
fn both_passes(case: &Case, method: Method, prompts: &[Prompt]) -> Vec<Tree> {
    let plan = case.plan();
    let mut engine = ScriptedEngine::new(&case.script, Schedule::PAPER);
    let mut trees = plan.plant(prompts);
    let judged = |_: usize, tree: &Tree| Judged {
        solved: tree.ids().any(|id| is_answer(&tree.path(id))),
        divided: false,
    };
    plan.first_pass(&mut engine, method, prompts, &mut trees, &mut ()).unwrap_or_else(|e| match e {});
    plan.second_pass(&mut engine, method, prompts, &mut trees, judged, &mut ())
        .unwrap_or_else(|e| match e {});
    trees
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
    fn eager_adapt_reruns_as_algorithm_2(case in cases(6), schedule in schedules(), reading in readings()) {
        let (reading, how, surplus) = reading;
        let case = Case { surplus, ..case };
        assert_rerun(&case, Method::EagerAdapt(how), reading, Chosen::Saturated, schedule);
    }

    #[test]
    fn eager_reruns_as_algorithm_2(case in cases(6), schedule in schedules(), reading in readings()) {
        let (reading, how, surplus) = reading;
        let case = Case { surplus, ..case };
        assert_rerun(&case, Method::Eager(how), reading, Chosen::Failing, schedule);
    }

    /// M sequences a prompt are exceeded by what the chosen prompts lacked, at most; and not at all by a prompt alone.
    #[test]
    fn totals_stay_within_what_was_saved(case in cases(6), over_all in any::<bool>(), schedule in schedules()) {
        let mut case = case;
        case.forking.cap_rule = CapRule::All;
        if over_all {
            case.surplus = SurplusLimit::AllPrompts(2);
        }
        for how in [Reallocation::Rerun, Reallocation::Regrow] {
            let first = case.first_pass(Method::Eager(how), schedule, &mut ());
            let second = case.second_pass(Method::Eager(how), schedule, &first, &mut ());
            let m = case.forking.cap;
            let grew = |(a, b): &(&Tree, &Tree)| b.len() > a.len();
            let lacked: usize = first.iter().zip(&second).filter(grew).map(|(tree, _)| m - tree.len()).sum();
            let all: usize = second.iter().map(Tree::len).sum();
            prop_assert!(all <= m * first.len() + lacked);

            let alone = Case { prompts: 1, surplus: SurplusLimit::Nothing, ..case.clone() };
            let tree = alone.second_pass(Method::Eager(how), schedule, &first[..1], &mut ());
            prop_assert!(tree[0].len() <= m);
        }
    }

    #[test]
    fn the_order_of_the_prompts_changes_no_tree(
        case in cases(6), method in proptest::sample::select(Method::ALL.to_vec()), turn in 0usize..6
    ) {
        let case = case.draws(Draws::FromKey);
        let straight = both_passes(&case, method, &case.prompts());
        let mut prompts = case.prompts();
        prompts.reverse();
        prompts.rotate_left(turn % case.prompts);
        let mut moved = both_passes(&case, method, &prompts);
        moved.rotate_right(turn % case.prompts);
        moved.reverse();
        prop_assert_eq!(moved, straight);
    }

    #[test]
    fn methods_without_a_second_pass_are_left_alone(case in cases(3)) {
        for method in Method::ALL.into_iter().filter(|method| !method.has_second_pass()) {
            let first = case.first_pass(method, Schedule::PAPER, &mut ());
            prop_assert_eq!(&case.second_pass(method, Schedule::PAPER, &first, &mut ()), &first);
        }
    }
}
