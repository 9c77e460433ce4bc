//! A request as it comes, and as it is meant.
//!
//! [`Body`] is what clients may send; [`Body::read`] turns it into an [`Ask`], in which every number is in range and every
//! word is known, or into an error that names the field. What else clients may say is `parameters`'s.

use std::sync::Arc;

use eager_core::grove::TOP_K;
use eager_core::{Method, Reallocation, Sampling, Token, TokenRules};
use eager_native::load::{ChatOptions, Effort, Message};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::options::{Defaults, Limits};
use crate::parameters;

/// Stop strings of a request: as many as OpenAI takes.
const STOPS: usize = 4;
/// Bytes of one of them.
const STOP_BYTES: usize = 1000;
/// Tokens that a request may name to end at.
const STOP_TOKENS: usize = 128;
/// Tokens that a request may bias.
const BIASES: usize = 1024;

/// What was asked for, in the words of OpenAI's API and ours.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Body {
    pub messages: Option<Vec<Turn>>,
    pub prompt: Option<PromptBody>,
    n: Option<i64>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    stop: Option<OneOrMore>,
    seed: Option<i64>,
    logprobs: Option<LogprobsBody>,
    top_logprobs: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    reasoning_effort: Option<String>,
    /// vLLM's way to tell a chat template more.
    chat_template_kwargs: Option<Map<String, Value>>,
    eager: Option<EagerBody>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<Value>,
    min_tokens: Option<i64>,
    ignore_eos: Option<bool>,
    stop_token_ids: Option<Vec<i64>>,
    best_of: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// One turn of a conversation.
#[derive(Debug, Clone, Deserialize)]
pub struct Turn {
    role: String,
    content: Option<Content>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PromptBody {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<Token>),
    Several(Vec<Vec<Token>>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum LogprobsBody {
    /// Of chats.
    Asked(bool),
    /// Of completions.
    Number(i64),
}

#[derive(Debug, Clone, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// How to grow the tree.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EagerBody {
    theta: Option<f64>,
    method: Option<String>,
    reallocation: Option<String>,
    vote: Option<Vote>,
    /// The right answer, where it is known: full EAGer, until-right and two-stage look at it.
    answer: Option<String>,
}

/// What is returned of the sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vote {
    /// All of them.
    #[default]
    All,
    /// One that gives the answer that most of them give.
    Majority,
}

/// Which of the two APIs it came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Chat,
    Completion,
}

/// What to continue.
#[derive(Debug, Clone)]
pub enum Beginning {
    Chat { messages: Vec<Message>, options: Box<ChatOptions> },
    Texts(Vec<String>),
    Tokens(Vec<Vec<Token>>),
}

/// A request that makes sense.
#[derive(Debug, Clone)]
pub struct Ask {
    pub kind: Kind,
    pub beginning: Beginning,
    /// The cap on sequences of each prompt.
    pub n: usize,
    /// Most tokens of a sequence; `None` is what the context leaves.
    pub max_tokens: Option<usize>,
    pub sampling: Sampling,
    pub rules: TokenRules,
    pub stops: Arc<[String]>,
    pub seed: Option<u64>,
    /// How many of the best candidates are reported with every token; `None`: no log-probabilities at all.
    pub logprobs: Option<usize>,
    pub stream: bool,
    pub include_usage: bool,
    pub method: Method,
    pub theta: Option<f32>,
    /// The client knows EAGer: it wants to hear how the tree grew.
    pub eager: bool,
    pub vote: Vote,
    pub answer: Option<String>,
    /// Names in the request that nobody here knows.
    pub ignored: Vec<String>,
}

