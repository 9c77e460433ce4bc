//! One request: a sequence as it comes over the wire, token after token.
//!
//! Everything that was received is passed on with its id before a fault is told. So a sequence can always be taken up again
//! where it broke off, here or at another server: no token is lost and none comes twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::{Key, Sampling, Token, TokenRules};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::dialect::{Ask, Flaw, Step, complaint};
use crate::error::RemoteError;
use crate::event::Events;
use crate::server::{Server, cause};
use crate::traffic::{Origin, Traffic};

/// Longest chunk that is read. SGLang repeats the whole answer in each, with all candidates.
const LONGEST: usize = 256 << 20;

/// What a stream has to say, under its number.
#[derive(Debug)]
pub(crate) struct News {
    pub stream: u64,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Steps(Vec<Step>),
    /// The server has ended the sequence, or all tokens that were wanted have come.
    Over,
    Broken(Fault),
}

/// The sequence to be continued.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    pub number: u64,
    /// The request's name; it is the beginning of no other.
    pub name: String,
    /// It takes up a sequence whose last request broke off.
    pub again: bool,
    pub origin: Origin,
    pub key: Key,
    /// The prompt and the path so far; grows by what is received.
    pub tokens: Vec<Token>,
    /// How long the path is.
    pub position: usize,
    /// How many tokens it may still grow by.
    pub left: usize,
    pub top_k: usize,
    pub sampling: Sampling,
    pub stop: Vec<Token>,
    pub rules: TokenRules,
    /// The server's slot that it is to be decoded in; none leaves it to the server.
    pub seat: Option<usize>,
}

/// Why a request ended before the sequence did.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another attempt may fare better, if it comes after this time.
    Passing {
        kind: Kind,
        reason: String,
        after: Option<Duration>,
    },
    Lasting(RemoteError),
}

/// What a fault says about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing more than that this request went wrong.
    Glitch,
    /// It has enough to do.
    Busy,
    /// It is gone, or about to go.
    Away,
}

pub(crate) struct Stream {
    pub server: Arc<Server>,
    pub traffic: Arc<Traffic>,
    pub to: UnboundedSender<News>,
    pub errand: Errand,
    began: Instant,
    /// Tokens received.
    received: usize,
}

impl Stream {
    pub fn new(
        server: Arc<Server>,
        traffic: Arc<Traffic>,
        to: UnboundedSender<News>,
        errand: Errand,
    ) -> Self {
        Stream { server, traffic, to, errand, began: Instant::now(), received: 0 }
    }

    /// Brings the sequence to its end, or says why not.
    pub async fn run(mut self) {
        self.traffic.request(self.errand.origin, self.errand.again);
        let last = match self.attempt().await {
            Ok(()) => What::Over,
            // Everything came; only the goodbye was lost.
            Err(Fault::Passing { .. }) if self.is_complete() => What::Over,
            Err(fault) => What::Broken(fault),
        };
        self.say(last);
    }

    /// Has it received all there can be?
    fn is_complete(&self) -> bool {
        let last = self.errand.tokens.last().filter(|_| self.received > 0);
        self.errand.left == 0 || last.is_some_and(|token| self.errand.stop.contains(token))
    }

    fn say(&self, what: What) {
        // Nobody listens any more when the run has ended; then nobody misses it.
        let _ = self.to.send(News { stream: self.errand.number, what });
    }

    async fn attempt(&mut self) -> Result<(), Fault> {
        let ask = ask(&self.errand, &self.server.model);
        let (dialect, prompt) = (self.server.dialect, ask.prompt.len());
        let (mut reading, body) = (dialect.reading(&ask), dialect.request(&ask));
        let server = Arc::clone(&self.server);
        let patience = &server.patience;
        let answer = self.wait_for(server.post(dialect.path(), body), patience.first).await?;
        let mut response = self.accept(answer.map_err(|error| broken(&error))?).await?;
        let (mut events, mut ended) = (Events::default(), false);
        loop {
            let limit = match self.received {
                _ if ended => patience.quiet,
                0 => patience.first,
                _ => patience.stall,
            };
            let packet = match self.wait_for(response.chunk(), limit).await {
                Ok(Ok(Some(packet))) => packet,
                // What comes after the last token is only for the books.
                _ if ended => return Ok(()),
                Ok(Ok(None)) => return Err(passing("the connection was closed in mid-stream".to_owned())),
                Ok(Err(error)) => return Err(broken(&error)),
                Err(fault) => return Err(fault),
            };
            events.push(&packet);
            while let Some(data) = events.next() {
                let mut chunk = match reading.chunk(data) {
                    Ok(chunk) => chunk,
                    Err(_) if ended => continue,
                    Err(flaw) => return Err(self.judge(flaw)),
                };
                if let Some(cached) = chunk.cached {
                    self.traffic.cache(self.errand.origin, prompt, cached);
                }
                ended |= chunk.ended;
                if let Some(missing) = chunk.missing.take() {
                    let next = chunk.steps.first().map(|step| step.sampled.token);
                    let found = self.recover(prompt, &missing, next).await?;
                    chunk.steps.splice(..0, found);
                }
                self.deliver(chunk.steps);
            }
            if events.pending() > LONGEST {
                return Err(passing("a chunk has no end".to_owned()));
            }
            if ended && self.received == 0 {
                return Err(passing("the server ended the sequence without a token".to_owned()));
            }
        }
    }

