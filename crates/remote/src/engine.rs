//! The loop: streams bring steps, groves decide, streams are opened and closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use eager_core::{Engine, Forest, Grove, Pulse};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::dialect::Dialect;
use crate::error::RemoteError;
use crate::patience::{Patience, random};
use crate::plot::{Parting, Plot};
use crate::server::Server;
use crate::stream::{News, Stream, What};
use crate::traffic::Traffic;

/// How often a forest is asked whether it wants to stop, however quiet the streams are.
const TICK: Duration = Duration::from_millis(50);
/// News taken at a time.
const NEWS: usize = 256;

/// How to speak to a server. Everything may be left to be found out.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the server is, for one that hides it.
    pub dialect: Option<Dialect>,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// The model's name, where a server has several.
    pub model: Option<String>,
    /// Most sequences decoded at a time; by default what the server says.
    pub streams: Option<usize>,
    pub patience: Patience,
}

/// A server that decodes.
///
/// It brings its own single-threaded runtime and blocks while it grows, like any engine: a program that is
/// asynchronous itself gives it a thread of its own.
#[derive(Debug)]
pub struct RemoteEngine {
    server: Arc<Server>,
    runtime: Runtime,
    traffic: Arc<Traffic>,
}

impl RemoteEngine {
    /// Finds out what is at this address. Takes no longer than [`Patience::connect`], whatever is there.
    pub fn connect(url: &str, options: &Options) -> Result<Self, RemoteError> {
        // One thread: all that is done here is to wait and to read small messages.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Setup { reason: error.to_string() })?;
        let server = runtime.block_on(async {
            let server = Server::connect(url, options).await;
            hang_up().await;
            server
        });
        let server = Arc::new(server?);
        Ok(RemoteEngine { server, runtime, traffic: Arc::default() })
    }

    pub fn dialect(&self) -> Dialect {
        self.server.dialect
    }

    /// The model's name at the server.
    pub fn model(&self) -> &str {
        &self.server.model
    }

    /// Most tokens of a sequence with its prompt, where the server says so.
    pub fn context(&self) -> Option<usize> {
        self.server.context
    }

    /// Most sequences decoded at a time.
    pub fn streams(&self) -> usize {
        self.server.streams
    }

    /// What goes over the wire. What is returned can be asked while the engine runs.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }
}

impl Engine for RemoteEngine {
    type Error = RemoteError;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        let (to, from) = unbounded_channel();
        let mut run = Run {
            server: Arc::clone(&self.server),
            traffic: Arc::clone(&self.traffic),
            plots: BTreeMap::new(),
            streams: HashMap::new(),
            tasks: JoinSet::new(),
            to,
            from,
            id: random(),
            numbers: 0,
            aborts: Vec::new(),
            retired: 0,
        };
        self.runtime.block_on(async {
            let result = run.until_done(forest).await;
            run.give_back(forest);
            run.tasks.shutdown().await;
            run.write_off();
            hang_up().await;
            result
        })
    }
}

