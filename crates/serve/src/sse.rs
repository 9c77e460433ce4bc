//! Server-sent events, and whether anybody is still listening.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::error::ApiError;

/// Batches that may wait for a slow client.
const WAITING: usize = 16;
/// How often a silent stream shows that it lives.
const ALIVE: Duration = Duration::from_secs(15);

/// One event.
#[derive(Debug)]
pub struct Line(String);

impl Line {
    /// An event without a name, as OpenAI sends them. The data is one line of JSON.
    pub fn data(data: String) -> Self {
        Line(format!("data: {data}\n\n"))
    }

    pub fn event(name: &str, data: &str) -> Self {
        Line(format!("event: {name}\ndata: {data}\n\n"))
    }
}

/// Where events go.
#[derive(Debug)]
pub struct Outlet {
    to: Sender<Bytes>,
}

impl Outlet {
    /// An outlet and the response that it feeds.
    pub fn open() -> (Self, Response) {
        let (to, from) = channel(WAITING);
        let next = |mut from: Receiver<Bytes>| async {
            let bytes = from.recv().await?;
            Some((Ok::<_, Infallible>(bytes), from))
        };
        let mut response = Response::new(Body::from_stream(stream::unfold(from, next)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies that gather a response before they pass it on would undo all of this.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        (Outlet { to }, response)
    }

    /// Sends events in one piece. Nobody minds when nobody listens: that is found out by [`Outlet::or_gone`].
    pub async fn send(&mut self, lines: Vec<Line>) {
        if !lines.is_empty() {
            let bytes = lines.into_iter().map(|line| line.0).collect::<String>();
            let _ = self.to.send(bytes.into()).await;
        }
    }

    /// Waits for something, unless the client goes away meanwhile.
    pub async fn or_gone<T>(
        &mut self,
        what: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        tokio::pin!(what);
        loop {
            tokio::select! {
                biased;
                () = self.to.closed() => return Err(gone()),
                done = &mut what => return done,
                () = tokio::time::sleep(ALIVE) => {
                    let _ = self.to.send(Bytes::from_static(b": still here\n\n")).await;
                }
            }
        }
    }
}

/// Nobody reads this: there is nobody left.
fn gone() -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "the client has gone away")
}
