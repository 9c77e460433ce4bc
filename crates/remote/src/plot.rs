//! A grove and the streams of its sequences.
//!
//! Steps arrive in any order and are offered in the order that strategies decide in: smaller positions first, then older
//! sequences. A step that must wait is held, with all that arrives after it: its stream goes on, because mostly the
//! sampled token is what the strategy takes in the end. Closing it would also make the place where the sequence is taken
//! up again, and with it the seed, a matter of timing.
//!
//! At a fork the request that is running goes on with whichever of the two sequences took the token that it sampled, and only
//! the other one needs a request. Where the server lets the other find the common beginning only after the running request
//! has ended, that request is ended if the beginning is long, and both sequences are taken up from the server's cache.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use eager_core::{Decoded, Finish, Grove, Next, SeqId, Token};

use crate::dialect::Step;
use crate::seats::WORTH_A_COPY;
use crate::server::PrefixSharing;
use crate::stream::Errand;
use crate::traffic::Origin;

/// A request that has generated fewer tokens than this is not ended for a fork: computing them as a prompt takes a server one
/// step or two, and ending a request and taking it up again takes as long. Reckoned, not measured.
const WORTH_A_RESTART: usize = 128;
/// Longest wait for the end of a request that the server was told to end.
pub(crate) const ENDING: Duration = Duration::from_secs(1);

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
    /// The position of its stream's first token.
    began: usize,
    /// A request of which the server must have reached the end before this sequence gets one, and how long that is waited for.
    held: Option<(u64, Instant)>,
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
    /// Have the server end it, and wait until it has: then its tokens are in the cache for those that go on from them.
    End(u64),
    /// It goes on for another slot's sequence.
    Pass(u64, usize),
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
            let is_held = slot.held.is_some_and(|(_, until)| until > now);
            !slot.finished && slot.stream.is_none() && slot.arrived.is_empty() && !rests && !is_held
        };
        let mut thirsty: Vec<usize> = (0..self.slots.len()).filter(|&i| needs(&self.slots[i])).collect();
        thirsty.sort_by_key(|&slot| self.rank(slot));
        thirsty
    }

    /// Has a stream with this number continue the sequence of a slot.
    pub fn send(&mut self, slot: usize, number: u64, name: String) -> Errand {
        let tokens = self.tokens(slot);
        let slot = &mut self.slots[slot];
        let (settings, sequence) = (self.grove.settings(), self.grove.tree().get(slot.id));
        (slot.stream, slot.began, slot.held) = (Some(number), sequence.len(), None);
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

    /// A request has ended: its tokens are in the server's cache.
    pub fn ended(&mut self, stream: u64) {
        let waits = |slot: &&mut Slot| slot.held.is_some_and(|(held_by, _)| held_by == stream);
        self.slots.iter_mut().filter(waits).for_each(|slot| slot.held = None);
    }

    /// The streams that are still decoding for it, which nobody will listen to.
    pub fn hang_up(&mut self) -> Vec<u64> {
        self.slots.iter_mut().filter_map(|slot| slot.stream.take()).collect()
    }

    /// Offers what has arrived, as far as the strategy will decide it.
    pub fn settle(&mut self, sharing: PrefixSharing) -> Settled {
        let mut settled = Settled::default();
        self.slots.iter_mut().for_each(|slot| slot.waits = false);
        let ready = |slot: &Slot| !slot.arrived.is_empty() && !slot.waits;
        while let Some(slot) =
            (0..self.slots.len()).filter(|&i| ready(&self.slots[i])).min_by_key(|&slot| self.rank(slot))
        {
            if self.offer(slot, sharing, &mut settled) {
                self.slots.iter_mut().for_each(|slot| slot.waits = false);
            }
        }
        settled
    }

    /// Lets the grove decide one step. Did the sequence move?
    fn offer(&mut self, slot: usize, sharing: PrefixSharing, settled: &mut Settled) -> bool {
        let id = self.slots[slot].id;
        let at = self.grove.tree().get(id).len();
        let Some(step) = self.slots[slot].arrived.pop_front() else { return false };
        match self.grove.offer(id, &Decoded { top: &step.top, sampled: step.sampled }) {
            Next::Wait => {
                self.slots[slot].arrived.push_front(step);
                self.slots[slot].waits = true;
                return false;
            }
            Next::Feed(_) => {}
            Next::Done => self.slots[slot].finished = true,
        }
        let known = self.slots.len();
        self.take_orders();
        // Others that begin now share nothing with it.
        let is_fork = |&new: &usize| self.grove.tree().get(self.slots[new].id).parent == Some(id);
        let forks: Vec<usize> = (known..self.slots.len()).filter(is_fork).collect();
        let follower = self.follower(slot, at, step.sampled.token, &forks);
        match follower {
            Some(to) if !self.slots[to].finished && !self.restarts(slot, at, &forks, sharing) => {
                self.pass_on(slot, to, settled);
            }
            _ => {
                settled.wasted += usize::from(follower.is_none()) + self.slots[slot].arrived.len();
                self.slots[slot].arrived.clear();
                self.leave_stream(slot, at, follower == Some(slot), &forks, sharing, settled);
            }
        }
        true
    }

    /// The slot of the sequence that took the sampled token: the one that the token was sampled for, or its fork.
    fn follower(&self, slot: usize, at: usize, sampled: Token, forks: &[usize]) -> Option<usize> {
        let tree = self.grove.tree();
        let took_it = |slot: usize| {
            let sequence = tree.get(self.slots[slot].id);
            sequence.len() == at + 1 && sequence.tokens.last() == Some(&sampled)
        };
        std::iter::once(slot).chain(forks.iter().copied()).find(|&slot| took_it(slot))
    }

    /// Is the running request to be ended, so that its forks need not compute again what it has generated? That must not
    /// depend on how far it has come: where a sequence is taken up decides its seed.
    fn restarts(&self, slot: usize, at: usize, forks: &[usize], sharing: PrefixSharing) -> bool {
        let is_long = match sharing {
            PrefixSharing::Live => false,
            PrefixSharing::Copied => self.grove.prompt().len() + at + 1 > WORTH_A_COPY,
            PrefixSharing::Ended => self.is_worth_a_restart(slot, at),
        };
        is_long && !forks.is_empty()
    }

    /// Has the running request generated so much that it pays to have it ended and to find it in the cache?
    fn is_worth_a_restart(&self, slot: usize, at: usize) -> bool {
        at - self.slots[slot].began > WORTH_A_RESTART
    }

    /// What a request decodes from now on is another slot's.
    fn pass_on(&mut self, from: usize, to: usize, settled: &mut Settled) {
        if from == to {
            return;
        }
        let from = &mut self.slots[from];
        let (stream, began, arrived) = (from.stream.take(), from.began, std::mem::take(&mut from.arrived));
        settled.partings.extend(stream.map(|stream| Parting::Pass(stream, to)));
        let to = &mut self.slots[to];
        (to.stream, to.began, to.arrived) = (stream, began, arrived);
    }

    /// Nobody follows the request of a slot any further. With `taken`, the slot's sequence has all that was sampled for it.
    fn leave_stream(
        &mut self,
        slot: usize,
        at: usize,
        taken: bool,
        forks: &[usize],
        sharing: PrefixSharing,
        settled: &mut Settled,
    ) {
        let Some(stream) = self.slots[slot].stream.take() else { return };
        let finished = self.slots[slot].finished;
        let halted = self.grove.tree().get(self.slots[slot].id).finish == Some(Finish::Halted);
        // A server may not know the ends that a request has named, or go on after its own.
        let rules = &self.grove.settings().rules;
        let ours = rules.ignore_eos || !rules.stop_token_ids.is_empty();
        let goes_on = !finished || !forks.is_empty();
        let waits = sharing == PrefixSharing::Ended && goes_on && self.is_worth_a_restart(slot, at);
        settled.partings.push(match finished && taken && !halted && !ours {
            true => Parting::Release(stream),
            false if waits => Parting::End(stream),
            false => Parting::Close(stream),
        });
        if waits {
            let until = Instant::now() + ENDING;
            for &waiting in forks.iter().chain([&slot]) {
                self.slots[waiting].held = Some((stream, until));
            }
        }
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
                began: 0,
                held: None,
                arrived: VecDeque::new(),
                waits: false,
                finished: false,
                trouble: Trouble::default(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::strategy::{Start, Step as Decision, Verdict};
    use eager_core::{Candidate, Key, Settings, Strategy, Tree};

    /// At this position the first sequence does something.
    #[derive(Debug)]
    enum At {
        /// Neither it nor its fork takes the token that was sampled.
        Astray(usize),
        /// It is given up, and another begins from the prompt.
        Anew(usize),
    }

    impl Strategy for At {
        fn begin(&mut self, _: &Tree) -> Vec<Start> {
            vec![Start::Root]
        }

        fn decide(&mut self, _: &Tree, id: SeqId, step: &Decision<'_>) -> Verdict {
            match *self {
                At::Astray(at) if id == SeqId(0) && step.at == at => {
                    Verdict::Fork { first: step.top[1], second: step.top[2] }
                }
                At::Anew(at) if id == SeqId(0) && step.at == at => Verdict::Halt,
                _ => Verdict::Keep,
            }
        }

        fn ended(&mut self, _: &Tree, id: SeqId) -> Vec<Start> {
            if matches!(self, At::Anew(_)) && id == SeqId(0) { vec![Start::Root] } else { Vec::new() }
        }
    }

    /// What becomes of the first request, and how many sequences need not wait for its end.
    fn settled(strategy: At, steps: usize) -> (Vec<Parting>, usize) {
        let settings = Settings { max_tokens: 1000, ..Settings::default() };
        let grove = Grove::new(0, Key::prompt(7, 0), vec![1].into(), settings.into(), Box::new(strategy));
        let mut plot = Plot::new(grove, 0);
        plot.send(0, 5, String::new());
        let top: Vec<Candidate> = (10..14).map(|token| Candidate { token, logprob: -1.4 }).collect();
        let step = || Step { sampled: top[0], top: top.clone() };
        plot.arrive(0, (0..steps).map(|_| step()).collect());
        let partings = plot.settle(PrefixSharing::Ended).partings;
        (partings, plot.thirsty(Instant::now()).len())
    }

    #[test]
    fn a_request_is_ended_and_waited_for_only_where_a_long_beginning_is_shared() {
        let (short, long) = (20, WORTH_A_RESTART + 1);
        assert_eq!(settled(At::Astray(short), short + 1), (vec![Parting::Close(5)], 2));
        assert_eq!(settled(At::Astray(long), long + 1), (vec![Parting::End(5)], 0));
        assert_eq!(settled(At::Anew(long), long + 1), (vec![Parting::Close(5)], 1));
    }
}
