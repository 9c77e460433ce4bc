//! A run is a folder: `run.json` says what was asked, `samples.jsonl` holds every finished prompt, `metrics.json` what came
//! out.

mod manifest;
mod sample;

pub use manifest::{FORMAT, Manifest, ModelInfo, Parameters, SuiteInfo};
pub use sample::{Sample, SampleSequence};

/// A run as it was read from its folder.
#[derive(Debug, Clone)]
pub struct Run {
    pub folder: std::path::PathBuf,
    pub manifest: Manifest,
    /// In the suite's order where the run is complete.
    pub samples: Vec<Sample>,
    /// What was asked; empty for suites that may not be written down.
    pub problems: Vec<Asked>,
}

/// A line of `problems.jsonl`: the text of a problem and its right answer, for people who look at the run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    pub id: String,
    pub problem: String,
    pub gold: Option<String>,
}
