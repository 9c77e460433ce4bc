//! Text out of tokens while they still come, never half a character.
//!
//! Byte-level tokens are bytes, not characters: an emoji may take four of them, and a reader must not see the first
//! three. [`TextStream`] keeps the bytes of an unfinished character to itself until the token that completes it, or
//! that shows it never will be, and passes everything else on at once. What it has passed on is never taken back.
//!
//! It works on the bytes of single tokens, so that a token costs the same at the end of a long sequence as at its
//! start. The two decoders of the models we run are spelled out here; for any other the `tokenizers` crate is asked,
//! two tokens at a time.

use serde_json::{Value, json};

use super::Tokenizer;

/// How a vocabulary spells bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Every byte as a letter (`Ġ` is a space), as in GPT-2.
    Letters,
    /// Pieces of text with `▁` for a space, and `<0xE2>` for a byte, as in SentencePiece. Perhaps the first space of a
    /// text is not part of it.
    Pieces { strip: bool },
    /// Some other decoder.
    Other,
}

impl Spelling {
    /// Looks at the decoder of a tokenizer.json.
    pub fn of(decoder: &Value) -> Self {
        let pieces = [
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        match (decoder["type"].as_str(), decoder["decoders"].as_array()) {
            (Some("ByteLevel"), _) => Self::Letters,
            (Some("Sequence"), Some(steps)) if steps.starts_with(&pieces) => match &steps[pieces.len()..] {
                [] => Self::Pieces { strip: false },
                [last] if *last == strip => Self::Pieces { strip: true },
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Decodes one sequence token by token; see [`Tokenizer::stream`].
#[derive(Debug, Clone)]
pub struct TextStream {
    tokenizer: Tokenizer,
    last: Option<u32>,
    /// The start of a character: at most three bytes between calls.
    pending: Vec<u8>,
    text: String,
}

impl TextStream {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, last: None, pending: Vec::new(), text: String::new() }
    }

    /// The text that this token completes: often one word, nothing within a character, U+FFFD for bytes that can
    /// no longer become one. Unknown tokens have no text.
    pub fn push(&mut self, token: u32) -> &str {
        self.text.clear();
        if self.tokenizer.spell(self.last, token, &mut self.pending) {
            self.last = Some(token);
        }
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            self.text.push_str(chunk.valid());
            done += chunk.valid().len();
            let broken = chunk.invalid();
            if broken.is_empty() || self.pending.len() == done + broken.len() && could_go_on(broken) {
                break;
            }
            self.text.push(char::REPLACEMENT_CHARACTER);
            done += broken.len();
        }
        self.pending.drain(..done);
        &self.text
    }

    /// Whether a character has begun and not ended.
    pub fn is_within_character(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What is left when no more tokens come: nothing, or U+FFFD for a character that was cut short.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Whether bytes are the beginning of some character, as opposed to of none.
fn could_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

/// Appends the bytes of a piece of a SentencePiece vocabulary.
pub(super) fn spell_piece(piece: &str, first: bool, strip: bool, into: &mut Vec<u8>) {
    let hex = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
    if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        if !(first && strip && byte == b' ') {
            into.push(byte);
        }
        return;
    }
    let piece = if first && strip { piece.strip_prefix(['▁', ' ']).unwrap_or(piece) } else { piece };
    into.extend(piece.replace('▁', " ").bytes());
}

/// Appends the bytes of a token spelled in letters. One that is not (an added token may be any text) stands for itself.
pub(super) fn spell_letters(token: &str, into: &mut Vec<u8>) {
    let start = into.len();
    for letter in token.chars() {
        match byte_of(letter) {
            Some(byte) => into.push(byte),
            None => {
                into.truncate(start);
                into.extend(token.bytes());
                return;
            }
        }
    }
}

/// Which byte a letter stands for. Printable bytes of Latin-1 stand for themselves; the other 68, in order, are the
/// letters from U+0100 on.
fn byte_of(letter: char) -> Option<u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(letter) {
        code @ 0..=0xff => Some(code as u8).filter(|&byte| printable(byte)),
        code => (0..=0xff).filter(|&byte| !printable(byte)).nth(code as usize - 0x100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_the_bytes_that_the_crate_gives_them() {
        let mut known = std::collections::BTreeMap::new();
        for letter in tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet() {
            known.insert(byte_of(letter).unwrap(), letter);
        }
        assert_eq!(known.len(), 256);
        assert_eq!((known[&b' '], known[&b'\n'], known[&0], known[&0xad]), ('Ġ', 'Ċ', 'Ā', 'Ń'));
        assert_eq!((byte_of(' '), byte_of('ń'), byte_of('日')), (None, None, None));
    }

    #[test]
    fn pieces_are_text_or_bytes() {
        for (piece, first, expected) in [
            ("▁tree", false, &b" tree"[..]),
            ("▁tree", true, b"tree"),
            ("▁▁a", true, b" a"),
            ("<0xE2>", true, b"\xe2"),
            ("<0x20>", true, b""),
            ("<0x20>", false, b" "),
            ("<0xZZ>", false, b"<0xZZ>"),
            ("a▁b", false, b"a b"),
        ] {
            let mut bytes = Vec::new();
            spell_piece(piece, first, true, &mut bytes);
            assert_eq!(bytes, expected, "{piece}");
        }
    }
}
