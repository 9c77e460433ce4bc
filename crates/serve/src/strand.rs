//! A sequence as somebody has heard it so far: its tokens, and the voice that says them.

use eager_core::Token;

use crate::growth::Seed;
use crate::voice::Voice;

#[derive(Debug, Clone)]
pub struct Strand {
    pub path: Vec<Token>,
    pub voice: Voice,
    ended: bool,
}

impl Strand {
    pub fn new(voice: Voice) -> Self {
        Strand { path: Vec::new(), voice, ended: false }
    }

    /// One that has said what this one had said before a position.
    pub fn fork(&self, seed: &Seed, at: usize) -> Self {
        let mut twin = Strand::new(seed.voice());
        if self.path.len() == at && !self.ended {
            twin.path = self.path.clone();
            twin.voice = self.voice.clone();
            twin.voice.rewind();
        } else {
            for &token in self.path.iter().take(at) {
                twin.push(seed, token);
            }
        }
        twin
    }

    /// The next token; returns what it adds to the text. The token that ends a sequence has nothing to say.
    pub fn push(&mut self, seed: &Seed, token: Token) -> &str {
        self.path.push(token);
        if seed.ends(token) { "" } else { self.voice.push(token) }
    }

    pub fn end(&mut self) {
        self.voice.finish();
        self.ended = true;
    }
}
