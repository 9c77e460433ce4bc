//! Penalties, biases and forbidden ends, applied to a row of logits before anything else looks at it.
//!
//! The order is vLLM's: biases and forbidden ends first, then the repetition penalty, then those of frequency and presence.
//! Occurrences are counted anew for every row. So nothing has to be kept in step when sequences fork, are preempted or come
//! back, and a path has the same logits whoever computes it.

use std::ops::Range;
use std::sync::Arc;

use eager_core::{Settings, Token};

/// The rules for one row.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    settings: Arc<Settings>,
    /// The tokens that were generated so far.
    len: usize,
    /// Where the prompt and they are, if it matters which they are: how many of the first are the prompt's, and all.
    prompt: usize,
    path: Range<usize>,
}

impl Rules {
    /// The rules for what follows `tokens`, of which the first `prompt` are the prompt; none where the logits stay as they
    /// are. The tokens go behind `paths` where they are of interest.
    pub fn of(
        settings: &Arc<Settings>,
        prompt: usize,
        tokens: &[Token],
        paths: &mut Vec<Token>,
    ) -> Option<Self> {
        let (rules, len) = (&settings.rules, tokens.len() - prompt);
        if !rules.change_logits(len) {
            return None;
        }
        let begin = paths.len();
        if rules.penalise() {
            paths.extend_from_slice(tokens);
        }
        Some(Rules { settings: Arc::clone(settings), len, prompt, path: begin..paths.len() })
    }
}

/// A row of logits after its rules. The memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct RuledLogits {
    logits: Vec<f32>,
    /// How often the path has each token; all zero between rows.
    counts: Vec<u32>,
}

/// The count of a token that has had its penalties.
const DONE: u32 = u32::MAX;

impl RuledLogits {
    /// The logits after the rules. `paths` is what [`Rules::of`] has filled.
    pub fn apply(&mut self, rules: &Rules, logits: &[f32], paths: &[Token]) -> &[f32] {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        let Settings { rules: wanted, stop, .. } = &*rules.settings;
        for &(token, bias) in &wanted.logit_bias {
            if let Some(logit) = self.logits.get_mut(token as usize) {
                *logit += bias;
            }
        }
        if rules.len < wanted.min_tokens {
            for &token in stop {
                if let Some(logit) = self.logits.get_mut(token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        self.penalise(rules, &paths[rules.path.clone()]);
        &self.logits
    }

    fn penalise(&mut self, rules: &Rules, tokens: &[Token]) {
        let wanted = &rules.settings.rules;
        self.counts.resize(self.logits.len(), 0);
        for &token in tokens.get(rules.prompt..).unwrap_or_default() {
            self.counts[token as usize] += 1;
        }
        for &token in tokens {
            let count = std::mem::replace(&mut self.counts[token as usize], DONE);
            if count == DONE {
                continue;
            }
            let logit = &mut self.logits[token as usize];
            *logit = if *logit > 0.0 {
                *logit / wanted.repetition_penalty
            } else {
                *logit * wanted.repetition_penalty
            };
            if count > 0 {
                *logit -= count as f32 * wanted.frequency_penalty + wanted.presence_penalty;
            }
        }
        for &token in tokens {
            self.counts[token as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use eager_core::{Key, TokenRules};
    use proptest::prelude::*;

    use super::*;

    /// By the book, token by token.
    fn expected(
        rules: &TokenRules,
        stop: &[Token],
        logits: &[f32],
        prompt: &[Token],
        path: &[Token],
    ) -> Vec<f32> {
        let one = |(token, &logit): (Token, &f32)| {
            let bias: f32 = rules.logit_bias.iter().filter(|b| b.0 == token).map(|b| b.1).sum();
            let forbidden = path.len() < rules.min_tokens && stop.contains(&token);
            let logit = if forbidden { f32::NEG_INFINITY } else { logit + bias };
            let count = path.iter().filter(|&&t| t == token).count();
            let repeated = count > 0 || prompt.contains(&token);
            let logit = match repeated {
                true if logit > 0.0 => logit / rules.repetition_penalty,
                true => logit * rules.repetition_penalty,
                false => logit,
            };
            let presence = if count > 0 { rules.presence_penalty } else { 0.0 };
            logit - (count as f32 * rules.frequency_penalty + presence)
        };
        (0..).zip(logits).map(one).collect()
    }

    proptest! {
        /// One memory for many rows, as in a run: what an earlier row left must not show.
        #[test]
        fn rules_are_applied_as_they_are_defined(
            seed: u64,
            repetition in prop::sample::select(vec![1.0f32, 0.5, 1.3]),
            presence in prop::sample::select(vec![0.0f32, -1.0, 0.7]),
            frequency in prop::sample::select(vec![0.0f32, -0.3, 1.5]),
            bias in prop::collection::btree_map(0u32..16, -100f32..100.0, 0..4),
            min_tokens in 0usize..6,
            rows in prop::collection::vec(
                (prop::collection::vec(0u32..16, 1..6), prop::collection::vec(0u32..16, 0..8)), 1..5),
        ) {
            let rules = TokenRules {
                repetition_penalty: repetition,
                presence_penalty: presence,
                frequency_penalty: frequency,
                logit_bias: bias.into_iter().collect(),
                min_tokens,
                ..TokenRules::default()
            };
            let settings = Arc::new(Settings { rules: rules.clone(), stop: vec![3, 15], ..Settings::default() });
            let key = Key::prompt(seed, 0);
            let logits: Vec<f32> = (0..16).map(|i| (key.uniform(i) * 12.0 - 6.0) as f32).collect();
            let (mut paths, mut ruled) = (Vec::new(), RuledLogits::default());
            let asked: Vec<Option<Rules>> = rows
                .iter()
                .map(|(prompt, path)| {
                    Rules::of(&settings, prompt.len(), &[prompt.as_slice(), path].concat(), &mut paths)
                })
                .collect();
            for ((prompt, path), asked) in rows.iter().zip(asked) {
                let want = expected(&rules, &settings.stop, &logits, prompt, path);
                let got = match &asked {
                    Some(rules) => ruled.apply(rules, &logits, &paths),
                    None => &logits,
                };
                prop_assert_eq!(got, &want);
            }
        }
    }
}
