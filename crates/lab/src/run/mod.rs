//! A run is a folder: `run.json` says what was asked, `samples.jsonl` holds every finished prompt, `metrics.json` what came
//! out.

mod error;
mod folder;
mod journal;
mod manifest;
mod sample;
mod second_pass;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::RunError;
pub use folder::{Begun, Folder, Lock, Over, read_manifest};
pub(crate) use folder::{has_metrics, not_in_the_way, write_pretty};
pub use journal::{Journal, line_at, lines, lines_at, replace};
pub use manifest::{FORMAT, Manifest, ModelInfo, Parameters, SuiteInfo};
pub use sample::{Sample, SampleSequence};
pub use second_pass::reading;

/// A run as it was read from its folder.
#[derive(Debug, Clone)]
pub struct Run {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// In the suite's order where the run is complete.
    pub samples: Vec<Sample>,
    /// What was asked; empty for suites that may not be written down.
    pub problems: Vec<Asked>,
}

/// What lies in some folders. Runs outlive the programs that wrote them and the disks they were written to, so one that
/// cannot be read must not hide the others.
#[derive(Debug)]
pub struct Found {
    pub runs: Vec<Run>,
    /// What could not be read, and why.
    pub left_out: Vec<RunError>,
}

/// A line of `problems.jsonl`: the text of a problem and its right answer, for people who look at the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub id: String,
    pub problem: String,
    pub gold: Option<String>,
}

impl Run {
    /// Reads one run, finished or not. Nothing is written, so it may still be going on.
    pub fn read(folder: &Path) -> Result<Self, RunError> {
        let manifest = folder::read_manifest(folder)?.ok_or_else(|| RunError::NotARun(folder.to_owned()))?;
        let samples = lines(&folder.join(folder::SAMPLES))?.collect::<Result<_, _>>()?;
        let problems = lines(&folder.join(folder::PROBLEMS))?.collect::<Result<_, _>>()?;
        Ok(Run { folder: folder.to_owned(), manifest, samples, problems })
    }

    /// All runs in these folders and below them, in order of their names.
    pub fn find(places: &[PathBuf]) -> Found {
        let (mut folders, mut left_out) = (Vec::new(), Vec::new());
        for place in places {
            let before = folders.len() + left_out.len();
            search(place, DEPTH, &mut folders, &mut left_out);
            if folders.len() + left_out.len() == before {
                left_out.push(RunError::NotARun(place.clone()));
            }
        }
        // Two names of one folder would count its samples twice.
        let mut seen = HashSet::new();
        folders.retain(|folder| seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())));
        let mut runs = Vec::new();
        for folder in &folders {
            match Run::read(folder) {
                Ok(run) => runs.push(run),
                Err(error) => left_out.push(error),
            }
        }
        Found { runs, left_out }
    }

    /// Does this folder hold runs in folders of their own?
    pub fn are_below(place: &Path) -> bool {
        let is_run = |entry: std::fs::DirEntry| entry.path().join(folder::MANIFEST).is_file();
        std::fs::read_dir(place).is_ok_and(|entries| entries.flatten().any(is_run))
    }

    pub fn is_complete(&self) -> bool {
        self.samples.len() >= self.manifest.suite.problems
    }
}

/// How deep runs may lie below a folder that is named.
const DEPTH: usize = 3;

fn search(place: &Path, depth: usize, found: &mut Vec<PathBuf>, left_out: &mut Vec<RunError>) {
    if place.join(folder::MANIFEST).is_file() {
        found.push(place.to_owned());
        return;
    }
    let mut below: Vec<PathBuf> = match std::fs::read_dir(place) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect(),
        Err(error) => return left_out.push(RunError::io("read", place)(error)),
    };
    below.sort();
    if depth > 0 {
        below.iter().for_each(|folder| search(folder, depth - 1, found, left_out));
    }
}
