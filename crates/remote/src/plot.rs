//! A grove and the streams of its sequences.
//!
//! Steps arrive in any order and are offered in the order that strategies decide in: smaller positions first, then older
//! sequences. A step that must wait is held, with all that arrives after it: its stream goes on, because mostly the
//! sampled token is what the strategy takes in the end. Closing it would also make the place where the sequence is taken
//! up again, and with it the seed, a matter of timing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use eager_core::{Decoded, Finish, Grove, Next, SeqId, Token};

use crate::dialect::Step;
use crate::seats::WORTH_A_COPY;
use crate::stream::Errand;
use crate::traffic::Origin;

#[derive(Debug)]
pub(crate) struct Plot {
    pub grove: Grove,
    /// The server that has its prefix.
    pub home: usize,
    slots: Vec<Slot>,
    /// Tokens that the tree had before this run.
    before: usize,
}

/// The engine's side of one sequence.
#[derive(Debug)]
struct Slot {
    id: SeqId,
    /// The stream that decodes it.
    stream: Option<u64>,
    /// Steps that have arrived and are not decided yet.
    arrived: VecDeque<Step>,
    /// Its first step was told to wait, and nothing has moved since.
    waits: bool,
    finished: bool,
    trouble: Trouble,
}

/// The requests of a sequence that have failed in a row, without a token between them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trouble {
    pub failures: u32,
    /// When the first of them did.
    since: Option<Instant>,
    /// Before this there is no sense in another.
    until: Option<Instant>,
}

impl Trouble {
    /// How long it has lasted.
    pub fn lasted(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// What becomes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The sequence went another way: hang up.
    Close(u64),
    /// The sequence has ended where the server ends it too: it may say goodbye.
    Release(u64),
}

/// What came of offering the steps that have arrived.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub partings: Vec<Parting>,
    /// Tokens that were received in vain.
    pub wasted: usize,
}

impl Plot {
    pub fn new(grove: Grove, home: usize) -> Self {
        let before = grove.tree().tokens_generated();
        let mut plot = Plot { grove, home, slots: Vec::new(), before };
        plot.take_orders();
        // What the orders already hold was put there by this run's strategy.
        plot.before -= plot.slots.iter().map(|s| plot.grove.tree().get(s.id).tokens.len()).sum::<usize>();
        plot
    }

    /// Tokens decoded in this run.
    pub fn decoded(&self) -> usize {
        self.grove.tree().tokens_generated() - self.before
    }

    /// Sequences that have not ended.
    pub fn live(&self) -> usize {
        self.slots.iter().filter(|slot| !slot.finished).count()
    }

    /// Tokens that have arrived and are in no tree yet.
    pub fn undecided(&self) -> usize {
        self.slots.iter().map(|slot| slot.arrived.len()).sum()
    }

    /// The sequences that need a stream and may have one now, those that others wait for first.
    pub fn thirsty(&self, now: Instant) -> Vec<usize> {
        let needs = |slot: &Slot| {
            let rests = slot.trouble.until.is_some_and(|until| until > now);
            !slot.finished && slot.stream.is_none() && slot.arrived.is_empty() && !rests
        };
        let mut thirsty: Vec<usize> = (0..self.slots.len()).filter(|&i| needs(&self.slots[i])).collect();
        thirsty.sort_by_key(|&slot| self.rank(slot));
        thirsty
    }

    /// Has a stream with this number continue the sequence of a slot.
    pub fn send(&mut self, slot: usize, number: u64, name: String) -> Errand {
        let tokens = self.tokens(slot);
        let slot = &mut self.slots[slot];
        slot.stream = Some(number);
        let (settings, sequence) = (self.grove.settings(), self.grove.tree().get(slot.id));
        let origin = match (sequence.len(), sequence.parent, sequence.tokens.len()) {
            (0, ..) => Origin::Prompt,
            // All it has of its own is the token that it was forked for.
            (_, Some(_), 0..=1) => Origin::Fork,
            _ => Origin::Itself,
        };
        Errand {
            number,
            name,
            again: slot.trouble.failures > 0,
            origin,
            key: sequence.key,
            tokens,
            position: sequence.len(),
            left: settings.max_tokens.saturating_sub(sequence.len()),
            top_k: settings.top_k,
            sampling: settings.sampling,
            stop: settings.stop.clone(),
            rules: settings.rules.clone(),
            seat: None,
        }
    }

