//! What can go wrong between a path and a model, each as one sentence a user can act on.

use std::path::PathBuf;

/// An error from opening or reading a model. Every message names the file it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },

    #[error(
        "there is no model at {}: give a .gguf file, or a folder with config.json, \
         tokenizer.json and *.safetensors",
        path.display()
    )]
    NotFound { path: PathBuf },

    #[error("{} is not a model: expected a .gguf file, a .safetensors file or a folder", path.display())]
    NotAModel { path: PathBuf },

    #[error("{} has no {missing}: {advice}", folder.display())]
    Incomplete { folder: PathBuf, missing: &'static str, advice: &'static str },

    #[error("{file} is truncated: it ends inside {inside}; download it again")]
    Truncated { file: String, inside: String },

    #[error("{file} is damaged or not what its name says: {why}")]
    Malformed { file: String, why: String },

    #[error("{file} holds a model of architecture \"{found}\"; supported are {supported}")]
    Architecture { file: String, found: String, supported: String },

    #[error("{file} needs {what}, which this engine does not support")]
    Unsupported { file: String, what: String },

    #[error("{file} has no tensor \"{name}\"")]
    MissingTensor { file: String, name: String },

    #[error("{file}: tensor \"{name}\" has shape {found:?}, expected {expected:?}")]
    Shape { file: String, name: String, found: Vec<usize>, expected: Vec<usize> },

    #[error("{file}: the tokenizer cannot be used: {why}")]
    Tokenizer { file: String, why: String },

    #[error("{file}: the chat template failed: {why}")]
    Template { file: String, why: String },
}

impl LoadError {
    pub(super) fn malformed(file: &str, why: impl Into<String>) -> Self {
        Self::Malformed { file: file.to_owned(), why: why.into() }
    }

    pub(super) fn unsupported(file: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { file: file.to_owned(), what: what.into() }
    }
}
