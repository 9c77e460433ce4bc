//! The words of a model, from the server that runs it: for those who do not have its tokenizer at hand.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use eager_core::Token;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::dialect::{Dialect, complaint};
use crate::engine::RemoteEngine;
use crate::error::RemoteError;
use crate::server::{Server, cause};

/// What the assistant says in a made-up conversation: it is found again among the tokens, because nothing else has it.
const REPLY: &str = "7";

/// A server's tokenizer and chat template. Every call is a request, and blocks.
#[derive(Debug)]
pub struct ServerWords {
    server: Arc<Server>,
    /// To a thread that sends the requests: texts are wanted while the engine's own thread is busy.
    jobs: Sender<Job>,
    stop: Vec<Token>,
}

/// Something to be done on that thread.
type Job = Box<dyn FnOnce(&Runtime) + Send>;

/// One turn of a conversation: who speaks, and what.
pub type Turn<'a> = (&'a str, &'a str);

impl ServerWords {
    /// Asks the first of an engine's servers for its words.
    pub fn new(engine: &RemoteEngine) -> Result<Self, RemoteError> {
        let server = Arc::clone(engine.first());
        let lacking = |what, remedy| RemoteError::Lacking { url: server.url.clone(), what, remedy };
        if server.dialect == Dialect::Sglang {
            return Err(lacking("a tokenizer", "name the model's GGUF or folder with --model"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Setup { reason: error.to_string() })?;
        let (jobs, todo) = channel::<Job>();
        // It ends with the last who could give it something to do.
        std::thread::spawn(move || todo.into_iter().for_each(|job| job(&runtime)));
        let mut words = ServerWords { server: Arc::clone(&server), jobs, stop: Vec::new() };
        words.stop = words.ends()?;
        if words.stop.is_empty() {
            let remedy = "name the model's GGUF or folder with --model, which say it";
            return Err(lacking("the token that ends a response", remedy));
        }
        Ok(words)
    }

    /// The tokens that end a response.
    pub fn stop_tokens(&self) -> &[Token] {
        &self.stop
    }

    /// The tokens of a text. Special tokens in it are what they say; `begin` adds those that come before every prompt.
    pub fn encode(&self, text: &str, begin: bool) -> Result<Vec<Token>, RemoteError> {
        let body = match self.server.dialect {
            Dialect::LlamaServer => json!({"content": text, "add_special": begin, "parse_special": true}),
            _ => json!({"model": self.server.model, "prompt": text, "add_special_tokens": begin}),
        };
        self.tokens(body)
    }

    /// The text of tokens, special ones too.
    pub fn decode(&self, tokens: &[Token]) -> Result<String, RemoteError> {
        #[derive(Deserialize)]
        struct Text {
            #[serde(alias = "prompt")]
            content: String,
        }
        if tokens.is_empty() {
            return Ok(String::new());
        }
        let body = match self.server.dialect {
            Dialect::LlamaServer => json!({"tokens": tokens}),
            _ => json!({"model": self.server.model, "tokens": tokens}),
        };
        self.exchange("/detokenize", &body).map(|text: Text| text.content)
    }

    /// The tokens of a conversation that the assistant is to continue. `variables` are for the chat template.
    pub fn chat(
        &self,
        turns: &[Turn<'_>],
        variables: &Map<String, Value>,
    ) -> Result<Vec<Token>, RemoteError> {
        self.conversation(turns, true, variables)
    }

    fn conversation(
        &self,
        turns: &[Turn<'_>],
        open: bool,
        variables: &Map<String, Value>,
    ) -> Result<Vec<Token>, RemoteError> {
        #[derive(Deserialize)]
        struct Prompt {
            prompt: String,
        }
        let turn = |(role, content): &Turn<'_>| json!({"role": role, "content": content});
        let messages: Vec<Value> = turns.iter().map(turn).collect();
        let mut body = json!({"messages": messages, "add_generation_prompt": open});
        if !variables.is_empty() {
            body["chat_template_kwargs"] = variables.clone().into();
        }
        if self.server.dialect != Dialect::LlamaServer {
            body["model"] = self.server.model.clone().into();
            return self.tokens(body);
        }
        let Prompt { prompt } = self.exchange("/apply-template", &body)?;
        // Templates like to bring along the token that every prompt begins with.
        let (bare, begun) = (self.encode(&prompt, false)?, self.encode(&prompt, true)?);
        let twice = begun.first().is_some_and(|first| bare.first() == Some(first));
        Ok(if twice { bare } else { begun })
    }

    fn tokens(&self, body: Value) -> Result<Vec<Token>, RemoteError> {
        #[derive(Deserialize)]
        struct Tokens {
            tokens: Vec<Token>,
        }
        self.exchange("/tokenize", &body).map(|answer: Tokens| answer.tokens)
    }

    /// What ends a response: the token that the chat template writes behind one, and what llama-server names.
    fn ends(&self) -> Result<Vec<Token>, RemoteError> {
        let mut ends = Vec::new();
        if self.server.dialect == Dialect::LlamaServer {
            let named = self.elsewhere(|server| async move { server.page("/props").await })?;
            let text = named.as_ref().and_then(|props| props.get("eos_token")?.as_str()).unwrap_or_default();
            ends.extend(<[Token; 1]>::try_from(self.encode(text, false)?).into_iter().flatten());
        }
        let turns = [("user", "?"), ("assistant", REPLY)];
        // A model without a template has no such token.
        let tokens = self.conversation(&turns, false, &Map::new()).unwrap_or_default();
        for pair in tokens.windows(2).rev() {
            if self.decode(&pair[..1])?.trim() == REPLY {
                let end = self.decode(&pair[1..])?;
                // A line break behind the reply is only written, never generated.
                if end.starts_with(['<', '[']) && !ends.contains(&pair[1]) {
                    ends.push(pair[1]);
                }
                break;
            }
        }
        Ok(ends)
    }

    fn exchange<T: for<'a> Deserialize<'a> + Send + 'static>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, RemoteError> {
        let (path, body) = (path.to_owned(), body.to_string());
        self.elsewhere(move |server| exchange(server, path, body))
    }

    /// Has requests sent by the other thread, and waits for what comes of it.
    fn elsewhere<T, F>(&self, work: impl FnOnce(Arc<Server>) -> F + Send + 'static) -> Result<T, RemoteError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RemoteError>>,
    {
        let (done, result) = channel();
        let server = Arc::clone(&self.server);
        // Nobody is left to be told when this thread has gone away meanwhile.
        let job: Job = Box::new(move |runtime| drop(done.send(runtime.block_on(work(server)))));
        let gone = || RemoteError::Setup { reason: "the thread for short requests has ended".to_owned() };
        self.jobs.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

/// A short request, repeated for as long as there is hope.
async fn exchange<T: for<'a> Deserialize<'a>>(
    server: Arc<Server>,
    path: String,
    body: String,
) -> Result<T, RemoteError> {
    let (began, mut attempts, patience) = (Instant::now(), 0, server.patience);
    loop {
        let (status, answer) = match server.short(&path, body.clone()).await {
            Ok((status, answer)) => (Some(status), Ok(answer)),
            Err(error) => (None, Err(cause(&error))),
        };
        let reason = match (status, answer) {
            (Some(status), Ok(answer)) if status.is_success() => {
                let nonsense = |error| RemoteError::Nonsense {
                    url: server.url.clone(),
                    path: path.clone(),
                    reason: format!("{error}"),
                };
                return serde_json::from_slice(&answer).map_err(nonsense);
            }
            (Some(status), Ok(answer)) if status.is_client_error() && status.as_u16() != 429 => {
                let message = complaint(&answer).unwrap_or_default();
                return Err(RemoteError::Refused {
                    url: server.url.clone(),
                    status: status.as_u16(),
                    message,
                });
            }
            (Some(status), _) => format!("it answered {status}"),
            (None, answer) => answer.err().unwrap_or_default(),
        };
        attempts += 1;
        if began.elapsed() >= patience.give_up {
            let seconds = began.elapsed().as_secs();
            return Err(RemoteError::GaveUp { url: server.url.clone(), seconds, attempts, reason });
        }
        tokio::time::sleep(patience.before_attempt(attempts, None)).await;
    }
}