impl Body {
    /// Reads JSON. A body that is nested too deep or is no JSON at all is the client's mistake.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let message = format!("the body is not a request that is understood here: {error}");
            ApiError::new(axum::http::StatusCode::BAD_REQUEST, message)
        })
    }

    pub fn read(self, kind: Kind, limits: &Limits, defaults: &Defaults) -> Result<Ask, ApiError> {
        let ignored = self.refuse_unsupported(kind)?;
        let max_tokens = match (self.max_completion_tokens, self.max_tokens) {
            (Some(most), _) => Some(whole("max_completion_tokens", most, 1, i64::MAX)?),
            (None, Some(most)) => Some(whole("max_tokens", most, 1, i64::MAX)?),
            (None, None) => None,
        };
        let n = self.n.map_or(Ok(1), |n| whole("n", n, 1, limits.sequences as i64))?;
        let (sampling, mut rules) = (self.sampling(defaults)?, self.rules(defaults)?);
        if let Some(most) = max_tokens.filter(|&most| most < rules.min_tokens) {
            if self.min_tokens.is_some() {
                let message = format!("min_tokens is {}, but max_tokens only {most}", rules.min_tokens);
                return Err(ApiError::bad("min_tokens", message));
            }
            // The server's own least gives way to what the client said.
            rules.min_tokens = most;
        }
        if let Some((param, why)) = limits.refused.iter().find(|(name, _)| rules.asked().any(|a| a == *name))
        {
            return Err(ApiError {
                message: format!("{param}: {why}; leave it out"),
                ..ApiError::unsupported(param)
            });
        }
        let eager = self.eager.clone().unwrap_or_default();
        let (method, theta) = eager.method(defaults)?;
        Ok(Ask {
            kind,
            n,
            max_tokens,
            sampling,
            rules,
            stops: self.stops()?,
            // Any number will do, a negative one too.
            seed: self.seed.map(|seed| seed as u64),
            logprobs: self.logprobs(kind, TOP_K.min(defaults.entropy_top_k))?,
            stream: self.stream.unwrap_or(false),
            include_usage: self.stream_options.as_ref().and_then(|o| o.include_usage).unwrap_or(false),
            method,
            theta,
            eager: self.eager.is_some(),
            vote: eager.vote.unwrap_or_default(),
            answer: eager.answer,
            ignored,
            beginning: self.beginning(kind, limits, defaults)?,
        })
    }

    /// Refuses what would have to be followed and is not; returns the names that nobody here knows.
    fn refuse_unsupported(&self, kind: Kind) -> Result<Vec<String>, ApiError> {
        let best_of = self.best_of.is_some_and(|best| Some(best) != self.n.or(Some(1)));
        let of_the_other = match kind {
            Kind::Chat => vec![("prompt", self.prompt.is_some())],
            Kind::Completion => vec![
                ("messages", self.messages.is_some()),
                ("reasoning_effort", self.reasoning_effort.is_some()),
                ("chat_template_kwargs", self.chat_template_kwargs.is_some()),
                ("top_logprobs", self.top_logprobs.is_some_and(|top| top != 0)),
            ],
        };
        if let Some((param, _)) = of_the_other.into_iter().find(|(_, given)| *given) {
            let message = format!("{param} is of the other API; this address does not take it");
            return Err(ApiError::bad(param, message));
        }
        if best_of {
            return Err(ApiError::unsupported("best_of"));
        }
        let mut ignored = parameters::check(&self.rest)?;
        if let Some(options) = &self.stream_options {
            ignored.extend(options.rest.keys().map(|name| format!("stream_options.{name}")));
        }
        for turn in self.messages.iter().flatten() {
            ignored.extend(parameters::check_turn(&turn.rest)?);
        }
        ignored.sort_unstable();
        ignored.dedup();
        Ok(ignored)
    }

    fn sampling(&self, defaults: &Defaults) -> Result<Sampling, ApiError> {
        let Sampling { temperature, top_p, top_k, min_p } = defaults.sampling;
        Ok(Sampling {
            temperature: self.temperature.map_or(Ok(temperature), |t| within("temperature", t, 0.0, 2.0))?,
            top_p: self.top_p.map_or(Ok(top_p), |p| within("top_p", p, f64::MIN_POSITIVE, 1.0))?,
            // -1 is vLLM's word for all, and 0 llama-server's.
            top_k: match self.top_k {
                None => top_k,
                Some(-1) => 0,
                Some(count) => whole("top_k", count, 0, i64::MAX)?,
            },
            min_p: self.min_p.map_or(Ok(min_p), |p| within("min_p", p, 0.0, 1.0))?,
        })
    }

    fn rules(&self, defaults: &Defaults) -> Result<TokenRules, ApiError> {
        let rules = defaults.rules.clone();
        let checked = |param: &str, value: Option<f64>, check: fn(f32) -> Result<f32, String>, default| {
            let wrong = |why, value| ApiError::bad(param, format!("{param} {why}, not {value}"));
            value.map_or(Ok(default), |value| check(value as f32).map_err(|why| wrong(why, value)))
        };
        Ok(TokenRules {
            repetition_penalty: checked(
                "repetition_penalty",
                self.repetition_penalty,
                TokenRules::check_repetition,
                rules.repetition_penalty,
            )?,
            presence_penalty: checked(
                "presence_penalty",
                self.presence_penalty,
                TokenRules::check_penalty,
                rules.presence_penalty,
            )?,
            frequency_penalty: checked(
                "frequency_penalty",
                self.frequency_penalty,
                TokenRules::check_penalty,
                rules.frequency_penalty,
            )?,
            logit_bias: self.logit_bias.as_ref().map_or(Ok(rules.logit_bias), logit_bias)?,
            min_tokens: self
                .min_tokens
                .map_or(Ok(rules.min_tokens), |least| whole("min_tokens", least, 0, i64::MAX))?,
            ignore_eos: self.ignore_eos.unwrap_or(rules.ignore_eos),
            stop_token_ids: self
                .stop_token_ids
                .as_deref()
                .map_or(Ok(rules.stop_token_ids), stop_token_ids)?,
        })
    }

    fn stops(&self) -> Result<Arc<[String]>, ApiError> {
        let stops = match self.stop.clone() {
            None => Vec::new(),
            Some(OneOrMore::One(stop)) => vec![stop],
            Some(OneOrMore::More(stops)) => stops,
        };
        if stops.len() > STOPS {
            return Err(ApiError::bad(
                "stop",
                format!("there may be {STOPS} stop strings, not {}", stops.len()),
            ));
        }
        if stops.iter().any(|stop| stop.is_empty() || stop.len() > STOP_BYTES) {
            return Err(ApiError::bad("stop", format!("a stop string has 1 to {STOP_BYTES} bytes")));
        }
        Ok(stops.into())
    }

    fn logprobs(&self, kind: Kind, most: usize) -> Result<Option<usize>, ApiError> {
        let most = most as i64;
        match (kind, &self.logprobs) {
            (Kind::Chat, Some(LogprobsBody::Asked(true))) => {
                let top = self.top_logprobs.map_or(Ok(0), |top| whole("top_logprobs", top, 0, most))?;
                Ok(Some(top))
            }
            (Kind::Chat, Some(LogprobsBody::Number(_))) => {
                Err(ApiError::bad("logprobs", "logprobs is true or false"))
            }
            (Kind::Chat, _) => match self.top_logprobs {
                Some(top) if top != 0 => {
                    Err(ApiError::bad("top_logprobs", "top_logprobs needs logprobs to be true"))
                }
                _ => Ok(None),
            },
            (Kind::Completion, Some(LogprobsBody::Number(top))) => whole("logprobs", *top, 0, most).map(Some),
            (Kind::Completion, Some(LogprobsBody::Asked(true))) => {
                Err(ApiError::bad("logprobs", format!("logprobs is a number from 0 to {most}")))
            }
            (Kind::Completion, _) => Ok(None),
        }
    }

    fn beginning(self, kind: Kind, limits: &Limits, defaults: &Defaults) -> Result<Beginning, ApiError> {
        if kind == Kind::Chat {
            let turns = self.messages.ok_or_else(|| ApiError::bad("messages", "messages are missing"))?;
            if turns.is_empty() {
                return Err(ApiError::bad("messages", "messages are empty; a conversation has at least one"));
            }
            let effort = self.reasoning_effort.as_deref();
            let options = chat_options(effort, self.chat_template_kwargs, &defaults.chat)?;
            let told = turns.iter().any(|turn| matches!(turn.role.as_str(), "system" | "developer"));
            let system = defaults.system.as_ref().filter(|_| !told);
            let mut messages: Vec<Message> =
                system.map(|text| Message::new("system", text.clone())).into_iter().collect();
            for turn in turns {
                messages.push(turn.message()?);
            }
            return Ok(Beginning::Chat { messages, options: Box::new(options) });
        }
        let prompt = self.prompt.ok_or_else(|| ApiError::bad("prompt", "the prompt is missing"))?;
        let (beginning, prompts) = match prompt {
            PromptBody::Text(text) => (Beginning::Texts(vec![text]), 1),
            // An empty list is a list of nothing, whatever it was meant to hold.
            PromptBody::Texts(texts) => (Beginning::Texts(texts.clone()), texts.len()),
            PromptBody::Tokens(tokens) => (Beginning::Tokens(vec![tokens]), 1),
            PromptBody::Several(all) => (Beginning::Tokens(all.clone()), all.len()),
        };
        match prompts {
            0 => Err(ApiError::bad("prompt", "the list of prompts is empty")),
            _ if prompts > limits.prompts => {
                let message = format!("a request may have {} prompts, not {prompts}", limits.prompts);
                Err(ApiError::bad("prompt", message))
            }
            _ => Ok(beginning),
        }
    }
}

