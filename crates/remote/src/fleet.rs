//! The servers of a run: who is there, and how much each will take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::Token;
use tokio::task::JoinSet;

use crate::error::RemoteError;
use crate::seats::{Claim, Seats};
use crate::server::{PrefixSharing, Server};

pub(crate) struct Fleet {
    /// Never empty.
    replicas: Vec<Replica>,
    /// Servers that are being asked whether they are back; each task ends when its server is.
    visits: JoinSet<usize>,
}

struct Replica {
    server: Arc<Server>,
    /// Streams that are open there.
    open: usize,
    /// Most of them. What the server says at first; less when it turns a request away, then one more for each that it takes.
    limit: usize,
    /// It turned a request away and wants to be left alone until then.
    rests_until: Option<Instant>,
    away: Option<Away>,
    seats: Seats,
}

struct Away {
    since: Instant,
    reason: String,
}

impl Replica {
    fn load(&self, sequences: usize) -> f64 {
        sequences as f64 / self.limit as f64
    }
}

impl Fleet {
    pub fn new(servers: &[Arc<Server>]) -> Self {
        let replica = |server: &Arc<Server>| Replica {
            server: Arc::clone(server),
            open: 0,
            limit: server.streams,
            rests_until: None,
            away: None,
            seats: Seats::new(server.seats),
        };
        Fleet { replicas: servers.iter().map(replica).collect(), visits: JoinSet::new() }
    }

    pub fn len(&self) -> usize {
        self.replicas.len()
    }

    pub fn server(&self, at: usize) -> &Arc<Server> {
        &self.replicas[at].server
    }

    /// The rules about tokens that one of them cannot follow, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.replicas.iter().flat_map(|replica| replica.server.dialect.refused()).copied()
    }

    /// Most tokens of a sequence that may have to move to any of them.
    pub fn context(&self) -> Option<usize> {
        self.replicas.iter().filter_map(|replica| replica.server.context).min()
    }

    /// The best place for another prompt, and how full it is. Those that are away come last.
    pub fn least_loaded(&self, loads: &[usize]) -> (usize, f64) {
        let load = |at: usize| (self.is_away(at), self.replicas[at].load(loads[at]));
        let least = (0..self.len()).min_by(|&a, &b| {
            let ((a_away, a), (b_away, b)) = (load(a), load(b));
            a_away.cmp(&b_away).then(a.total_cmp(&b))
        });
        let at = least.unwrap_or_default();
        (at, load(at).1)
    }

    /// The best place but this one, of those that are there.
    pub fn another(&self, but: usize, loads: &[usize]) -> Option<usize> {
        let there = (0..self.len()).filter(|&at| at != but && !self.is_away(at));
        there.min_by(|&a, &b| self.replicas[a].load(loads[a]).total_cmp(&self.replicas[b].load(loads[b])))
    }

    /// Takes a place for a stream, if there is one.
    pub fn take_place(&mut self, at: usize, now: Instant) -> bool {
        let replica = &mut self.replicas[at];
        let rests = replica.rests_until.is_some_and(|until| until > now);
        let free = replica.away.is_none() && !rests && replica.open < replica.limit;
        replica.open += usize::from(free);
        free
    }

    pub fn leave_place(&mut self, at: usize) {
        self.replicas[at].open -= 1;
    }

    /// When its forks find what was generated before them.
    pub fn sharing(&self, at: usize) -> PrefixSharing {
        self.replicas[at].server.sharing()
    }

    /// A slot of the server for a sequence, where it lets us choose.
    pub fn claim_seat(&mut self, at: usize, tokens: &[Token], now: u64) -> Option<Claim> {
        self.replicas[at].seats.claim(tokens, now)
    }

    pub fn occupy_seat(&mut self, at: usize, seat: usize) {
        self.replicas[at].seats.occupy(seat);
    }

    /// A slot is free again; `tokens` is what it has computed, where that is known.
    pub fn leave_seat(&mut self, at: usize, seat: usize, tokens: Option<Vec<Token>>) {
        self.replicas[at].seats.leave(seat, tokens);
    }

    /// It took a request: perhaps it takes one more.
    pub fn serves(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        replica.limit = (replica.limit + 1).min(replica.server.streams);
    }

    pub fn is_serving(&self, at: usize) -> bool {
        self.replicas[at].open > 0
    }

    /// It turned a request away. What it still has open is what it can take.
    pub fn is_busy(&mut self, at: usize, after: Option<Duration>) {
        let replica = &mut self.replicas[at];
        replica.limit = replica.open.max(1);
        let rest = replica.server.patience.before_attempt(1, after);
        replica.rests_until = Some(Instant::now() + rest);
    }

    pub fn is_away(&self, at: usize) -> bool {
        self.replicas[at].away.is_some()
    }

    /// It is gone. From now on it is asked, again and again, whether it is back.
    pub fn goes_away(&mut self, at: usize, reason: &str) {
        let replica = &mut self.replicas[at];
        if replica.away.is_none() {
            replica.away = Some(Away { since: Instant::now(), reason: reason.to_owned() });
            let server = Arc::clone(&replica.server);
            self.visits.spawn(async move {
                let mut visits = 1;
                loop {
                    tokio::time::sleep(server.patience.before_attempt(visits, None)).await;
                    if server.is_well().await {
                        return at;
                    }
                    visits += 1;
                }
            });
        }
    }

    /// Nobody waits for anybody any more.
    pub async fn dismiss(&mut self) {
        self.visits.shutdown().await;
    }

    /// Welcomes back those that are. With all of them gone for too long it is over.
    pub fn look_after(&mut self) -> Result<(), RemoteError> {
        while let Some(Ok(at)) = self.visits.try_join_next() {
            self.replicas[at].away = None;
        }
        let gone = |replica: &Replica| {
            let away = replica.away.as_ref()?;
            (away.since.elapsed() >= replica.server.patience.give_up).then(|| away.reason.clone())
        };
        let reasons: Option<Vec<String>> = self.replicas.iter().map(gone).collect();
        match reasons.as_deref() {
            Some([reason, ..]) => {
                let server = &self.replicas[0].server;
                let (url, reason) = (server.url.clone(), reason.clone());
                Err(RemoteError::Gone {
                    url,
                    others: self.len() - 1,
                    seconds: server.patience.give_up.as_secs(),
                    reason,
                })
            }
            _ => Ok(()),
        }
    }
}
