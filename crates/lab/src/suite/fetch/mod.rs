//! Files that are not at hand, from where they are published.
//!
//! A name stands for one wording: [`ORIGINALS`] says which files a suite is made of, at which revision, and what their
//! checksum is. What comes is checked against that, brought into our [`Form`], and only then saved. Other copies of the
//! same benchmarks exist (of AIME 2025, say), but with other wordings, and numbers from two wordings under one name could
//! not be compared.

mod form;
mod github;
mod hub;
mod originals;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::source::Place;
pub use form::Form;
pub use originals::{ORIGINALS, Original, Site};

/// How long a file may take. They are small; a network that swallows what is sent would otherwise take minutes to say so.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{url} could not be had: {reason}")]
    Download { url: String, reason: String },
    #[error("what came from {from} is not what it should be: its SHA-256 is {found} and not {expected}")]
    Checksum { from: String, expected: &'static str, found: String },
    #[error("what came from {from} cannot be read: {reason}")]
    Convert { from: String, reason: String },
    #[error("{} cannot be written: {error}", .path.display())]
    Save { path: PathBuf, error: std::io::Error },
}

/// Fetches what a suite is made of, checks it, and saves it to `target` in our form. There is either the whole file
/// afterwards or none.
pub fn fetch(original: &Original, place: &Place, target: &Path) -> Result<(), FetchError> {
    fetch_within(PATIENCE, original, place, target)
}

fn fetch_within(
    patience: Duration,
    original: &Original,
    place: &Place,
    target: &Path,
) -> Result<(), FetchError> {
    let agent = github::agent(patience);
    let mut files = Vec::new();
    for name in original.files() {
        let bytes = match original.site {
            Site::Hub => hub::download(patience, original, &name, &place.hub),
            Site::GitHub => github::download(&agent, &original.url(&name, place)),
        };
        files.push(bytes.map_err(|reason| FetchError::Download { url: original.url(&name, place), reason })?);
    }
    let from = original.whereabouts(place);
    let found = hex(&files.iter().fold(Sha256::new(), |all, file| all.chain_update(file)).finalize());
    if found != original.sha256 {
        return Err(FetchError::Checksum { from, expected: original.sha256, found });
    }
    let ours = original.form.convert(files).map_err(|reason| FetchError::Convert { from, reason })?;
    save(target, &ours).map_err(|error| FetchError::Save { path: target.to_owned(), error })
}

/// Writes a file under another name first, so that nobody ever sees a part of it.
fn save(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Made as any file is, or only its owner could read it.
    let mut new = tempfile::Builder::new().make_in(folder, |path| File::create_new(path))?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(target)?;
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_says_nothing_is_not_waited_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let place = Place { folder: folder.path().to_owned(), hub: endpoint.clone(), github: endpoint };
        for site in [Site::Hub, Site::GitHub] {
            let original = ORIGINALS.iter().find(|original| original.site == site).unwrap();
            let target = folder.path().join("file");
            let error = fetch_within(Duration::from_millis(200), original, &place, &target).unwrap_err();
            let error = error.to_string();
            assert!(error.ends_with(" could not be had: it did not come within 200ms"), "{error}");
            assert!(!target.exists());
        }
    }
}