impl Turn {
    fn message(self) -> Result<Message, ApiError> {
        let text = match self.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                if let Some(part) = parts.iter().find(|part| part.kind != "text") {
                    let message = format!("this model reads text only, not \"{}\"", part.kind);
                    return Err(ApiError::bad("messages", message));
                }
                parts.into_iter().filter_map(|part| part.text).collect()
            }
        };
        Ok(Message::new(self.role, text))
    }
}

/// What a chat template is told besides the conversation. Templates know three degrees of thinking, and none.
fn chat_options(
    effort: Option<&str>,
    variables: Option<Map<String, Value>>,
    defaults: &ChatOptions,
) -> Result<ChatOptions, ApiError> {
    let (thinking, reasoning_effort) = match effort {
        None => (defaults.thinking, defaults.reasoning_effort),
        Some("none") => (Some(false), None),
        Some("minimal") => (None, Some(Effort::Low)),
        Some("xhigh") => (None, Some(Effort::High)),
        Some(name) => match name.parse() {
            Ok(effort) => (None, Some(effort)),
            Err(_) => {
                let message = "reasoning_effort is none, minimal, low, medium, high or xhigh";
                return Err(ApiError::bad("reasoning_effort", message));
            }
        },
    };
    let variables = variables.unwrap_or_default();
    Ok(ChatOptions { thinking, reasoning_effort, variables, ..ChatOptions::default() })
}

