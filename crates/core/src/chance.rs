//! Randomness that does not depend on what else is running.
//!
//! Every random number is a pure function of (seed, prompt, path in the tree, position). Which batch a sequence shares,
//! how many threads compute it, whether it was set aside in between: none of that can change what it samples.

use serde::{Deserialize, Serialize};

use crate::entropy::Token;

/// The key of one path in one tree. Children derive theirs from their parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key(u64);

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Key {
    /// The key of a prompt's tree. `prompt` is whatever identifies it: its index, or a hash of its id.
    pub fn prompt(seed: u64, prompt: u64) -> Self {
        Key(mix(mix(seed) ^ prompt))
    }

    /// The key of the tree's `index`-th root.
    pub(crate) fn root(self, index: usize) -> Self {
        Key(mix(self.0 ^ mix(index as u64)))
    }

    /// The key of the branch that leaves this path at a position with another token.
    pub(crate) fn branch(self, at: usize, token: Token) -> Self {
        Key(mix(mix(self.0 ^ mix(at as u64 + 1)) ^ u64::from(token)))
    }

    /// A number for the prompt of this key, which ranks prompts in an order that no list of them decides.
    pub fn lot(self) -> u64 {
        mix(!self.0)
    }

    /// The uniform number in [0, 1) that decides the token at a position of this path.
    pub fn uniform(self, position: usize) -> f64 {
        let bits = mix(self.0 ^ mix(!(position as u64)));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn draws_look_uniform_and_independent() {
        let key = Key::prompt(7, 3).root(0);
        let draws: Vec<f64> = (0..20_000).map(|p| key.uniform(p)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let lag: f64 =
            draws.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!(lag.abs() < 0.003, "{lag}");
        assert!(draws.iter().all(|u| (0.0..1.0).contains(u)));
    }

    #[test]
    fn paths_have_their_own_keys() {
        let mut seen = HashSet::new();
        for seed in 0..4 {
            for prompt in 0..8 {
                let tree = Key::prompt(seed, prompt);
                for root in 0..8 {
                    let root = tree.root(root);
                    assert!(seen.insert(root));
                    for at in 0..8 {
                        for token in 0..8 {
                            assert!(seen.insert(root.branch(at, token)));
                        }
                    }
                }
            }
        }
    }
}
