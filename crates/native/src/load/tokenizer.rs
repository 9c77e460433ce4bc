//! Text to tokens and back, by Hugging Face's `tokenizers`, whether the vocabulary came from a tokenizer.json
//! or out of a GGUF.

use std::path::Path;
use std::sync::Arc;

use eager_core::profile::reasoning_end;

use super::bytes::Bytes;
use super::quiet::quietly;
use super::stream::{Spelling, TextStream, spell_letters, spell_piece};
use super::{LoadError, gguf, gguf_vocab};

/// What we say when the crate panics: only a tokenizer that contradicts itself can make it.
const DAMAGED: &str = "it is damaged";

/// Texts of tokens that end a turn or a document. Files name one end token and mean several: a chat model
/// stops at the end of its turn, but also where a document would have ended in its pre-training.
const ENDS: [&str; 10] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
];

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    spelling: Spelling,
    file: Arc<str>,
    len: usize,
    /// Tokens from here on have no row in the embedding.
    limit: usize,
}

impl Tokenizer {
    /// Opens the tokenizer of a model without the model: a tokenizer.json or the folder that has one, or a GGUF, which
    /// needs no weights for this.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let path = if path.is_dir() { &path.join("tokenizer.json") } else { path };
        let bytes = Bytes::map(path)?;
        let file = path.display().to_string();
        if bytes.starts_with(gguf::MAGIC) {
            return gguf_vocab::tokenizer(&gguf::Gguf::parse(&bytes, &file)?);
        }
        Self::from_json(&bytes, &file)
    }

    pub(super) fn from_json(json: &[u8], file: &str) -> Result<Self, LoadError> {
        let bad = |why: String| LoadError::Tokenizer { file: file.to_owned(), why };
        let mut inner = parse(json).map_err(&bad)?;
        // A prompt is never cut or padded behind the caller's back.
        inner.with_truncation(None).map_err(|e| bad(e.to_string()))?;
        inner.with_padding(None);
        let last = inner.get_vocab(true).into_values().max();
        let len = last.map_or(0, |id| id as usize + 1);
        if len == 0 {
            return Err(bad("it has no tokens".to_owned()));
        }
        // Serialising a tree of plain values cannot fail; a decoder that did would be one we do not know.
        let spelling = Spelling::of(&serde_json::to_value(inner.get_decoder()).unwrap_or_default());
        Ok(Self { inner: Arc::new(inner), spelling, file: file.into(), len, limit: usize::MAX })
    }

    /// Makes [`Tokenizer::encode`] refuse what the model cannot embed.
    pub(super) fn limit_to(&mut self, vocab: usize) {
        self.limit = vocab;
    }

    /// The tokens of a text. Special tokens written out in the text (`<|im_end|>`) become those tokens; none
    /// are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LoadError> {
        let bad = |why: String| LoadError::Tokenizer { file: self.file.as_ref().to_owned(), why };
        let encoding = quietly(|| self.inner.encode_fast(text, false))
            .ok_or_else(|| bad(DAMAGED.to_owned()))?
            .map_err(|e| bad(e.to_string()))?;
        let ids = encoding.get_ids();
        match ids.iter().find(|&&id| id as usize >= self.limit) {
            Some(id) => {
                Err(bad(format!("the text has the token {id}, but the model knows only {}", self.limit)))
            }
            None => Ok(ids.to_vec()),
        }
    }

    /// The text of tokens, special ones written out. Unknown ids are left out; bytes that are not yet, or never
    /// will be, UTF-8 come as U+FFFD; for a growing sequence there is [`Tokenizer::stream`].
    pub fn decode(&self, ids: &[u32]) -> String {
        match quietly(|| self.inner.decode(ids, false)) {
            Some(Ok(text)) => text,
            // Only the decoder of a damaged file fails; the raw tokens still tell what was said.
            _ => ids.iter().filter_map(|&id| self.inner.id_to_token(id)).collect(),
        }
    }

    /// Decodes a sequence as it grows. All that the stream gives, and then its end, is what [`Tokenizer::decode`]
    /// makes of the whole (only bytes that are not UTF-8 may come as fewer or more U+FFFD).
    pub fn stream(&self) -> TextStream {
        TextStream::new(self.clone())
    }

    /// Appends the bytes of a token that follows another, or begins a text. False if there is no such token.
    pub(super) fn spell(&self, last: Option<u32>, token: u32, into: &mut Vec<u8>) -> bool {
        let Some(text) = self.inner.id_to_token(token) else { return false };
        match self.spelling {
            Spelling::Letters => spell_letters(&text, into),
            Spelling::Pieces { strip } => spell_piece(&text, last.is_none(), strip, into),
            Spelling::Other => {
                let before = last.map_or_else(String::new, |last| self.decode(&[last]));
                let both: Vec<u32> = last.into_iter().chain([token]).collect();
                let both = self.decode(&both);
                into.extend(both.strip_prefix(&before).unwrap_or(&both).bytes());
            }
        }
        true
    }

    /// The token that is written exactly like this in the vocabulary.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// The tokens that close the model's chain of thought; none where it has no mark for that.
    pub fn reasoning_end(&self) -> Result<Vec<u32>, LoadError> {
        let is_token = |text: &str| Ok::<_, LoadError>(self.token(text).is_some());
        reasoning_end(is_token)?.map_or_else(|| Ok(Vec::new()), |mark| self.encode(mark))
    }

    /// One more than the highest token.
    #[allow(clippy::len_without_is_empty)] // a tokenizer without tokens does not load
    pub fn len(&self) -> usize {
        self.len
    }

    fn is_special(&self, id: u32) -> bool {
        self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id).is_some_and(|t| t.special)
    }

    /// The token that the tokenizer itself puts before a text, if it does.
    pub(super) fn first_of_all(&self) -> Option<u32> {
        quietly(|| self.inner.encode_fast("", true))?.ok()?.get_ids().first().copied()
    }
}

/// Builds the tokenizer from JSON. The crate panics on some damaged files where it should return an error: nearly
/// all of them are not JSON at all, which is cheap to see beforehand; the rest are caught.
fn parse(json: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    serde_json::from_slice::<serde::de::IgnoredAny>(json).map_err(|e| format!("it is not JSON: {e}"))?;
    quietly(|| tokenizers::Tokenizer::from_bytes(json)).ok_or(DAMAGED)?.map_err(|e| e.to_string())
}

/// The tokens named as ends by a model's files, and those that are ends by their text; each once, all in range.
pub(super) fn end_tokens(
    named: Vec<u32>,
    tokenizer: &Tokenizer,
    vocab: usize,
    file: &str,
) -> Result<Vec<u32>, LoadError> {
    // In the harmony format of gpt-oss a message ends so, and the next one, in another channel, may follow.
    let mid_turn = tokenizer.token("<|end|>").filter(|_| tokenizer.token("<|return|>").is_some());
    let by_text = ENDS.iter().filter_map(|text| tokenizer.token(text)).filter(|&id| tokenizer.is_special(id));
    let mut ends = Vec::new();
    for id in named.into_iter().chain(by_text) {
        if id as usize >= vocab {
            let why = format!("its end token {id} is not among its {vocab} tokens");
            return Err(LoadError::malformed(file, why));
        }
        if !ends.contains(&id) && Some(id) != mid_turn {
            ends.push(id);
        }
    }
    Ok(ends)
}
