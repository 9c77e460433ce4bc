//! One call of [`Engine::grow`](eager_core::Engine::grow): streams bring steps, groves decide, streams are opened and
//! closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::{Forest, Grove, Pulse};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::error::RemoteError;
use crate::fleet::Fleet;
use crate::patience::random;
use crate::plot::{ENDING, Parting, Plot};
use crate::server::Server;
use crate::stream::{Errand, Fault, Kind, News, Stream, What};
use crate::traffic::Traffic;

/// How often a forest is asked whether it wants to stop, however quiet the streams are.
const TICK: Duration = Duration::from_millis(50);
/// A server sends the tokens of one step in a burst. What comes within this time of the first is taken in with it.
const BURST: Duration = Duration::from_millis(4);
/// News taken at a time.
const NEWS: usize = 256;
/// Longest time to wait for copies. A slot can be copied when its last request has stopped, which takes a tenth of a second.
const COPYING: Duration = Duration::from_secs(5);
/// Longest time for the last words of requests whose sequences are complete.
const GOODBYE: Duration = Duration::from_millis(200);
/// A sequence that fails so often in a row tries its luck elsewhere.
const ENOUGH: u32 = 3;

pub(crate) struct Run {
    fleet: Fleet,
    traffic: Arc<Traffic>,
    /// The groves being grown, oldest first: that is also their order of precedence.
    plots: BTreeMap<u64, Plot>,
    /// The streams that are open.
    streams: HashMap<u64, Open>,
    tasks: JoinSet<()>,
    to: UnboundedSender<News>,
    from: UnboundedReceiver<News>,
    /// Tells the requests of this run from those of others.
    id: u64,
    /// Numbers given to plots and streams.
    numbers: u64,
    /// Streams that their server is yet to be told to stop.
    aborts: Vec<(usize, String)>,
    /// Tokens decoded for groves that were handed back.
    retired: usize,
}

struct Open {
    /// The plot that it was opened for.
    plot: u64,
    /// The slot there that it decodes for; none when it is only to say goodbye.
    slot: Option<usize>,
    /// The server was told to end it; by this time it should have.
    ends: Option<Instant>,
    /// The server that it comes from, and the slot there, where we chose it.
    at: usize,
    seat: Option<usize>,
    /// Something has come.
    flows: bool,
    abort: AbortHandle,
}

/// A stream about to be opened.
struct Opening {
    owner: (u64, usize),
    at: usize,
    errand: Errand,
    /// The slot of the server that has the sequence's beginning and must be copied first.
    copy_of: Option<usize>,
}

/// What streams have said.
#[derive(Default)]
struct Heard {
    /// The plots that have something to decide.
    touched: BTreeSet<u64>,
    /// The plots that cannot go on.
    failed: Vec<(u64, RemoteError)>,
}

/// Lets a burst come in while this thread sleeps: woken for every packet it would do little else. All that runs here is ours,
/// so nobody is kept from anything.
fn gather() {
    std::thread::sleep(BURST);
}

impl Run {
    pub fn new(servers: &[Arc<Server>], traffic: &Arc<Traffic>) -> Self {
        let (to, from) = unbounded_channel();
        Run {
            fleet: Fleet::new(servers),
            traffic: Arc::clone(traffic),
            plots: BTreeMap::new(),
            streams: HashMap::new(),
            tasks: JoinSet::new(),
            to,
            from,
            id: random(),
            numbers: 0,
            aborts: Vec::new(),
            retired: 0,
        }
    }

    pub async fn until_done(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        loop {
            self.admit(forest)?;
            if self.plots.is_empty() {
                return Ok(());
            }
            self.abort_streams();
            self.fleet.look_after()?;
            self.open_streams().await;
            let heard = self.listen().await;
            // What the others have brought is settled in any case.
            self.settle(&heard.touched);
            self.retire(forest);
            for (plot, error) in heard.failed {
                self.give_up(plot, error, forest)?;
            }
            if forest.pulse(&self.pulse()).is_break() {
                return Ok(());
            }
        }
    }

