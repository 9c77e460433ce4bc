//! What a program does, as votes count it.
//!
//! Two programs that are spelled differently and return the same are one answer. So a program's vote is for its outputs on
//! the inputs of the base tests, in order; what should have come out is not looked at. A program that returns nothing on
//! any of them has no vote.

use sha2::{Digest, Sha256};

use super::conversation::Heard;
use super::equality::fingerprint;
use super::marshal::parse_within;

/// The outputs of one program so far.
#[derive(Debug, Default)]
pub(super) struct Behaviour {
    outputs: Sha256,
    returned: bool,
}

impl Behaviour {
    /// The next output, of at most so many parts.
    pub fn add(&mut self, heard: &Heard, parts: usize) {
        match heard {
            Heard::Answer(b'V', payload) => {
                self.returned = true;
                self.outputs.update(b"V");
                // Time comes first, and whether the type is built in.
                let data = payload.get(9..).unwrap_or_default();
                match parse_within(data, parts) {
                    Some(value) => self.outputs.update(fingerprint(&value)),
                    None => self.outputs.update(Sha256::digest(data)),
                }
            }
            Heard::Answer(b'X', error) => {
                // The kind of an exception; what it says may name an address.
                let kind = error.split(|byte| *byte == b':').next().unwrap_or_default();
                self.outputs.update(b"X");
                self.outputs.update(Sha256::digest(kind));
            }
            Heard::Answer(..) => self.outputs.update(b"U"),
            Heard::TooLong | Heard::Timeout(_) | Heard::Ended(_) => self.outputs.update(b"-"),
        }
    }

    /// Equal for programs that did the same.
    pub fn digest(self) -> Option<String> {
        let hex = |byte: &u8| format!("{byte:02x}");
        self.returned.then(|| self.outputs.finalize().iter().map(hex).collect())
    }
}
