//! The methods that EAGer is compared with, against transcriptions of their papers.

use crate::paper::{
    assert_counted_once, assert_ended, assert_keys_differ, assert_measured, assert_sequences,
};
use crate::reference::{self, Generated};
use crate::scripted::{Case, Schedule, cases, schedules};
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

    #[test]
    fn neither_has_a_second_pass(case in cases(3)) {
        for method in [Method::Esc, Method::DeepConf] {
            let first = case.first_pass(method, Schedule::PAPER, &mut ());
            prop_assert_eq!(&case.second_pass(method, Schedule::PAPER, &first, &mut ()), &first);
        }
    }
}

/// The tests above prove nothing where no window agrees and nobody is halted. Here is how often they do.
#[test]
fn the_cases_are_worth_running() {
    let mut runner = TestRunner::deterministic();
    let (mut windows, mut stopped, mut halted, mut spared) = (0, 0, 0, 0);
    for _ in 0..200 {
        let case = cases(3).new_tree(&mut runner).expect("cases reject nothing").current();
        let (window, most) = case.esc.sizes(case.forking.cap);
        for tree in case.first_pass(Method::Esc, Schedule::PAPER, &mut ()) {
            windows += usize::from(tree.len() > window);
            stopped += usize::from(window > 1 && tree.len() < most);
        }
        let warmup = case.deepconf.warmup(case.forking.cap);
        for tree in case.first_pass(Method::DeepConf, Schedule::PAPER, &mut ()) {
            for sequence in &tree.sequences()[warmup..] {
                halted += usize::from(sequence.finish == Some(Finish::Halted));
                spared += usize::from(sequence.finish != Some(Finish::Halted));
            }
        }
    }
    let seen = [windows, stopped, halted, spared];
    assert!(windows > 80 && stopped > 40 && halted > 150 && spared > 150, "{seen:?}");
}
