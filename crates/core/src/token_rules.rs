//! Rules about single tokens: which are made less or more likely, and which end a sequence.
//!
//! An engine applies them to the logits before anything else looks at them, so that entropy, forks and draws see one
//! distribution. What they do depends on the prompt and the path alone: a path that is computed again, here or in another
//! batch, has the same logits.

use crate::entropy::Token;
use crate::grove::Settings;

/// Penalties, biases and ends. The default changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRules {
    /// Divides the positive logits of tokens that the prompt or the path has, and multiplies the negative ones.
    pub repetition_penalty: f32,
    /// Taken off the logits of tokens that the path has.
    pub presence_penalty: f32,
    /// Taken off the logit of a token for every time that the path has it.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens.
    pub logit_bias: Vec<(Token, f32)>,
    /// No token ends a sequence that would be shorter than this.
    pub min_tokens: usize,
    /// The model's own end tokens end nothing.
    pub ignore_eos: bool,
    /// Tokens that end a sequence beside the model's own.
    pub stop_token_ids: Vec<Token>,
}

/// Why rules cannot be applied to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("{param} names token {token}, which the model does not have")]
    NoSuchToken { param: &'static str, token: Token },
    #[error("min_tokens forbids the tokens that end a sequence, and stop_token_ids names all that there are")]
    NoTokenLeft,
}

impl RuleError {
    /// The name of the rule.
    pub fn param(self) -> &'static str {
        match self {
            RuleError::NoSuchToken { param, .. } => param,
            RuleError::NoTokenLeft => "min_tokens",
        }
    }
}

impl Default for TokenRules {
    fn default() -> Self {
        Self::NONE
    }
}

impl TokenRules {
    /// These change nothing.
    pub const NONE: TokenRules = TokenRules {
        repetition_penalty: 1.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        logit_bias: Vec::new(),
        min_tokens: 0,
        ignore_eos: false,
        stop_token_ids: Vec::new(),
    };

    /// Far enough from zero and infinity for a logit to stay a number.
    pub fn check_repetition(factor: f32) -> Result<f32, String> {
        within(factor, 0.01, 100.0)
    }

    /// A presence or frequency penalty: OpenAI's range.
    pub fn check_penalty(penalty: f32) -> Result<f32, String> {
        within(penalty, -2.0, 2.0)
    }

    /// OpenAI's range; 100 is as good as certain, and -100 as good as never.
    pub fn check_bias(bias: f32) -> Result<f32, String> {
        within(bias, -100.0, 100.0)
    }

    /// The rules that ask for something, by the names that they have in requests.
    pub fn asked(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("repetition_penalty", self.repetition_penalty != 1.0),
            ("presence_penalty", self.presence_penalty != 0.0),
            ("frequency_penalty", self.frequency_penalty != 0.0),
            ("logit_bias", !self.logit_bias.is_empty()),
            ("min_tokens", self.min_tokens > 0),
            ("ignore_eos", self.ignore_eos),
            ("stop_token_ids", !self.stop_token_ids.is_empty()),
        ];
        all.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name)
    }

    /// Does the next token after a path of this length have other logits than the model's?
    pub fn change_logits(&self, path: usize) -> bool {
        self.penalise() || !self.logit_bias.is_empty() || path < self.min_tokens
    }

    /// Is it of interest which tokens came before?
    pub fn penalise(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// The tokens that end a sequence, where these are the model's own.
    pub fn ends(&self, eos: &[Token]) -> Vec<Token> {
        let eos = if self.ignore_eos { &[] } else { eos };
        let mut ends = eos.to_vec();
        ends.extend(self.stop_token_ids.iter().filter(|token| !eos.contains(token)));
        ends
    }
}

fn within(value: f32, least: f32, most: f32) -> Result<f32, String> {
    // What is not a number is in no range.
    if (least..=most).contains(&value) { Ok(value) } else { Err(format!("must be from {least} to {most}")) }
}

impl Settings {
    /// Can the rules be applied to a model with so many tokens?
    pub fn check_rules(&self, vocab: usize) -> Result<(), RuleError> {
        let biased = self.rules.logit_bias.iter().map(|&(token, _)| ("logit_bias", token));
        let ends = self.rules.stop_token_ids.iter().map(|&token| ("stop_token_ids", token));
        if let Some((param, token)) = biased.chain(ends).find(|&(_, token)| token as usize >= vocab) {
            return Err(RuleError::NoSuchToken { param, token });
        }
        let mut ends: Vec<Token> = self.stop.iter().copied().filter(|&t| (t as usize) < vocab).collect();
        ends.sort_unstable();
        ends.dedup();
        if self.rules.min_tokens > 0 && ends.len() >= vocab {
            return Err(RuleError::NoTokenLeft);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_asks_for_nothing() {
        let rules = TokenRules::default();
        assert_eq!(rules.asked().count(), 0);
        assert!(!rules.change_logits(0));
        assert_eq!(rules.ends(&[3, 2]), [3, 2]);
    }

    #[test]
    fn ends_are_the_models_unless_they_are_ignored() {
        let rules = TokenRules { stop_token_ids: vec![9, 2], ..TokenRules::default() };
        assert_eq!(rules.ends(&[2, 3]), [2, 3, 9]);
        let rules = TokenRules { ignore_eos: true, ..rules };
        assert_eq!(rules.ends(&[2, 3]), [9, 2]);
        assert_eq!(rules.asked().collect::<Vec<_>>(), ["ignore_eos", "stop_token_ids"]);
    }

    #[test]
    fn rules_that_no_model_can_follow_are_found() {
        let check = |rules: TokenRules, stop: Vec<Token>| {
            Settings { rules, stop, ..Settings::default() }.check_rules(4)
        };
        let bias = TokenRules { logit_bias: vec![(1, -1.0), (4, 2.0)], ..TokenRules::default() };
        assert_eq!(check(bias, vec![]), Err(RuleError::NoSuchToken { param: "logit_bias", token: 4 }));
        let end = TokenRules { stop_token_ids: vec![9], ..TokenRules::default() };
        assert_eq!(check(end, vec![]).unwrap_err().param(), "stop_token_ids");
        let least = TokenRules { min_tokens: 1, ..TokenRules::default() };
        assert_eq!(check(least.clone(), vec![0, 1, 2, 3]), Err(RuleError::NoTokenLeft));
        assert_eq!(check(least, vec![0, 1, 1, 2]), Ok(()));
    }
}
