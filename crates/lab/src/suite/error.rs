//! Why there is no suite.

use std::path::PathBuf;

use super::fetch::FetchError;
use super::jsonl::Fault;
use super::known::{Known, names};
use super::source::{SourceError, VARIABLE};
use super::template::TemplateError;

#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("there is no suite '{name}'; there are {}, or give the path of a .jsonl file", names().join(", "))]
    Unknown { name: String },
    #[error(
        "{} is not at hand. Put {} into {}, or name the folder that has it in {VARIABLE}; it is {}. It would be fetched by itself, but {error}",
        .suite.name, .suite.file.unwrap_or_default(), .folder.display(), .suite.origin
    )]
    Absent { suite: &'static Known, folder: PathBuf, error: Box<FetchError> },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("cannot read {}: {reason}", .path.display())]
    Data { path: PathBuf, reason: String },
    #[error("{}, line {line}: {fault}", .path.display())]
    Line { path: PathBuf, line: usize, fault: Fault },
    #[error("the template cannot be used: {0}")]
    Template(#[from] TemplateError),
    #[error("{suite} has no problem {}; its ids look like {example}", quoted(.ids))]
    UnknownIds { suite: String, ids: Vec<String>, example: String },
    /// Options that contradict each other or the suite.
    #[error("{0}")]
    Misfit(String),
}

impl SuiteError {
    /// Is it the request that is wrong, rather than a file or the network?
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Template(_) | Self::UnknownIds { .. } | Self::Misfit(_) => true,
            Self::Absent { .. } | Self::Source(_) | Self::Data { .. } | Self::Line { .. } => false,
        }
    }
}

fn quoted(ids: &[String]) -> String {
    ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ")
}
