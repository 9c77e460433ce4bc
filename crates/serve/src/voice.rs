//! Tokens to text while they come: never half a character, and nothing that may yet turn out to be a stop string.
//!
//! A token is not a piece of text. One character may take several tokens, and some tokenizers write a word differently
//! at the start of a text than inside one. So a new token is decoded together with the ones before it, and only what the
//! longer text adds is new. Text that could be the beginning of a stop string is held back until more is known.

use std::sync::Arc;

use eager_core::Token;

use crate::model::Speech;

/// Tokens that may wait for the rest of their character. A character has four bytes at most, so what has not become one
/// by then never will.
const PATIENCE: usize = 16;

/// Says a sequence aloud, token by token.
#[derive(Debug, Clone)]
pub struct Voice {
    words: Arc<dyn Speech>,
    /// Strings that end the text; what follows them, and they themselves, are not said.
    stops: Arc<[String]>,
    /// In the text of so many tokens no stop string is looked for.
    deaf: usize,
    /// Tokens so far.
    tokens: usize,
    /// The last tokens, of which the first `read` have been said.
    window: Vec<Token>,
    read: usize,
    /// The text of those.
    said: String,
    text: String,
    /// How much of the text can no longer become a stop string.
    safe: usize,
    /// How much of it was taken.
    taken: usize,
    stopped: bool,
}

impl Voice {
    /// Stop strings count only in what comes after the first `deaf` tokens.
    pub fn new(words: Arc<dyn Speech>, stops: Arc<[String]>, deaf: usize) -> Self {
        Voice {
            words,
            stops,
            deaf,
            tokens: 0,
            window: Vec::new(),
            read: 0,
            said: String::new(),
            text: String::new(),
            safe: 0,
            taken: 0,
            stopped: false,
        }
    }

    /// The next token. Returns what it adds to the text, which is nothing while a character is incomplete; a token that
    /// completes a character is the one that says it.
    pub fn push(&mut self, token: Token) -> &str {
        let before = self.text.len();
        if self.stopped {
            return "";
        }
        self.tokens += 1;
        self.window.push(token);
        let longer = self.words.decode(&self.window);
        let waits = longer.ends_with('\u{FFFD}') && self.window.len() - self.read < PATIENCE;
        // A tokenizer may also take text back, when a token changes how those before it are written.
        if !waits && longer.len() > self.said.len() && longer.is_char_boundary(self.said.len()) {
            self.text.push_str(&longer[self.said.len()..]);
            self.window.drain(..self.read);
            self.read = self.window.len();
            self.said = self.words.decode(&self.window);
            self.look_for_stops();
        }
        &self.text[before.min(self.text.len())..]
    }

    /// Nothing follows: what was held back is said as it is.
    pub fn finish(&mut self) {
        if self.stopped {
            return;
        }
        let longer = self.words.decode(&self.window);
        if longer.len() > self.said.len() && longer.is_char_boundary(self.said.len()) {
            self.text.push_str(&longer[self.said.len()..]);
            self.read = self.window.len();
            self.said = longer;
            self.look_for_stops();
        }
        self.safe = self.text.len();
    }

    /// Has a stop string come?
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// All that is settled, from the beginning.
    pub fn settled(&self) -> &str {
        &self.text[..self.safe]
    }

    /// What has been settled since this was last called.
    pub fn take(&mut self) -> &str {
        let from = self.taken;
        self.taken = self.safe;
        &self.text[from..self.safe]
    }

    /// Forgets that anything was taken: a fork tells its story from the beginning.
    pub fn rewind(&mut self) {
        self.taken = 0;
    }

