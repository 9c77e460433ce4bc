//! The methods that EAGer is compared with, against transcriptions of their papers.

use crate::paper::{
    assert_counted_once, assert_ended, assert_keys_differ, assert_measured, assert_sequences,
};
use crate::reference::{self, Generated};
use crate::scripted::{Case, Draws, Schedule, cases, is_answer, schedules};
use eager_core::{Finish, Method, Tree};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn assert_equal(case: &Case, prompt: usize, tree: &Tree, expected: &Generated) {
    assert_sequences(tree, expected);
    assert_measured(case, prompt, tree);
    assert_counted_once(tree, expected);
    assert_keys_differ(tree);
    assert_eq!(tree.spots().count(), 0, "nothing is remembered for a second pass");
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn esc_stops_at_the_first_window_of_one_mind(case in cases(3), schedule in schedules()) {
        let trees = case.first_pass(Method::Esc, schedule, &mut ());
        for (i, tree) in trees.iter().enumerate() {
            assert_equal(&case, i, tree, &reference::esc(&case, i));
            assert_ended(&case, tree);
            prop_assert_eq!(tree.weights(), [0.0; 0]);
        }
    }

    /// Without a reader of answers there is no agreement to see.
    #[test]
    fn esc_in_the_dark_is_full_parallel(case in cases(2), schedule in schedules()) {
        let mut case = case;
        (case.esc.windows, case.reads_answers) = (None, false);
        let dark = case.first_pass(Method::Esc, schedule, &mut ());
        prop_assert_eq!(dark, case.first_pass(Method::FullParallel, Schedule::PAPER, &mut ()));
    }

    #[test]
    fn deepconf_halts_below_the_bar_of_its_warm_up(case in cases(3), schedule in schedules()) {
        let trees = case.first_pass(Method::DeepConf, schedule, &mut ());
        for (i, tree) in trees.iter().enumerate() {
            let expected = reference::deepconf(&case, i);
            assert_equal(&case, i, tree, &expected.all);
            let halted = |s: &eager_core::Sequence| s.finish == Some(Finish::Halted);
            prop_assert_eq!(tree.sequences().iter().map(halted).collect::<Vec<_>>(), expected.halted);
            for (weight, expected) in tree.weights().iter().zip(&expected.weights) {
                prop_assert!((weight - expected).abs() <= 1e-6 * expected.abs(), "{} {}", weight, expected);
            }
            prop_assert_eq!(tree.weights().len(), expected.weights.len());
        }
    }

    /// Sample i is full-parallel's sample i, so what labels would have saved can be counted from its run.
    #[test]
    fn until_right_is_full_parallel_up_to_the_first_right_one(
        case in cases(4), schedule in schedules(), by_key in any::<bool>()
    ) {
        let case = if by_key { case.draws(Draws::FromKey) } else { case };
        let full = case.first_pass(Method::FullParallel, Schedule::PAPER, &mut ());
        for (tree, full) in case.first_pass(Method::UntilRight, schedule, &mut ()).iter().zip(&full) {
            let right = full.ids().position(|id| is_answer(&full.path(id)));
            prop_assert_eq!(tree.sequences(), &full.sequences()[..right.map_or(full.len(), |at| at + 1)]);
        }
    }

    #[test]
    fn two_stage_is_full_parallel_for_those_that_fail(
        case in cases(6), schedule in schedules(), by_key in any::<bool>()
    ) {
        let case = if by_key { case.draws(Draws::FromKey) } else { case };
        let full = case.first_pass(Method::FullParallel, Schedule::PAPER, &mut ());
        let first = case.first_pass(Method::TwoStage, schedule, &mut ());
        let second = case.second_pass(Method::TwoStage, schedule, &first, &mut ());
        let stage = case.first_stage.unwrap_or(case.forking.cap / 4).max(1).min(case.forking.cap);
        for ((first, second), full) in first.iter().zip(&second).zip(&full) {
            prop_assert_eq!(first.sequences(), &full.sequences()[..stage]);
            let solved = full.ids().take(stage).any(|id| is_answer(&full.path(id)));
            prop_assert_eq!(second, if solved { first } else { full });
        }
    }

    /// Without labels, the first goes on to the end.
    #[test]
    fn until_right_in_the_dark_is_full_parallel(case in cases(2), schedule in schedules()) {
        let case = Case { reads_answers: false, ..case };
        let dark = case.first_pass(Method::UntilRight, schedule, &mut ());
        prop_assert_eq!(dark, case.first_pass(Method::FullParallel, Schedule::PAPER, &mut ()));
    }

    #[test]
    fn others_have_no_second_pass(case in cases(3)) {
        for method in [Method::Esc, Method::DeepConf, Method::UntilRight] {
            let first = case.first_pass(method, Schedule::PAPER, &mut ());
            prop_assert_eq!(&case.second_pass(method, Schedule::PAPER, &first, &mut ()), &first);
        }
    }
}

/// The tests above prove nothing where no window agrees and nobody is halted. Here is how often they do.
#[test]
fn the_cases_are_worth_running() {
    let mut runner = TestRunner::deterministic();
    let (mut windows, mut stopped, mut halted, mut spared, mut settled) = (0, 0, 0, 0, 0);
    let (mut few, mut many) = (0, 0);
    for _ in 0..200 {
        let case = cases(3).new_tree(&mut runner).expect("cases reject nothing").current();
        let (window, most) = case.esc.sizes(case.forking.cap);
        for tree in case.first_pass(Method::Esc, Schedule::PAPER, &mut ()) {
            windows += usize::from(tree.len() > window);
            stopped += usize::from(window > 1 && tree.len() < most);
        }
        for tree in case.first_pass(Method::UntilRight, Schedule::PAPER, &mut ()) {
            few += usize::from(tree.len() < case.forking.cap);
            many += usize::from(tree.len() > 1);
        }
        let warmup = case.deepconf.warmup(case.forking.cap);
        for tree in case.first_pass(Method::DeepConf, Schedule::PAPER, &mut ()) {
            settled += usize::from(tree.len() < case.forking.cap);
            for sequence in &tree.sequences()[warmup..] {
                halted += usize::from(sequence.finish == Some(Finish::Halted));
                spared += usize::from(sequence.finish != Some(Finish::Halted));
            }
        }
    }
    let seen = [windows, stopped, halted, spared, settled, few, many];
    assert!(windows > 80 && stopped > 40 && halted > 150 && spared > 150, "{seen:?}");
    assert!(settled > 20 && few > 20 && many > 40, "{seen:?}");
}
