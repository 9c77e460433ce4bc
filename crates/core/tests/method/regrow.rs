//! Regrowing has no counterpart in the paper, so it is held to what it promises: new branches only where the first pass
//! was unsure, with tokens that nobody took, never more than the budget, and nothing decoded twice.

use std::collections::HashSet;

use crate::reference::{self, Chosen, Reading};
use crate::scripted::{Case, Draws, Schedule, cases, root_of, schedules};
use eager_core::strategy::{Preference, Regrow, Start};
use eager_core::tree::{Spot, Untaken};
use eager_core::{Candidate, Method, Reallocation, SeqId, Strategy as _, Token, Tree};
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

/// What each prompt may add, by our reading of the paper.
fn shares(case: &Case, first: &[Tree], chosen: Chosen) -> Vec<usize> {
    let counts: Vec<usize> = first.iter().map(Tree::len).collect();
    let all: Vec<Vec<Vec<Token>>> = first.iter().map(paths).collect();
    reference::allot(case, Reading::TotalEach, &counts, &reference::choose(case, &all, chosen))
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
    // Probabilities are measured in double precision and remembered in single.
    let probability = reference::softmax(top, reference::measured_at(&case.settings));
    let rank = top.iter().position(|c| c.token == branch.tokens[0]).expect("one of the top");
    assert!(probability[rank] as f32 >= case.regrowing.least - 1e-6);
    let open: Vec<Token> = spot.untaken.iter().map(|u| u.candidate.token).collect();
    assert!(!open.contains(&branch.tokens[0]), "what was taken is no longer open");
}

/// How good it is to start with an untaken token when `branches` already leave its place.
fn score(
    case: &Case,
    tree: &Tree,
    (id, at, spot): (SeqId, usize, &Spot),
    u: &Untaken,
    branches: usize,
) -> f32 {
    match case.regrowing.first {
        Preference::Likely => u.probability,
        Preference::Unsure => spot.entropy,
        Preference::Both => u.probability * spot.entropy,
        Preference::Early => -(at as f32),
        Preference::Late => at as f32,
        Preference::Fresh => u.probability / (1 + branches) as f32,
        Preference::Path => {
            let mut sum = 0.0;
            for logprob in &tree.logprobs(id)[..at] {
                sum += f64::from(*logprob);
            }
            ((sum + f64::from(u.candidate.logprob)) / (at + 1) as f64) as f32
        }
    }
}

/// A wave, chosen one by one: each time the best of all that may still be taken, as things then stand.
fn greedy_wave(case: &Case, tree: &Tree, budget: usize) -> Vec<Start> {
    let options = case.regrowing;
    let mut wave: Vec<(SeqId, usize, Candidate, f32)> = Vec::new();
    while wave.len() < budget.min(options.wave) {
        let mut best: Option<(f32, (SeqId, usize, Candidate, f32))> = None;
        for (id, at, spot) in tree.spots() {
            let before = tree.sequences().iter().filter(|s| (s.parent, s.fork_at) == (Some(id), at)).count();
            let branches = before + wave.iter().filter(|w| (w.0, w.1) == (id, at)).count();
            let full = options.candidates > 0 && 1 + branches >= options.candidates;
            let close = wave.iter().any(|w| w.0 == id && w.1.abs_diff(at) < options.spacing);
            for u in spot.untaken.iter().filter(|u| u.probability >= options.least) {
                let taken = wave.iter().any(|w| (w.0, w.1, w.2) == (id, at, u.candidate));
                let score = score(case, tree, (id, at, spot), u, branches);
                if !full && !close && !taken && best.is_none_or(|b| score > b.0) {
                    best = Some((score, (id, at, u.candidate, spot.entropy)));
                }
            }
        }
        match best {
            Some((_, next)) => wave.push(next),
            None => break,
        }
    }
    wave.into_iter().map(|(from, at, token, entropy)| Start::Branch { from, at, token, entropy }).collect()
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
    for (id, at, spot) in second.spots() {
        let branches =
            |tree: &Tree| tree.sequences().iter().filter(|s| (s.parent, s.fork_at) == (Some(id), at)).count();
        let most = if case.regrowing.candidates == 0 { usize::MAX } else { case.regrowing.candidates };
        assert!(branches(second) == branches(first) || branches(second) < most, "too many at {id:?} {at}");
        let open = spot.untaken.iter().any(|u| u.probability >= case.regrowing.least);
        let spent = !open || branches(second) + 1 >= most;
        assert!(added == share || spent, "budget left, and somewhere to spend it");
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

    #[test]
    fn a_wave_is_a_greedy_choice(case in cases(2), wave in 1usize..20, budget in 0usize..20) {
        let mut case = case;
        case.regrowing.wave = wave;
        for tree in case.first_pass(Method::EagerInit, Schedule::PAPER, &mut ()) {
            let mut regrow = Regrow::new(case.forking.clone(), case.regrowing, budget);
            prop_assert_eq!(regrow.begin(&tree), greedy_wave(&case, &tree, budget));
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
