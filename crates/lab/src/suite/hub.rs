//! Files that are not at hand, from the Hugging Face hub.
//!
//! Only where a file there is known to hold the problems of ours word for word: its revision is pinned, and its checksum
//! is that of the file which ours was made from. Other copies of the same benchmark exist (of AIME 2025, say), but
//! with other wordings, and numbers from two wordings under one name could not be compared.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Repo, RepoType};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// A file on the hub that a suite can be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    pub suite: &'static str,
    /// A dataset.
    pub repo: &'static str,
    /// A commit, so that the file cannot change.
    pub revision: &'static str,
    pub file: &'static str,
    /// Of the file as the hub has it.
    pub sha256: &'static str,
    /// The fields of its lines that we keep, and what we call them.
    pub fields: &'static [(&'static str, &'static str)],
}

/// All that is known for certain.
pub const HUB: &[HubFile] = &[
    // The checksum is also that of prm800k/math_splits/test.jsonl in openai/prm800k, where the choice of problems is from.
    HubFile {
        suite: "math500",
        repo: "HuggingFaceH4/MATH-500",
        revision: "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        file: "test.jsonl",
        sha256: "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
        fields: &[
            ("unique_id", "id"),
            ("problem", "problem"),
            ("answer", "answer"),
            ("subject", "subject"),
            ("level", "level"),
        ],
    },
];

/// How long a download may take. The files are small; a network that swallows what is sent would otherwise take minutes
/// to say so.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("{url} could not be had: {reason}")]
    Download { url: String, reason: String },
    #[error("{url} is not the file it should be: its SHA-256 is {found} and not {expected}")]
    Checksum { url: String, expected: &'static str, found: String },
    #[error("{url} has a line that cannot be read: {reason}")]
    Convert { url: String, reason: String },
    #[error("{} cannot be written: {error}", .path.display())]
    Save { path: PathBuf, error: std::io::Error },
}

/// Fetches a file, checks it, and saves it to `target` in our form. There is either the whole file afterwards or none.
pub fn fetch(file: &HubFile, endpoint: &str, target: &Path) -> Result<(), HubError> {
    fetch_within(PATIENCE, file, endpoint, target)
}

fn fetch_within(patience: Duration, file: &HubFile, endpoint: &str, target: &Path) -> Result<(), HubError> {
    let HubFile { repo, revision, file: name, .. } = file;
    let url = format!("{endpoint}/datasets/{repo}/resolve/{revision}/{name}");
    let bytes = download(patience, file, endpoint)
        .map_err(|reason| HubError::Download { url: url.clone(), reason })?;
    let found = hex(&Sha256::digest(&bytes));
    if found != file.sha256 {
        return Err(HubError::Checksum { url, expected: file.sha256, found });
    }
    let lines = convert(file, &bytes).map_err(|reason| HubError::Convert { url, reason })?;
    save(target, &lines).map_err(|error| HubError::Save { path: target.to_owned(), error })
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

/// The file's bytes. The hub is asked without anyone's token: what we fetch is public, and the endpoint may be anybody's.
fn download(patience: Duration, file: &HubFile, endpoint: &str) -> Result<Vec<u8>, String> {
    // The library keeps what it fetches; we keep only what has been checked.
    let workshop = tempfile::tempdir().map_err(|error| error.to_string())?;
    let builder = ApiBuilder::new()
        .with_endpoint(endpoint.to_owned())
        .with_cache_dir(workshop.path().to_owned())
        .with_token(None)
        .with_progress(false);
    let api = builder.build().map_err(|error| error.to_string())?;
    let repo = Repo::with_revision(file.repo.to_owned(), RepoType::Dataset, file.revision.to_owned());
    let name = file.file;
    let (sender, receiver) = mpsc::channel();
    // The library sets no time limits, so it works in a thread that can be left behind.
    std::thread::spawn(move || {
        let bytes = match api.repo(repo).download(name) {
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

/// The lines in our form: the fields that we keep, under our names.
fn convert(file: &HubFile, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut lines = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let mut theirs: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let mut ours = Map::new();
        for (their, our) in file.fields {
            let value = theirs.remove(*their).ok_or_else(|| format!("it has no \"{their}\""))?;
            ours.insert((*our).to_owned(), value);
        }
        serde_json::to_writer(&mut lines, &ours).map_err(|error| error.to_string())?;
        lines.push(b'\n');
    }
    Ok(lines)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_says_nothing_is_not_waited_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let target = folder.path().join("math500.jsonl");
        let error = fetch_within(Duration::from_millis(200), &HUB[0], &endpoint, &target).unwrap_err();
        assert!(error.to_string().ends_with("could not be had: it did not come within 200ms"), "{error}");
        assert!(!target.exists());
    }
}
