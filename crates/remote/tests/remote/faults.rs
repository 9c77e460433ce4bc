//! A server that breaks down: the trees come out as if it had not.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use eager_core::{Engine, Forest, Grove, Key, Settings, Tree};
use eager_remote::{Dialect, Options, Patience, RemoteEngine, RemoteError, Tally};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{List, Plant, forking, groves, options, parallel};

/// Greedy trees through a server whose first `broken` requests go wrong.
fn grow(fault: Fault, broken: usize, strategy: Plant) -> (Vec<Tree>, Tally) {
    let server = Server::start(Dialect::LlamaServer, move |n| if n < broken { fault } else { Fault::None });
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut list = groves(2, 0.0, strategy);
    engine.grow(&mut list).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
    (list.trees(), engine.traffic().tally())
}

#[test]
fn no_token_is_lost_or_doubled() {
    let faults = [
        Fault::Reset(0),
        Fault::Reset(3),
        Fault::Cut(0),
        Fault::Cut(4),
        Fault::Garbage(2),
        Fault::Error(2),
        Fault::Stall(2),
        Fault::Dead(2),
        Fault::Status(429, None),
        Fault::Status(429, Some("0.02")),
        Fault::Status(503, None),
        Fault::Status(503, Some("Wed, 21 Oct 2015 07:28:00 GMT")),
        Fault::Status(500, None),
    ];
    for strategy in [parallel as Plant, forking] {
        let mut reference = groves(2, 0.0, strategy);
        Reference.grow(&mut reference).unwrap();
        let expected = reference.trees();
        for fault in faults {
            let (trees, tally) = grow(fault, 4, strategy);
            assert_eq!(trees, expected, "{fault:?}");
            assert!(tally.retries >= 1 && tally.wasted == 0, "{fault:?}: {tally:?}");
        }
    }
}

#[test]
fn oddities_are_no_faults() {
    let mut reference = groves(2, 0.0, forking);
    Reference.grow(&mut reference).unwrap();
    let expected = reference.trees();
    let all = usize::MAX;
    for oddity in [
        Fault::Several(3),
        Fault::Slow(5),
        Fault::Characters { told: true },
        Fault::Characters { told: false },
    ] {
        let (trees, tally) = grow(oddity, all, forking);
        assert_eq!(trees, expected, "{oddity:?}");
        assert_eq!((tally.retries, tally.narrow), (0, 0), "{oddity:?}");
    }
}

#[test]
fn fewer_candidates_are_used_and_counted() {
    let (trees, tally) = grow(Fault::Narrow(5), usize::MAX, parallel);
    let mut reference = groves(2, 0.0, parallel);
    Reference.grow(&mut reference).unwrap();
    let paths = |trees: &[Tree]| -> Vec<Vec<u32>> {
        trees.iter().flat_map(|tree| tree.ids().map(|id| tree.path(id)).collect::<Vec<_>>()).collect()
    };
    assert_eq!(paths(&trees), paths(&reference.trees()));
    assert_eq!(tally.narrow, tally.received);
}

#[test]
fn the_server_says_when_to_come_back() {
    let began = Instant::now();
    grow(Fault::Status(429, Some("0.4")), 1, parallel);
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let mut reference = groves(2, 0.0, forking);
    Reference.grow(&mut reference).unwrap();
    let first = Server::start(Dialect::LlamaServer, |_| Fault::Slow(5));
    let address = first.address;
    let mut engine = RemoteEngine::connect(&first.url(), &options()).unwrap();
    let operator = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(80));
        drop(first);
        std::thread::sleep(Duration::from_millis(200));
        Server::restart(address, Dialect::LlamaServer)
    });
    let mut list = groves(2, 0.0, forking);
    engine.grow(&mut list).unwrap();
    assert_eq!(list.trees(), reference.trees());
    let tally = engine.traffic().tally();
    assert!(tally.retries > 0 && tally.wasted == 0, "{tally:?}");
    drop(operator.join().unwrap());
}

