//! The real server with the real engine and acorn, asked over HTTP.

mod chat;
mod service;
mod streaming;
