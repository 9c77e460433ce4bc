//! Where benchmark files are: too large, and not ours, to be part of the program.

use std::path::PathBuf;

/// Names the folder.
pub const VARIABLE: &str = "EAGER_DATA";

/// Names another hub than Hugging Face's own, as for that company's other programs.
pub const ENDPOINT_VARIABLE: &str = "HF_ENDPOINT";

const ENDPOINT: &str = "https://huggingface.co";

/// Where files are looked for, and where those that are missing are fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub folder: PathBuf,
    /// The address of the hub, without a slash at its end.
    pub endpoint: String,
}

impl Place {
    /// The folder and the hub that the environment names, or else the usual ones.
    pub fn from_env() -> Result<Self, SourceError> {
        let endpoint = std::env::var(ENDPOINT_VARIABLE).ok().filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/').to_owned();
        Ok(Self { folder: folder()?, endpoint })
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
