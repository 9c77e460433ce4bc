//! The Hugging Face hub.

use std::sync::mpsc;
use std::time::Duration;

use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Repo, RepoType};

use super::Original;

/// A file's bytes. The hub is asked without anyone's token: what we fetch is public, and the endpoint may be anybody's.
pub(super) fn download(
    patience: Duration,
    original: &Original,
    name: &str,
    endpoint: &str,
) -> Result<Vec<u8>, String> {
    // The library keeps what it fetches; we keep only what has been checked.
    let workshop = tempfile::tempdir().map_err(|error| error.to_string())?;
    let builder = ApiBuilder::new()
        .with_endpoint(endpoint.to_owned())
        .with_cache_dir(workshop.path().to_owned())
        .with_token(None)
        .with_progress(false);
    let api = builder.build().map_err(|error| error.to_string())?;
    let Original { repo, revision, .. } = original;
    let repo = Repo::with_revision((*repo).to_owned(), RepoType::Dataset, (*revision).to_owned());
    let name = name.to_owned();
    let (sender, receiver) = mpsc::channel();
    // The library sets no time limits, so it works in a thread that can be left behind.
    std::thread::spawn(move || {
        let bytes = match api.repo(repo).download(&name) {
            Ok(path) => std::fs::read(path).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Nobody listens any more if it took too long.
        let _ = sender.send(bytes);
    });
    let late = |error| match error {
        mpsc::RecvTimeoutError::Timeout => format!("it did not come within {patience:?}"),
        mpsc::RecvTimeoutError::Disconnected => "the download broke off".to_owned(),
    };
    receiver.recv_timeout(patience).map_err(late)?
}