/// Lets the connections that nobody uses any more be closed. They are tasks of their own, and nothing runs here between one
/// call and the next: the server would go on decoding for nobody, or keep a thread for us.
async fn hang_up() {
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..100 {
        if metrics.num_alive_tasks() == 0 {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// One call of [`Engine::grow`].
struct Run {
    server: Arc<Server>,
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
    /// The names of streams that the server is yet to be told to stop.
    aborts: Vec<String>,
    /// Tokens decoded for groves that were handed back.
    retired: usize,
}

struct Open {
    /// The plot and the slot that it decodes for; nobody when it is only to say goodbye.
    owner: Option<(u64, usize)>,
    abort: AbortHandle,
}

/// What streams have said.
#[derive(Default)]
struct Heard {
    /// The plots that have something to decide.
    touched: BTreeSet<u64>,
    failure: Option<RemoteError>,
}

impl Run {
    async fn until_done(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        loop {
            self.admit(forest)?;
            if self.plots.is_empty() {
                return Ok(());
            }
            self.abort_streams().await;
            self.open_streams();
            let heard = self.listen().await;
            self.settle(&heard.touched);
            self.retire(forest);
            if let Some(error) = heard.failure {
                return Err(error);
            }
            if forest.pulse(&self.pulse()).is_break() {
                return Ok(());
            }
        }
    }

    /// Takes on groves while there are streams for more sequences.
    fn admit(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        loop {
            let busy = !self.plots.is_empty();
            if busy && self.plots.values().map(Plot::live).sum::<usize>() >= self.server.streams {
                return Ok(());
            }
            let Some(grove) = forest.next(!busy) else { return Ok(()) };
            let checked = self.check(&grove);
            let number = self.number();
            self.plots.insert(number, Plot::new(grove));
            checked?;
            self.retire(forest);
        }
    }

    fn check(&self, grove: &Grove) -> Result<(), RemoteError> {
        let (prompt, more) = (grove.prompt().len(), grove.settings().max_tokens);
        if prompt == 0 {
            return Err(RemoteError::EmptyPrompt);
        }
        match self.server.context {
            Some(context) if prompt.saturating_add(more) > context => {
                Err(RemoteError::Context { prompt, more, context })
            }
            _ => Ok(()),
        }
    }

    /// What the names of a stream's requests begin with. All are of one length, so that none begins another.
    fn name(&self, stream: u64) -> String {
        format!("eager-{:016x}-{stream:016x}-", self.id)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Has the server stop what was closed, where it would go on for a while otherwise. The answer is waited for: a
    /// sequence's prefix can be used again only when it has stopped.
    async fn abort_streams(&mut self) {
        let mut aborts = JoinSet::new();
        for name in std::mem::take(&mut self.aborts) {
            let server = Arc::clone(&self.server);
            if let Some((path, body)) = server.dialect.abort(&name) {
                aborts.spawn(async move { drop(server.post(path, body).await) });
            }
        }
        // One that goes unanswered is no worse than none: the connection is closed already.
        let _ = timeout(Duration::from_secs(1), aborts.join_all()).await;
    }

    /// Opens streams for the sequences that have none, as far as the server has room.
    fn open_streams(&mut self) {
        let thirsty = |(&plot, p): (&u64, &Plot)| {
            p.thirsty().into_iter().map(move |slot| (plot, slot)).collect::<Vec<_>>()
        };
        let free = self.server.streams.saturating_sub(self.streams.len());
        if free == 0 {
            return;
        }
        let wanted: Vec<(u64, usize)> = self.plots.iter().flat_map(thirsty).take(free).collect();
        for (plot, slot) in wanted {
            let number = self.number();
            let name = self.name(number);
            let Some(errand) = self.plots.get_mut(&plot).map(|p| p.send(slot, number, name)) else {
                continue;
            };
            let stream =
                Stream::new(Arc::clone(&self.server), Arc::clone(&self.traffic), self.to.clone(), errand);
            let abort = self.tasks.spawn(stream.run());
            self.streams.insert(number, Open { owner: Some((plot, slot)), abort });
        }
    }

    /// Takes in what streams have to say, and tells whom it concerns.
    async fn listen(&mut self) -> Heard {
        let (mut news, mut heard) = (Vec::new(), Heard::default());
        // A timeout is no news.
        let _ = timeout(TICK, self.from.recv_many(&mut news, NEWS)).await;
        while self.tasks.try_join_next().is_some() {}
        for News { stream, what } in news {
            let owner = self.streams.get(&stream).map(|open| open.owner);
            match (what, owner) {
                (What::Steps(steps), Some(Some((plot, slot)))) => {
                    self.plots.entry(plot).and_modify(|p| p.arrive(slot, steps));
                    heard.touched.insert(plot);
                }
                // Said before it was told that nobody listens any more, or instead of goodbye.
                (What::Steps(steps), _) => {
                    self.traffic.waste(steps.len());
                    self.part(Parting::Close(stream));
                }
                (What::Over, Some(owner)) => {
                    self.streams.remove(&stream);
                    if let Some((plot, slot)) = owner {
                        self.plots.entry(plot).and_modify(|p| p.dry(slot));
                    }
                }
                // What the others have brought is still settled.
                (What::Failed(error), Some(Some(_))) => heard.failure = Some(error),
                (What::Failed(_), _) => self.part(Parting::Close(stream)),
                (What::Over, None) => {}
            }
        }
        heard
    }

    fn settle(&mut self, touched: &BTreeSet<u64>) {
        for plot in touched {
            let Some(plot) = self.plots.get_mut(plot) else { continue };
            let settled = plot.settle();
            self.traffic.waste(settled.wasted);
            for parting in settled.partings {
                self.part(parting);
            }
        }
    }

    fn part(&mut self, parting: Parting) {
        match parting {
            Parting::Close(stream) => {
                if let Some(open) = self.streams.remove(&stream) {
                    open.abort.abort();
                    self.aborts.push(self.name(stream));
                }
            }
            Parting::Release(stream) => {
                self.streams.entry(stream).and_modify(|open| open.owner = None);
            }
        }
    }

    /// Hands back the groves that are done, and those that nobody wants any more.
    fn retire(&mut self, forest: &mut dyn Forest) {
        let retires = |plot: &Plot, forest: &mut dyn Forest| plot.grove.is_done() || !forest.wants(&plot.grove);
        let retiring = self.plots.iter().filter(|(_, plot)| retires(plot, forest)).map(|(&number, _)| number);
        for number in retiring.collect::<Vec<_>>() {
            let Some(mut plot) = self.plots.remove(&number) else { continue };
            self.traffic.waste(plot.undecided());
            for stream in plot.hang_up() {
                self.part(Parting::Close(stream));
            }
            self.retired += plot.decoded();
            forest.done(plot.grove);
        }
    }

    fn give_back(&mut self, forest: &mut dyn Forest) {
        for (_, plot) in std::mem::take(&mut self.plots) {
            self.traffic.waste(plot.undecided());
            forest.done(plot.grove);
        }
    }

    /// What was said when nobody listened any more was said in vain.
    fn write_off(&mut self) {
        while let Ok(news) = self.from.try_recv() {
            if let What::Steps(steps) = news.what {
                self.traffic.waste(steps.len());
            }
        }
    }

    fn pulse(&self) -> Pulse {
        let live = self.streams.values().filter(|open| open.owner.is_some()).count();
        Pulse {
            decoded: self.retired + self.plots.values().map(Plot::decoded).sum::<usize>(),
            live,
            waiting: self.plots.values().map(Plot::live).sum::<usize>().saturating_sub(live),
            pages: 0,
        }
    }
}
