//! vLLM, `/v1/completions`.
//!
//! Candidates are a map from text to log-probability, where tokens of equal text would become one; with
//! `return_tokens_as_token_ids` the text is the token's number.

use std::fmt;

use eager_core::{Candidate, Token};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use super::{Ask, Chunk, Flaw, OWN_OUTPUT, RAW, Refused, Step, logprob, parse};

pub(super) const REFUSED: Refused<5> = [
    ("repetition_penalty", RAW),
    ("presence_penalty", OWN_OUTPUT),
    ("frequency_penalty", OWN_OUTPUT),
    ("logit_bias", RAW),
    ("min_tokens", OWN_OUTPUT),
];

pub(super) fn request(ask: &Ask<'_>) -> Value {
    // 0 is our word for all of them, -1 is one that every version understands.
    let top_k = if ask.sampling.top_k == 0 { -1 } else { ask.sampling.top_k as i64 };
    json!({
        "model": ask.model,
        "prompt": ask.prompt,
        "max_tokens": ask.tokens,
        "logprobs": ask.top_k,
        "return_tokens_as_token_ids": true,
        "return_token_ids": true,
        "stream": true,
        "stream_options": {"include_usage": true},
        "temperature": ask.sampling.temperature,
        "top_k": top_k,
        "top_p": ask.sampling.top_p,
        "min_p": ask.sampling.min_p,
        // A model's own file may set another.
        "repetition_penalty": 1.0,
        "seed": ask.seed,
        // What ends a sequence is for the grove to say; the end-of-sequence token is among these if it does.
        "stop_token_ids": ask.stop,
        "ignore_eos": true,
    })
}

#[derive(serde::Deserialize)]
struct Wire {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(serde::Deserialize)]
struct Choice {
    token_ids: Option<Vec<Token>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<serde::de::IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct Logprobs {
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Vec<Option<Likely>>,
}

/// The candidates of one token. `None` when a key is text.
struct Likely(Option<Vec<Candidate>>);

#[derive(serde::Deserialize)]
struct Usage {
    prompt_tokens_details: Option<Details>,
}

#[derive(serde::Deserialize)]
struct Details {
    cached_tokens: Option<usize>,
}

impl<'de> Deserialize<'de> for Likely {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Likely;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tokens to log-probabilities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Likely, A::Error> {
                let mut candidates = Some(Vec::with_capacity(map.size_hint().unwrap_or(21)));
                while let Some((key, value)) = map.next_entry::<std::borrow::Cow<'de, str>, Option<f64>>()? {
                    match key.strip_prefix("token_id:").and_then(|id| id.parse().ok()) {
                        Some(token) => {
                            let candidate = Candidate { token, logprob: logprob(value) };
                            candidates.iter_mut().for_each(|list| list.push(candidate));
                        }
                        None => candidates = None,
                    }
                }
                Ok(Likely(candidates))
            }
        }
        from.deserialize_map(Pairs)
    }
}

pub(super) fn chunk(data: &[u8]) -> Result<Chunk, Flaw> {
    let wire: Wire = parse(data)?;
    let cached = wire.usage.and_then(|usage| usage.prompt_tokens_details).and_then(|d| d.cached_tokens);
    // The chunk with the usage has no choice in it.
    let Some(choice) = wire.choices.into_iter().next() else {
        return Ok(Chunk { cached, ..Chunk::default() });
    };
    let ended = choice.finish_reason.is_some();
    let Some(logprobs) = choice.logprobs else {
        // A last chunk may bring the reason and nothing else.
        return match choice.token_ids {
            Some(tokens) if !tokens.is_empty() => Err(Flaw::Lacking {
                what: "log-probabilities",
                remedy: "start vLLM without a proxy in between that drops them, and with --max-logprobs 20",
            }),
            _ => Ok(Chunk { ended, cached, ..Chunk::default() }),
        };
    };
    let tokens = choice.token_ids.ok_or(NO_IDS)?;
    if logprobs.token_logprobs.len() != tokens.len() || logprobs.top_logprobs.len() != tokens.len() {
        return Err(Flaw::Damaged("a chunk has more tokens than log-probabilities".to_owned()));
    }
    let steps = tokens.into_iter().zip(logprobs.token_logprobs).zip(logprobs.top_logprobs);
    let steps = steps.map(|((token, own), top)| {
        let top = top.map_or(Some(Vec::new()), |likely| likely.0).ok_or(NO_IDS)?;
        Ok(Step { top, sampled: Candidate { token, logprob: logprob(own) } })
    });
    Ok(Chunk { steps: steps.collect::<Result<_, Flaw>>()?, ended, cached, missing: None })
}

const NO_IDS: Flaw = Flaw::Lacking {
    what: "token ids",
    remedy: "this vLLM does not know return_token_ids or return_tokens_as_token_ids; use a newer one",
};
