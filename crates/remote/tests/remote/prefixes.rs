//! SGLang keeps what a request has generated only when the request has ended: what forks have to compute again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Engine, Grove, Key, Sampling, SeqId, Settings, Strategy, Tree};
use eager_remote::{Dialect, RemoteEngine, Tally};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{List, model, options};

const LENGTH: usize = 240;
/// Where the first sequence is forked: the first request has generated 20 tokens, 160 and 190.
const FORKS: [usize; 3] = [20, 160, 190];

#[derive(Debug)]
struct AtPlaces;

impl Strategy for AtPlaces {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root]
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        if tree.get(id).parent.is_none() && FORKS.contains(&step.at) {
            return Verdict::Fork { first: step.top[0], second: step.top[1] };
        }
        Verdict::Keep
    }
}

/// A prompt whose likeliest sequence is long enough.
fn prompt() -> Vec<u32> {
    let is_long = |prompt: &Vec<u32>| {
        let mut path = prompt.clone();
        (0..LENGTH).all(|_| {
            path.push(model::next(&path)[0].0);
            path.last() != Some(&model::END)
        })
    };
    (3..10_000).map(|last| vec![1, 2, last]).find(is_long).unwrap()
}

fn list() -> List {
    let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0 };
    let settings = Settings { sampling, max_tokens: LENGTH, stop: vec![model::END], ..Settings::default() };
    let grove = Grove::new(0, Key::prompt(7, 0), prompt().into(), Arc::new(settings), Box::new(AtPlaces));
    List { waiting: vec![grove], back: Vec::new() }
}

/// Grows the tree on a server, and checks it.
fn grow(server: &Server) -> Tally {
    let mut expected = list();
    Reference.grow(&mut expected).unwrap();
    let expected = expected.trees();
    assert_eq!(expected[0].len(), 1 + FORKS.len(), "the case must fork");
    let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
    let mut list = list();
    engine.grow(&mut list).unwrap();
    assert_eq!(list.trees(), expected);
    engine.traffic().tally()
}

/// The length of each request's prompt, and how many of its tokens were computed, without those of the first request.
fn prefills(server: &Server) -> Vec<(usize, usize)> {
    let prompt = prompt().len();
    let all = server.shared.prefills.lock().unwrap();
    let mut later: Vec<(usize, usize)> =
        all.iter().map(|(tokens, computed)| (tokens.len() - prompt, *computed)).filter(|p| p.0 > 0).collect();
    later.sort_unstable();
    later
}

#[test]
fn sglang_computes_no_long_beginning_again() {
    let server = Server::start(Dialect::Sglang, |_| Fault::Slow(5));
    let tally = grow(&server);
    // 20 tokens are computed again sooner than a request is ended; for 160 it is ended, and both sequences find all but their
    // last token. From there to 190 it is a short way again, but for what was decoded until the request had ended.
    let prefills = prefills(&server);
    assert_eq!(prefills[..3], [(21, 21), (161, 1), (161, 1)]);
    assert!(prefills.len() == 4 && prefills[3].0 == 191 && prefills[3].1 <= 30, "{prefills:?}");
    assert_eq!(server.shared.aborted.lock().unwrap().len(), 1);
    assert_eq!(tally.retries, 0, "an end of our own making is no fault: {tally:?}");
}

#[test]
fn a_server_that_ends_nothing_is_not_waited_for() {
    let server = Server::start(Dialect::Sglang, |_| Fault::Deaf(5));
    let began = Instant::now();
    let tally = grow(&server);
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(tally.retries, 0, "{tally:?}");
}
