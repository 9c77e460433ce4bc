//! What can be wrong with a run's folder, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    // Not called `source`: its words are part of ours, and would be printed twice.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io { doing: &'static str, path: PathBuf, error: io::Error },
    #[error("another process is writing to {}; wait for it, or name another folder", .0.display())]
    Taken(PathBuf),
    #[error("{} holds a run already; --resume goes on with it, or name another folder", .0.display())]
    Exists(PathBuf),
    #[error("{} is one run by itself, and several cannot join it; name another folder", .0.display())]
    Alone(PathBuf),
    #[error("{} has a {file} that is no run's and would be written over; name another folder", folder.display())]
    InTheWay { folder: PathBuf, file: String },
    #[error("there is no run in {}: no run.json there or in a folder below it", .0.display())]
    NotARun(PathBuf),
    #[error("{} is damaged: {why}", path.display())]
    Manifest { path: PathBuf, why: String },
    #[error(
        "{} has the layout {found}, and this program reads {known}; use the version of eager that wrote it",
        path.display()
    )]
    Format { path: PathBuf, found: u64, known: u32 },
    #[error(
        "{} was begun with another {what} ({was}, now {now}); ask for the same, or name another folder",
        path.display()
    )]
    Differs { path: PathBuf, what: String, was: String, now: String },
    #[error(
        "{} holds the problem {id}, which is not among those that are chosen now; a run can be given more problems, not \
         fewer or others: ask for at least the same, or name another folder",
        path.display()
    )]
    Lacks { path: PathBuf, id: String },
    #[error(
        "{} was begun when numbers in thoughts and in responses that were cut off counted as answers (its run.json has no \
         parameters.options.extract), and its lines cannot stand beside those of today; run it again in another folder",
        path.display()
    )]
    ReadOtherwise { path: PathBuf },
    #[error(
        "{} can be given more problems only once it is complete, because its problems may not be written down; finish it \
         with the same --limit first, or name another folder",
        path.display()
    )]
    Unlisted { path: PathBuf },
    #[error("line {line} of {} is damaged: {why}; remove that line, and --resume decodes the prompt again", path.display())]
    Damaged { path: PathBuf, line: usize, why: String },
}

impl RunError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| RunError::Io { doing, path, error }
    }

    /// Was this a mistake in what was asked for, as opposed to something that went wrong?
    pub fn is_usage(&self) -> bool {
        !matches!(self, RunError::Io { .. } | RunError::Manifest { .. } | RunError::Damaged { .. })
    }
}
