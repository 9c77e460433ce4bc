//! How tokens are drawn.

use std::collections::BTreeMap;

use clap::Args;
use eager_core::{Sampling, Settings, Token, TokenRules};
use serde_json::{Value, json};

use super::number::{at_least_zero, number, positive_share, share};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    pub temperature: f32,
    /// The same seed gives the same trees
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub draw: DrawArgs,
}

/// What does not change within a sweep.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct DrawArgs {
    /// Keep the most likely tokens that together hold this much probability
    #[arg(long, default_value_t = 0.95, value_parser = positive_share, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Keep this many tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    pub top_k: usize,
    /// Drop tokens less likely than this share of the most likely one
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    pub min_p: f32,
    /// Make tokens of the prompt and the response less likely (above 1) or more: divides their positive logits, multiplies
    /// the negative ones. Like all that changes logits, it comes before the entropy is measured
    #[arg(long, default_value_t = 1.0, value_parser = repetition, allow_negative_numbers = true, value_name = "FACTOR")]
    pub repetition_penalty: f32,
    /// Take this off the logits of tokens that the response has
    #[arg(long, default_value_t = 0.0, value_parser = penalty, allow_negative_numbers = true, value_name = "LOGITS")]
    pub presence_penalty: f32,
    /// Take this off a token's logit for every time that the response has it
    #[arg(long, default_value_t = 0.0, value_parser = penalty, allow_negative_numbers = true, value_name = "LOGITS")]
    pub frequency_penalty: f32,
    /// Add this to a token's logit (several times for several tokens); -100 forbids it
    #[arg(long, value_parser = bias, allow_negative_numbers = true, value_name = "TOKEN=LOGITS")]
    pub logit_bias: Vec<(Token, f32)>,
    /// Let no sequence end before it has so many tokens
    #[arg(long, default_value_t = 0)]
    pub min_tokens: usize,
    /// Go on where the model would end its response
    #[arg(long)]
    pub ignore_eos: bool,
    /// End a sequence at this token as well, by its number (several times for several tokens)
    #[arg(long, value_name = "TOKEN")]
    pub stop_token_id: Vec<Token>,
}

fn repetition(text: &str) -> Result<f32, String> {
    TokenRules::check_repetition(number(text)?)
}

fn penalty(text: &str) -> Result<f32, String> {
    TokenRules::check_penalty(number(text)?)
}

fn bias(text: &str) -> Result<(Token, f32), String> {
    let (token, bias) = text.split_once('=').ok_or("write it as TOKEN=LOGITS, such as 42=-100")?;
    let token = token.parse().map_err(|_| format!("'{token}' is no token's number"))?;
    Ok((token, TokenRules::check_bias(number(bias)?)?))
}

impl DrawArgs {
    /// As settings of a prompt, whose other fields are yet to be filled in.
    pub fn settings(&self, temperature: f32) -> Settings {
        let &Self { top_p, top_k, min_p, .. } = self;
        let sampling = Sampling { temperature, top_p, top_k, min_p };
        Settings { sampling, rules: self.rules(), ..Settings::default() }
    }

    pub fn rules(&self) -> TokenRules {
        TokenRules {
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            min_tokens: self.min_tokens,
            ignore_eos: self.ignore_eos,
            stop_token_ids: self.stop_token_id.clone(),
        }
    }

    /// The rules that ask for something, by the names of the options.
    pub fn recorded(&self) -> BTreeMap<String, Value> {
        // By way of text, which keeps 1.1 as it was typed.
        let written = |value: f32| json!(value.to_string().parse::<f64>().ok());
        let value = |name: &str| match name {
            "repetition_penalty" => written(self.repetition_penalty),
            "presence_penalty" => written(self.presence_penalty),
            "frequency_penalty" => written(self.frequency_penalty),
            "logit_bias" => self.logit_bias.iter().map(|(token, bias)| format!("{token}={bias}")).collect(),
            "min_tokens" => json!(self.min_tokens),
            "ignore_eos" => json!(true),
            _ => json!(self.stop_token_id),
        };
        let option = |name: &str| match name {
            "stop_token_ids" => "stop-token-id".to_owned(),
            name => name.replace('_', "-"),
        };
        self.rules().asked().map(|name| (option(name), value(name))).collect()
    }
}

impl SamplingArgs {
    pub fn settings(&self) -> Settings {
        self.draw.settings(self.temperature)
    }
}
