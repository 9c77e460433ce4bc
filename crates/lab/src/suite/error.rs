//! Why there is no suite.

use std::path::PathBuf;

use super::hub::HubError;
use super::jsonl::Fault;
use super::known::{Known, names};
use super::source::{SourceError, VARIABLE};
use super::template::TemplateError;

#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("there is no suite '{name}'; there are {}, or give the path of a .jsonl file", names().join(", "))]
    Unknown { name: String },
    #[error(
        "{} is not at hand. Put {} into {}, or name the folder that has it in {VARIABLE}; it is {}. {hub}",
        .suite.name, .suite.file.unwrap_or_default(), .folder.display(), .suite.origin
    )]
    Absent { suite: &'static Known, folder: PathBuf, hub: NotFetched },
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

/// The other way to get a file, and why it was no way.
#[derive(Debug, thiserror::Error)]
pub enum NotFetched {
    #[error(
        "It is not fetched by itself: no copy on the Hugging Face hub is both open to all and known to hold the same problems word for word"
    )]
    NotThere,
    #[error("It would be fetched from the Hugging Face hub by itself, but {0}")]
    Failed(Box<HubError>),
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
