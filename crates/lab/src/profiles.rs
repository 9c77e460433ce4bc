//! What calibration found out about models, kept for later commands.
//!
//! One small file for the user, keyed by the hash of the model's files: a model may be renamed or moved, and another
//! quantisation of it is another model.

use std::collections::BTreeMap;
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
    path: PathBuf,
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
        Ok(Profiles { path: path.to_owned(), models })
    }

    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    pub fn get(&self, hash: &str) -> Option<&Calibrated> {
        self.models.get(hash)
    }

    /// Adds a model, and writes the file.
    pub fn store(&mut self, hash: &str, calibrated: Calibrated) -> Result<&Path, RunError> {
        self.models.insert(hash.to_owned(), calibrated);
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(RunError::io("create", folder))?;
        }
        replace(&self.path, |out| crate::run::write_pretty(out, &self.models))?;
        Ok(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("profiles.json");
        let acorn = Calibrated {
            name: "acorn".to_owned(),
            theta_init: 0.3,
            theta_full: 0.4,
            suite: "acorn".to_owned(),
            examples: 10,
            max_sequences: 32,
            temperature: 0.6,
            seed: 0,
        };
        Profiles::read(&path).unwrap().store("1234", acorn.clone()).unwrap();
        let read = Profiles::read(&path).unwrap();
        assert_eq!(read.get("1234"), Some(&acorn));
        assert_eq!(read.get("5678"), None);
        std::fs::write(&path, "{").unwrap();
        assert!(Profiles::read(&path).unwrap_err().to_string().contains("calibrate again"));
    }
}
