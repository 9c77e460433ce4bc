//! The request queue, as the forest that the engine grows.
//!
//! The engine has a thread of its own and runs for as long as the server does. It takes prompts from here whenever it has
//! room, so requests share its batches without knowing of each other.
//!
//! Who comes next? A prompt may grow to its cap, so its cap is the room it takes. Three quarters of the engine's width go
//! to whoever is next in line: the client with the least in growth, then the one that has waited longest; nobody
//! overtakes a large prompt there, or it would wait for ever. The last quarter is kept for small prompts, of a quarter of
//! that at most, of clients that have nothing growing: one small question need not wait until somebody's sixty-four
//! sequences are done.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use eager_core::{Engine, Forest, Grove, Pulse, Tree};
use tracing::{error, info, warn};

use crate::growth::full_parallel;
use crate::keys::Visit;
use crate::watched::{End, Herald, News};

/// A prompt to grow, and whom to tell.
#[derive(Debug)]
pub struct Order {
    pub grove: Grove,
    /// Most sequences it may have.
    pub cap: usize,
    pub herald: Herald,
    /// Who pays for the tokens, whether or not anybody waits for them.
    pub visit: Option<Arc<Visit>>,
}

#[derive(Debug)]
struct Waiting {
    order: Order,
    number: usize,
    client: Arc<str>,
    wanted: Arc<AtomicBool>,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many wait as may.
    Full,
    /// The server is going down.
    Closed,
}

/// What the engine is doing, for whoever looks at it from outside.
#[derive(Debug, Default)]
pub struct Gauges {
    pub waiting: AtomicUsize,
    pub growing: AtomicUsize,
    pub live: AtomicUsize,
    pub set_aside: AtomicUsize,
    pub pages: AtomicUsize,
    /// Tokens decoded since the server began.
    pub decoded: AtomicUsize,
    /// What their sequences would have cost without sharing, for the trees that came back.
    pub full_parallel: AtomicUsize,
    /// Tokens of these trees.
    pub returned: AtomicUsize,
    /// Steps of the engine since the server began.
    pub steps: AtomicUsize,
    /// Runs of the engine that ended with an error.
    pub failures: AtomicUsize,
    /// The engine's last run did not fail.
    pub sound: AtomicBool,
}

/// The queue. Handlers put prompts in, the engine's thread takes them out.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Most prompts that wait.
    limit: usize,
    /// Sequences that the engine decodes at a time.
    width: usize,
    pub gauges: Gauges,
    /// Everything comes back as it is.
    cut: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    closed: bool,
    numbers: usize,
}

