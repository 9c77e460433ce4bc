//! A tokenizer out of GGUF metadata.
//!
//! GGUF keeps the vocabulary as lists and the algorithm as a name. We put both back into the form of a
//! tokenizer.json and let the `tokenizers` crate do the rest, so that there is one implementation of BPE to
//! trust. Two algorithms occur: byte-level BPE (`gpt2`), where merges are listed, and SentencePiece's BPE
//! (`llama`), where only scores are: a merge is possible wherever two tokens make a third, and the score of
//! the third decides which comes first.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::gguf::Gguf;
use super::{ChatTemplate, LoadError, Tokenizer, pretokenize};

/// The kinds of token in `tokenizer.ggml.token_type`.
const UNKNOWN: i128 = 2;
const CONTROL: i128 = 3;
const USER_DEFINED: i128 = 4;

/// No real token is longer; a longer one is not worth the time its splits would take.
const LONGEST_MERGED: usize = 256;

pub(super) fn tokenizer(gguf: &Gguf<'_>) -> Result<Tokenizer, LoadError> {
    let vocabulary = Vocabulary::read(gguf)?;
    let json = match gguf.str("tokenizer.ggml.model")? {
        Some("gpt2") => byte_level(gguf, &vocabulary)?,
        Some("llama") => sentence_piece(gguf, &vocabulary)?,
        Some(other) => {
            let what = format!("a tokenizer of kind \"{other}\"");
            return Err(LoadError::unsupported(gguf.file, what));
        }
        None => return Err(bad(gguf, "the file does not contain one")),
    };
    // Serialising a tree of plain values cannot fail.
    Tokenizer::from_json(json.to_string().as_bytes(), gguf.file)
}

/// The chat template, if there is one, with the spellings of the first and last token that it may refer to.
pub(super) fn chat_template(gguf: &Gguf<'_>) -> Result<Option<ChatTemplate>, LoadError> {
    let Some(source) = gguf.str("tokenizer.chat_template")? else { return Ok(None) };
    let tokens = gguf.strings("tokenizer.ggml.tokens")?.unwrap_or_default();
    let spelling = |key| -> Result<Option<String>, LoadError> {
        let id = gguf.token(key)?;
        Ok(id.and_then(|id| tokens.get(id as usize)).map(|text| (*text).to_owned()))
    };
    let (bos, eos) = (spelling("tokenizer.ggml.bos_token_id")?, spelling("tokenizer.ggml.eos_token_id")?);
    Ok(Some(ChatTemplate::new(source, bos, eos, gguf.file)))
}

fn bad(gguf: &Gguf<'_>, why: impl Into<String>) -> LoadError {
    LoadError::Tokenizer { file: gguf.file.to_owned(), why: why.into() }
}

struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    kinds: Vec<i128>,
    /// A text that occurs twice belongs to the first.
    ids: HashMap<&'a str, u32>,
}

impl<'a> Vocabulary<'a> {
    fn read(gguf: &Gguf<'a>) -> Result<Self, LoadError> {
        let tokens = gguf.strings("tokenizer.ggml.tokens")?.unwrap_or_default();
        if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
            return Err(bad(gguf, "the file does not contain one"));
        }
        let kinds = gguf.ints("tokenizer.ggml.token_type")?.unwrap_or_else(|| vec![1; tokens.len()]);
        if kinds.len() != tokens.len() {
            return Err(bad(gguf, format!("{} tokens but {} kinds", tokens.len(), kinds.len())));
        }
        let mut ids = HashMap::new();
        for (&token, id) in tokens.iter().zip(0..) {
            ids.entry(token).or_insert(id);
        }
        Ok(Self { tokens, kinds, ids })
    }

    fn added(&self) -> Value {
        let mut added = Vec::new();
        for (id, (&token, &kind)) in self.tokens.iter().zip(&self.kinds).enumerate() {
            let first = self.ids.get(token).is_some_and(|&first| first as usize == id);
            if !matches!(kind, CONTROL | USER_DEFINED) || token.is_empty() || !first {
                continue;
            }
            added.push(json!({
                "id": id, "content": token, "special": kind == CONTROL,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            }));
        }
        added.into()
    }

    fn model(
        &self,
        merges: Vec<[&str; 2]>,
        unknown: Option<&str>,
        bytes: bool,
        ignore_merges: bool,
    ) -> Value {
        json!({
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": bytes, "byte_fallback": bytes,
            "ignore_merges": ignore_merges, "vocab": self.ids, "merges": merges,
        })
    }
}

fn byte_level(gguf: &Gguf<'_>, vocabulary: &Vocabulary<'_>) -> Result<Value, LoadError> {
    let name = gguf.str("tokenizer.ggml.pre")?.unwrap_or("default");
    let pre = pretokenize::find(name).ok_or_else(|| {
        let what = format!("the pre-tokenizer \"{name}\" (known are {})", pretokenize::NAMES);
        LoadError::unsupported(gguf.file, what)
    })?;
    let lines = gguf.strings("tokenizer.ggml.merges")?.ok_or_else(|| bad(gguf, "it has no merges"))?;
    let mut merges = Vec::with_capacity(lines.len());
    for line in lines {
        let (left, right) =
            line.split_once(' ').ok_or_else(|| bad(gguf, format!("the merge \"{line}\" has one half")))?;
        merges.push([left, right]);
    }
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": pre.composes.then(|| json!({"type": "NFC"})),
        "pre_tokenizer": pre.to_json(),
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": vocabulary.model(merges, None, false, pre.ignore_merges),
    }))
}

fn sentence_piece(gguf: &Gguf<'_>, vocabulary: &Vocabulary<'_>) -> Result<Value, LoadError> {
    let scores = gguf.floats("tokenizer.ggml.scores")?.unwrap_or_default();
    if scores.len() != vocabulary.tokens.len() {
        return Err(bad(gguf, format!("{} tokens but {} scores", vocabulary.tokens.len(), scores.len())));
    }
    let unknown = vocabulary.kinds.iter().position(|&kind| kind == UNKNOWN).map(|id| vocabulary.tokens[id]);
    let leading_space = gguf.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);

    let mut normalizers = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if leading_space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": vocabulary.model(merges_by_score(vocabulary, &scores), unknown, true, false),
    }))
}

/// Every way to make a token out of two others, the best scored result first.
fn merges_by_score<'a>(vocabulary: &Vocabulary<'a>, scores: &[f32]) -> Vec<[&'a str; 2]> {
    let mut merges = Vec::new();
    for (id, &token) in vocabulary.tokens.iter().enumerate() {
        if vocabulary.kinds[id] != 1 || token.len() > LONGEST_MERGED {
            continue;
        }
        for (middle, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(middle);
            if let (Some(l), Some(r)) = (vocabulary.ids.get(left), vocabulary.ids.get(right)) {
                merges.push((scores[id], id, *l, *r, [left, right]));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    merges.into_iter().map(|(.., pair)| pair).collect()
}
