//! What the interface of strategies promises beyond what the methods here make use of: a strategy to come may branch
//! from any position of any sequence, and may give a sequence up.

use std::sync::Arc;

use crate::scripted::{Case, Schedule, ScriptedEngine, cases, hash, root_of, schedules};
use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Candidate, Engine, Finish, Forest, Grove, Key, SeqId, Strategy, Tree};
use proptest::prelude::*;

/// Forks, remembers and halts as a hash of the place says; when all has ended, it branches from the place that another
/// hash says, a few times over.
#[derive(Debug)]
struct Whim {
    seed: u64,
    branches: usize,
}

impl Whim {
    fn branch(&self, tree: &Tree) -> Start {
        let from = SeqId((hash((self.seed, self.branches, "from")) % tree.len() as u64) as usize);
        let at = (hash((self.seed, self.branches, "at")) % tree.get(from).len() as u64) as usize;
        let token = Candidate { token: 100 + self.branches as u32, logprob: -1.0 };
        Start::Branch { from, at, token, entropy: 0.5 }
    }
}

impl Strategy for Whim {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root; 2]
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        match (hash((self.seed, tree.get(id).key, step.at)) % 8, step.top) {
            (0, &[first, second, ..]) if tree.get(id).fork_at + 3 > step.at => {
                Verdict::Fork { first, second }
            }
            (1, _) => Verdict::Halt,
            (2, _) => Verdict::Remember,
            _ => Verdict::Keep,
        }
    }

    fn ended(&mut self, tree: &Tree, _: SeqId) -> Vec<Start> {
        if self.branches == 0 || tree.live().next().is_some() {
            return Vec::new();
        }
        self.branches -= 1;
        vec![self.branch(tree)]
    }
}

/// One grove, out and back.
struct Single {
    out: Option<Grove>,
    back: Option<Grove>,
}

impl Forest for Single {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.out.take()
    }

    fn done(&mut self, grove: Grove) {
        self.back = Some(grove);
    }
}

fn grow(case: &Case, schedule: Schedule) -> Tree {
    let whim = Box::new(Whim { seed: case.script.seed, branches: 5 });
    let settings = Arc::new(case.settings.clone());
    let grove = Grove::new(0, Key::prompt(case.script.seed, 0), case.prompt(0).into(), settings, whim);
    let mut forest = Single { out: Some(grove), back: None };
    ScriptedEngine::new(&case.script, schedule).grow(&mut forest).unwrap_or_else(|e| match e {});
    forest.back.expect("every grove comes back").into_tree()
}

proptest! {
    #![proptest_config(crate::scripted::often())]

    #[test]
    fn a_branch_belongs_to_whoever_decoded_the_position(case in cases(1), schedule in schedules()) {
        let tree = grow(&case, schedule);
        for id in tree.ids() {
            let sequence = tree.get(id);
            let Some(parent) = sequence.parent else { continue };
            prop_assert!(parent < id);
            prop_assert!((tree.get(parent).fork_at..tree.get(parent).len()).contains(&sequence.fork_at));
            prop_assert_eq!(&tree.path(id)[..sequence.fork_at], &tree.path(parent)[..sequence.fork_at]);
            prop_assert_eq!(tree.path(id).len(), sequence.len());
            prop_assert_eq!(tree.entropies(id).len(), sequence.len());
            prop_assert_eq!(sequence.forced.first(), Some(&sequence.fork_at));
        }
    }

    /// Paths share exactly what they have in common, unless two roots happened to say the same.
    #[test]
    fn paths_of_one_root_have_in_common_what_they_share(case in cases(1), schedule in schedules()) {
        let tree = grow(&case, schedule);
        for (a, b) in tree.ids().flat_map(|a| tree.ids().map(move |b| (a, b))) {
            let same = tree.path(a).iter().zip(&tree.path(b)).take_while(|(a, b)| a == b).count();
            let expected = if root_of(&tree, a) == root_of(&tree, b) { same } else { 0 };
            prop_assert_eq!(tree.common(a, b), expected);
        }
    }

    #[test]
    fn a_halted_sequence_keeps_its_last_token(case in cases(1), schedule in schedules()) {
        let tree = grow(&case, schedule);
        for id in tree.ids() {
            prop_assert!(!tree.get(id).tokens.is_empty());
            // What the model or the length ended was not given up, even where the strategy wanted to.
            let finish = case.finish(&tree.path(id)).unwrap_or(Finish::Halted);
            prop_assert_eq!(tree.get(id).finish, Some(finish));
        }
    }
}