    /// Brings back all groves as they are, and hangs up.
    pub async fn close(&mut self, forest: &mut dyn Forest) {
        if self.plots.is_empty() {
            self.hear_goodbyes().await;
        }
        for (_, plot) in std::mem::take(&mut self.plots) {
            self.traffic.waste(plot.undecided());
            forest.done(plot.grove);
        }
        self.tasks.shutdown().await;
        self.fleet.dismiss().await;
        // What was said when nobody listened any more was said in vain.
        while let Ok(news) = self.from.try_recv() {
            if let What::Steps(steps) = news.what {
                self.traffic.waste(steps.len());
            }
        }
    }

    /// The last word of a request says what the server had cached. It is on its way; who is slow is not waited for.
    async fn hear_goodbyes(&mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(GOODBYE, all).await;
    }

    /// Takes on groves while there are streams for more sequences.
    fn admit(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        loop {
            let busy = !self.plots.is_empty();
            let (home, load) = self.fleet.least_loaded(&self.loads());
            if busy && load >= 1.0 {
                return Ok(());
            }
            let Some(grove) = forest.next(!busy) else { return Ok(()) };
            let checked = self.check(&grove);
            let number = self.number();
            self.plots.insert(number, Plot::new(grove, home));
            match checked {
                Ok(()) => self.retire(forest),
                Err(error) => self.give_up(number, error, forest)?,
            }
        }
    }

    /// Sequences at each server.
    fn loads(&self) -> Vec<usize> {
        let mut loads = vec![0; self.fleet.len()];
        for plot in self.plots.values() {
            loads[plot.home] += plot.live();
        }
        loads
    }

    fn check(&self, grove: &Grove) -> Result<(), RemoteError> {
        let (prompt, more) = (grove.prompt().len(), grove.settings().max_tokens);
        if prompt == 0 {
            return Err(RemoteError::EmptyPrompt);
        }
        let asked: Vec<&str> = grove.settings().rules.asked().collect();
        if let Some((rule, why)) = self.fleet.refused().find(|(rule, _)| asked.contains(rule)) {
            return Err(RemoteError::Rule { rule, why });
        }
        match self.fleet.context() {
            Some(context) if prompt.saturating_add(more) > context => {
                Err(RemoteError::Context { prompt, more, context })
            }
            _ => Ok(()),
        }
    }

