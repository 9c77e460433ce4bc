//! From logits to the most likely tokens and a sampled one.

use eager_core::{Candidate, Sampling, Token};

use crate::kernel::{Isa, exp_sum, max};

/// The most likely tokens (best first) and the one that was drawn, with raw log-probabilities.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub top: Vec<Candidate>,
    pub sampled: Candidate,
}

/// What is wanted of a row of logits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// How many of the most likely tokens.
    pub top_k: usize,
    pub sampling: Sampling,
    /// The number in [0, 1) that decides the draw.
    pub uniform: f64,
}

/// Reads one row of logits. `None` when they are not numbers.
pub(crate) fn draw(isa: Isa, logits: &[f32], ask: &Ask) -> Option<Draw> {
    let top = max(isa, logits);
    let total = exp_sum(isa, logits, top, 1.0);
    if !(top.is_finite() && total.is_finite()) {
        return None;
    }
    let log_total = f64::from(top) + total.ln();
    let candidate =
        |&token: &Token| Candidate { token, logprob: (f64::from(logits[token as usize]) - log_total) as f32 };
    let best = best_tokens(logits, ask.top_k.max(1));
    // A temperature so low that its inverse overflows is as good as none.
    let greedy = ask.sampling.temperature <= 0.0 || !(1.0 / ask.sampling.temperature).is_finite();
    let sampled = if greedy { best[0] } else { sample(isa, logits, top, ask, &best) };
    Some(Draw { top: best.iter().take(ask.top_k).map(candidate).collect(), sampled: candidate(&sampled) })
}

/// The `count` tokens of highest logit, best first; among equals the lower number comes first.
fn best_tokens(logits: &[f32], count: usize) -> Vec<Token> {
    let count = count.min(logits.len());
    let before = |&a: &Token, &b: &Token| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    let mut tokens: Vec<Token> = (0..logits.len() as Token).collect();
    if count < tokens.len() {
        tokens.select_nth_unstable_by(count, before);
        tokens.truncate(count);
    }
    tokens.sort_unstable_by(before);
    tokens
}

/// Draws from the distribution after temperature, top-k, top-p and min-p, in this order.
fn sample(isa: Isa, logits: &[f32], top: f32, ask: &Ask, best: &[Token]) -> Token {
    let sampling = &ask.sampling;
    let scale = 1.0 / sampling.temperature;
    let weight = |token: Token| f64::from((logits[token as usize] - top) * scale).exp();
    let limit = if sampling.top_k == 0 { logits.len() } else { sampling.top_k.min(logits.len()) };
    let everything = if limit < logits.len() {
        best_tokens(logits, limit).into_iter().map(weight).sum()
    } else {
        exp_sum(isa, logits, top, scale)
    };
    let enough = everything * f64::from(sampling.top_p);
    let least = f64::from(sampling.min_p);
    // Nearly always a few tokens hold all that top-p keeps; only when they do not is more of the vocabulary sorted.
    let mut sorted = best.to_vec();
    loop {
        let (kept, mass) = nucleus(&sorted[..sorted.len().min(limit)], weight, enough, least);
        if kept < sorted.len().min(limit) || sorted.len() >= limit {
            return pick(&sorted[..kept], weight, ask.uniform * mass);
        }
        sorted = best_tokens(logits, sorted.len() * 16);
    }
}

/// How many of the sorted tokens are kept, and the weight they hold together.
fn nucleus(sorted: &[Token], weight: impl Fn(Token) -> f64, enough: f64, least: f64) -> (usize, f64) {
    let mut mass = 0.0;
    for (kept, &token) in sorted.iter().enumerate() {
        let w = weight(token);
        if kept > 0 && (mass >= enough || w < least) {
            return (kept, mass);
        }
        mass += w;
    }
    (sorted.len(), mass)
}

/// The token at which the running weight passes `mark`.
fn pick(tokens: &[Token], weight: impl Fn(Token) -> f64, mark: f64) -> Token {
    let mut passed = 0.0;
    for &token in tokens {
        passed += weight(token);
        if mark < passed {
            return token;
        }
    }
    // Rounding may leave the mark a hair above the sum.
    tokens[tokens.len() - 1]
}