    /// Passes on what has come.
    fn deliver(&mut self, mut steps: Vec<Step>) {
        // More than was asked for would be more than the sequence may have.
        steps.truncate(self.errand.left);
        if steps.is_empty() {
            return;
        }
        if self.received == 0 {
            self.traffic.answer(self.errand.origin, self.began.elapsed());
        }
        let narrow = steps.iter().filter(|step| step.top.len() < self.errand.top_k).count();
        self.traffic.receive(steps.len(), narrow);
        self.errand.tokens.extend(steps.iter().map(|step| step.sampled.token));
        self.errand.position += steps.len();
        self.errand.left -= steps.len();
        self.received += steps.len();
        self.say(What::Steps(steps));
    }

    /// Waits for something, but only as long as the server is alive, and no longer than the limit.
    pub(crate) async fn wait_for<T>(
        &self,
        future: impl Future<Output = T>,
        limit: Duration,
    ) -> Result<T, Fault> {
        let (mut future, began) = (std::pin::pin!(future), Instant::now());
        loop {
            if let Ok(done) = timeout(self.server.patience.quiet.min(limit), &mut future).await {
                return Ok(done);
            }
            if began.elapsed() >= limit {
                return Err(passing(format!("nothing came for {} s", limit.as_secs())));
            }
            if !self.server.is_alive().await {
                return Err(Fault::away("the server does not answer any more".to_owned()));
            }
        }
    }

    /// Looks at the answer's status.
    pub(crate) async fn accept(&self, response: Response) -> Result<Response, Fault> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = retry_after(response.headers());
        let body = self.wait_for(response.bytes(), self.server.patience.stall).await?.unwrap_or_default();
        let said = complaint(&body)
            .unwrap_or_else(|| String::from_utf8_lossy(&body).trim().chars().take(200).collect());
        let url = self.server.url.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Fault::Lasting(RemoteError::Key { url, status: status.as_u16() })
            }
            _ => match kind(status) {
                Some(kind) => Fault::Passing { kind, reason: format!("it answered {status}: {said}"), after },
                None => Fault::Lasting(RemoteError::Refused { url, status: status.as_u16(), message: said }),
            },
        })
    }

    pub(crate) fn judge(&self, flaw: Flaw) -> Fault {
        match flaw {
            Flaw::Damaged(reason) => passing(reason),
            Flaw::Failed(said) => passing(format!("it reported: {said}")),
            Flaw::Lacking { what, remedy } => {
                Fault::Lasting(RemoteError::Lacking { url: self.server.url.clone(), what, remedy })
            }
        }
    }
}

impl Fault {
    pub fn away(reason: String) -> Self {
        Fault::Passing { kind: Kind::Away, reason, after: None }
    }
}

pub(crate) fn passing(reason: String) -> Fault {
    Fault::Passing { kind: Kind::Glitch, reason, after: None }
}

/// Something went wrong on the way. Where nobody even takes up a connection there is no server.
pub(crate) fn broken(error: &reqwest::Error) -> Fault {
    let kind = if error.is_connect() { Kind::Away } else { Kind::Glitch };
    Fault::Passing { kind, reason: cause(error), after: None }
}

/// What a status says about the server; none where asking again would not help.
fn kind(status: StatusCode) -> Option<Kind> {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(Kind::Busy),
        // What stands in front of a server says the first and the last when it is gone; it says the second itself.
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Some(Kind::Away)
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Some(Kind::Glitch),
        _ => status.is_server_error().then_some(Kind::Glitch),
    }
}

pub(crate) fn ask<'a>(errand: &'a Errand, model: &'a str) -> Ask<'a> {
    Ask {
        model,
        name: &errand.name,
        prompt: &errand.tokens,
        tokens: errand.left,
        top_k: errand.top_k,
        sampling: errand.sampling,
        seed: seed(errand.key, errand.position),
        stop: &errand.stop,
        rules: &errand.rules,
        seat: errand.seat,
    }
}

/// The seed of a request depends on the sequence and the place where it is taken up, and on nothing else. It has 31 bits,
/// because all ones mean a random seed to llama-server.
fn seed(key: Key, position: usize) -> u32 {
    (key.uniform(position) * f64::from(1u32 << 31)) as u32
}

/// When the server wants to be asked again: after so many seconds, or at a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match said.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let then = jiff::fmt::rfc2822::parse(said).ok()?.timestamp();
            // A date that has passed means now.
            Some(then.duration_since(jiff::Timestamp::now()).try_into().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn a_server_may_name_seconds_or_a_date() {
        let asked = |said: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(said))]);
            retry_after(&headers)
        };
        let cases = [
            ("7", Some(Duration::from_secs(7))),
            ("0.5", Some(Duration::from_millis(500))),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(Duration::ZERO)),
            ("-3", None),
            ("soon", None),
        ];
        for (said, expected) in cases {
            assert_eq!(asked(said), expected, "{said}");
        }
        assert!(asked("Sun, 21 Oct 2998 07:28:00 GMT") > Some(Duration::from_secs(1_000_000)));
    }

    #[test]
    fn seeds_differ_by_place_and_are_never_the_servers_word_for_random() {
        let key = Key::prompt(1, 2);
        assert_eq!(seed(key, 5), seed(key, 5));
        assert_ne!(seed(key, 5), seed(key, 6));
        assert!((0..1000).all(|position| seed(key, position) < 1 << 31));
    }
}
