//! Several servers of one model.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use eager_core::{Engine, Tree};
use eager_remote::{Dialect, RemoteEngine, RemoteError, Tally};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{Plant, forking, groves, options, parallel};

const PROMPTS: usize = 6;

fn reference(strategy: Plant) -> Vec<Tree> {
    let mut list = groves(PROMPTS, 0.0, strategy);
    Reference.grow(&mut list).unwrap();
    list.trees()
}

fn grow(servers: &[&Server], strategy: Plant) -> (Vec<Tree>, Tally) {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let mut engine = RemoteEngine::connect_all(&urls, &options()).unwrap();
    let mut list = groves(PROMPTS, 0.0, strategy);
    engine.grow(&mut list).unwrap();
    (list.trees(), engine.traffic().tally())
}

/// The prompts that a server was asked to continue, by their third token.
fn prompts(server: &Server) -> BTreeSet<u32> {
    server.shared.prompts.lock().unwrap().iter().map(|tokens| tokens[2]).collect()
}

fn wait_for_requests(server: &Server, count: usize) {
    while server.shared.requests.load(Ordering::Relaxed) < count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_prompt_has_one_home() {
    let servers = [(); 3].map(|()| Server::start(Dialect::Vllm, |_| Fault::Slow(1)));
    let (trees, tally) = grow(&servers.each_ref(), forking);
    assert_eq!(trees, reference(forking));
    assert_eq!((tally.handed, tally.retries), (0, 0));
    let homes = servers.each_ref().map(prompts);
    assert!(homes.iter().all(|home| !home.is_empty()), "{homes:?}");
    assert_eq!(homes.iter().map(BTreeSet::len).sum::<usize>(), PROMPTS, "{homes:?}");
}

#[test]
fn a_server_that_dies_hands_its_sequences_over() {
    for dialect in Dialect::ALL {
        let (well, dying) =
            (Server::start(dialect, |_| Fault::None), Server::start(dialect, |_| Fault::Slow(20)));
        let urls = [dying.url(), well.url()];
        let mut engine = RemoteEngine::connect_all(&urls, &options()).unwrap();
        let end = std::thread::spawn(move || {
            wait_for_requests(&dying, 2);
            drop(dying);
        });
        let mut list = groves(PROMPTS, 0.0, forking);
        engine.grow(&mut list).unwrap();
        end.join().unwrap();
        assert_eq!(list.trees(), reference(forking), "{dialect}");
        let tally = engine.traffic().tally();
        assert!(tally.handed > 0 && tally.wasted == 0, "{dialect}: {tally:?}");
    }
}

#[test]
fn a_server_that_drains_gets_no_more() {
    let draining =
        Server::start(Dialect::Vllm, |n| if n < 2 { Fault::Slow(2) } else { Fault::Status(503, None) });
    let well = Server::start(Dialect::Vllm, |_| Fault::None);
    let (trees, tally) = grow(&[&draining, &well], parallel);
    assert_eq!(trees, reference(parallel));
    assert!(tally.handed > 0 && tally.retries > 0, "{tally:?}");
    assert_eq!(draining.shared.prompts.lock().unwrap().len(), 2);
    assert!(prompts(&well).len() >= PROMPTS - 1);
}

#[test]
fn a_sequence_that_one_server_cannot_decode_is_tried_elsewhere() {
    let broken = Server::start(Dialect::LlamaServer, |_| Fault::Error(2));
    let well = Server::start(Dialect::LlamaServer, |_| Fault::None);
    let (trees, _) = grow(&[&broken, &well], parallel);
    assert_eq!(trees, reference(parallel));
}

#[test]
fn a_server_that_has_enough_is_given_less() {
    let crowded = Server::start(Dialect::LlamaServer, |_| Fault::Crowded(3));
    let (trees, tally) = grow(&[&crowded], parallel);
    assert_eq!(trees, reference(parallel));
    // Eighteen sequences, sixteen asked for at first. Once it is known what the server takes, it is tried with one more
    // now and then.
    let refused = crowded.shared.refused.load(Ordering::Relaxed);
    assert!((13..40).contains(&refused), "{refused} of {} were turned away", tally.requests());
}

#[test]
fn servers_must_serve_the_same_model_and_be_there() {
    let one = Server::start(Dialect::Vllm, |_| Fault::None);
    let two = Server::start(Dialect::LlamaServer, |_| Fault::None);
    let gone = Server::start(Dialect::Vllm, |_| Fault::None).url();
    let connect = |urls: &[String]| RemoteEngine::connect_all(urls, &options());
    // Two dialects of one model are fine.
    assert_eq!(connect(&[one.url(), two.url()]).unwrap().context(), Some(256));
    assert!(matches!(connect(&[one.url(), gone]), Err(RemoteError::Unreachable { .. })));
    assert!(matches!(connect(&[one.url(), one.url() + "/"]), Err(RemoteError::Twice { .. })));
    assert!(matches!(connect(&[]), Err(RemoteError::NoServer)));
}

#[test]
fn when_all_are_gone_it_is_over_and_everything_comes_back() {
    let (one, two) = (
        Server::start(Dialect::Vllm, |_| Fault::Slow(20)),
        Server::start(Dialect::Vllm, |_| Fault::Slow(20)),
    );
    let mut options = options();
    options.patience.give_up = Duration::from_millis(400);
    let mut engine = RemoteEngine::connect_all(&[one.url(), two.url()], &options).unwrap();
    let end = std::thread::spawn(move || {
        wait_for_requests(&one, 1);
        // A token or two.
        std::thread::sleep(Duration::from_millis(60));
        drop((one, two));
    });
    let mut list = groves(PROMPTS, 0.0, parallel);
    let error = engine.grow(&mut list).unwrap_err();
    end.join().unwrap();
    assert!(matches!(error, RemoteError::Gone { others: 1, .. } | RemoteError::GaveUp { .. }), "{error}");
    assert_eq!(list.back.len() + list.waiting.len(), PROMPTS);
    assert!(list.back.iter().any(|grove| grove.tree().tokens_generated() > 0));
}
