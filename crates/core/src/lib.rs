//! EAGer, Entropy-Aware GEneRation: think wider only where the model is unsure.
//!
//! This crate is the method and nothing else: no I/O, no model, no threads. [`engine`] is what an engine must do,
//! [`strategy`] is what a method may decide, [`grove`] is where the two meet, and [`method`] runs a whole set of prompts.

pub mod budget;
pub mod chance;
pub mod engine;
pub mod entropy;
pub mod grove;
pub mod method;
pub mod metrics;
mod model_name;
pub mod prefixes;
pub mod profile;
pub mod strategy;
pub mod token_rules;
pub mod tree;
pub mod vote;

pub use budget::SurplusLimit;
pub use chance::Key;
pub use engine::{Engine, Forest, Pulse};
pub use entropy::{Candidate, Token};
pub use grove::{Decoded, Grove, Next, Sampling, Settings};
pub use method::{AdaptTo, Judged, Method, Plan, Prompt, Reallocation, Watch};
pub use metrics::{Metrics, Outcome, Unanswered};
pub use prefixes::Prefixes;
pub use profile::Profile;
pub use strategy::{DeepConfOptions, EscOptions, Forking, Regrowing, Strategy};
pub use token_rules::{RuleError, TokenRules};
pub use tree::{Finish, SeqId, Sequence, Tree};
pub use vote::{Answers, EndedPath};