impl Queue {
    pub fn new(limit: usize, width: usize) -> Arc<Self> {
        let queue = Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            limit,
            width: width.max(1),
            gauges: Gauges::default(),
            cut: AtomicBool::new(false),
        };
        queue.gauges.sound.store(true, Ordering::Relaxed);
        Arc::new(queue)
    }

    /// Takes on the prompts of one request: all or none.
    pub fn submit(self: &Arc<Self>, client: &Arc<str>, orders: Vec<Order>) -> Result<Ticket, Refusal> {
        let ticket = Ticket {
            queue: Arc::clone(self),
            client: Arc::clone(client),
            wanted: Arc::new(AtomicBool::new(true)),
        };
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        if state.waiting.len() + orders.len() > self.limit {
            return Err(Refusal::Full);
        }
        self.push(&mut state, &ticket, orders, false);
        Ok(ticket)
    }

    fn push(&self, state: &mut State, ticket: &Ticket, orders: Vec<Order>, first: bool) {
        for order in orders {
            state.numbers += 1;
            let (client, wanted) = (Arc::clone(&ticket.client), Arc::clone(&ticket.wanted));
            let waiting = Waiting { order, number: state.numbers, client, wanted };
            if first {
                state.waiting.push_front(waiting);
            } else {
                state.waiting.push_back(waiting);
            }
        }
        self.gauges.waiting.store(state.waiting.len(), Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Nothing more is taken on; what is here goes on.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Everything comes back as it is, now.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
        self.sweep();
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns those that wait and are not wanted any more.
    fn sweep(&self) {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.waiting);
        let cut = self.cut.load(Ordering::Relaxed);
        let stays = |w: &Waiting| !cut && w.wanted.load(Ordering::Relaxed);
        let (stay, go): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(stays);
        state.waiting = stay;
        self.gauges.waiting.store(state.waiting.len(), Ordering::Relaxed);
        drop(state);
        for waiting in go {
            let Order { grove, herald, .. } = waiting.order;
            herald.tell(News::Back { tree: Box::new(grove.into_tree()), end: End::Cut });
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under this lock, whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an engine grow whatever comes, until the queue is closed and empty.
    pub fn serve<E: Engine>(self: &Arc<Self>, engine: &mut E) {
        let mut field = Field::new(Arc::clone(self));
        let mut failed = 0u32;
        loop {
            field.before = self.gauges.decoded.load(Ordering::Relaxed);
            match engine.grow(&mut field) {
                Ok(()) if self.is_closed() => return,
                Ok(()) => {}
                Err(error) => {
                    self.gauges.failures.fetch_add(1, Ordering::Relaxed);
                    self.gauges.sound.store(false, Ordering::Relaxed);
                    error!(%error, "the engine stopped; what was growing is lost");
                    field.fail(&error.to_string());
                    failed = if field.has_grown { 1 } else { failed + 1 };
                    field.has_grown = false;
                    self.rest(Duration::from_millis(50 << failed.min(7)));
                }
            }
        }
    }

    /// Waits before the next try, but not when the server goes down.
    fn rest(&self, time: Duration) {
        let state = self.lock();
        let _ = self.changed.wait_timeout_while(state, time, |state| !state.closed);
    }
}

/// A request's claim on what it asked for. When it is dropped, nobody wants it any more.
#[derive(Debug)]
pub struct Ticket {
    queue: Arc<Queue>,
    client: Arc<str>,
    wanted: Arc<AtomicBool>,
}

impl Ticket {
    /// Has everything come back as it is.
    pub fn cut(&self) {
        if self.wanted.swap(false, Ordering::Relaxed) {
            self.queue.sweep();
        }
    }

    /// Goes on with a tree of the same request. It has waited already, so it is first in line.
    pub fn go_on(&self, order: Order) {
        let mut state = self.queue.lock();
        self.queue.push(&mut state, self, vec![order], true);
        drop(state);
        if self.queue.cut.load(Ordering::Relaxed) || !self.wanted.load(Ordering::Relaxed) {
            self.queue.sweep();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Where a prompt's room is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// For whoever is next.
    Main,
    /// For small ones of clients with nothing growing.
    Side,
}

/// The engine's view of the queue.
#[derive(Debug)]
struct Field {
    queue: Arc<Queue>,
    growing: HashMap<usize, Growing>,
    /// Came back unfinished though they were wanted: the engine is about to say why.
    broken: Vec<(Herald, Tree)>,
    /// Tokens decoded before the run that is going on.
    before: usize,
    /// A prompt was completed in this run.
    has_grown: bool,
}

#[derive(Debug)]
struct Growing {
    herald: Herald,
    client: Arc<str>,
    wanted: Arc<AtomicBool>,
    cap: usize,
    lane: Lane,
    visit: Option<Arc<Visit>>,
    /// Tokens that the tree had before, and what they would have cost without sharing.
    had: (usize, usize),
}

impl Field {
    fn new(queue: Arc<Queue>) -> Self {
        Field { queue, growing: HashMap::new(), broken: Vec::new(), before: 0, has_grown: false }
    }

    fn used(&self, lane: Lane) -> usize {
        self.growing.values().filter(|g| g.lane == lane).map(|g| g.cap).sum()
    }

    fn growing_for(&self, client: &str) -> usize {
        self.growing.values().filter(|g| *g.client == *client).map(|g| g.cap).sum()
    }

    /// Which of those that wait comes next, if there is room for it.
    fn choose(&self, waiting: &VecDeque<Waiting>) -> Option<(usize, Lane)> {
        let mut line: Vec<(usize, usize)> =
            waiting.iter().enumerate().map(|(at, w)| (self.growing_for(&w.client), at)).collect();
        line.sort_unstable();
        let side = self.queue.width / 4;
        let main = self.queue.width - side;
        let used = self.used(Lane::Main);
        let &(_, first) = line.first()?;
        // A prompt too large for any share of the room may still have all of it.
        if used == 0 || used + waiting[first].order.cap <= main {
            return Some((first, Lane::Main));
        }
        let free = side.saturating_sub(self.used(Lane::Side)).min((side / 4).max(1));
        let fits = |&&(growing, at): &&(usize, usize)| growing == 0 && waiting[at].order.cap <= free;
        line.iter().find(fits).map(|&(_, at)| (at, Lane::Side))
    }

    /// Closes the books on a prompt.
    fn take_back(&mut self, grove: Grove) -> Option<(Herald, Tree)> {
        let growing = self.growing.remove(&grove.id)?;
        let gauges = &self.queue.gauges;
        gauges.growing.store(self.growing.len(), Ordering::Relaxed);
        let tree = grove.into_tree();
        let decoded = tree.tokens_generated() - growing.had.0;
        gauges.returned.fetch_add(decoded, Ordering::Relaxed);
        gauges.full_parallel.fetch_add(full_parallel(&tree) - growing.had.1, Ordering::Relaxed);
        // Before anybody is told: whoever has its answer may ask again at once.
        if let Some(visit) = growing.visit {
            visit.charge(decoded);
        }
        Some((growing.herald, tree))
    }

    /// Tells those that the engine has lost.
    fn fail(&mut self, why: &str) {
        for (herald, tree) in self.broken.drain(..) {
            herald.tell(News::Back { tree: Box::new(tree), end: End::Failed(why.to_owned()) });
        }
    }
}

impl Forest for Field {
    fn next(&mut self, idle: bool) -> Option<Grove> {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.lock();
        let (at, lane) = loop {
            if let Some(chosen) = self.choose(&state.waiting) {
                break chosen;
            }
            if !idle || (state.closed && state.waiting.is_empty()) {
                return None;
            }
            state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let Waiting { order, number, client, wanted } = state.waiting.remove(at)?;
        queue.gauges.waiting.store(state.waiting.len(), Ordering::Relaxed);
        drop(state);
        let Order { mut grove, cap, herald, visit } = order;
        let had = (grove.tree().tokens_generated(), full_parallel(grove.tree()));
        // The engine's names must differ; the request's own are the herald's.
        grove.id = number;
        self.growing.insert(number, Growing { herald, client, wanted, cap, lane, visit, had });
        queue.gauges.growing.store(self.growing.len(), Ordering::Relaxed);
        Some(grove)
    }

    fn done(&mut self, grove: Grove) {
        let (wanted, whole) = (self.wants(&grove), grove.is_done());
        let Some((herald, tree)) = self.take_back(grove) else { return };
        if !whole && wanted {
            self.broken.push((herald, tree));
            return;
        }
        if whole {
            self.has_grown = true;
            if !self.queue.gauges.sound.swap(true, Ordering::Relaxed) {
                info!("the engine works again");
            }
        }
        let end = if whole { End::Whole } else { End::Cut };
        herald.tell(News::Back { tree: Box::new(tree), end });
    }

    fn failed(&mut self, grove: Grove, error: &dyn Error) -> ControlFlow<()> {
        self.queue.gauges.failures.fetch_add(1, Ordering::Relaxed);
        warn!(%error, "the engine cannot go on with one request; the others grow on");
        if let Some((herald, tree)) = self.take_back(grove) {
            herald.tell(News::Back { tree: Box::new(tree), end: End::Failed(error.to_string()) });
        }
        ControlFlow::Continue(())
    }

    fn wants(&mut self, grove: &Grove) -> bool {
        let wanted = self.growing.get(&grove.id).is_some_and(|g| g.wanted.load(Ordering::Relaxed));
        wanted && !self.queue.cut.load(Ordering::Relaxed)
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        let gauges = &self.queue.gauges;
        gauges.live.store(pulse.live, Ordering::Relaxed);
        gauges.set_aside.store(pulse.waiting, Ordering::Relaxed);
        gauges.pages.store(pulse.pages, Ordering::Relaxed);
        gauges.decoded.store(self.before + pulse.decoded, Ordering::Relaxed);
        gauges.steps.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::strategy::FullParallel;
    use eager_core::{Key, Settings};
    use tokio::sync::mpsc::unbounded_channel;

    fn order(cap: usize) -> Order {
        let strategy = Box::new(FullParallel { sequences: cap });
        let grove = Grove::new(0, Key::prompt(0, 0), [1].into(), Arc::new(Settings::default()), strategy);
        Order { grove, cap, herald: Herald { prompt: 0, to: unbounded_channel().0 }, visit: None }
    }

    /// The caps of what an engine of this width is given, in order, while nothing is done.
    fn admitted(width: usize, asked: &[(&str, usize)]) -> Vec<usize> {
        let queue = Queue::new(100, width);
        let submit = |&(client, cap): &(&str, usize)| queue.submit(&client.into(), vec![order(cap)]).unwrap();
        let _tickets: Vec<Ticket> = asked.iter().map(submit).collect();
        let mut field = Field::new(Arc::clone(&queue));
        std::iter::from_fn(|| field.next(false).map(|grove| field.growing[&grove.id].cap)).collect()
    }

    #[test]
    fn who_comes_next() {
        type Case<'a> = (&'a str, usize, &'a [(&'a str, usize)], &'a [usize]);
        let cases: [Case; 7] = [
            ("in order of arrival", 256, &[("a", 2), ("b", 3), ("c", 4)], &[2, 3, 4]),
            (
                "three quarters for whoever is next",
                256,
                &[("a", 64), ("b", 64), ("c", 64), ("d", 64)],
                &[64, 64, 64],
            ),
            ("a small one need not wait", 256, &[("a", 128), ("b", 128), ("c", 1)], &[128, 1]),
            ("nor does it go before one that fits", 256, &[("a", 128), ("b", 64), ("c", 1)], &[128, 64, 1]),
            ("but one with something growing waits", 256, &[("a", 128), ("b", 128), ("a", 1)], &[128]),
            ("who has nothing goes first", 256, &[("a", 100), ("a", 5), ("b", 6)], &[100, 6, 5]),
            ("too large for any share", 8, &[("a", 64), ("b", 1), ("c", 1), ("d", 1)], &[64, 1, 1]),
        ];
        for (what, width, asked, expected) in cases {
            assert_eq!(admitted(width, asked), expected, "{what}");
        }
    }

    #[test]
    fn one_failure_is_one_clients_matter() {
        let queue = Queue::new(100, 64);
        let (to, mut told) = unbounded_channel();
        let mut failing = order(4);
        failing.herald.to = to;
        let _tickets = [failing, order(4)].map(|order| queue.submit(&"a".into(), vec![order]).unwrap());
        let mut field = Field::new(Arc::clone(&queue));
        let [first, second] = [(); 2].map(|()| field.next(false).unwrap());
        assert!(field.failed(first, &std::fmt::Error).is_continue());
        let Ok((_, News::Back { end: End::Failed(why), .. })) = told.try_recv() else {
            panic!("nobody was told")
        };
        assert_eq!(why, std::fmt::Error.to_string());
        assert!(field.wants(&second) && field.broken.is_empty());
        assert_eq!(queue.gauges.failures.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn whoever_is_gone_leaves_the_queue() {
        let queue = Queue::new(2, 8);
        let ticket = queue.submit(&"a".into(), vec![order(1), order(1)]).unwrap();
        assert_eq!(queue.submit(&"b".into(), vec![order(1)]).unwrap_err(), Refusal::Full);
        drop(ticket);
        let kept = queue.submit(&"b".into(), vec![order(1)]).unwrap();
        queue.close();
        assert_eq!(queue.submit(&"c".into(), vec![order(1)]).unwrap_err(), Refusal::Closed);
        assert_eq!(queue.gauges.waiting.load(Ordering::Relaxed), 1);
        queue.cut();
        assert_eq!(queue.gauges.waiting.load(Ordering::Relaxed), 0);
        drop(kept);
    }
}
