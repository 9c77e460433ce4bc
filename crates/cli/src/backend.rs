//! Where tokens are decoded: here, or on servers.

use eager_core::{Engine, Forest};
use eager_native::{EngineError, NativeEngine};
use eager_remote::{RemoteEngine, RemoteError, Tally};

#[derive(Debug)]
pub enum Backend {
    Embedded(Box<NativeEngine>),
    Remote(RemoteEngine),
}

#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error(transparent)]
    Embedded(EngineError),
    #[error(transparent)]
    Remote(RemoteError),
}

impl Engine for Backend {
    type Error = BackendError;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), BackendError> {
        match self {
            Backend::Embedded(engine) => engine.grow(forest).map_err(BackendError::Embedded),
            Backend::Remote(engine) => engine.grow(forest).map_err(BackendError::Remote),
        }
    }
}

impl Backend {
    /// What went over the wire so far, in a sentence; nothing where there is none.
    pub fn traffic(&self) -> Option<String> {
        match self {
            Backend::Embedded(_) => None,
            Backend::Remote(engine) => {
                Some(engine.traffic().tally()).filter(|tally| tally.requests() > 0).map(told)
            }
        }
    }
}

fn told(tally: Tally) -> String {
    let Tally { retries, handed, received, wasted, narrow, forks, .. } = tally;
    let mut told = format!("{} requests brought {received} tokens", tally.requests());
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            told += &format!(", {count} {what}");
        }
    };
    add(wasted, "of them in vain");
    add(retries, "requests broke off and were taken up again");
    add(handed, "sequences went on at another server");
    add(narrow, "tokens came with fewer candidates than were asked for");
    if let Some(share) = forks.cached_share() {
        told += &format!("; the server had {:.0}% of what {} forks went on from", 100.0 * share, forks.count);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_remote::Requests;

    #[test]
    fn only_what_happened_is_told() {
        let fresh = Requests { count: 3, ..Requests::default() };
        let quiet = Tally { received: 40, fresh, ..Tally::default() };
        assert_eq!(told(quiet), "3 requests brought 40 tokens");
        let forks = Requests { count: 5, prompt: 200, cached: 190, ..Requests::default() };
        let eventful = Tally { wasted: 2, retries: 1, handed: 4, forks, ..quiet };
        assert_eq!(
            told(eventful),
            "8 requests brought 40 tokens, 2 of them in vain, 1 requests broke off and were taken up again, \
             4 sequences went on at another server; the server had 95% of what 5 forks went on from"
        );
    }
}
