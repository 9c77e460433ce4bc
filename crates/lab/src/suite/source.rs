//! Where benchmark files are: too large, and not ours, to be part of the program.

use std::path::PathBuf;

/// Names the folder.
pub const VARIABLE: &str = "EAGER_DATA";

/// Names another hub than Hugging Face's own, as for that company's other programs.
pub const ENDPOINT_VARIABLE: &str = "HF_ENDPOINT";

const HUB: &str = "https://huggingface.co";
const GITHUB: &str = "https://raw.githubusercontent.com";

/// Where files are looked for, and where those that are missing are fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub folder: PathBuf,
    /// The address of the Hugging Face hub, without a slash at its end.
    pub hub: String,
    /// That of the files on GitHub.
    pub github: String,
}

impl Place {
    /// The folder and the hub that the environment names, or else the usual ones.
    pub fn from_env() -> Result<Self, SourceError> {
        let hub = std::env::var(ENDPOINT_VARIABLE).ok().filter(|endpoint| !endpoint.is_empty());
        let hub = hub.as_deref().unwrap_or(HUB).trim_end_matches('/').to_owned();
        Ok(Self { folder: folder()?, hub, github: GITHUB.to_owned() })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("there is no data folder here; name one in {VARIABLE}")]
    NoFolder,
    #[error("there is no {}; put it there, or name the folder that has it in {VARIABLE}", .0.display())]
    NoFile(PathBuf),
}

/// The folder that `EAGER_DATA` names, or else the user's data folder.
pub fn folder() -> Result<PathBuf, SourceError> {
    match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(folder.into()),
        None => dirs::data_dir().map(|folder| folder.join("eager")).ok_or(SourceError::NoFolder),
    }
}

/// A file in it.
pub fn file(name: &str) -> Result<PathBuf, SourceError> {
    let path = folder()?.join(name);
    if path.is_file() { Ok(path) } else { Err(SourceError::NoFile(path)) }
}
