//! What calibration found out about models, kept for later commands.
//!
//! One small file for the user, keyed by the hash of the model's files: a model may be renamed or moved, and another
//! quantisation of it is another model. Several commands may calibrate at the same time: whoever stores first has the file to
//! itself, and the others add to what it wrote.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run::{RunError, replace};

/// Names the file.
pub const VARIABLE: &str = "EAGER_PROFILES";

/// The thresholds of one model, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    pub name: String,
    /// For eager-init and eager-adapt: saves without losing.
    pub theta_init: f32,
    /// For full eager: saves more, to spend it again.
    pub theta_full: f32,
    pub suite: String,
    pub examples: usize,
    pub max_sequences: usize,
    pub temperature: f32,
    pub seed: u64,
}

/// The file of a user's calibrated models.
#[derive(Debug, Clone)]
pub struct Profiles {
    models: BTreeMap<String, Calibrated>,
}

impl Profiles {
    /// The file that `EAGER_PROFILES` names, or else `eager/profiles.json` in the user's configuration folder.
    pub fn place() -> Option<PathBuf> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        named.or_else(|| dirs::config_dir().map(|folder| folder.join("eager").join("profiles.json")))
    }

    /// Reads the file; one that is not there knows no model.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let models = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| RunError::Manifest {
                path: path.to_owned(),
                why: format!("{error}; repair it, or remove it and calibrate again"),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(RunError::io("read", path)(error)),
        };
        Ok(Profiles { models })
    }

    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    pub fn get(&self, hash: &str) -> Option<&Calibrated> {
        self.models.get(hash)
    }

    /// Adds a model to the file as it is by now.
    pub fn store(path: &Path, hash: &str, calibrated: Calibrated) -> Result<(), RunError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(RunError::io("create", folder))?;
        }
        // A file of its own, because the one that is read is replaced. It is held for as long as it takes to write a few
        // lines, and let go of when this returns.
        let beside = path.with_extension("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&beside)
            .map_err(RunError::io("open", &beside))?;
        lock.lock().map_err(RunError::io("lock", &beside))?;
        let mut models = Profiles::read(path)?.models;
        models.insert(hash.to_owned(), calibrated);
        replace(path, |out| crate::run::write_pretty(out, &models))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acorn() -> Calibrated {
        Calibrated {
            name: "acorn".to_owned(),
            theta_init: 0.3,
            theta_full: 0.4,
            suite: "acorn".to_owned(),
            examples: 10,
            max_sequences: 32,
            temperature: 0.6,
            seed: 0,
        }
    }

    #[test]
    fn what_is_stored_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("profiles.json");
        let acorn = acorn();
        Profiles::store(&path, "1234", acorn.clone()).unwrap();
        let read = Profiles::read(&path).unwrap();
        assert_eq!(read.get("1234"), Some(&acorn));
        assert_eq!(read.get("5678"), None);
        std::fs::write(&path, "{").unwrap();
        assert!(Profiles::read(&path).unwrap_err().to_string().contains("calibrate again"));
    }

    #[test]
    fn nothing_is_lost_between_several_who_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles.json");
        let hashes: Vec<String> = (0..16).map(|model| format!("{model:04}")).collect();
        std::thread::scope(|scope| {
            for hash in &hashes {
                scope.spawn(|| Profiles::store(&path, hash, acorn()).unwrap());
            }
        });
        let read = Profiles::read(&path).unwrap();
        for hash in &hashes {
            assert_eq!(read.get(hash), Some(&acorn()), "{hash}");
        }
    }
}
