//! SGLang, `/generate`. Written from its sources and never run against a live server.
//!
//! Every chunk repeats the whole answer so far, unless the server was started to send only what is new; the count of
//! tokens tells the two apart. Repeating costs ever more as a sequence grows: `--incremental-streaming-output` is worth
//! its while. Log-probabilities come after temperature.

use eager_core::{Candidate, Token};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Ask, Chunk, Flaw, OWN_OUTPUT, Refused, Step, logprob, parse};

pub(super) const REFUSED: Refused<4> = [
    ("repetition_penalty", OWN_OUTPUT),
    ("presence_penalty", OWN_OUTPUT),
    ("frequency_penalty", OWN_OUTPUT),
    ("min_tokens", OWN_OUTPUT),
];

pub(super) fn request(ask: &Ask<'_>) -> Value {
    let top_k = if ask.sampling.top_k == 0 { -1 } else { ask.sampling.top_k as i64 };
    let mut body = json!({
        "rid": ask.name,
        "input_ids": ask.prompt,
        "return_logprob": true,
        "top_logprobs_num": ask.top_k,
        "stream": true,
        "sampling_params": {
            "max_new_tokens": ask.tokens,
            "temperature": ask.sampling.temperature,
            "top_k": top_k,
            "top_p": ask.sampling.top_p,
            "min_p": ask.sampling.min_p,
            "repetition_penalty": 1.0,
            "sampling_seed": ask.seed,
        },
    });
    let sampling = &mut body["sampling_params"];
    if ask.rules.ignore_eos {
        // That switches stop_token_ids off as well: what ends a sequence is then for the grove alone to say.
        sampling["ignore_eos"] = true.into();
    } else {
        sampling["stop_token_ids"] = ask.stop.into();
    }
    // Its candidates are those after the bias.
    let bias = ask.rules.logit_bias.iter().map(|&(token, bias)| (token.to_string(), json!(bias)));
    if !ask.rules.logit_bias.is_empty() {
        sampling["logit_bias"] = Value::Object(bias.collect());
    }
    body
}

/// The server matches names by their beginning.
pub(super) fn abort(name: &str) -> Value {
    json!({"rid": name})
}

#[derive(Deserialize)]
struct Wire {
    meta_info: Meta,
}

/// A log-probability, a token, and its text or nothing.
type Entry = (Option<f64>, Token, Option<serde::de::IgnoredAny>);

#[derive(Deserialize)]
struct Meta {
    completion_tokens: Option<usize>,
    cached_tokens: Option<usize>,
    finish_reason: Option<Finish>,
    output_token_logprobs: Option<Vec<Entry>>,
    output_top_logprobs: Option<Vec<Option<Vec<Entry>>>>,
}

#[derive(Deserialize)]
struct Finish {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

pub(super) fn chunk(data: &[u8], seen: usize, temperature: f32) -> Result<Chunk, Flaw> {
    let meta = parse::<Wire>(data)?.meta_info;
    if let Some(Finish { kind: Some(kind), message }) = &meta.finish_reason
        && kind == "abort"
    {
        return Err(Flaw::Failed(message.clone().unwrap_or_else(|| "the server aborted it".to_owned())));
    }
    let ended = meta.finish_reason.is_some();
    let (Some(sampled), Some(count)) = (meta.output_token_logprobs, meta.completion_tokens) else {
        return Err(Flaw::Lacking {
            what: "token ids",
            remedy: "this SGLang does not answer return_logprob; use a newer one",
        });
    };
    let top = meta.output_top_logprobs.ok_or(Flaw::Lacking {
        what: "the candidates of a token",
        remedy: "this SGLang does not answer top_logprobs_num; use a newer one",
    })?;
    let new = count.saturating_sub(seen);
    if sampled.len() < new || top.len() < new {
        return Err(Flaw::Damaged("a chunk counts more tokens than it brings".to_owned()));
    }
    // The last ones are new, whether the others are there again or not.
    let (skip_sampled, skip_top) = (sampled.len() - new, top.len() - new);
    let steps = sampled.into_iter().skip(skip_sampled).zip(top.into_iter().skip(skip_top));
    let steps = steps.map(|(own, top)| step(own, top.unwrap_or_default(), temperature)).collect();
    Ok(Chunk { steps, ended, cached: meta.cached_tokens.filter(|_| ended), missing: None })
}

/// Undoes the temperature. What the distribution was normalised by at temperature 1 is lost; the candidates hold nearly
/// all of it, so it is taken from them. Entropies do not depend on it.
fn step(own: Entry, top: Vec<Entry>, temperature: f32) -> Step {
    // The server samples greedily at temperature 1 from the best token alone.
    let scale = if temperature > 0.0 { temperature } else { 1.0 };
    let raw = |(value, token, _): Entry| Candidate { token, logprob: logprob(value) * scale };
    let (mut sampled, mut top) = (raw(own), top.into_iter().map(raw).collect::<Vec<_>>());
    let total: f64 = top.iter().map(|candidate| f64::from(candidate.logprob).exp()).sum();
    if scale != 1.0 && total > 0.0 {
        let shift = total.ln() as f32;
        for candidate in top.iter_mut().chain([&mut sampled]) {
            candidate.logprob = (candidate.logprob - shift).min(0.0);
        }
    }
    Step { top, sampled }
}