    fn look_for_stops(&mut self) {
        if self.tokens <= self.deaf {
            self.safe = self.text.len();
            return;
        }
        // What is safe cannot be the beginning of a stop string, so none begins there.
        let found = self.stops.iter().filter_map(|stop| self.text[self.safe..].find(stop.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(self.safe + at);
            self.stopped = true;
            self.safe = self.text.len();
            return;
        }
        let tail = &self.text[self.safe..];
        let held = |stop: &String| {
            let longest = stop.len().saturating_sub(1).min(tail.len());
            (1..=longest).rev().find(|&n| stop.is_char_boundary(n) && tail.ends_with(&stop[..n])).unwrap_or(0)
        };
        self.safe = self.text.len() - self.stops.iter().map(held).max().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_native::load::{ChatOptions, Message};
    use proptest::prelude::*;

    /// A tokenizer of single bytes: every way to cut a character in two can happen.
    #[derive(Debug)]
    struct Bytes;

    impl Speech for Bytes {
        fn encode(&self, text: &str) -> Result<Vec<Token>, String> {
            Ok(text.bytes().map(Token::from).collect())
        }

        fn converse(&self, _: &[Message], _: &ChatOptions) -> Result<Vec<Token>, String> {
            Err("bytes do not talk".to_owned())
        }

        fn decode(&self, tokens: &[Token]) -> String {
            let bytes: Vec<u8> = tokens.iter().map(|&t| t as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    fn voice(stops: &[&str]) -> Voice {
        Voice::new(Arc::new(Bytes), stops.iter().map(|s| s.to_string()).collect(), 0)
    }

    /// What is said after each byte.
    fn said(text: &[u8], stops: &[&str]) -> (Vec<String>, bool) {
        let mut voice = voice(stops);
        let mut pieces = Vec::new();
        for &byte in text {
            voice.push(Token::from(byte));
            pieces.push(voice.take().to_owned());
        }
        voice.finish();
        pieces.push(voice.take().to_owned());
        (pieces, voice.is_stopped())
    }

    #[test]
    fn characters_come_whole() {
        let (pieces, _) = said("aé€".as_bytes(), &[]);
        assert_eq!(pieces, ["a", "", "é", "", "", "€", ""]);
        let (pieces, _) = said(&[b'a', 0xE2, 0x82], &[]);
        assert_eq!(pieces, ["a", "", "", "\u{FFFD}"]);
    }

    #[test]
    fn what_may_become_a_stop_string_is_held_back() {
        let (pieces, stopped) = said(b"one\n\ntwo", &["\n\n"]);
        assert_eq!((pieces.concat().as_str(), stopped), ("one", true));
        let (pieces, stopped) = said(b"one\ntwo", &["\n\n"]);
        assert_eq!(pieces, ["o", "n", "e", "", "\nt", "w", "o", ""]);
        assert!(!stopped);
        // The end shows that it was none.
        let (pieces, stopped) = said(b"aEN", &["END"]);
        assert_eq!((pieces.concat().as_str(), stopped), ("aEN", false));
        // The first to come wins, and a beginning inside a beginning is seen.
        assert_eq!(said(b"xaab-", &["aab", "b-"]).0.concat(), "x");
    }

    #[test]
    fn stop_strings_do_not_count_in_the_first_tokens() {
        let stops = ["b".to_owned()].into();
        let mut voice = Voice::new(Arc::new(Bytes), stops, 2);
        for byte in "abcab".bytes() {
            voice.push(Token::from(byte));
        }
        voice.finish();
        assert_eq!((voice.settled(), voice.is_stopped()), ("abca", true));
    }

    proptest! {
        #[test]
        fn pieces_add_up_to_the_text(text in "[ab\u{e9}\u{20ac}\u{1F600}\n]{0,40}", stop in "[ab\n]{1,3}") {
            let expected = text.find(&stop).map_or(text.as_str(), |at| &text[..at]);
            let (pieces, stopped) = said(text.as_bytes(), &[&stop]);
            prop_assert_eq!(pieces.concat(), expected);
            prop_assert_eq!(stopped, text.contains(&stop));
        }

        #[test]
        fn whatever_the_bytes_nothing_is_lost(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let (pieces, _) = said(&bytes, &[]);
            prop_assert_eq!(pieces.concat(), String::from_utf8_lossy(&bytes));
        }
    }
}
