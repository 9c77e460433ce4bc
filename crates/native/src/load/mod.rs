//! From a path, or bytes compiled into the program, to a model that is ready to run.
//!
//! A model reaches us in one of two forms. A GGUF file holds everything: shape, weights, tokenizer, chat
//! template. A Hugging Face folder spreads the same over `config.json`, `*.safetensors` and `tokenizer.json`.
//! [`Checkpoint`] makes them look alike: one [`Config`], one [`Tokenizer`], one table of tensors under GGUF's
//! names. Weights are mapped, not read: opening costs milliseconds, and what is never touched is never loaded.
//!
//! Files come from strangers. Every length and offset is checked against the bytes that are really there
//! before anything is allocated, and every tensor the engine will ask for is known to exist, with the right
//! shape and a known type, before [`Checkpoint::open`] returns.

mod bounded;
mod bytes;
mod chat;
mod config;
mod dequant;
mod error;
mod experts;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gguf;
mod gguf_config;
mod gguf_vocab;
mod hf;
mod hf_config;
mod jinja;
mod markup;
mod pretokenize;
mod quiet;
mod rope;
pub(crate) mod runs;
mod split;
mod stream;
mod tensor;
mod tokenizer;
mod words;

use std::collections::HashMap;
use std::path::Path;

pub use chat::{ChatOptions, ChatTemplate, Effort, Message};
pub use config::{Architecture, Config, Experts, LayerShape, RopeStyle};
pub use error::LoadError;
pub(crate) use experts::ExpertPart;
pub use stream::TextStream;
pub use tensor::{DType, Tensor};
pub use tokenizer::Tokenizer;
pub use words::Words;

use bytes::Bytes;

/// An opened model.
#[derive(Debug)]
pub struct Checkpoint {
    pub config: Config,
    pub tokenizer: Tokenizer,
    /// How the model wants a conversation written; `None` for a base model.
    pub chat: Option<ChatTemplate>,
    /// What the model calls itself, or else the name of its file or folder.
    pub name: String,
    file: String,
    tensors: HashMap<String, Entry>,
    bytes: Vec<Bytes>,
}

/// Where a tensor lies.
#[derive(Debug, Clone)]
struct Entry {
    /// `Err` keeps the name of a type that we cannot read.
    dtype: Result<DType, String>,
    shape: Vec<usize>,
    /// Which of [`Checkpoint::bytes`], and where in it; checked to be within.
    part: usize,
    start: usize,
    end: usize,
}

impl Entry {
    /// The type, if it is one that we can read.
    fn readable(&self, file: &str, name: &str) -> Result<DType, LoadError> {
        self.dtype
            .clone()
            .map_err(|found| LoadError::unsupported(file, format!("the type {found} (tensor \"{name}\")")))
    }
}

