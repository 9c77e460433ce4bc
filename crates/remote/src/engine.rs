//! The engine: one server or many, behind the interface that all engines have.

use std::sync::Arc;
use std::time::Duration;

use eager_core::{Engine, Forest};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::dialect::Dialect;
use crate::error::RemoteError;
use crate::patience::Patience;
use crate::run::Run;
use crate::server::Server;
use crate::traffic::Traffic;

/// How to speak to a server. Everything may be left to be found out.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the server is, for one that hides it.
    pub dialect: Option<Dialect>,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// The model's name, where a server has several.
    pub model: Option<String>,
    /// Most sequences decoded at a time on one server; by default what it says.
    pub streams: Option<usize>,
    pub patience: Patience,
}

/// Servers that decode: one, or many that serve the same model.
///
/// It brings its own single-threaded runtime and blocks while it grows, like any engine: a program that is
/// asynchronous itself gives it a thread of its own.
#[derive(Debug)]
pub struct RemoteEngine {
    /// Never empty.
    servers: Vec<Arc<Server>>,
    runtime: Runtime,
    traffic: Arc<Traffic>,
}

impl RemoteEngine {
    /// Finds out what is at this address. Takes no longer than [`Patience::connect`], whatever is there.
    pub fn connect(url: &str, options: &Options) -> Result<Self, RemoteError> {
        Self::connect_all(&[url], options)
    }

    /// The same for many addresses, at the same time. All must be there, and serve the same model.
    pub fn connect_all<S: AsRef<str>>(urls: &[S], options: &Options) -> Result<Self, RemoteError> {
        // One thread: all that is done here is to wait and to read small messages.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Setup { reason: error.to_string() })?;
        let servers = runtime.block_on(async {
            let servers = reach(urls, options).await;
            hang_up().await;
            servers
        })?;
        Ok(RemoteEngine { servers, runtime, traffic: Arc::default() })
    }

    pub fn dialect(&self) -> Dialect {
        self.servers[0].dialect
    }

    /// The rules about tokens that one of the servers cannot follow, and why.
    pub fn refused(&self) -> Vec<(&'static str, &'static str)> {
        self.servers.iter().flat_map(|server| server.dialect.refused()).copied().collect()
    }

    /// The model's name at the server.
    pub fn model(&self) -> &str {
        &self.servers[0].model
    }

    /// Most tokens of a sequence with its prompt, where the servers say so.
    pub fn context(&self) -> Option<usize> {
        self.servers.iter().filter_map(|server| server.context).min()
    }

    /// Most sequences decoded at a time, on all servers together.
    pub fn streams(&self) -> usize {
        self.servers.iter().map(|server| server.streams).sum()
    }

    pub(crate) fn first(&self) -> &Arc<Server> {
        &self.servers[0]
    }

    /// Can all servers copy what they have computed of a sequence for its twin?
    pub(crate) fn copies_slots(&self) -> bool {
        self.servers.iter().all(|server| server.seats > 0)
    }

    /// Requests that the first server is working on, where it shows that.
    pub(crate) fn running(&self) -> Option<usize> {
        self.runtime.block_on(async {
            let running = self.first().running().await;
            hang_up().await;
            running
        })
    }

    /// What would make the servers faster, if anything is known.
    pub fn advice(&self) -> Option<String> {
        let poor =
            self.servers.iter().find(|server| server.dialect == Dialect::LlamaServer && server.seats == 0)?;
        Some(format!(
            "{} computes the prefix of every fork again; started with --slot-save-path FOLDER --no-kv-unified it need not",
            poor.url
        ))
    }

    /// Where the servers are.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.url.as_str())
    }

    /// What goes over the wire. What is returned can be asked while the engine runs.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }
}

impl Engine for RemoteEngine {
    type Error = RemoteError;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), RemoteError> {
        let mut run = Run::new(&self.servers, &self.traffic);
        self.runtime.block_on(async {
            let result = run.until_done(forest).await;
            run.close(forest).await;
            hang_up().await;
            result
        })
    }
}

/// Contacts all servers at once.
async fn reach<S: AsRef<str>>(urls: &[S], options: &Options) -> Result<Vec<Arc<Server>>, RemoteError> {
    let mut contacts = JoinSet::new();
    for (place, url) in urls.iter().enumerate() {
        let (url, options) = (url.as_ref().to_owned(), options.clone());
        contacts.spawn(async move { (place, Server::connect(&url, &options).await) });
    }
    let mut answers = contacts.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    let servers: Vec<Server> = answers.into_iter().map(|(_, answer)| answer).collect::<Result<_, _>>()?;
    let first = servers.first().ok_or(RemoteError::NoServer)?;
    if let Some(other) = servers.iter().find(|server| server.model != first.model) {
        return Err(RemoteError::Models {
            url: first.url.clone(),
            model: first.model.clone(),
            other_url: other.url.clone(),
            other: other.model.clone(),
        });
    }
    let mut urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
    urls.sort_unstable();
    if let Some(twice) = urls.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(RemoteError::Twice { url: twice[0].to_owned() });
    }
    Ok(servers.into_iter().map(Arc::new).collect())
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