    /// The name of a stream's request. All are of one length, so that none begins another.
    fn name(&self, stream: u64) -> String {
        format!("eager-{:016x}-{stream:016x}", self.id)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Has the server stop what was closed, where it would go on for a while otherwise, and what is to end.
    fn abort_streams(&mut self) {
        for (at, name) in std::mem::take(&mut self.aborts) {
            let server = Arc::clone(self.fleet.server(at));
            if let Some((path, body)) = server.dialect.abort(&name) {
                // One that goes unanswered is no worse than none: nobody waits for its end for ever.
                self.tasks.spawn(async move { drop(timeout(ENDING, server.post(path, body)).await) });
            }
        }
    }

    /// Opens streams for the sequences that have none, as far as the servers have room.
    async fn open_streams(&mut self) {
        let now = Instant::now();
        let numbers: Vec<u64> = self.plots.keys().copied().collect();
        let mut openings = Vec::new();
        for number in numbers {
            let Some(plot) = self.plots.get(&number) else { continue };
            let (thirsty, home) = (plot.thirsty(now), plot.home);
            if !thirsty.is_empty() && self.fleet.is_away(home) {
                self.move_house(number);
            }
            openings.extend(thirsty.into_iter().filter_map(|slot| self.prepare(number, slot, now)));
        }
        self.copy_seats(&openings).await;
        openings.into_iter().for_each(|opening| self.open_stream(opening));
    }

    /// Finds a place for a stream.
    fn prepare(&mut self, plot: u64, slot: usize, now: Instant) -> Option<Opening> {
        let number = self.number();
        let name = self.name(number);
        let p = self.plots.get_mut(&plot)?;
        if !self.fleet.take_place(p.home, now) {
            return None;
        }
        let (at, mut errand) = (p.home, p.send(slot, number, name));
        let claim = self.fleet.claim_seat(at, &errand.tokens, number);
        errand.seat = claim.map(|claim| claim.seat);
        Some(Opening { owner: (plot, slot), at, errand, copy_of: claim.and_then(|claim| claim.copy_of) })
    }

    /// Copies slots of servers that can, before anything is decoded in them. Where that fails, the server will compute
    /// again what it could have copied.
    async fn copy_seats(&self, openings: &[Opening]) {
        let mut copies: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for opening in openings {
            if let (Some(from), Some(to)) = (opening.copy_of, opening.errand.seat) {
                copies.entry((opening.at, from)).or_default().push(to);
            }
        }
        let mut copying = JoinSet::new();
        for ((at, from), to) in copies {
            let server = Arc::clone(self.fleet.server(at));
            copying.spawn(async move { server.copy_slot(from, &to).await });
        }
        let _ = timeout(COPYING, copying.join_all()).await;
    }

    fn open_stream(&mut self, opening: Opening) {
        let Opening { owner, at, errand, .. } = opening;
        let (number, seat) = (errand.number, errand.seat);
        if let Some(seat) = seat {
            self.fleet.occupy_seat(at, seat);
        }
        let server = Arc::clone(self.fleet.server(at));
        let stream = Stream::new(server, Arc::clone(&self.traffic), self.to.clone(), errand);
        let abort = self.tasks.spawn(stream.run());
        let (plot, slot) = (owner.0, Some(owner.1));
        self.streams.insert(number, Open { plot, slot, ends: None, at, seat, flows: false, abort });
    }

    /// Sends the sequences of a prompt to another server, if there is one. What is still coming goes on where it is.
    fn move_house(&mut self, plot: u64) {
        let loads = self.loads();
        let Some(plot) = self.plots.get_mut(&plot) else { return };
        if let Some(home) = self.fleet.another(plot.home, &loads) {
            self.traffic.hand_over(plot.live());
            plot.home = home;
        }
    }

    /// Takes in what streams have to say, and tells whom it concerns.
    async fn listen(&mut self) -> Heard {
        let (mut news, mut heard) = (Vec::new(), Heard::default());
        // A timeout is no news.
        let _ = timeout(TICK, self.from.recv_many(&mut news, NEWS)).await;
        gather();
        while self.tasks.try_join_next().is_some() {}
        for News { stream, what } in news {
            let Some(open) = self.streams.get_mut(&stream) else {
                // Said before it was told that nobody listens any more.
                if let What::Steps(steps) = what {
                    self.traffic.waste(steps.len());
                }
                continue;
            };
            let plot = open.plot;
            match (what, open.slot) {
                (What::Steps(steps), Some(slot)) => {
                    if !std::mem::replace(&mut open.flows, true) {
                        self.fleet.serves(open.at);
                    }
                    self.plots.entry(plot).and_modify(|p| p.arrive(slot, steps));
                    heard.touched.insert(plot);
                }
                // It was to say goodbye, or to end.
                (What::Steps(steps), None) => {
                    self.traffic.waste(steps.len());
                    if open.ends.is_none_or(|by| by < Instant::now()) {
                        self.part(Parting::Close(stream));
                    }
                }
                (What::Over, slot) => {
                    self.vacate(stream);
                    if let Some(slot) = slot {
                        self.plots.entry(plot).and_modify(|p| p.dry(slot));
                    }
                }
                (What::Broken(fault), slot) => {
                    let at = open.at;
                    self.vacate(stream);
                    // One that was to end has ended: that is no fault.
                    if let Some(slot) = slot
                        && let Err(error) = self.mend(plot, slot, at, fault)
                    {
                        heard.failed.push((plot, error));
                    }
                }
            }
        }
        heard
    }

    /// A request broke off: sees to another, or says why there will be none.
    fn mend(&mut self, plot: u64, slot: usize, at: usize, fault: Fault) -> Result<(), RemoteError> {
        let (kind, reason, after) = match fault {
            Fault::Passing { kind, reason, after } => (kind, reason, after),
            Fault::Lasting(error) => return Err(error),
        };
        let server = Arc::clone(self.fleet.server(at));
        let Some(p) = self.plots.get_mut(&plot) else { return Ok(()) };
        let trouble = p.broke(slot, |failures| server.patience.before_attempt(failures, after));
        match kind {
            Kind::Busy => self.fleet.is_busy(at, after),
            Kind::Away => self.fleet.goes_away(at, &reason),
            Kind::Glitch if trouble.failures >= ENOUGH && p.home == at => self.move_house(plot),
            Kind::Glitch => {}
        }
        // A server that serves others will serve this one in its turn.
        let waits_in_line = kind == Kind::Busy && self.fleet.is_serving(at);
        if trouble.lasted() >= server.patience.give_up && !waits_in_line {
            let (url, seconds) = (server.url.clone(), trouble.lasted().as_secs());
            return Err(RemoteError::GaveUp { url, seconds, attempts: trouble.failures, reason });
        }
        Ok(())
    }

    /// A stream is no more.
    fn vacate(&mut self, stream: u64) -> Option<Open> {
        let open = self.streams.remove(&stream)?;
        self.fleet.leave_place(open.at);
        self.plots.entry(open.plot).and_modify(|plot| plot.ended(stream));
        if let Some(seat) = open.seat {
            let plot = open.slot.and_then(|slot| Some((self.plots.get(&open.plot)?, slot)));
            self.fleet.leave_seat(open.at, seat, plot.map(|(plot, slot)| plot.tokens(slot)));
        }
        Some(open)
    }

    fn settle(&mut self, touched: &BTreeSet<u64>) {
        for plot in touched {
            let Some(plot) = self.plots.get_mut(plot) else { continue };
            let settled = plot.settle(self.fleet.sharing(plot.home));
            self.traffic.waste(settled.wasted);
            for parting in settled.partings {
                self.part(parting);
            }
        }
    }

    fn part(&mut self, parting: Parting) {
        match parting {
            Parting::Close(stream) => {
                if let Some(open) = self.vacate(stream) {
                    open.abort.abort();
                    self.aborts.push((open.at, self.name(stream)));
                }
            }
            Parting::End(stream) => {
                if let Some(open) = self.streams.get_mut(&stream) {
                    (open.slot, open.ends) = (None, Some(Instant::now() + ENDING));
                    let at = open.at;
                    self.aborts.push((at, self.name(stream)));
                }
            }
            Parting::Pass(stream, slot) => {
                self.streams.entry(stream).and_modify(|open| open.slot = Some(slot));
            }
            Parting::Release(stream) => {
                self.streams.entry(stream).and_modify(|open| open.slot = None);
            }
        }
    }

    /// Hands back the groves that are done, and those that nobody wants any more.
    fn retire(&mut self, forest: &mut dyn Forest) {
        let mut retires = |plot: &Plot| plot.grove.is_done() || !forest.wants(&plot.grove);
        let retiring = self.plots.iter().filter(|(_, plot)| retires(plot)).map(|(&number, _)| number);
        for number in retiring.collect::<Vec<_>>() {
            if let Some(grove) = self.clear(number) {
                forest.done(grove);
            }
        }
    }

    /// Hands back a grove that cannot be grown. An error ends the run.
    fn give_up(&mut self, plot: u64, error: RemoteError, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        match self.clear(plot).map(|grove| forest.failed(grove, &error)) {
            Some(ControlFlow::Break(())) => Err(error),
            // Another of its sequences has failed before, or it goes on without this one.
            Some(ControlFlow::Continue(())) | None => Ok(()),
        }
    }

    /// Closes a plot, and whatever still comes in for it.
    fn clear(&mut self, plot: u64) -> Option<Grove> {
        let mut plot = self.plots.remove(&plot)?;
        self.traffic.waste(plot.undecided());
        for stream in plot.hang_up() {
            self.part(Parting::Close(stream));
        }
        self.retired += plot.decoded();
        Some(plot.grove)
    }

    fn pulse(&self) -> Pulse {
        let live = self.streams.values().filter(|open| open.slot.is_some()).count();
        Pulse {
            decoded: self.retired + self.plots.values().map(Plot::decoded).sum::<usize>(),
            live,
            waiting: self.plots.values().map(Plot::live).sum::<usize>().saturating_sub(live),
            pages: 0,
        }
    }
}