impl Checkpoint {
    /// Opens a `.gguf` file (or one of several that a model is split into), a folder with `config.json`, `tokenizer.json` and `*.safetensors`, or one
    /// `.safetensors` file inside such a folder.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let found = std::fs::metadata(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
            _ => LoadError::Io { path: path.to_owned(), source },
        })?;
        if found.is_dir() {
            return hf::open_folder(path);
        }
        if path.extension().is_some_and(|e| e == "safetensors") {
            return hf::open_file(path);
        }
        let bytes = Bytes::map(path)?;
        if !bytes.starts_with(gguf::MAGIC) && path.extension().is_none_or(|e| e != "gguf") {
            return Err(LoadError::NotAModel { path: path.to_owned() });
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let stem = split::base_name(&stem).map_or(&*stem, |(base, _)| base);
        Self::from_gguf(split::parts(path, bytes)?, stem)
    }

    /// Opens a GGUF that is part of the program.
    pub fn from_gguf_bytes(bytes: &'static [u8]) -> Result<Self, LoadError> {
        Self::from_gguf(vec![(Bytes::Static(bytes), "the embedded model".to_owned())], "embedded")
    }

    fn from_gguf(parts: Vec<split::Part>, stem: &str) -> Result<Self, LoadError> {
        let parsed = split::parse(&parts)?;
        let file = parsed.file.to_owned();
        let mut tokenizer = gguf_vocab::tokenizer(&parsed)?;
        let config = gguf_config::read(&parsed, &tokenizer)?;
        tokenizer.limit_to(config.vocab);
        let chat = gguf_vocab::chat_template(&parsed)?;
        let name = parsed.str("general.name")?.unwrap_or(stem).to_owned();
        let mut tensors = parsed.tensors;
        tensors.remove("rope_freqs.weight"); // now in the config
        // gpt-oss's norm before the experts has a name of its own, and the same place as everyone's.
        for layer in (0..config.layers).filter(|_| config.architecture == Architecture::GptOss) {
            if let Some(entry) = tensors.remove(&format!("blk.{layer}.post_attention_norm.weight")) {
                tensors.insert(format!("blk.{layer}.ffn_norm.weight"), entry);
            }
        }
        let bytes = parts.into_iter().map(|(bytes, _)| bytes).collect();
        let checkpoint = Self { config, tokenizer, chat, name, file, tensors, bytes };
        checkpoint.check_tensors()?;
        Ok(checkpoint)
    }

    /// A tensor by its GGUF name (`blk.0.attn_q.weight`), whichever kind of file it came from.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, LoadError> {
        let entry = self
            .tensors
            .get(name)
            .ok_or_else(|| LoadError::MissingTensor { file: self.file.clone(), name: name.to_owned() })?;
        let dtype = entry.readable(&self.file, name)?;
        let data = &self.bytes[entry.part][entry.start..entry.end];
        Ok(Tensor { dtype, shape: entry.shape.clone(), data })
    }

    /// As [`Checkpoint::tensor`], refusing any other shape.
    pub fn tensor_with_shape(&self, name: &str, shape: &[usize]) -> Result<Tensor<'_>, LoadError> {
        let tensor = self.tensor(name)?;
        if tensor.shape != shape {
            return Err(LoadError::Shape {
                file: self.file.clone(),
                name: name.to_owned(),
                found: tensor.shape,
                expected: shape.to_vec(),
            });
        }
        Ok(tensor)
    }

    /// Says that a tensor was read for the last time: it need no longer be in memory.
    pub(crate) fn let_go(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            self.bytes[entry.part].let_go(entry.start..entry.end);
        }
    }

    /// Whether there is such a tensor. `output.weight` is the one that may be missing: then the embedding is
    /// also the output matrix.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Numbers in all tensors.
    pub fn parameters(&self) -> usize {
        self.tensors.iter().map(numbers).sum()
    }

    /// Numbers in the tensors of all experts, and their bytes as the file has them.
    pub fn expert_parameters(&self) -> (usize, usize) {
        let of_experts = self.tensors.iter().filter(|(name, _)| experts::is_of_experts(name));
        of_experts.fold((0, 0), |(count, bytes), (name, entry)| {
            (count + numbers((name, entry)), bytes + entry.end - entry.start)
        })
    }

    /// Bytes of all tensors, as the file has them.
    pub fn tensor_bytes(&self) -> usize {
        self.tensors.values().map(|t| t.end - t.start).sum()
    }

    /// The type of every tensor, and its bytes.
    pub fn types(&self) -> impl Iterator<Item = (DType, usize)> + '_ {
        // Every tensor was found readable when the model was opened.
        self.tensors.values().filter_map(|t| Some((t.dtype.clone().ok()?, t.end - t.start)))
    }

    /// The tokens of a prompt, with the model's first token in front where its files ask for one and the text
    /// (as chat templates like to) has not brought it along.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, LoadError> {
        Ok(words::begun_with(self.config.bos, self.tokenizer.encode(text)?))
    }

    /// All the tensors that the model needs, no tensor that we would silently ignore.
    fn check_tensors(&self) -> Result<(), LoadError> {
        let mut expected = self.config.tensors();
        if self.has("output.weight") {
            expected.push(("output.weight".to_owned(), vec![self.config.vocab, self.config.hidden]));
        }
        for (name, shape) in &expected {
            self.tensor_with_shape(name, shape)?;
        }
        self.check_experts(&mut expected)?;
        let known: std::collections::HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        // Sorted, so that the same file always gives the same message.
        let stranger = self.tensors.keys().filter(|name| !known.contains(name.as_str())).min();
        match stranger {
            None => Ok(()),
            Some(name) => {
                let architecture = self.config.architecture.name();
                let what = format!("the tensor \"{name}\", unknown in the architecture {architecture}");
                Err(LoadError::unsupported(&self.file, what))
            }
        }
    }
}

/// Numbers in a tensor.
fn numbers((name, entry): (&String, &Entry)) -> usize {
    entry.shape.iter().product::<usize>() * experts::numbers_per_element(name)
}
