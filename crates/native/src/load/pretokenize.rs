//! How byte-level BPE cuts text before it merges.
//!
//! Merges never cross the pieces that these expressions cut, so a wrong one gives other tokens than the model
//! was trained on, silently. GGUF names the cut (`tokenizer.ggml.pre`) but does not contain it; this table does.
//! The expressions are applied one after the other, each to the pieces that the one before left over.

use serde_json::{Value, json};

pub(super) struct Pre {
    splits: &'static [&'static str],
    /// Accents are composed with their letters first.
    pub composes: bool,
    /// A piece that is itself a token is taken whole, without replaying its merges.
    pub ignore_merges: bool,
    /// A file that does not say whether to put the first token in front means yes.
    pub adds_bos: bool,
}

/// The cut of GPT-2: contractions, words, numbers, punctuation, spaces.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Llama 3's with every digit alone. Qwen composes accents (NFC) first, as its tokenizer.json says and its GGUF does not.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The names we know, for the message about one we do not.
pub(super) const NAMES: &str =
    "default, gpt-2, llama-bpe, qwen2, deepseek-r1-qwen, smollm, starcoder and gpt-4o";

/// The cut of a given name.
pub(super) fn find(name: &str) -> Option<Pre> {
    let plain = |splits| Pre { splits, composes: false, ignore_merges: false, adds_bos: false };
    Some(match name {
        "default" => plain(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"]),
        "gpt-2" | "phi-2" | "mpt" | "olmo" => plain(&[GPT2]),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => plain(&[r"\p{N}", GPT2]),
        "qwen2" | "deepseek-r1-qwen" => Pre { composes: true, ..plain(&[QWEN2]) },
        "stablelm2" => plain(&[QWEN2]),
        "gpt-4o" | "llama4" => Pre { ignore_merges: true, ..plain(&[GPT4O]) },
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" => {
            Pre { ignore_merges: true, adds_bos: true, ..plain(&[LLAMA3]) }
        }
        "dbrx" | "smaug-bpe" => plain(&[LLAMA3]),
        _ => return None,
    })
}

impl Pre {
    /// As the `pre_tokenizer` of a tokenizer.json.
    pub fn to_json(&self) -> Value {
        let split = |regex| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let mut steps: Vec<Value> = self.splits.iter().map(split).collect();
        steps.push(
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
        );
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

    /// The pieces of an ASCII text, before bytes are spelled as letters.
    fn pieces(name: &str, text: &str) -> Vec<String> {
        let json = super::find(name).unwrap().to_json().to_string();
        let pre: PreTokenizerWrapper = serde_json::from_str(&json).unwrap();
        let mut cut = PreTokenizedString::from(text);
        pre.pre_tokenize(&mut cut).unwrap();
        let pieces = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        pieces.into_iter().map(|(_, (start, end), _)| text[start..end].to_owned()).collect()
    }

    #[test]
    fn digits_are_grouped_as_each_model_was_trained() {
        for (name, expected) in [
            ("gpt-2", &["12345"][..]),
            ("default", &["123", "45"]),
            ("llama-bpe", &["123", "45"]),
            ("gpt-4o", &["123", "45"]),
            ("qwen2", &["1", "2", "3", "4", "5"]),
            ("deepseek-r1-qwen", &["1", "2", "3", "4", "5"]),
            ("smollm", &["1", "2", "3", "4", "5"]),
            ("starcoder", &["1", "2", "3", "4", "5"]),
        ] {
            assert_eq!(pieces(name, "12345"), expected, "{name}");
        }
    }

    #[test]
    fn words_keep_the_space_before_them() {
        assert_eq!(pieces("gpt-2", "it's  a\n\n tree."), ["it", "'s", " ", " a", "\n\n", " tree", "."]);
        assert_eq!(pieces("qwen2", "IT'S  a\n\n tree.\n"), ["IT", "'S", " ", " a", "\n\n", " tree", ".\n"]);
        assert_eq!(pieces("smollm", "x = 42"), ["x", " =", " ", "4", "2"]);
        assert_eq!(pieces("llama-bpe", "(tree) 1234"), ["(tree", ")", " ", "123", "4"]);
        assert_eq!(pieces("gpt-4o", "TreeFork's a/\n"), ["Tree", "Fork's", " a", "/\n"]);
        assert_eq!(pieces("default", "a<=b"), ["a", "<=", "b"]);
    }

    #[test]
    fn every_name_we_advertise_is_known() {
        for name in super::NAMES.replace(" and ", ", ").split(", ") {
            assert!(super::find(name).is_some(), "{name}");
        }
        assert!(super::find("klingon").is_none());
    }
}
