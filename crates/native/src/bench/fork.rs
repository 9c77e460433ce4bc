//! What it costs to fork a sequence.

use std::time::{Duration, Instant};

use crate::engine::NativeEngine;
use crate::pages::{Pool, Table};

/// What a fork takes in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkCost {
    /// Sharing all pages with the parent: the fork itself.
    pub share: Duration,
    /// Getting a page of one's own when the first token is written after a fork in the middle of one. The twin that writes
    /// last is spared it.
    pub copy: Duration,
}

/// The median over many forks of a sequence of 1,000 tokens, in pages like the engine's.
pub fn fork_cost(engine: &NativeEngine) -> ForkCost {
    const TOKENS: usize = 1000;
    const TIMES: usize = 101;
    let page = engine.kv_use();
    let pages = TOKENS.div_ceil(page.page_tokens) + 2;
    let mut pool = Pool::new(pages, page.page_bytes);
    let mut parent = Table::default();
    parent.grow(&mut pool, TOKENS).expect("there are enough pages");
    let (mut shares, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let begun = Instant::now();
        let mut twin = parent.share(&mut pool, TOKENS);
        shares.push(begun.elapsed());
        let begun = Instant::now();
        twin.grow(&mut pool, 1).expect("there are enough pages");
        copies.push(begun.elapsed());
        twin.clear(&mut pool);
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[TIMES / 2]
    };
    ForkCost { share: median(&mut shares), copy: median(&mut copies) }
}
