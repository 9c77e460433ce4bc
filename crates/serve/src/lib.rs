//! `eager serve`: the OpenAI API in front of an engine that grows trees, and the page that shows them.
//!
//! An application changes one base URL. It asks for `n` samples as before and gets the sequences that EAGer chose to grow, at
//! most `n`. The way of a request, top to bottom:
//!
//! 1. [`connections`] takes the connection and reads the request, within limits.
//! 2. [`app`] finds the handler, after asking who is there ([`keys`]).
//! 3. [`request`] turns what was sent into what is meant, or says what is wrong with it; `parameters` has the names that others
//!    know.
//! 4. [`growth`] turns text into tokens, plants a tree for every prompt and puts it into the [`queue`], which is the forest
//!    that the engine's thread grows. [`watched`] tells what happens to it.
//! 5. [`answer`] writes the whole answer, [`stream`] writes it as it grows, and [`grow`] tells the page of every token and
//!    fork; [`voice`] makes text of tokens, [`leaf`] says what is told of a finished sequence.
//!
//! The engine knows nothing of this, and this knows nothing of the engine: whatever implements
//! [`eager_core::Engine`] can be served. What clients see is described in `API.md` and in `openapi.json`.

pub mod answer;
pub mod app;
pub mod compare;
pub mod connections;
pub mod cors;
mod descriptors;
pub mod error;
pub mod grow;
pub mod growth;
pub mod keys;
pub mod leaf;
pub mod metrics;
pub mod model;
pub mod options;
pub mod page;
mod parameters;
pub mod queue;
pub mod request;
pub mod runs;
pub mod server;
pub mod sse;
pub mod strand;
pub mod stream;
mod theta;
pub mod voice;
pub mod watched;

pub use cors::Origin;
pub use keys::{Keys, KeysError};
pub use model::{Model, Speech};
pub use options::{Defaults, Limits, Options};
pub use server::{ServeError, Server};
