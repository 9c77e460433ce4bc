//! The engine interface over HTTP: the same trees, decoded by llama-server, vLLM or SGLang.
//!
//! Every live sequence is one stream of tokens. A stream asks for the most likely candidates of every token, so the grove
//! can measure entropies as it does for the embedded engine, and its prompt is a list of token ids, so that a sequence can
//! be taken up again at any token: after a fork, after a lost connection, on another day. No text ever crosses
//! that border, because the text of a token depends on its neighbours and its id does not.
//!
//! [`RemoteEngine`] is one server or many; `run` drives the groves and takes up whatever broke off, `fleet` knows which
//! servers are there, a `stream` is one request, and `dialect` is all that differs between servers.

mod check;
mod dialect;
mod engine;
mod error;
mod event;
mod fleet;
mod patience;
mod plot;
mod run;
mod seats;
mod server;
mod stream;
mod traffic;
mod unreported;
mod words;

pub use check::{Check, Finding, Verdict};
pub use dialect::Dialect;
pub use engine::{Options, RemoteEngine};
pub use error::RemoteError;
pub use patience::Patience;
pub use traffic::{Requests, Tally, Traffic};
pub use words::{ServerWords, Turn};
