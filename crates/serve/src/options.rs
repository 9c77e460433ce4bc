//! How a server is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use eager_core::grove::TOP_K;
use eager_core::{Forking, Method, Plan, Sampling, TokenRules};
use eager_grade::response::Extract;
use eager_native::load::ChatOptions;

use crate::cors::Origin;
use crate::keys::Keys;

/// Everything about a server but its model.
#[derive(Debug, Clone)]
pub struct Options {
    pub address: SocketAddr,
    pub limits: Limits,
    pub defaults: Defaults,
    /// Who may ask; nobody is turned away without it.
    pub keys: Option<Keys>,
    /// Whose pages may ask, beside our own.
    pub cors: Vec<Origin>,
    /// A folder with runs to show.
    pub runs: Option<PathBuf>,
    /// Write prompts into the log.
    pub log_prompts: bool,
    /// Sequences that the engine decodes at a time.
    pub width: usize,
}

/// What a request may ask for, and how much there may be of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Highest `n`.
    pub sequences: usize,
    /// Most tokens of one sequence; the context is a limit in any case.
    pub tokens: usize,
    /// Prompts of one request.
    pub prompts: usize,
    /// Prompts that wait.
    pub queue: usize,
    /// Bytes of a request.
    pub body: usize,
    /// How long a request may take. After that it gets what there is.
    pub time: Duration,
    /// How long a client may take to send a request.
    pub patience: Duration,
    /// Connections at a time.
    pub connections: usize,
    /// How long requests may go on when the server is told to stop.
    pub grace: Duration,
    /// Parameters that the engine cannot follow, and why.
    pub refused: Vec<(&'static str, &'static str)>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sequences: 128,
            tokens: usize::MAX,
            prompts: 64,
            queue: 256,
            body: 2 << 20,
            time: Duration::from_secs(600),
            patience: Duration::from_secs(15),
            connections: 1024,
            grace: Duration::from_secs(20),
            refused: Vec::new(),
        }
    }
}

/// What a request that does not say gets.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub method: Method,
    pub sampling: Sampling,
    pub rules: TokenRules,
    /// Entropy from which a step forks; `None` leaves it to the model.
    pub theta: Option<f32>,
    /// Candidates that enter the entropy, and the temperature of their distribution.
    pub entropy_top_k: usize,
    pub entropy_temperature: Option<f32>,
    /// How trees grow. Its seed, cap and theta are for requests to say.
    pub plan: Plan,
    /// What counts as an answer; requests cannot say otherwise.
    pub extract: Extract,
    /// What a conversation begins with that has no system message.
    pub system: Option<String>,
    /// What chat templates are told.
    pub chat: ChatOptions,
}

impl Default for Defaults {
    /// The temperature is the one at which thresholds were found, not OpenAI's.
    fn default() -> Self {
        Defaults {
            method: Method::EagerInit,
            sampling: Sampling::default(),
            rules: TokenRules::default(),
            theta: None,
            entropy_top_k: TOP_K,
            entropy_temperature: None,
            plan: Plan::new(0, Forking::new(0.0, 1)),
            extract: Extract::default(),
            system: None,
            chat: ChatOptions::default(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            limits: Limits::default(),
            defaults: Defaults::default(),
            keys: None,
            cors: Vec::new(),
            runs: None,
            log_prompts: false,
            width: 256,
        }
    }
}
