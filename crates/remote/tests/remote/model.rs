//! A made-up model: the next token's distribution is a hash of the path.

use std::hash::{DefaultHasher, Hash, Hasher};

pub const END: u32 = 0;
pub const VOCAB: u32 = 60;

fn hash(of: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64
}

/// All tokens with their log-probabilities, best first.
pub fn next(path: &[u32]) -> Vec<(u32, f64)> {
    let place = hash(path).to_bits();
    // Sure of itself at some places, at a loss at others.
    let spread = 2.0 + 12.0 * hash((place, "spread"));
    let mut logits: Vec<(u32, f64)> =
        (0..VOCAB).map(|token| (token, spread * hash((place, token)))).collect();
    let total = logits.iter().map(|l| l.1.exp()).sum::<f64>().ln();
    logits.iter_mut().for_each(|l| l.1 -= total);
    logits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    logits
}

/// The token that a request with this seed draws as its `index`-th.
pub fn draw(all: &[(u32, f64)], temperature: f64, seed: u64, index: usize) -> (u32, f64) {
    if temperature <= 0.0 {
        return all[0];
    }
    let weight = |l: &(u32, f64)| (l.1 / temperature).exp();
    let mut mark = hash((seed, index)) * all.iter().map(weight).sum::<f64>();
    for l in all {
        mark -= weight(l);
        if mark < 0.0 {
            return *l;
        }
    }
    all[all.len() - 1]
}
