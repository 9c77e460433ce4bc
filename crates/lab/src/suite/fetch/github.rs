//! Files of GitHub repositories, as they are at a commit.

use std::time::Duration;

use ureq::Agent;

/// Larger than any file that we know of there; what is larger still is not it.
const MOST_BYTES: u64 = 16 << 20;

/// Whom to ask, for one file after the other.
pub(super) fn agent(patience: Duration) -> Agent {
    Agent::config_builder().timeout_global(Some(patience)).build().into()
}

/// A file's bytes.
pub(super) fn download(agent: &Agent, url: &str) -> Result<Vec<u8>, String> {
    let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = response.body_mut().with_config().limit(MOST_BYTES);
    body.read_to_vec().map_err(|error| error.to_string())
}
