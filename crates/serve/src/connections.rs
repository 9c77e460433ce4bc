//! Accepting connections, when not everybody who connects means well.
//!
//! A connection costs memory, and one that says nothing costs it for nothing. There is a limit on how many there are;
//! when it is reached, the one that has been idle for longest makes room for the new one, whether it has never asked or
//! has had its answer. So thousands that only sit there cannot keep out one that asks, and one that has just come has as
//! many others before it as there are places. Heads and bodies must arrive within a time, and bodies be of a size.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
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
    places: Mutex<Places>,
    /// How many were closed to make room.
    pub evicted: AtomicUsize,
}

/// Who has a place, by the turn that it took when it came or when its last answer was over.
#[derive(Debug, Default)]
struct Places {
    /// No request of theirs is being answered. The first has been idle for longest.
    idle: BTreeMap<u64, Arc<Connection>>,
    busy: HashSet<u64>,
    turns: u64,
}

/// Who is at the other end, for handlers to find among a request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A connection as the others see it.
#[derive(Debug)]
struct Connection {
    begun: Instant,
    /// Written only by who has the places locked.
    turn: AtomicU64,
    /// When a whole request had come that is still being answered, in milliseconds after the beginning; [`IDLE`] without.
    busy_since: AtomicU64,
    leave: Notify,
}

/// No request is being answered.
const IDLE: u64 = u64::MAX;

impl Connection {
    /// Has its answer taken longer than this?
    fn is_stuck(&self, most: Duration) -> bool {
        let since = self.busy_since.load(Ordering::Relaxed);
        since != IDLE && self.begun.elapsed() > Duration::from_millis(since) + most
    }
}

impl Places {
    fn count(&self) -> usize {
        self.idle.len() + self.busy.len()
    }

    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

/// One that had to leave is in none of the places, and then nothing changes for it.
impl Connections {
    pub fn count(&self) -> usize {
        self.lock().count()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes on a connection. Where there are too many, an idle one has to go; where none is idle, this one.
    fn enter(&self, limit: usize) -> Option<Arc<Connection>> {
        let mut places = self.lock();
        if places.count() >= limit && !self.evict(&mut places) {
            return None;
        }
        let turn = places.turn();
        let connection = Arc::new(Connection {
            begun: Instant::now(),
            turn: AtomicU64::new(turn),
            busy_since: AtomicU64::new(IDLE),
            leave: Notify::new(),
        });
        places.idle.insert(turn, Arc::clone(&connection));
        Some(connection)
    }

    /// Closes the connection that has been idle for longest, where there is one.
    fn evict(&self, places: &mut Places) -> bool {
        let Some((_, leaving)) = places.idle.pop_first() else { return false };
        leaving.leave.notify_one();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A whole request has come.
    fn work(&self, connection: &Connection) {
        let since = connection.begun.elapsed().as_millis() as u64;
        connection.busy_since.store(since, Ordering::Relaxed);
        let mut places = self.lock();
        let turn = connection.turn.load(Ordering::Relaxed);
        if places.idle.remove(&turn).is_some() {
            places.busy.insert(turn);
        }
    }

    /// It has had its answer.
    fn rest(&self, connection: &Arc<Connection>) {
        connection.busy_since.store(IDLE, Ordering::Relaxed);
        let mut places = self.lock();
        if places.busy.remove(&connection.turn.load(Ordering::Relaxed)) {
            let turn = places.turn();
            connection.turn.store(turn, Ordering::Relaxed);
            places.idle.insert(turn, Arc::clone(connection));
        }
    }

    fn leave(&self, connection: &Connection) {
        let mut places = self.lock();
        let turn = connection.turn.load(Ordering::Relaxed);
        places.idle.remove(&turn);
        places.busy.remove(&turn);
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
                // Out of file descriptors, most likely, whoever has them: somebody has to leave first.
                if connections.evict(&mut connections.lock()) {
                    debug!(%error, "an idle connection makes room");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                } else {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                continue;
            }
        };
        let Some(connection) = connections.enter(limits.connections) else {
            debug!(%peer, "too many connections are busy");
            continue;
        };
        let (router, limits, connections) = (router.clone(), limits.clone(), Arc::clone(&connections));
        let stop = stop.clone();
        tasks.spawn(async move {
            talk(stream, peer, router, &limits, (&connections, &connection), stop).await;
            connections.leave(&connection);
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
    (connections, connection): (&Arc<Connections>, &Arc<Connection>),
    mut stop: watch::Receiver<bool>,
) {
    // Tokens are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let router = router.clone();
        let done = Done { connections: Arc::clone(connections), connection: Arc::clone(connection) };
        async move {
            let request = gather(request, limits).await;
            done.connections.work(&done.connection);
            Ok::<_, Infallible>(answer(router, request, peer, done).await)
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

/// Reads the whole request, as long as it is not too long and does not take too long. Otherwise it comes without its body,
/// and with the error among its extensions: its answer goes the way of all others.
async fn gather(request: Request<Incoming>, limits: &Limits) -> Request<Bytes> {
    let (mut head, body) = request.into_parts();
    let body = read(body, limits).await.unwrap_or_else(|error| {
        head.extensions.insert(error);
        Bytes::new()
    });
    Request::from_parts(head, body)
}

async fn read(body: Incoming, limits: &Limits) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!("the request is larger than {} bytes", limits.body);
        ApiError { code: Some("request_too_large"), ..ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message) }
    };
    // One that says beforehand that it is too long need not be read.
    if body.size_hint().lower() > limits.body as u64 {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(limits.patience, Limited::new(body, limits.body).collect());
    match whole.await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
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
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.connections.rest(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has it been told to leave?
    fn gone(connections: &Connections, connection: &Connection) -> bool {
        let (places, turn) = (connections.lock(), connection.turn.load(Ordering::Relaxed));
        !places.idle.contains_key(&turn) && !places.busy.contains(&turn)
    }

    #[test]
    fn whoever_has_been_idle_for_longest_makes_room() {
        let connections = Connections::default();
        let enter = || connections.enter(3);
        let [asking, silent, answered] = [0; 3].map(|_| enter().unwrap());
        connections.work(&asking);
        connections.work(&answered);
        connections.rest(&answered);
        let fourth = enter().unwrap();
        assert!(gone(&connections, &silent), "it came before the answer of the other was over");
        let fifth = enter().unwrap();
        assert!(gone(&connections, &answered), "to have asked once is no right to stay");
        assert!(!gone(&connections, &fourth), "the younger ones have their time");
        connections.rest(&asking);
        assert!(enter().is_some() && gone(&connections, &fourth));
        assert!(!gone(&connections, &asking) && !gone(&connections, &fifth));
        assert_eq!((connections.count(), connections.evicted.load(Ordering::Relaxed)), (3, 3));
    }

    #[test]
    fn where_all_are_busy_nobody_is_taken_on() {
        let connections = Connections::default();
        let [first, second] = [0; 2].map(|_| connections.enter(2).unwrap());
        connections.work(&first);
        connections.work(&second);
        assert!(connections.enter(2).is_none());
        connections.leave(&first);
        assert!(connections.enter(2).is_some());
    }

    #[test]
    fn who_had_to_leave_does_not_come_back() {
        let connections = Connections::default();
        let leaving = connections.enter(1).unwrap();
        let staying = connections.enter(1).unwrap();
        connections.work(&leaving);
        connections.rest(&leaving);
        connections.leave(&leaving);
        assert_eq!(connections.count(), 1);
        assert!(!gone(&connections, &staying));
    }
}
