//! A tree that was written down and read back is the same tree, and grows on as if nothing had happened.

use crate::scripted::{Case, Draws, Schedule, cases, schedules};
use eager_core::{Key, Method, Reallocation, Sequence, Tree};
use proptest::prelude::*;
use serde_json::{Value, json};

fn through_json(tree: &Tree) -> Tree {
    let text = serde_json::to_string(tree).expect("a tree can be written");
    serde_json::from_str(&text).expect("and read")
}

/// A tree with two sequences that share a beginning, and a place that is remembered.
fn forked() -> Value {
    json!({"key": 7, "sequences": [
        {"parent": null, "fork_at": 0, "tokens": [4, 5], "logprobs": [-0.5, null], "entropy": [0.1, 0.7],
         "forced": [1], "finish": "stop", "last_fork": 2, "reasoning": true, "key": 1},
        {"parent": 0, "fork_at": 1, "tokens": [6], "logprobs": [-1.5], "entropy": [0.7],
         "forced": [1], "finish": "length", "last_fork": 2, "reasoning": true, "key": 2, "weight": 1.5},
    ], "spots": [[0, 1, {"entropy": 0.7, "untaken": [{"candidate": {"token": 9, "logprob": -3.0}, "probability": 0.05}]}]]})
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn every_tree_survives(case in cases(3), method in proptest::sample::select(Method::ALL.to_vec()), after in 0usize..200) {
        let mut watch = crate::schedules::Breaks::after(after);
        for tree in case.first_pass(method, Schedule::PAPER, &mut watch) {
            prop_assert_eq!(&through_json(&tree), &tree);
        }
    }

    /// Keys, forks and what was remembered: all that a second pass goes by.
    #[test]
    fn a_second_pass_does_not_notice(
        case in cases(4), rerun in any::<bool>(), schedule in schedules()
    ) {
        let case: Case = case.draws(Draws::FromKey);
        let method = Method::Eager(if rerun { Reallocation::Rerun } else { Reallocation::Regrow });
        let first = case.first_pass(method, Schedule::PAPER, &mut ());
        let read: Vec<Tree> = first.iter().map(through_json).collect();
        let expected = case.second_pass(method, Schedule::PAPER, &first, &mut ());
        prop_assert_eq!(case.second_pass(method, schedule, &read, &mut ()), expected);
    }

    /// Reading is where bits are lost: of floats, and of keys above 2^53.
    #[test]
    fn every_number_survives(bits in prop::collection::vec(any::<u32>(), 1..20), seed in any::<u64>()) {
        let numbers: Vec<f32> = bits.into_iter().map(f32::from_bits).filter(|n| n.is_finite()).collect();
        let tree: Tree = serde_json::from_value(forked())?;
        let sequence = Sequence {
            tokens: vec![0; numbers.len()],
            logprobs: numbers.clone(),
            entropy: numbers.clone(),
            weight: numbers.first().copied(),
            key: Key::prompt(seed, 0),
            ..tree.sequences()[0].clone()
        };
        let read: Sequence = serde_json::from_str(&serde_json::to_string(&sequence)?)?;
        prop_assert_eq!(&read, &sequence);
        let bits = |all: &[f32]| all.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&read.logprobs), bits(&numbers));
        prop_assert_eq!(bits(&read.entropy), bits(&numbers));
    }
}

#[test]
fn an_impossible_token_is_null() {
    let tree: Tree = serde_json::from_value(forked()).unwrap();
    assert_eq!(tree.sequences()[0].logprobs, [-0.5, f32::NEG_INFINITY]);
    assert_eq!(tree.weights(), [1.0, 1.5]);
    assert_eq!(serde_json::to_value(&tree).unwrap()["sequences"][0]["logprobs"][1], Value::Null);
    assert_eq!(through_json(&tree), tree);
}

/// A damaged file is refused, not walked.
#[test]
fn what_does_not_fit_together_is_no_tree() {
    let damages: [(&str, Value, &str); 8] = [
        ("/sequences/1/parent", json!(1), "sequence 1 does not leave"),
        ("/sequences/1/parent", json!(9), "sequence 1 does not leave"),
        ("/sequences/1/fork_at", json!(2), "sequence 1 does not leave"),
        ("/sequences/0/fork_at", json!(1), "sequence 0 does not leave"),
        ("/sequences/0/tokens", json!([4]), "sequence 0 has a different number"),
        ("/sequences/1/entropy", json!([]), "sequence 1 has a different number"),
        ("/spots/0/0", json!(2), "position 1 of sequence 2"),
        ("/spots/0/1", json!(2), "position 2 of sequence 0"),
    ];
    for (place, value, expected) in damages {
        let mut tree = forked();
        *tree.pointer_mut(place).expect("the place is there") = value;
        let error = serde_json::from_value::<Tree>(tree).unwrap_err().to_string();
        assert!(error.contains(expected), "{place}: {error}");
    }
}
