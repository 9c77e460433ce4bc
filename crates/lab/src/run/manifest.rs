//! `run.json`: everything needed to repeat a run, and to see that two runs can be compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::theta::FoundTheta;

/// The layout of a run's folder. Raised when older programs would misread it.
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// The program that began the run.
    pub version: String,
    pub model: ModelInfo,
    pub suite: SuiteInfo,
    /// As `--method` takes it.
    pub method: String,
    pub parameters: Parameters,
    pub seed: u64,
    /// Where theta was neither given nor calibrated: how it was found. The run itself depends on theta alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_theta: Option<FoundTheta>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub name: String,
    /// SHA-256 of its files.
    pub hash: String,
    /// Where it was loaded from; the embedded model has no place.
    pub path: Option<String>,
    /// What decodes: `native` with its kernel and the type of its keys and values. Other kernels round differently.
    pub engine: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteInfo {
    pub name: String,
    /// SHA-256 of the chosen problems and how they are put to the model.
    pub hash: String,
    pub problems: usize,
}

/// The options of a method, as far as it has them: all that changes what is decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    pub max_sequences: usize,
    pub max_tokens: usize,
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: usize,
    pub min_p: f32,
    /// `None` for methods that do not fork.
    pub theta: Option<f32>,
    pub entropy_top_k: usize,
    pub entropy_temperature: Option<f32>,
    /// How the paper's second pass was read; `None` for methods that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_pass: Option<String>,
    /// Whatever else the method was told, by the names of the command's options.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// What holds where another run's `options` say nothing: those that they know by now may be younger than that run.
    #[serde(skip)]
    pub defaults: BTreeMap<String, Value>,
}