#[test]
fn a_fork_with_sampling_survives_faults() {
    let faults = |n: usize| if n % 3 == 1 { Fault::Reset(n % 5) } else { Fault::None };
    let server = Server::start(Dialect::LlamaServer, faults);
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut list = groves(4, 1.0, forking);
    engine.grow(&mut list).unwrap();
    assert!(list.back.iter().all(|grove| grove.is_done()));
}

#[test]
fn what_cannot_be_mended_ends_the_run_and_brings_all_groves_back() {
    type IsExpected = fn(&RemoteError) -> bool;
    let cases: [(Fault, IsExpected); 5] = [
        (Fault::NoIds, |e| matches!(e, RemoteError::Lacking { what: "token ids", .. })),
        (Fault::Narrow(0), |e| matches!(e, RemoteError::Lacking { .. })),
        (
            Fault::Status(400, None),
            |e| matches!(e, RemoteError::Refused { status: 400, message, .. } if message == "not now"),
        ),
        (Fault::Status(403, None), |e| matches!(e, RemoteError::Key { .. })),
        (Fault::Status(503, None), |e| matches!(e, RemoteError::GaveUp { .. })),
    ];
    for (fault, is_expected) in cases {
        // The first requests are well, so that there is something to lose.
        let server = Server::start(Dialect::LlamaServer, move |n| if n < 3 { Fault::None } else { fault });
        let patience = Patience { give_up: Duration::from_millis(300), ..options().patience };
        let mut engine = RemoteEngine::connect(&server.url(), &Options { patience, ..options() }).unwrap();
        let mut list = groves(3, 0.0, parallel);
        let error = engine.grow(&mut list).unwrap_err();
        assert!(is_expected(&error), "{fault:?}: {error}");
        assert_eq!(list.back.len() + list.waiting.len(), 3, "{fault:?}");
    }
}

/// A list that goes on without those that failed.
struct Lenient {
    list: List,
    failed: Vec<(usize, String)>,
}

impl Forest for Lenient {
    fn next(&mut self, idle: bool) -> Option<Grove> {
        self.list.next(idle)
    }

    fn done(&mut self, grove: Grove) {
        self.list.done(grove);
    }

    fn failed(&mut self, grove: Grove, error: &dyn Error) -> ControlFlow<()> {
        self.failed.push((grove.id, error.to_string()));
        ControlFlow::Continue(())
    }
}

#[test]
fn a_forest_may_go_on_without_the_groves_that_fail() {
    // The three sequences of one grove are refused, whichever comes first.
    let refusal = |n: usize| if n == 0 { Fault::Status(400, None) } else { Fault::None };
    let server = Server::start(Dialect::LlamaServer, refusal);
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut list = groves(3, 0.0, parallel);
    let long = Settings { max_tokens: 300, ..Settings::default() };
    list.waiting.insert(1, Grove::new(9, Key::prompt(7, 9), vec![1, 2].into(), long.into(), parallel()));
    let mut forest = Lenient { list, failed: Vec::new() };
    engine.grow(&mut forest).unwrap();
    forest.failed.sort();
    let [(refused, why), (9, too_long)] = &forest.failed[..] else { panic!("{:?}", forest.failed) };
    assert!(why.contains("refused a request (400): not now"), "{why}");
    assert!(too_long.contains("the server's context is 256"), "{too_long}");
    let mut reference = groves(3, 0.0, parallel);
    Reference.grow(&mut reference).unwrap();
    let mut expected = reference.trees();
    expected.remove(*refused);
    assert_eq!(forest.list.trees(), expected);
}

#[test]
fn a_prompt_that_cannot_fit_is_refused_before_it_is_sent() {
    let server = Server::start(Dialect::LlamaServer, |_| Fault::None);
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let long = Settings { max_tokens: 300, ..Settings::default() };
    let grove = Grove::new(0, Key::prompt(1, 1), vec![1, 2].into(), long.into(), parallel());
    let mut list = List { waiting: vec![grove], back: Vec::new() };
    let error = engine.grow(&mut list).unwrap_err();
    assert_eq!(error, RemoteError::Context { prompt: 2, more: 300, context: 256 });
    assert_eq!(list.back.len(), 1);
}
