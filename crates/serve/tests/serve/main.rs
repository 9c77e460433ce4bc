//! The real server with the real engine and acorn, asked over HTTP.

mod cancel;
mod chat;
mod events;
mod hostile;
mod load;
mod operation;
mod runs;
mod sampling;
mod service;
mod streaming;