    /// The prompt and the path of a slot's sequence so far.
    pub fn tokens(&self, slot: usize) -> Vec<Token> {
        let mut tokens = self.grove.prompt().to_vec();
        tokens.extend(self.grove.tree().path(self.slots[slot].id));
        tokens
    }

    pub fn arrive(&mut self, slot: usize, steps: Vec<Step>) {
        let slot = &mut self.slots[slot];
        slot.trouble = Trouble::default();
        slot.arrived.extend(steps);
    }

    /// The stream of a slot broke off. Another is wanted, but not before a while has passed.
    pub fn broke(&mut self, slot: usize, rest: impl FnOnce(u32) -> Duration) -> Trouble {
        self.dry(slot);
        let (trouble, now) = (&mut self.slots[slot].trouble, Instant::now());
        trouble.failures += 1;
        trouble.since.get_or_insert(now);
        trouble.until = Some(now + rest(trouble.failures));
        *trouble
    }

    /// The stream of a slot is at its end.
    pub fn dry(&mut self, slot: usize) {
        self.slots[slot].stream = None;
    }

    /// The streams that are still decoding for it, which nobody will listen to.
    pub fn hang_up(&mut self) -> Vec<u64> {
        self.slots.iter_mut().filter_map(|slot| slot.stream.take()).collect()
    }

    /// Offers what has arrived, as far as the strategy will decide it. With `copies`, the server can copy a sequence for its
    /// twin, but only one that is not being decoded.
    pub fn settle(&mut self, copies: bool) -> Settled {
        let mut settled = Settled::default();
        self.slots.iter_mut().for_each(|slot| slot.waits = false);
        let ready = |slot: &Slot| !slot.arrived.is_empty() && !slot.waits;
        while let Some(slot) =
            (0..self.slots.len()).filter(|&i| ready(&self.slots[i])).min_by_key(|&slot| self.rank(slot))
        {
            if self.offer(slot, copies, &mut settled) {
                self.slots.iter_mut().for_each(|slot| slot.waits = false);
                self.take_orders();
            }
        }
        settled
    }

    /// Lets the grove decide one step. Did the sequence move?
    fn offer(&mut self, slot: usize, copies: bool, settled: &mut Settled) -> bool {
        let begun = self.grove.prompt().len();
        let slot = &mut self.slots[slot];
        let Some(step) = slot.arrived.pop_front() else { return false };
        match self.grove.offer(slot.id, &Decoded { top: &step.top, sampled: step.sampled }) {
            Next::Wait => {
                slot.arrived.push_front(step);
                slot.waits = true;
                return false;
            }
            Next::Feed(token) if token == step.sampled.token => {
                let long = begun + self.grove.tree().get(slot.id).len() > WORTH_A_COPY;
                if copies && long && self.grove.has_orders() {
                    settled.wasted += slot.arrived.len();
                    slot.arrived.clear();
                    settled.partings.extend(slot.stream.take().map(Parting::Close));
                }
            }
            Next::Feed(_) => {
                settled.wasted += 1 + slot.arrived.len();
                slot.arrived.clear();
                settled.partings.extend(slot.stream.take().map(Parting::Close));
            }
            Next::Done => {
                let sequence = self.grove.tree().get(slot.id);
                let taken = sequence.tokens.last() == Some(&step.sampled.token);
                settled.wasted += usize::from(!taken) + slot.arrived.len();
                slot.arrived.clear();
                slot.finished = true;
                // A server may not know the ends that a request has named, or go on after its own.
                let rules = &self.grove.settings().rules;
                let ours = rules.ignore_eos || !rules.stop_token_ids.is_empty();
                let goodbye = taken && !ours && sequence.finish != Some(Finish::Halted);
                let parting = if goodbye { Parting::Release } else { Parting::Close };
                settled.partings.extend(slot.stream.take().map(parting));
            }
        }
        true
    }

    /// Strategies decide smaller positions first, then older sequences.
    fn rank(&self, slot: usize) -> (usize, SeqId) {
        let id = self.slots[slot].id;
        (self.grove.tree().get(id).len(), id)
    }

    fn take_orders(&mut self) {
        while let Some(id) = self.grove.next_order() {
            self.slots.push(Slot {
                id,
                stream: None,
                arrived: VecDeque::new(),
                waits: false,
                finished: false,
                trouble: Trouble::default(),
            });
        }
    }
}
