//! First passes on disk.
//!
//! EAGer's second pass begins when the first is over for all prompts, and it goes on from the trees themselves: from what they
//! remember of the tokens they did not take. So a first pass is kept in a file of its own, and several methods that begin
//! alike share it. It stays when a run is complete: what a second pass grants to a prompt depends on all others, so where
//! problems are added it may have to be made anew, and then begins here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use eager_core::{Outcome, Tree};
use serde::{Deserialize, Serialize};

use crate::run::{Journal, RunError, line_at, lines_at};

/// A prompt after the first pass.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassLine {
    #[serde(flatten)]
    pub entry: Entry,
    pub tree: Tree,
}

/// What is kept in memory of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    pub id: String,
    /// [`Task::fingerprint`](super::Task::fingerprint): the same name may come to stand for another problem.
    #[serde(default)]
    pub fingerprint: String,
    pub seconds: f64,
    pub graded: Outcome,
}

/// The file of one first pass.
#[derive(Debug)]
pub struct Passes {
    path: PathBuf,
    journal: Journal,
    /// By fingerprint, with the place of the line.
    entries: HashMap<String, (u64, Entry)>,
}

impl Passes {
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let journal = Journal::open(path)?;
        let by_id = |(begins, entry): (u64, Entry)| (entry.fingerprint.clone(), (begins, entry));
        let entries = lines_at(path)?.map(|line| line.map(by_id)).collect::<Result<_, _>>()?;
        Ok(Passes { path: path.to_owned(), journal, entries })
    }

    pub fn has(&self, fingerprint: &str) -> bool {
        self.entries.contains_key(fingerprint)
    }

    /// A prompt, and where its tree lies.
    pub fn find(&self, fingerprint: &str) -> Option<(Entry, Place)> {
        let (begins, entry) = self.entries.get(fingerprint)?;
        Some((entry.clone(), Place { path: self.path.clone(), begins: *begins }))
    }

    pub fn append(&mut self, line: &PassLine) -> Result<(), RunError> {
        let begins = self.journal.append(line)?;
        self.entries.insert(line.entry.fingerprint.clone(), (begins, line.entry.clone()));
        Ok(())
    }
}

/// A tree on disk.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    begins: u64,
}

impl Place {
    pub fn tree(&self) -> Result<Tree, RunError> {
        Ok(line_at::<PassLine>(&self.path, self.begins)?.tree)
    }
}
