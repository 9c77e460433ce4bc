//! Trees over HTTP are the trees of an engine in this process, whatever the streams do.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Engine, Forest, Grove, Pulse, SeqId, Strategy, Tree};
use eager_remote::{Dialect, Options, RemoteEngine};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{List, Plant, forking, groves, options, parallel};

/// Gives every sequence up after five tokens, as DeepConf does when one loses confidence.
#[derive(Debug)]
struct GiveUp;

impl Strategy for GiveUp {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root; 2]
    }

    fn decide(&mut self, _: &Tree, _: SeqId, step: &Step<'_>) -> Verdict {
        if step.at == 5 { Verdict::Halt } else { Verdict::Keep }
    }
}

fn expected(mut list: List) -> Vec<Tree> {
    Reference.grow(&mut list).unwrap();
    list.trees()
}

#[test]
fn every_dialect_and_strategy_grows_the_trees_of_the_reference() {
    let strategies: [(&str, Plant); 3] =
        [("full-parallel", parallel), ("eager-init", forking), ("halting", || Box::new(GiveUp))];
    for (name, strategy) in strategies {
        for temperature in [0.0, 1.0] {
            let expected = expected(groves(4, temperature, strategy));
            for dialect in Dialect::ALL {
                let server = Server::start(dialect, |_| Fault::None);
                let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
                let mut list = groves(4, temperature, strategy);
                engine.grow(&mut list).unwrap();
                assert_eq!(list.trees(), expected, "{name} at {temperature}: {dialect}");
                check_counts(&engine, &expected);
            }
        }
    }
}

/// Whatever was received is in a tree or was wasted; what is in a tree was received or forced.
fn check_counts(engine: &RemoteEngine, trees: &[Tree]) {
    let tally = engine.traffic().tally();
    let sequences = || trees.iter().flat_map(Tree::sequences);
    let tokens: usize = trees.iter().map(Tree::tokens_generated).sum();
    let forced: usize = sequences().map(|s| s.forced.len()).sum();
    let used = tally.received - tally.wasted;
    assert!((tokens - forced..=tokens).contains(&used), "{tally:?}, {tokens} tokens, {forced} forced");
}

#[test]
fn the_tree_does_not_depend_on_how_many_streams_there_are() {
    let expected = expected(groves(4, 1.0, forking));
    assert!(expected.iter().any(|tree| tree.len() > 4), "the case must fork");
    for streams in [1, 2, 5, 64] {
        let server = Server::start(Dialect::LlamaServer, |_| Fault::None);
        let options = Options { streams: Some(streams), ..options() };
        let mut engine = RemoteEngine::connect(&server.url(), &options).unwrap();
        let mut list = groves(4, 1.0, forking);
        engine.grow(&mut list).unwrap();
        assert_eq!(list.trees(), expected, "{streams} streams");
    }
}

#[test]
fn a_greedy_fork_interrupts_nothing() {
    let server = Server::start(Dialect::LlamaServer, |_| Fault::None);
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut list = groves(4, 0.0, forking);
    engine.grow(&mut list).unwrap();
    let sequences: usize = list.trees().iter().map(Tree::len).sum();
    let tally = engine.traffic().tally();
    // The sampled token is the most likely one, so only twins are new requests; one whose first token ends it is none.
    assert!(tally.requests() <= sequences && tally.wasted == 0, "{tally:?}, {sequences} sequences");
    assert_eq!(server.shared.requests.load(Ordering::Relaxed), tally.requests());
    // Every request began somewhere else: nothing was decoded twice.
    let prompts = server.shared.prompts.lock().unwrap();
    assert_eq!(prompts.iter().collect::<HashSet<_>>().len(), prompts.len());
}

/// Forks at every other place, where the second candidate was sampled.
#[derive(Debug)]
struct AtSeconds;

impl Strategy for AtSeconds {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root]
    }

    fn decide(&mut self, _: &Tree, _: SeqId, step: &Step<'_>) -> Verdict {
        match step.top {
            [first, second, ..] if step.sampled.token == second.token && step.at.is_multiple_of(2) => {
                Verdict::Fork { first: *first, second: *second }
            }
            _ => Verdict::Keep,
        }
    }
}

#[test]
fn a_fork_at_the_second_candidate_interrupts_nothing() {
    // Sequences that wait for nobody fork in the order of their arrival, so it is their paths that are the same.
    let paths = |trees: &[Tree]| -> BTreeSet<Vec<u32>> {
        trees.iter().flat_map(|tree| tree.ids().map(|id| tree.path(id)).collect::<Vec<_>>()).collect()
    };
    let expected = expected(groves(4, 1.0, || Box::new(AtSeconds)));
    let sequences: usize = expected.iter().map(Tree::len).sum();
    assert!(sequences > 12, "the case must fork: {sequences} sequences");
    for dialect in Dialect::ALL {
        let server = Server::start(dialect, |_| Fault::None);
        let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
        let mut list = groves(4, 1.0, || Box::new(AtSeconds));
        engine.grow(&mut list).unwrap();
        let trees = list.trees();
        assert_eq!(paths(&trees), paths(&expected), "{dialect}");
        let tally = engine.traffic().tally();
        // The request goes on with the twin, and only the sequence that it was opened for needs another.
        assert!(tally.requests() <= sequences, "{dialect}: {tally:?}, {sequences} sequences");
        check_counts(&engine, &trees);
    }
}

#[test]
fn a_forest_can_stop_a_slow_server() {
    struct Stopping(List);
    impl Forest for Stopping {
        fn next(&mut self, idle: bool) -> Option<Grove> {
            self.0.next(idle)
        }
        fn done(&mut self, grove: Grove) {
            self.0.done(grove);
        }
        fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
            if pulse.decoded >= 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let server = Server::start(Dialect::LlamaServer, |_| Fault::Slow(50));
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut forest = Stopping(groves(2, 0.0, parallel));
    engine.grow(&mut forest).unwrap();
    assert_eq!(forest.0.back.len(), 2);
    assert!(forest.0.back.iter().all(|grove| !grove.is_done()));
    // The server has been hung up on: it stops long before it has decoded everything, which would take it two seconds.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.shared.decoding.load(Ordering::Relaxed), 0);
}
