//! The tree must not depend on the order in which an engine decodes, and what an engine has when it is stopped must be
//! a beginning of what it would have had.

use std::ops::ControlFlow;

use crate::scripted::{Case, Draws, Order, Schedule, ScriptedEngine, cases, schedules};
use eager_core::{Method, Pulse, Reallocation, Sequence, Tree, Watch};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn methods() -> impl Strategy<Value = Method> {
    proptest::sample::select(Method::ALL.to_vec())
}

fn draws() -> impl Strategy<Value = Draws> {
    prop_oneof![Just(Draws::FromPath), Just(Draws::FromKey)]
}

/// Both passes of a method.
fn grow(case: &Case, method: Method, schedule: Schedule) -> Vec<Tree> {
    let first = case.first_pass(method, schedule, &mut ());
    case.second_pass(method, schedule, &first, &mut ())
}

/// Lets a pass go on for a number of steps, and notes what comes back.
pub struct Breaks {
    after: usize,
    back: Vec<(usize, Tree)>,
}

impl Breaks {
    pub fn after(steps: usize) -> Self {
        Breaks { after: steps, back: Vec::new() }
    }
}

impl Watch for Breaks {
    fn grown(&mut self, index: usize, tree: &Tree) {
        self.back.push((index, tree.clone()));
    }

    fn pulse(&mut self, _: &Pulse) -> ControlFlow<()> {
        if self.after == 0 {
            return ControlFlow::Break(());
        }
        self.after -= 1;
        ControlFlow::Continue(())
    }
}

/// A sequence that was cut short has the first tokens of the whole one; one that had ended is the whole one.
fn begins(part: &Sequence, whole: &Sequence) {
    assert_eq!((part.parent, part.fork_at, part.key), (whole.parent, whole.fork_at, whole.key));
    assert!(whole.tokens.starts_with(&part.tokens));
    assert!(whole.logprobs.starts_with(&part.logprobs));
    assert!(whole.entropy.starts_with(&part.entropy));
    assert!(whole.forced.starts_with(&part.forced));
    if part.finish.is_some() {
        // What a vote weighs may only be known when others have ended.
        let weight = part.weight.or(whole.weight);
        assert_eq!(&Sequence { weight, ..part.clone() }, whole);
    }
}

/// A tree that was cut short has the first sequences of the whole one, and remembers nothing that the whole one does
/// not; a candidate that regrowing took later may still be open.
fn is_beginning(part: &Tree, whole: &Tree) {
    assert!(part.len() <= whole.len());
    for (part, whole) in part.sequences().iter().zip(whole.sequences()) {
        begins(part, whole);
    }
    for (id, at, spot) in part.spots() {
        let found = whole.spots().find(|s| (s.0, s.1) == (id, at));
        let (_, _, later) = found.expect("the whole tree remembers the same step");
        assert_eq!(spot.entropy, later.entropy);
        assert!(later.untaken.iter().all(|u| spot.untaken.contains(u)));
    }
}

/// Every grove that the engine took came back, once, and what came back is what the pass returns.
fn assert_all_back(back: &[(usize, Tree)], trees: &[Tree], before: &[Tree]) {
    for (i, (tree, before)) in trees.iter().zip(before).enumerate() {
        let seen: Vec<&Tree> = back.iter().filter(|b| b.0 == i).map(|b| &b.1).collect();
        assert!(seen.len() <= 1, "prompt {i} was handed back twice");
        assert_eq!(
            tree,
            *seen.first().unwrap_or(&before),
            "prompt {i} is not what it was when it was handed back"
        );
    }
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn every_schedule_grows_the_same_trees(
        case in cases(4), method in methods(), draws in draws(), schedule in schedules()
    ) {
        let case = case.draws(draws);
        prop_assert_eq!(grow(&case, method, schedule), grow(&case, method, Schedule::PAPER));
    }

    /// Waves that end at different times must not change what the next one picks.
    #[test]
    fn every_schedule_regrows_the_same_trees(case in cases(6), draws in draws(), schedule in schedules()) {
        let (case, method) = (case.draws(draws), Method::Eager(Reallocation::Regrow));
        let first = case.first_pass(method, Schedule::PAPER, &mut ());
        let expected = case.second_pass(method, Schedule::PAPER, &first, &mut ());
        prop_assert_eq!(case.second_pass(method, schedule, &first, &mut ()), expected);
    }

    /// An engine that keeps step may do without waiting.
    #[test]
    fn in_step_nothing_needs_to_wait(case in cases(3), method in methods()) {
        let mut hasty = case.clone();
        hasty.forking.in_order = false;
        prop_assert_eq!(grow(&hasty, method, Schedule::PAPER), grow(&case, method, Schedule::PAPER));
    }

    #[test]
    fn a_prompt_does_not_know_its_neighbours(case in cases(4), draws in draws(), schedule in schedules()) {
        let case = case.draws(draws);
        let alone = Case { prompts: 1, ..case.clone() };
        let together = case.first_pass(Method::EagerInit, schedule, &mut ());
        prop_assert_eq!(&together[0], &alone.first_pass(Method::EagerInit, schedule, &mut ())[0]);
    }

    #[test]
    fn a_broken_first_pass_is_a_beginning(
        case in cases(4), method in methods(), draws in draws(), schedule in schedules(), after in 0usize..150
    ) {
        let case = case.draws(draws);
        let mut watch = Breaks::after(after);
        let part = case.first_pass(method, schedule, &mut watch);
        let whole = case.first_pass(method, schedule, &mut ());
        assert_all_back(&watch.back, &part, &case.nothing());
        part.iter().zip(&whole).for_each(|(part, whole)| is_beginning(part, whole));
    }

    #[test]
    fn a_broken_second_pass_keeps_the_first(
        case in cases(4), method in methods(), draws in draws(), schedule in schedules(), after in 0usize..100
    ) {
        let case = case.draws(draws);
        let first = case.first_pass(method, schedule, &mut ());
        let mut watch = Breaks::after(after);
        let part = case.second_pass(method, schedule, &first, &mut watch);
        let whole = case.second_pass(method, schedule, &first, &mut ());
        assert_all_back(&watch.back, &part, &first);
        for ((first, part), whole) in first.iter().zip(&part).zip(&whole) {
            prop_assert_eq!(&part.sequences()[..first.len()], first.sequences());
            is_beginning(part, whole);
        }
    }
}

/// The tests above prove nothing on cases where nothing happens. Here is how much does.
#[test]
fn the_cases_are_worth_running() {
    let mut runner = TestRunner::deterministic();
    let (mut forked, mut full, mut waited, mut hasty) = (0, 0, 0, 0);
    for seed in 0..200 {
        let case = cases(3).new_tree(&mut runner).expect("cases reject nothing").current();
        let schedule = Schedule { order: Order::Random, width: 2, seed };
        let mut engine = ScriptedEngine::new(&case.script, schedule);
        let mut trees = case.nothing();
        let grown =
            case.plan().first_pass(&mut engine, Method::EagerInit, &case.prompts(), &mut trees, &mut ());
        grown.unwrap_or_else(|e| match e {});
        forked += usize::from(trees.iter().any(|t| t.len() > 1));
        full += usize::from(trees.iter().any(|t| t.len() >= case.forking.cap.max(2)));
        waited += usize::from(engine.waits > 0);
        let mut unordered = case.clone();
        unordered.forking.in_order = false;
        hasty += usize::from(unordered.first_pass(Method::EagerInit, schedule, &mut ()) != trees);
    }
    assert!(forked > 80 && full > 50 && waited > 40 && hasty > 15, "{forked} {full} {waited} {hasty}");
}
