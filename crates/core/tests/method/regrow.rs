//! Regrowing has no counterpart in the paper, so it is held to what it promises: new branches only where the first pass
//! was unsure, with tokens that nobody took, never more than the budget, and nothing decoded twice.

use std::collections::HashSet;

use crate::reference::{self, Chosen};
use crate::scripted::{Case, Draws, Schedule, cases, root_of, schedules};
use eager_core::{Method, Reallocation, SeqId, Token, Tree};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const WAYS: [(Method, Chosen); 2] = [
    (Method::EagerAdapt(Reallocation::Regrow), Chosen::Saturated),
    (Method::Eager(Reallocation::Regrow), Chosen::Failing),
];

fn paths(tree: &Tree) -> Vec<Vec<Token>> {
    tree.ids().map(|id| tree.path(id)).collect()
}

/// The shares of the budget, by the paper's formula.
fn shares(case: &Case, first: &[Tree], chosen: Chosen) -> Vec<usize> {
    let counts: Vec<usize> = first.iter().map(Tree::len).collect();
    let all: Vec<Vec<Vec<Token>>> = first.iter().map(paths).collect();
    reference::allot(case, &counts, &reference::choose(case, &all, chosen))
}

/// No node is decoded twice: what each sequence owns is nobody else's.
fn assert_nothing_twice(tree: &Tree) {
    let mut nodes = HashSet::new();
    for id in tree.ids() {
        let path = tree.path(id);
        for end in tree.get(id).fork_at + 1..=path.len() {
            assert!(nodes.insert((root_of(tree, id), path[..end].to_vec())), "{id:?} repeats position {end}");
        }
    }
    assert_eq!(nodes.len(), tree.tokens_generated());
}

/// Tokens between a position that a sequence decoded itself and its last fork before, or the start of the path.
fn since_fork(tree: &Tree, id: SeqId, at: usize) -> usize {
    // Every sequence but a root began with a forced token, so its ancestors' forks are older.
    let forks = tree.get(id).forced.iter().map(|f| f + 1);
    at - forks.filter(|&after| after <= at).max().unwrap_or(0)
}

/// A new branch starts where its owner was watched and unsure enough, with one of the top K that nobody took there.
fn assert_well_placed(case: &Case, prompt: usize, tree: &Tree, id: SeqId) {
    let (branch, path) = (tree.get(id), tree.path(id));
    let at = branch.fork_at;
    let owner = branch.parent.expect("regrowing plants no roots");
    assert!(owner < id && tree.get(owner).fork_at <= at && at < tree.get(owner).len());
    assert_eq!(branch.forced, [at], "its first token was chosen, and no other: new branches do not fork");

    assert_eq!(branch.reasoning, !reference::closed(&path, &case.settings.reasoning_end));

    let candidates = case.script.candidates(&case.prompt(prompt), &path[..at]);
    let top = &candidates[..case.settings.top_k.min(candidates.len())];
    let entropy = reference::entropy(&reference::softmax(top, reference::measured_at(&case.settings)));
    assert!(entropy as f32 >= case.forking.relax * case.forking.theta);
    assert!(reference::is_watched(&path[..at], since_fork(tree, owner, at), &case.settings, &case.forking));
    assert!(top.iter().any(|c| (c.token, c.logprob) == (branch.tokens[0], branch.logprobs[0])));
    assert!((f64::from(branch.entropy[0]) - entropy).abs() < 1e-6);

    let (_, _, spot) = tree.spots().find(|s| (s.0, s.1) == (owner, at)).expect("the place was remembered");
    let open: Vec<Token> = spot.untaken.iter().map(|u| u.candidate.token).collect();
    assert!(!open.contains(&branch.tokens[0]), "what was taken is no longer open");
}

fn assert_regrown(case: &Case, prompt: usize, first: &Tree, second: &Tree, share: usize) {
    assert_nothing_twice(second);
    let added = second.len() - first.len();
    assert!(added <= share);
    if share == 0 {
        assert_eq!(first, second, "a prompt without a share is not touched");
    }
    assert_eq!(&second.sequences()[..first.len()], first.sequences());
    assert!(second.live().next().is_none());
    for id in second.ids().skip(first.len()) {
        assert_well_placed(case, prompt, second, id);
    }
    if added < share {
        assert!(
            second.spots().all(|(_, _, spot)| spot.untaken.is_empty()),
            "budget left, and somewhere to spend it"
        );
    }
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn regrowing_keeps_its_promises(
        case in cases(6), way in proptest::sample::select(WAYS.to_vec()), by_key in any::<bool>(), schedule in schedules()
    ) {
        let case = if by_key { case.draws(Draws::FromKey) } else { case };
        let (method, chosen) = way;
        let first = case.first_pass(method, schedule, &mut ());
        let second = case.second_pass(method, schedule, &first, &mut ());
        let shares = shares(&case, &first, chosen);
        for (i, share) in shares.into_iter().enumerate() {
            assert_regrown(&case, i, &first[i], &second[i], share);
        }
    }

    /// The first pass of a method that will regrow is EAGer-init, whatever comes after it.
    #[test]
    fn the_first_pass_does_not_know_the_second(case in cases(3)) {
        let init = case.first_pass(Method::EagerInit, Schedule::PAPER, &mut ());
        for (method, _) in WAYS {
            prop_assert_eq!(&case.first_pass(method, Schedule::PAPER, &mut ()), &init);
        }
    }
}

/// The promises are easily kept where nothing regrows. Here is how much does.
#[test]
fn the_cases_are_worth_running() {
    let mut runner = TestRunner::deterministic();
    let (mut chosen, mut grew, mut short, mut nested) = (0, 0, 0, 0);
    for _ in 0..200 {
        let case = cases(6).new_tree(&mut runner).expect("cases reject nothing").current();
        for (method, way) in WAYS {
            let first = case.first_pass(method, Schedule::PAPER, &mut ());
            let second = case.second_pass(method, Schedule::PAPER, &first, &mut ());
            for (i, share) in shares(&case, &first, way).into_iter().enumerate().filter(|s| s.1 > 0) {
                let fresh = &second[i].sequences()[first[i].len()..];
                chosen += 1;
                grew += usize::from(!fresh.is_empty());
                short += usize::from(fresh.len() < share);
                nested += usize::from(fresh.iter().any(|s| s.parent.is_some_and(|p| p.0 >= first[i].len())));
            }
        }
    }
    assert!(chosen > 200 && grew > 100 && short > 50 && nested > 15, "{chosen} {grew} {short} {nested}");
}
