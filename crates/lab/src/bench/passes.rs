//! First passes on disk.
//!
//! EAGer's second pass begins when the first is over for all prompts, and it goes on from the trees themselves: from what they
//! remember of the tokens they did not take. So a first pass is kept in a file of its own until the run is complete, and
//! several methods that begin alike share it.

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
    pub seconds: f64,
    pub graded: Outcome,
}

/// The file of one first pass.
#[derive(Debug)]
pub struct Passes {
    path: PathBuf,
    journal: Journal,
    /// By the prompt's id, with the place of its line.
    entries: HashMap<String, (u64, Entry)>,
}

impl Passes {
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let journal = Journal::open(path)?;
        let by_id = |(begins, entry): (u64, Entry)| (entry.id.clone(), (begins, entry));
        let entries = lines_at(path)?.map(|line| line.map(by_id)).collect::<Result<_, _>>()?;
        Ok(Passes { path: path.to_owned(), journal, entries })
    }

    pub fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// A prompt, and where its tree lies.
    pub fn find(&self, id: &str) -> Option<(Entry, Place)> {
        let (begins, entry) = self.entries.get(id)?;
        Some((entry.clone(), Place { path: self.path.clone(), begins: *begins }))
    }

    pub fn append(&mut self, line: &PassLine) -> Result<(), RunError> {
        let begins = self.journal.append(line)?;
        self.entries.insert(line.entry.id.clone(), (begins, line.entry.clone()));
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
