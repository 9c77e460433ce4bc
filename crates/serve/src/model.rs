//! What the server knows of its model: its name, its limits, and how it reads and writes.
//!
//! The engine knows tokens only, wherever it runs. Whoever serves a model brings the words to go with it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use eager_core::{Method, Profile, Token};
use eager_lab::theta::FoundTheta;
use eager_native::load::{ChatOptions, LoadError, Message, Words};
use serde_json::Value;

/// Text to tokens and back.
pub trait Speech: fmt::Debug + Send + Sync {
    /// The tokens of a bare prompt. The error says what was wrong with the text.
    fn encode(&self, text: &str) -> Result<Vec<Token>, String>;

    /// The tokens of a conversation, up to where the assistant's turn begins.
    fn converse(&self, messages: &[Message], options: &ChatOptions) -> Result<Vec<Token>, String>;

    /// The text of tokens. Bytes that are not UTF-8, or not yet, come as U+FFFD.
    fn decode(&self, tokens: &[Token]) -> String;
}

/// A model as clients see it.
#[derive(Debug, Clone)]
pub struct Model {
    pub name: String,
    /// Most tokens of a sequence with its prompt: what the model can look back on, or what the engine's memory holds.
    pub context: usize,
    /// One more than the highest token that the engine takes.
    pub vocab: usize,
    /// Tokens that end a sequence.
    pub stop: Vec<Token>,
    /// The tokens that close the chain of thought; empty where the model has no such mark.
    pub reasoning_end: Vec<Token>,
    /// Where the model forks unless a request says otherwise.
    pub profile: Profile,
    /// Is theta to be found before requests are taken, because nobody has calibrated the model?
    pub finds_theta: bool,
    /// Set when it was looked for, also in vain.
    pub found_theta: Arc<OnceLock<Option<FoundTheta>>>,
    pub words: Arc<dyn Speech>,
    /// Says why a question is none that the model can answer, for a model that knows few kinds of them.
    pub notice: Option<fn(&str) -> Option<String>>,
}

impl Model {
    /// A model whose words are here, wherever it runs. `context` is the smaller of what the model can look back on and what
    /// the engine's memory holds.
    pub fn new(words: Words, profile: Profile, context: usize, vocab: usize) -> Result<Self, LoadError> {
        Ok(Model {
            name: words.name.clone(),
            context,
            vocab,
            stop: words.stop_tokens.clone(),
            reasoning_end: words.tokenizer.reasoning_end()?,
            profile,
            finds_theta: false,
            found_theta: Arc::default(),
            words: Arc::new(words),
            notice: None,
        })
    }

    /// Is it known where this model forks?
    pub fn is_ready(&self) -> bool {
        !self.finds_theta || self.found_theta.get().is_some()
    }

    /// Where a method forks that was told nothing.
    pub fn theta(&self, method: Method) -> f32 {
        let found = self.found_theta.get().copied().flatten();
        found.map_or_else(|| self.profile.theta(method), |found| found.theta)
    }
}

impl Speech for Words {
    fn encode(&self, text: &str) -> Result<Vec<Token>, String> {
        self.encode_prompt(text).map_err(|error| error.to_string())
    }

    fn converse(&self, messages: &[Message], options: &ChatOptions) -> Result<Vec<Token>, String> {
        let text = match &self.chat {
            Some(chat) => chat.render(messages, options).map_err(|error| error.to_string())?,
            // A base model knows no turns: it continues what was said.
            None => {
                let content =
                    |message: &Message| message.0.get("content").and_then(Value::as_str).map(str::to_owned);
                messages.iter().filter_map(content).collect::<Vec<_>>().join("\n\n")
            }
        };
        self.encode(&text)
    }

    fn decode(&self, tokens: &[Token]) -> String {
        self.tokenizer.decode(tokens)
    }
}
