//! vLLM.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use eager_core::{Forking, Method, Plan, Prompt};
use eager_native::load::Checkpoint;

use crate::agreement::{Pair, grow, question, settings};
use crate::proxy::{Proxy, page};
use crate::server::{Live, acorn, connect};

/// Both engines have the same weights and compute in 32 bits; the embedded one keeps keys and values in 16.
const ROUNDING: f32 = 5e-3;

/// One server for all tests, because it takes a minute to start, and one test at a time, because they read its counters.
/// The pipe that keeps it alive is closed when the program ends.
fn server() -> Option<MutexGuard<'static, Live>> {
    static SERVER: OnceLock<Option<Mutex<Live>>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Live::vllm(&acorn(""), 64).map(Mutex::new));
    // A test that failed has broken nothing of it.
    server.as_ref().map(|live| live.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Has a check made on acorn, if there is a server.
fn on_acorn(check: impl FnOnce(&Pair)) {
    let Some(live) = server() else { return };
    let checkpoint = Checkpoint::open(&acorn("")).unwrap();
    check(&Pair { url: live.url.clone(), checkpoint, rounding: ROUNDING });
}

#[test]
fn greedy_text_is_that_of_the_embedded_engine() {
    on_acorn(Pair::greedy_text_is_the_same);
}

#[test]
fn forks_are_where_the_embedded_engine_forks() {
    on_acorn(Pair::forks_are_at_the_same_places);
}

#[test]
fn every_method_finishes() {
    on_acorn(Pair::every_method_finishes);
}

/// What the server has counted since it started.
#[derive(Debug, Clone, Copy)]
struct Cache {
    /// Tokens of a block; only whole blocks are kept.
    block: usize,
    /// Prompt tokens looked up, and how many of them were found.
    asked: usize,
    found: usize,
}

impl Cache {
    fn read(url: &str) -> Self {
        let page = page(url, "/metrics");
        let count = |name: &str| -> usize {
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as usize
        };
        let (_, block) = page.split_once(",block_size=\"").unwrap();
        Cache {
            block: block.split_once('"').unwrap().0.parse().unwrap(),
            asked: count("vllm:prefix_cache_queries_total"),
            found: count("vllm:prefix_cache_hits_total"),
        }
    }

    /// What can be found of a prompt whose prefix was decoded before: all but its last token, which is new (and
    /// has to be computed even if it is not), in whole blocks.
    fn reach(self, prompt: usize) -> usize {
        (prompt - 1) / self.block * self.block
    }
}

/// Conversations of several questions, beginning with every sixth problem after this one. No two begin with the same block,
/// nor does any begin like a prompt of another test, so that first requests find nothing in the cache.
fn conversations(checkpoint: &Checkpoint, first: usize, turns: usize) -> Vec<Prompt> {
    let (problems, settings) = (eager_acorn::problems(), settings(checkpoint, 0.6));
    let prompt = |key: usize| {
        let asked = problems.iter().cycle().skip(first + 6 * key).take(turns).map(question);
        let text = asked.collect::<String>() + "<|im_start|>assistant\n";
        let tokens = checkpoint.encode_prompt(&text).unwrap().into();
        Prompt { tokens, settings: Arc::clone(&settings), key: key as u64, answers: None }
    };
    (0..10).map(prompt).collect()
}

/// Of the prompt tokens of all requests that continue a sequence, the server computes next to none: checked by its own
/// counters, and by a proxy that sees every request.
#[test]
fn forks_find_their_prefix_in_the_cache() {
    on_acorn(|Pair { url, checkpoint, .. }| {
        for (first, turns, theta) in [(1, 1, 0.5), (2, 12, 1.0)] {
            let prompts = conversations(checkpoint, first, turns);
            let proxy = Proxy::before(url);
            let (mut engine, before) = (connect(&proxy.url()), Cache::read(url));
            let plan = Plan::new(5, Forking::new(theta, 8));
            let trees = grow(&mut engine, Method::EagerInit, &plan, &prompts);
            let after = Cache::read(url);
            let (asked, found) = (after.asked - before.asked, after.found - before.found);

            let beginnings: HashSet<_> =
                prompts.iter().map(|prompt| &prompt.tokens[..after.block.min(prompt.tokens.len())]).collect();
            assert_eq!(beginnings.len(), prompts.len());
            let sent = proxy.prompts();
            assert_eq!(
                asked,
                sent.iter().map(Vec::len).sum::<usize>(),
                "the proxy sees what the server sees"
            );
            let forks: Vec<usize> = {
                let is_first = |sent: &Vec<u32>| prompts.iter().any(|prompt| prompt.tokens[..] == sent[..]);
                sent.iter().filter(|sent| !is_first(sent)).map(Vec::len).collect()
            };
            let (tokens, reach) =
                (forks.iter().sum::<usize>(), forks.iter().map(|&n| after.reach(n)).sum::<usize>());
            let twins = trees.iter().map(|tree| tree.len() - 1).sum::<usize>();
            eprintln!("{:?}", engine.traffic().tally());
            eprintln!(
                "{} requests, {} of them forks ({twins} twins) with {tokens} prompt tokens, {reach} in whole blocks of {}: \
                 {found} found, {:.1}% of those and {:.1}% of all",
                sent.len(),
                forks.len(),
                after.block,
                100.0 * found as f64 / reach as f64,
                100.0 * found as f64 / tokens as f64,
            );
            assert!(twins >= 20 && forks.len() >= twins);
            assert!(10 * found >= 9 * reach, "{found} of {reach}");
        }
    });
}
