//! What can go wrong with a server, in one sentence each.

use crate::dialect::Dialect;

/// Why there is no engine, or why a run ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    #[error("'{url}' is no address of a server: {reason}; write it like http://localhost:8000")]
    Url { url: String, reason: String },
    #[error("cannot reach {url}: {reason}; is the server running, and is this its address?")]
    Unreachable { url: String, reason: String },
    #[error(
        "{url} cannot be trusted: {reason}; if its certificate is your own, name the file of its authority in SSL_CERT_FILE"
    )]
    Certificate { url: String, reason: String },
    #[error("{url} did not answer within {seconds} s; is this its address?")]
    Silent { url: String, seconds: u64 },
    #[error(
        "{url} wants another API key (it answered {status}); pass the one that the server was started with"
    )]
    Key { url: String, status: u16 },
    #[error("{url} is not ready: {reason}; try again when the model is loaded")]
    NotReady { url: String, reason: String },
    #[error("{url} answers, but it is none of llama-server, vLLM and SGLang; is this the right address?")]
    NotAnLlm { url: String },
    #[error("{url} serves no model '{model}'; it has {}", models.join(", "))]
    NoSuchModel { url: String, model: String, models: Vec<String> },
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error(
        "the prompt has {prompt} tokens and may grow by {more}, but the server's context is {context}; shorten it, allow fewer tokens, or start the server with a longer context"
    )]
    Context { prompt: usize, more: usize, context: usize },
    #[error("{rule}: {why}; leave it out")]
    Rule { rule: &'static str, why: &'static str },
    #[error("{url} refused a request ({status}): {message}")]
    Refused { url: String, status: u16, message: String },
    #[error("the answers of {url} lack {what}: {remedy}")]
    Lacking { url: String, what: &'static str, remedy: &'static str },
    #[error("{url} answered {path} with nonsense ({reason})")]
    Nonsense { url: String, path: String, reason: String },
    #[error("{url} gave nothing for {seconds} s in {attempts} attempts, the last time because {reason}")]
    GaveUp { url: String, seconds: u64, attempts: u32, reason: String },
    #[error("{url}{} gone for {seconds} s, because {reason}", if *others == 0 { " has been".to_owned() } else { format!(" and {others} more have been") })]
    Gone { url: String, others: usize, seconds: u64, reason: String },
    #[error("there is no server; name one with its address")]
    NoServer,
    #[error("{url} is named twice; name every server once")]
    Twice { url: String },
    #[error("{url} serves {model} and {other_url} serves {other}; all servers must serve the same model")]
    Models { url: String, model: String, other_url: String, other: String },
    #[error("cannot set up HTTP on this machine: {reason}")]
    Setup { reason: String },
    #[error("'{0}' is no dialect; there are {all}", all = Dialect::ALL.map(Dialect::name).join(", "))]
    Dialect(String),
}
