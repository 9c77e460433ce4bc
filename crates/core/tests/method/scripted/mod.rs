//! What the integration tests run the real strategies on: a model made of hashes, engines that keep step or do their
//! worst not to, and random cases for both.
//!
//! Nothing here knows the method. A strategy that agrees with the paper on every script and every schedule agrees
//! because of what it does, not because of who ran it.

mod case;
mod engine;
mod model;

pub use case::{Case, answer, cases, is_answer, often};
pub use engine::{Order, Schedule, ScriptedEngine, schedules};
pub use model::{Draws, Script, hash, root_of};
