//! llama.cpp's server, `/completion`.

use std::borrow::Cow;

use eager_core::{Candidate, Sampling, Token, TokenRules};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Ask, Chunk, Flaw, Missing, RAW, Refused, Step, logprob, order, parse};

pub(super) const REFUSED: Refused<6> = [
    ("repetition_penalty", RAW),
    (
        "presence_penalty",
        "this server counts the prompt as well, and reports candidates as they are before it",
    ),
    (
        "frequency_penalty",
        "this server counts the prompt as well, and reports candidates as they are before it",
    ),
    ("logit_bias", RAW),
    ("min_tokens", "this server has no such parameter"),
    ("ignore_eos", "this server would forbid the token instead of going on after it"),
];

pub(super) fn request(ask: &Ask<'_>) -> Value {
    let mut body = json!({
        "prompt": ask.prompt,
        "n_predict": ask.tokens,
        "n_probs": ask.top_k,
        "return_tokens": true,
        "stream": true,
        "cache_prompt": true,
        "temperature": ask.sampling.temperature,
        "top_k": ask.sampling.top_k,
        "top_p": ask.sampling.top_p,
        "min_p": ask.sampling.min_p,
        // Our order, and nothing else that the server may have been started with.
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "seed": ask.seed,
    });
    if let Some(seat) = ask.seat {
        body["id_slot"] = seat.into();
    }
    body
}

/// Where a slot is saved or restored, and what to send there. A slot has one file, so that there are never more of them.
pub(crate) fn slot(action: &str, seat: usize, file_of: usize) -> (String, String) {
    (
        format!("/slots/{seat}?action={action}"),
        json!({"filename": format!("eager-{file_of}.bin")}).to_string(),
    )
}

/// The same request again, answered at once and with all ids: those within a character, too.
pub(crate) fn replay(ask: &Ask<'_>) -> String {
    let mut body = request(ask);
    body["stream"] = false.into();
    body.to_string()
}

/// Asks for the candidates of the next token only. The token `whole` is forced, because the server reports candidates
/// with whole characters alone; they are those of the model nevertheless.
pub(crate) fn probe(prompt: &[Token], top_k: usize, whole: Token) -> String {
    let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0 };
    let ask = Ask {
        model: "",
        name: "",
        prompt,
        tokens: 1,
        top_k,
        sampling,
        seed: 0,
        stop: &[],
        rules: &TokenRules::NONE,
        seat: None,
    };
    let mut body = request(&ask);
    body["stream"] = false.into();
    body["logit_bias"] = json!([[whole, 1000.0]]);
    body.to_string()
}

/// The ids in the answer to [`replay`].
pub(crate) fn replayed(data: &[u8]) -> Result<Vec<Token>, Flaw> {
    Ok(parse::<Wire<'_>>(data)?.tokens.unwrap_or_default())
}

/// The candidates in the answer to [`probe`], best first.
pub(crate) fn probed(data: &[u8], top_k: usize) -> Result<Vec<Candidate>, Flaw> {
    let reported = parse::<Wire<'_>>(data)?.completion_probabilities.into_iter().next();
    let mut top: Vec<Candidate> = reported.map(candidates).unwrap_or_default();
    order(&mut top, top_k);
    Ok(top)
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(default, borrow)]
    content: Cow<'a, str>,
    tokens: Option<Vec<Token>>,
    stop: bool,
    tokens_predicted: Option<usize>,
    #[serde(default)]
    completion_probabilities: Vec<Reported>,
    timings: Option<Timings>,
}

#[derive(Deserialize)]
struct Reported {
    id: Option<Token>,
    logprob: Option<f64>,
    #[serde(default)]
    top_logprobs: Vec<Likely>,
}

#[derive(Deserialize)]
struct Likely {
    id: Token,
    logprob: Option<f64>,
}

#[derive(Deserialize)]
struct Timings {
    cache_n: Option<usize>,
}

pub(super) fn chunk(data: &[u8], seen: usize) -> Result<Chunk, Flaw> {
    let wire: Wire<'_> = parse(data)?;
    let cached = wire.timings.and_then(|timings| timings.cache_n);
    if wire.stop {
        // The last chunk repeats the count; what it counts beyond ours ended within a character.
        let short = wire.tokens_predicted.unwrap_or(seen).saturating_sub(seen);
        let missing = (short > 0).then(|| Missing { count: short, text: wire.content.into_owned() });
        return Ok(Chunk { ended: true, cached, missing, ..Chunk::default() });
    }
    let tokens = wire.tokens.filter(|tokens| !tokens.is_empty()).ok_or(Flaw::Lacking {
        what: "token ids",
        remedy: "this llama-server does not know return_tokens; use a newer one",
    })?;
    if wire.completion_probabilities.len() != tokens.len() {
        return Err(Flaw::Lacking {
            what: "log-probabilities",
            remedy: "this llama-server does not answer n_probs; use a newer one",
        });
    }
    // Tokens that do not complete a character are neither reported nor counted as sent, but counted as decoded.
    let decoded = wire.tokens_predicted.unwrap_or(seen + tokens.len());
    let count = decoded.saturating_sub(seen + tokens.len());
    let missing = (count > 0).then(|| Missing { count, text: wire.content.into_owned() });
    let steps =
        tokens.iter().zip(wire.completion_probabilities).map(|(&token, reported)| step(token, reported));
    Ok(Chunk { steps: steps.collect::<Result<_, _>>()?, ended: false, cached, missing })
}

fn step(token: Token, reported: Reported) -> Result<Step, Flaw> {
    if reported.id.is_some_and(|id| id != token) {
        return Err(Flaw::Damaged("a chunk names two different tokens for one place".to_owned()));
    }
    let sampled = Candidate { token, logprob: logprob(reported.logprob) };
    Ok(Step { top: candidates(reported), sampled })
}

fn candidates(reported: Reported) -> Vec<Candidate> {
    let candidate = |likely: Likely| Candidate { token: likely.id, logprob: logprob(likely.logprob) };
    reported.top_logprobs.into_iter().map(candidate).collect()
}
