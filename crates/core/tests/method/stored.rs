//! A tree that was written down and read back is the same tree, and grows on as if nothing had happened.

use crate::scripted::{Case, Draws, Schedule, cases, schedules};
use eager_core::{Method, Reallocation, Tree};
use proptest::prelude::*;
use serde_json::{Value, json};

fn through_json(tree: &Tree) -> Tree {
    let text = serde_json::to_string(tree).expect("a tree can be written");
    serde_json::from_str(&text).expect("and read")
}

/// A tree with two sequences that share a beginning, and a place that is remembered.
fn forked() -> Value {
    let case = json!({"key": 7, "sequences": [
        {"parent": null, "fork_at": 0, "tokens": [4, 5], "logprobs": [-0.5, null], "entropy": [0.1, 0.7],
         "forced": [1], "finish": "stop", "last_fork": 2, "reasoning": true, "key": 1},
        {"parent": 0, "fork_at": 1, "tokens": [6], "logprobs": [-1.5], "entropy": [0.7],
         "forced": [1], "finish": "length", "last_fork": 2, "reasoning": true, "key": 2, "weight": 1.5},
    ], "spots": [[0, 1, {"entropy": 0.7, "untaken": [{"candidate": {"token": 9, "logprob": -3.0}, "probability": 0.05}]}]]});
    case
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
    fn every_number_survives(bits in any::<u32>(), key in any::<u64>()) {
        let number = f32::from_bits(bits);
        prop_assume!(number.is_finite());
        let mut value = forked();
        value["key"] = json!(key);
        let mut tree: Tree = serde_json::from_value(value).expect("this is a tree");
        for at in 0..2 {
            // The only way into a tree from here is through its text.
            let mut text: Value = serde_json::to_value(&tree).expect("a tree can be written");
            text["sequences"][0]["entropy"][at] = serde_json::from_str(&serde_json::to_string(&number)?)?;
            tree = serde_json::from_str(&text.to_string()).expect("this is a tree");
            prop_assert_eq!(tree.sequences()[0].entropy[at].to_bits(), bits);
        }
        prop_assert_eq!(&through_json(&tree), &tree);
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
