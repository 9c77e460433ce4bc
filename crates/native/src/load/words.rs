//! The words of a model without its weights: what it takes to speak to one that runs elsewhere.

use std::path::Path;

use super::bytes::Bytes;
use super::{ChatTemplate, Checkpoint, LoadError, Tokenizer, gguf, gguf_config, gguf_vocab, hf};

/// How a model reads and writes.
#[derive(Debug)]
pub struct Words {
    /// What the model calls itself, or else the name of its file or folder.
    pub name: String,
    pub tokenizer: Tokenizer,
    /// How the model wants a conversation written; `None` for a base model.
    pub chat: Option<ChatTemplate>,
    /// The token that comes before every prompt, if there is one.
    pub bos: Option<u32>,
    /// The tokens that end a response.
    pub stop_tokens: Vec<u32>,
}

impl Words {
    /// Opens a GGUF file, or a folder with `tokenizer.json`. It need not hold any weights, and the model may be one that
    /// this engine cannot run.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        if path.is_dir() {
            return hf::words(path);
        }
        let found = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
            _ => LoadError::Io { path: path.to_owned(), source },
        };
        std::fs::metadata(path).map_err(found)?;
        match (path.extension().and_then(|e| e.to_str()), path.parent()) {
            (Some("safetensors" | "json"), Some(folder)) => hf::words(folder),
            _ => Self::from_gguf(path),
        }
    }

    fn from_gguf(path: &Path) -> Result<Self, LoadError> {
        let bytes = Bytes::map(path)?;
        if !bytes.starts_with(gguf::MAGIC) {
            return Err(LoadError::NotAModel { path: path.to_owned() });
        }
        // The first part of a split model has all the words.
        let file = path.display().to_string();
        let parsed = gguf::Gguf::parse(&bytes, &file)?;
        let tokenizer = gguf_vocab::tokenizer(&parsed)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Words {
            name: parsed.str("general.name")?.unwrap_or(&stem).to_owned(),
            stop_tokens: gguf_config::stop_tokens(&parsed, &tokenizer, tokenizer.len())?,
            bos: gguf_config::bos(&parsed)?,
            chat: gguf_vocab::chat_template(&parsed)?,
            tokenizer,
        })
    }

    /// The tokens of a prompt, with the model's first token in front where its files ask for one and the text
    /// (as chat templates like to) has not brought it along.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, LoadError> {
        Ok(begun_with(self.bos, self.tokenizer.encode(text)?))
    }
}

pub(super) fn begun_with(bos: Option<u32>, mut ids: Vec<u32>) -> Vec<u32> {
    if let Some(bos) = bos
        && ids.first() != Some(&bos)
    {
        ids.insert(0, bos);
    }
    ids
}

impl From<Checkpoint> for Words {
    /// What remains of a model when its weights are packed.
    fn from(checkpoint: Checkpoint) -> Self {
        let Checkpoint { config, tokenizer, chat, name, .. } = checkpoint;
        Words { name, tokenizer, chat, bos: config.bos, stop_tokens: config.stop_tokens }
    }
}
