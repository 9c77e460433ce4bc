//! Accepting connections, when not everybody who connects means well.
//!
//! A connection costs memory, and one that says nothing costs it for nothing. There is a limit on how many there are;
//! when it is reached, one that has not asked for anything yet, the oldest first, makes room for the new one, or else one
//! that is idle between requests. So thousands that only sit there cannot keep out one that asks. Heads and bodies must arrive within a time, and bodies be of a size.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tower_service::Service;
use tracing::{debug, warn};

use crate::error::ApiError;
use crate::options::Limits;

/// The connections that are open.
#[derive(Debug, Default)]
pub struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    numbers: AtomicUsize,
    /// How many were closed to make room.
    pub evicted: AtomicUsize,
}

/// Who is at the other end, for handlers to find among a request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A connection as the others see it.
#[derive(Debug)]
struct Connection {
    begun: Instant,
    /// When a whole request had come that is still being answered, in milliseconds after the beginning; [`IDLE`] without.
    busy_since: AtomicU64,
    /// There has been one at some time.
    known: AtomicBool,
    leave: Notify,
}

/// No request is being answered.
const IDLE: u64 = u64::MAX;

impl Connection {
    fn new() -> Self {
        Connection {
            begun: Instant::now(),
            busy_since: AtomicU64::new(IDLE),
            known: AtomicBool::new(false),
            leave: Notify::new(),
        }
    }

    fn is_busy(&self) -> bool {
        self.busy_since.load(Ordering::Relaxed) != IDLE
    }

    /// A whole request has come.
    fn work(&self) {
        self.busy_since.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
    }

    fn rest(&self) {
        self.busy_since.store(IDLE, Ordering::Relaxed);
    }

    /// Has its answer taken longer than this?
    fn is_stuck(&self, most: Duration) -> bool {
        let since = self.busy_since.load(Ordering::Relaxed);
        since != IDLE && self.begun.elapsed() > Duration::from_millis(since) + most
    }
}

impl Connections {
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes on a connection. Where there are too many, an idle one has to go; where none is idle, this one.
    fn enter(&self, limit: usize) -> Option<(u64, Arc<Connection>)> {
        let mut open = self.lock();
        if open.len() >= limit {
            let idle = open.iter().filter(|(_, c)| !c.is_busy());
            let idle = idle.min_by_key(|(number, c)| (c.known.load(Ordering::Relaxed), **number));
            let number = *idle?.0;
            let leaving = open.remove(&number)?;
            leaving.leave.notify_one();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) as u64;
        let connection = Arc::new(Connection::new());
        open.insert(number, Arc::clone(&connection));
        Some((number, connection))
    }

    fn leave(&self, number: u64) {
        self.lock().remove(&number);
    }
}

/// Serves connections until `stop` says so; then waits until those that are being answered have had their answer.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    connections: Arc<Connections>,
    mut stop: watch::Receiver<bool>,
) {
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|&stop| stop) => break,
        };
        while tasks.try_join_next().is_some() {}
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: somebody has to leave first.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some((number, connection)) = connections.enter(limits.connections) else {
            debug!(%peer, "too many connections are busy");
            continue;
        };
        let (router, limits, connections) = (router.clone(), limits.clone(), Arc::clone(&connections));
        let stop = stop.clone();
        tasks.spawn(async move {
            talk(stream, peer, router, &limits, &connection, stop).await;
            connections.leave(number);
        });
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

async fn talk(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: &Limits,
    connection: &Arc<Connection>,
    mut stop: watch::Receiver<bool>,
) {
    // Tokens are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let (router, connection) = (router.clone(), Arc::clone(connection));
        async move {
            let request = match gather(request, limits).await {
                Ok(request) => request,
                Err(error) => return Ok::<_, Infallible>(error.into_response()),
            };
            connection.work();
            Ok(answer(router, request, peer, Done { connection }).await)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.patience).max_buf_size(64 << 10);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    debug!(%peer, %error, "a connection broke off");
                }
                return;
            }
            () = connection.leave.notified() => return,
            () = tokio::time::sleep(limits.patience) => {
                // All requests end in their time; what has not is an answer that nobody reads.
                if connection.is_stuck(limits.time + limits.patience) {
                    debug!(%peer, "a client does not read its answer");
                    return;
                }
            }
            _ = stop.wait_for(|&stop| stop), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Reads the whole request, as long as it is not too long and does not take too long.
async fn gather(request: Request<Incoming>, limits: &Limits) -> Result<Request<Bytes>, ApiError> {
    let too_large = || {
        let message = format!("the request is larger than {} bytes", limits.body);
        ApiError { code: Some("request_too_large"), ..ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message) }
    };
    let (head, body) = request.into_parts();
    // One that says beforehand that it is too long need not be read.
    if body.size_hint().lower() > limits.body as u64 {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(limits.patience, Limited::new(body, limits.body).collect());
    match whole.await {
        Ok(Ok(whole)) => Ok(Request::from_parts(head, whole.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive")),
    }
}

async fn answer(mut router: Router, request: Request<Bytes>, peer: SocketAddr, done: Done) -> Response<Body> {
    let mut request = request.map(Body::from);
    request.extensions_mut().insert(Peer(peer));
    // A router is always ready and never fails.
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    // The connection is busy until the last byte of the answer is on its way.
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &done;
            frame
        }))
    })
}

/// Marks a connection as idle when its answer is over.
#[derive(Debug)]
struct Done {
    connection: Arc<Connection>,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.connection.rest();
    }
}
