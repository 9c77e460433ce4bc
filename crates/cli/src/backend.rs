//! Where tokens are decoded: here, or on servers.

use eager_core::{Engine, Forest};
use eager_native::{EngineError, NativeEngine};
use eager_remote::{RemoteEngine, RemoteError, Tally};

#[derive(Debug)]
pub enum Backend {
    Embedded(NativeEngine),
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
                Some(engine.traffic().tally()).filter(|tally| tally.requests > 0).map(told)
            }
        }
    }
}

fn told(tally: Tally) -> String {
    let Tally { requests, retries, handed, received, wasted, narrow, prompt, cached, .. } = tally;
    let mut told = format!("{requests} requests brought {received} tokens");
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            told += &format!(", {count} {what}");
        }
    };
    add(wasted, "of them in vain");
    add(retries, "requests broke off and were taken up again");
    add(handed, "sequences went on at another server");
    add(narrow, "tokens came with fewer candidates than were asked for");
    if prompt > 0 {
        told += &format!(
            "; the server had {:.0}% of their prompts cached",
            100.0 * cached as f64 / prompt as f64
        );
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_told() {
        let quiet = Tally { requests: 3, received: 40, ..Tally::default() };
        assert_eq!(told(quiet), "3 requests brought 40 tokens");
        let eventful = Tally { wasted: 2, retries: 1, handed: 4, prompt: 200, cached: 190, ..quiet };
        assert_eq!(
            told(eventful),
            "3 requests brought 40 tokens, 2 of them in vain, 1 requests broke off and were taken up again, \
             4 sequences went on at another server; the server had 95% of their prompts cached"
        );
    }
}
