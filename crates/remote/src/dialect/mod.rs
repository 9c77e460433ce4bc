//! All that differs between servers: how a request is written, and how a chunk of the answer is read.
//!
//! Both are functions over bytes. A dialect is a file with one of each; it opens no connection and keeps no state but
//! how many tokens of the answer it has read.

pub(crate) mod llama;
mod sglang;
mod vllm;

use std::fmt;
use std::str::FromStr;

use eager_core::{Candidate, Sampling, Token, TokenRules};

use crate::error::RemoteError;

/// Why a rule cannot be followed.
type Refused<const N: usize> = [(&'static str, &'static str); N];

const RAW: &str =
    "this server reports candidates as they are before it, so that entropy and forks would not see it";
const OWN_OUTPUT: &str = "this server counts its own output only, and a fork sends its path as a prompt";

/// Which server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// llama.cpp's server; tested beside a live one.
    LlamaServer,
    /// vLLM; tested beside a live one.
    Vllm,
    /// SGLang; written from its documentation and sources, never run against a live one.
    Sglang,
}

/// What one request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub model: &'a str,
    /// The request's name, where the server wants one.
    pub name: &'a str,
    /// The prompt and what has been generated.
    pub prompt: &'a [Token],
    /// How many tokens at most.
    pub tokens: usize,
    /// Candidates of every token.
    pub top_k: usize,
    pub sampling: Sampling,
    pub seed: u32,
    pub stop: &'a [Token],
    pub rules: &'a TokenRules,
    /// The slot to be decoded in, where the server has slots and we choose.
    pub seat: Option<usize>,
}

/// One token of the answer with its candidates, best first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub top: Vec<Candidate>,
    pub sampled: Candidate,
}

/// What one chunk of the answer says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Chunk {
    pub steps: Vec<Step>,
    /// The server has ended the sequence.
    pub ended: bool,
    /// Prompt tokens that the server did not have to compute, where it says so.
    pub cached: Option<usize>,
    /// Tokens before `steps` that the server kept to itself.
    pub missing: Option<Missing>,
}

/// Tokens that were decoded but not reported, because together they are one character.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Missing {
    pub count: usize,
    /// The text of the missing tokens and of the one that completed them.
    pub text: String,
}

/// Why a chunk cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is damaged: the same request may work another time.
    Damaged(String),
    /// The server said in the middle of its answer that something went wrong.
    Failed(String),
    /// It is whole, but what is needed is not in it, and never will be.
    Lacking { what: &'static str, remedy: &'static str },
}

/// How far the answer to one request has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    dialect: Dialect,
    /// Candidates wanted.
    top_k: usize,
    temperature: f32,
    /// Tokens read.
    seen: usize,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::LlamaServer, Dialect::Vllm, Dialect::Sglang];

    pub fn name(self) -> &'static str {
        match self {
            Dialect::LlamaServer => "llama-server",
            Dialect::Vllm => "vllm",
            Dialect::Sglang => "sglang",
        }
    }

    /// The rules about tokens that it cannot follow as the embedded engine does, and why. A fork, or a sequence that is taken
    /// up again, sends its path as a prompt; and what a server reports is what entropy is measured on.
    pub fn refused(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Dialect::LlamaServer => &llama::REFUSED,
            Dialect::Vllm => &vllm::REFUSED,
            Dialect::Sglang => &sglang::REFUSED,
        }
    }

    /// Where requests for tokens go.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Dialect::LlamaServer => "/completion",
            Dialect::Vllm => "/v1/completions",
            Dialect::Sglang => "/generate",
        }
    }

    /// What to send, and where, so that the server stops all requests whose names begin like this. The others stop when
    /// their connection is closed, within half a second.
    pub(crate) fn abort(self, name: &str) -> Option<(&'static str, String)> {
        (self == Dialect::Sglang).then(|| ("/abort_request", sglang::abort(name).to_string()))
    }

    pub(crate) fn request(self, ask: &Ask<'_>) -> String {
        let body = match self {
            Dialect::LlamaServer => llama::request(ask),
            Dialect::Vllm => vllm::request(ask),
            Dialect::Sglang => sglang::request(ask),
        };
        body.to_string()
    }

    pub(crate) fn reading(self, ask: &Ask<'_>) -> Reading {
        Reading { dialect: self, top_k: ask.top_k, temperature: ask.sampling.temperature, seen: 0 }
    }
}

impl Reading {
    /// Reads the payload of one event.
    pub fn chunk(&mut self, data: &[u8]) -> Result<Chunk, Flaw> {
        if data == b"[DONE]" {
            return Ok(Chunk::default());
        }
        let mut chunk = match self.dialect {
            Dialect::LlamaServer => llama::chunk(data, self.seen)?,
            Dialect::Vllm => vllm::chunk(data)?,
            Dialect::Sglang => sglang::chunk(data, self.seen, self.temperature)?,
        };
        self.seen += chunk.steps.len() + chunk.missing.as_ref().map_or(0, |missing| missing.count);
        for step in &mut chunk.steps {
            order(&mut step.top, self.top_k);
            if step.top.is_empty() && self.top_k > 0 {
                return Err(Flaw::Lacking {
                    what: "the candidates of a token",
                    remedy: "the server must report log-probabilities",
                });
            }
        }
        Ok(chunk)
    }
}

/// Best first, and no more than were asked for: the sampled token may come as one more, in front.
fn order(top: &mut Vec<Candidate>, top_k: usize) {
    top.sort_by(|a, b| b.logprob.total_cmp(&a.logprob).then(a.token.cmp(&b.token)));
    top.dedup_by_key(|candidate| candidate.token);
    top.truncate(top_k);
}

/// A log-probability as servers write it: none, or a very low one, for what cannot be.
fn logprob(written: Option<f64>) -> f32 {
    match written {
        Some(value) if value > -9000.0 => value as f32,
        _ => f32::NEG_INFINITY,
    }
}

/// What a server says about a request that it cannot serve, wherever it puts it.
pub(crate) fn complaint(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error").unwrap_or(&value);
    let said = ["message", "detail"].iter().find_map(|name| error.get(name)).unwrap_or(error);
    said.as_str().map(str::to_owned)
}

/// Reads a chunk's JSON; a chunk that is an error instead says so.
fn parse<'a, T: serde::Deserialize<'a>>(data: &'a [u8]) -> Result<T, Flaw> {
    serde_json::from_slice(data).map_err(|error| match complaint(data) {
        Some(said) => Flaw::Failed(said),
        None => Flaw::Damaged(format!("a chunk could not be read ({error})")),
    })
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = RemoteError;

    fn from_str(name: &str) -> Result<Self, RemoteError> {
        let named = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
        named.ok_or_else(|| RemoteError::Dialect(name.to_owned()))
    }
}

#[cfg(test)]
mod tests;