impl EagerBody {
    fn method(&self, defaults: &Defaults) -> Result<(Method, Option<f32>), ApiError> {
        let method = match &self.method {
            None => defaults.method,
            Some(name) => name.parse().map_err(|error| ApiError::bad("eager.method", format!("{error}")))?,
        };
        let how = match self.reallocation.as_deref() {
            None => None,
            Some("rerun") => Some(Reallocation::Rerun),
            Some("rerun-literal") => Some(Reallocation::RerunLiteral),
            Some("regrow") => Some(Reallocation::Regrow),
            Some(_) => {
                return Err(ApiError::bad(
                    "eager.reallocation",
                    "reallocation is regrow, rerun or rerun-literal",
                ));
            }
        };
        let method = match (method, how) {
            (method, None) => method,
            (Method::EagerAdapt(_), Some(how)) => Method::EagerAdapt(how),
            (Method::Eager(_), Some(how)) => Method::Eager(how),
            (method, Some(_)) => {
                let message = format!("{method} has no second pass; use eager-adapt or eager");
                return Err(ApiError::bad("eager.reallocation", message));
            }
        };
        if method.needs_labels() && self.answer.is_none() {
            let message =
                format!("{method} decides by the right answer: give eager.answer, or use eager-adapt");
            return Err(ApiError::bad("eager.answer", message));
        }
        // No step can be less sure than one whose candidates are all as likely.
        let highest = (defaults.entropy_top_k as f64).ln();
        let theta = self.theta.map(|theta| within("eager.theta", theta, 0.0, highest)).transpose()?;
        Ok((method, theta))
    }
}

/// OpenAI's way to write it: an object with tokens' numbers as keys.
fn logit_bias(written: &Value) -> Result<Vec<(Token, f32)>, ApiError> {
    let bad = |why: String| ApiError::bad("logit_bias", why);
    let form = || bad("logit_bias is an object from token ids to numbers, such as {\"42\": -100}".to_owned());
    let written = written.as_object().ok_or_else(form)?;
    if written.len() > BIASES {
        return Err(bad(format!("logit_bias may name {BIASES} tokens, not {}", written.len())));
    }
    let one = |(token, bias): (&String, &Value)| {
        let token = token.parse().map_err(|_| form())?;
        let bias = TokenRules::check_bias(bias.as_f64().ok_or_else(form)? as f32);
        Ok((token, bias.map_err(|why| bad(format!("the logit_bias of token {token} {why}")))?))
    };
    written.iter().map(one).collect()
}

fn stop_token_ids(ids: &[i64]) -> Result<Vec<Token>, ApiError> {
    if ids.len() > STOP_TOKENS {
        let message = format!("there may be {STOP_TOKENS} stop_token_ids, not {}", ids.len());
        return Err(ApiError::bad("stop_token_ids", message));
    }
    let token = |&id: &i64| {
        Token::try_from(id).map_err(|_| {
            ApiError::bad("stop_token_ids", format!("stop_token_ids names token {id}, which there is not"))
        })
    };
    ids.iter().map(token).collect()
}

fn whole(param: &str, value: i64, least: i64, most: i64) -> Result<usize, ApiError> {
    if (least..=most).contains(&value) {
        return Ok(usize::try_from(value).unwrap_or(usize::MAX));
    }
    let range =
        if most == i64::MAX { format!("at least {least}") } else { format!("from {least} to {most}") };
    Err(ApiError::bad(param, format!("{param} must be {range}, not {value}")))
}

fn within(param: &str, value: f64, least: f64, most: f64) -> Result<f32, ApiError> {
    // A number that is none is in no range.
    if (least..=most).contains(&value) {
        return Ok(value as f32);
    }
    let least = if least == f64::MIN_POSITIVE { "above 0".to_owned() } else { format!("at least {least}") };
    Err(ApiError::bad(param, format!("{param} must be {least} and at most {most:.3}, not {value}")))
}
