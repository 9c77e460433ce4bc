//! Engines that decode a script in every order an engine may.
//!
//! A real engine keeps its sequences in step when it can. When memory runs out, or answers come over a network, some run
//! ahead, some are set aside and new ones start late. A strategy must not be able to tell.

use std::cmp::Reverse;
use std::convert::Infallible;

use eager_core::{Decoded, Engine, Forest, Grove, Next, Pulse, SeqId};
use proptest::prelude::*;

use super::model::{Script, hash};

/// Which sequence moves next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The shortest, the eldest of those: the order of the paper's loop.
    InStep,
    /// The longest: one runs as far as it may before another moves.
    DepthFirst,
    /// The shortest, but the youngest of those.
    YoungestFirst,
    /// Any.
    Random,
}

#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    pub order: Order,
    /// Groves that grow at the same time.
    pub width: usize,
    /// Decides whatever is random.
    pub seed: u64,
}

impl Schedule {
    /// The schedule of the paper's loop, one prompt after another.
    pub const PAPER: Schedule = Schedule { order: Order::InStep, width: 1, seed: 0 };
}

pub fn schedules() -> impl Strategy<Value = Schedule> {
    let order = prop_oneof![
        Just(Order::InStep),
        Just(Order::DepthFirst),
        Just(Order::YoungestFirst),
        Just(Order::Random)
    ];
    (order, 1usize..4, any::<u64>()).prop_map(|(order, width, seed)| Schedule { order, width, seed })
}

/// More tokens than any case can need.
const FOR_EVER: usize = 4_000;

/// An engine for one run.
#[derive(Debug)]
pub struct ScriptedEngine<'a> {
    script: &'a Script,
    schedule: Schedule,
    /// Random numbers used up.
    drawn: u64,
    /// Tokens decoded; a twin's first token came with its parent's step.
    pub decoded: usize,
    /// Steps that had to be offered again.
    pub waits: usize,
}

/// A grove that the engine has at hand.
struct Growing {
    grove: Grove,
    live: Vec<Live>,
}

struct Live {
    id: SeqId,
    /// It was told to wait, and no other sequence of its grove has moved since.
    waits: bool,
}

impl Growing {
    /// The positions in `live` of the sequences that may move.
    fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.live.len()).filter(|&i| !self.live[i].waits)
    }
}

impl<'a> ScriptedEngine<'a> {
    pub fn new(script: &'a Script, schedule: Schedule) -> Self {
        ScriptedEngine { script, schedule, drawn: 0, decoded: 0, waits: 0 }
    }

    fn random(&mut self, below: usize) -> usize {
        self.drawn += 1;
        (hash((self.schedule.seed, self.drawn)) % below as u64) as usize
    }

    /// Takes orders: at once where the engine keeps step, else when it pleases or has nothing better to do.
    fn take_orders(&mut self, growing: &mut Growing) {
        while growing.grove.has_orders() {
            let late = self.schedule.order != Order::InStep && growing.ready().next().is_some();
            if late && self.random(2) == 0 {
                return;
            }
            growing.live.extend(growing.grove.next_order().map(|id| Live { id, waits: false }));
        }
    }

    /// The next to move: the grove's place in the batch, and the sequence's place in the grove.
    fn choose(&mut self, batch: &[Growing]) -> (usize, usize) {
        let place = |(g, i): (usize, usize)| {
            let id = batch[g].live[i].id;
            (batch[g].grove.tree().get(id).len(), g, id)
        };
        let ready: Vec<(usize, usize)> =
            (0..batch.len()).flat_map(|g| batch[g].ready().map(move |i| (g, i))).collect();
        let all = ready.iter().copied();
        let chosen = match self.schedule.order {
            Order::InStep => all.min_by_key(|&at| place(at)),
            Order::DepthFirst => all.max_by_key(|&at| place(at)),
            Order::YoungestFirst => all.min_by_key(|&at| (place(at).0, Reverse(place(at)))),
            Order::Random => Some(ready[self.random(ready.len())]),
        };
        chosen.expect("every grove at hand has a sequence that may move")
    }

    /// Decodes one token of one sequence and offers it.
    fn step(&mut self, growing: &mut Growing, place: usize) {
        let id = growing.live[place].id;
        let (prompt, tree) = (growing.grove.prompt(), growing.grove.tree());
        assert!(tree.get(id).is_live(), "{id:?} is decoded after its end");
        let top = self.script.candidates(prompt, &tree.path(id));
        let sampled = self.script.sampled_by(prompt, tree, id);
        let before = tree.path(id);
        let next = growing.grove.offer(id, &Decoded { top: &top, sampled });
        let after = growing.grove.tree().path(id);
        if next == Next::Wait {
            assert_eq!(before, after, "a step that waits changes nothing");
            growing.live[place].waits = true;
            self.waits += 1;
            assert!(
                growing.ready().next().is_some() || growing.grove.has_orders(),
                "all wait for each other"
            );
            return;
        }
        self.decoded += 1;
        assert!(self.decoded < FOR_EVER, "this run has no end");
        assert_eq!(after[..before.len()], before, "a path only grows");
        assert_eq!(after.len(), before.len() + 1);
        match next {
            Next::Feed(token) => assert_eq!(after.last(), Some(&token)),
            _ => drop(growing.live.swap_remove(place)),
        }
        growing.live.iter_mut().for_each(|live| live.waits = false);
    }

    /// Takes new groves while there is room, and brings back those that are done.
    fn exchange(&mut self, batch: &mut Vec<Growing>, forest: &mut dyn Forest) {
        loop {
            for done in
                batch.extract_if(.., |g| g.grove.is_done() || !forest.wants(&g.grove)).collect::<Vec<_>>()
            {
                forest.done(done.grove);
            }
            let room = batch.len() < self.schedule.width;
            let Some(grove) = room.then(|| forest.next(batch.is_empty())).flatten() else { return };
            batch.push(Growing { grove, live: Vec::new() });
        }
    }
}

impl Engine for ScriptedEngine<'_> {
    type Error = Infallible;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), Infallible> {
        let mut batch: Vec<Growing> = Vec::new();
        loop {
            self.exchange(&mut batch, forest);
            if batch.is_empty() {
                return Ok(());
            }
            batch.iter_mut().for_each(|growing| self.take_orders(growing));
            let (grove, place) = self.choose(&batch);
            self.step(&mut batch[grove], place);
            let live = batch.iter().map(|g| g.live.len()).sum();
            if forest.pulse(&Pulse { decoded: self.decoded, live, ..Pulse::default() }).is_break() {
                batch.into_iter().for_each(|growing| forest.done(growing.grove));
                return Ok(());
            }
        }
    }
}
