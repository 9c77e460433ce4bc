//! A server from its start to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use eager_core::Engine;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::app::{App, router};
use crate::connections;
use crate::descriptors::room_for;
use crate::model::Model;
use crate::options::Options;
use crate::theta;

/// Threads that speak HTTP. It is little work beside decoding, whose threads want the processors.
const WORKERS: usize = 2;
/// Threads for texts and answers.
const READERS: usize = 4;
/// How long answers may take to be written once everything has come back.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {error}; name another --host or --port")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("cannot start the server: {0}")]
    Setup(std::io::Error),
    #[error("the engine's thread has ended; see the log for why")]
    Engine,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    app: Arc<App>,
    address: SocketAddr,
    engine: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Listens, and lets the engine grow whatever is asked.
    pub fn start<E>(mut engine: E, model: Model, mut options: Options) -> Result<Self, ServeError>
    where
        E: Engine + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(READERS)
            .thread_name("eager-http")
            .enable_all()
            .build()
            .map_err(ServeError::Setup)?;
        let address = options.address;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(|error| ServeError::Listen { address, error })?;
        let address = listener.local_addr().map_err(ServeError::Setup)?;
        if !address.ip().is_loopback() && options.keys.is_none() {
            warn!(%address, "anybody who can reach this address may use it; --keys FILE says who may");
        }
        options.limits.connections = room_for(options.limits.connections);
        let app = Arc::new(App::new(model, options));
        let grown = Arc::clone(&app);
        let grow = move || {
            theta::find(&mut engine, &grown);
            grown.queue.serve(&mut engine);
        };
        let engine = std::thread::Builder::new()
            .name("eager-engine".to_owned())
            .spawn(grow)
            .map_err(ServeError::Setup)?;
        let (stop, stopped) = watch::channel(false);
        let (limits, open) = (app.options.limits.clone(), Arc::clone(&app.connections));
        let serving =
            runtime.spawn(connections::serve(listener, router(Arc::clone(&app)), limits, open, stopped));
        info!(%address, model = app.model.name, "serving");
        Ok(Server { runtime, app, address, engine: Some(engine), stop, serving })
    }

    /// Where it listens: the port is known even if any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until a signal comes, SIGINT or SIGTERM, and then ends as [`Server::stop`] does. A second signal cuts
    /// everything off at once.
    pub fn run(self) -> Result<(), ServeError> {
        let died = self.runtime.block_on(async {
            tokio::select! {
                signal = signal() => signal.map(|()| false).map_err(ServeError::Setup),
                () = self.engine_ended() => Ok(true),
            }
        })?;
        if died {
            self.app.queue.cut();
            self.runtime.shutdown_timeout(FAREWELL);
            return Err(ServeError::Engine);
        }
        info!("going down; what is under way may finish");
        let app = Arc::clone(&self.app);
        self.runtime.spawn(async move {
            if signal().await.is_ok() {
                app.queue.cut();
            }
        });
        self.stop()
    }

    /// Takes nothing more, lets requests finish for as long as the limits say, returns the rest as it is, and ends.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.app.queue.close();
        let _ = self.stop.send(true);
        let grace = self.app.options.limits.grace;
        let app = Arc::clone(&self.app);
        let serving = &mut self.serving;
        self.runtime.block_on(async move {
            if tokio::time::timeout(grace, &mut *serving).await.is_err() {
                info!("time is up; what is there is returned");
                app.queue.cut();
                // Whoever does not take its answer now does not get it.
                let _ = tokio::time::timeout(FAREWELL, serving).await;
            }
        });
        self.app.queue.cut();
        let ended = self.engine.take().map(JoinHandle::join);
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        if matches!(ended, Some(Err(_))) { Err(ServeError::Engine) } else { Ok(()) }
    }

    /// Only a panic ends it while the server runs.
    async fn engine_ended(&self) {
        while self.engine.as_ref().is_some_and(|engine| !engine.is_finished()) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Waits for somebody who wants us to end.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = tokio::signal::ctrl_c() => ended,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
