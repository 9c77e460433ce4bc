//! Files of GitHub repositories, as they are at a commit.

use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body, Error};

/// Larger than any file that we know of there; what is larger still is not it.
const MOST_BYTES: u64 = 16 << 20;

/// Whom to ask, for one file after the other.
pub(super) fn agent(patience: Duration) -> Agent {
    Agent::config_builder().timeout_global(Some(patience)).build().into()
}

/// A file's bytes.
pub(super) fn download(agent: &Agent, url: &str) -> Result<Vec<u8>, String> {
    let bytes =
        |mut response: Response<Body>| response.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
    agent.get(url).call().and_then(bytes).map_err(|error| match (error, agent.config().timeouts().global) {
        (Error::Timeout(_), Some(patience)) => format!("it did not come within {patience:?}"),
        (error, _) => error.to_string(),
    })
}
