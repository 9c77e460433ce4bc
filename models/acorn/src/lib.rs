//! acorn: a reasoning model small enough to live inside the binary, and the world it was raised in.
//!
//! acorn has 6.4 million parameters. It was trained from nothing on generated problems of three families,
//! each with levels 1 to 5, and it thinks inside `<think>…</think>` before it answers in `\boxed{…}`:
//!
//! - **countdown**: "Using each of 13, 22, 10 exactly once, make 66." (the answer is an expression)
//! - **arithmetic**: "What is 888 * 27 + 271?"
//! - **pairs**: "Two numbers have sum 61 and product 900. What is the larger?"
//!
//! The crate holds three things that belong together:
//!
//! - the weights ([`GGUF`], with tokenizer and chat template inside);
//! - problems to try it on: sixty fixed ones ([`problems`]), or as many fresh ones as wanted ([`generate`],
//!   [`suite`]), all of them held out of training;
//! - what tells its kinds of problem from other questions ([`Family::of`], [`notice`]);
//! - the corpus it was trained on ([`Corpus`]): problems of the same kinds with worked traces. The
//!   `acorn-corpus` command prints it for the training recipe, so that there is one generator for both.
//!
//! Every problem has a canonical key (its numbers, sorted where their order does not matter), and a hash of
//! the key decides whether it is a training problem or a held-out one. A held-out problem can therefore be
//! drawn with any seed at any time, and is never one that the model has seen.

mod arithmetic;
mod countdown;
mod curriculum;
mod document;
mod expressions;
mod kinds;
mod pairs;
mod problems;
mod rng;
mod tries;

pub use curriculum::{Family, GRADES, Grade, LEVELS, UnknownFamily, UnknownGrade};
pub use document::{Corpus, Document, Split};
pub use kinds::notice;
pub use problems::{GenerateError, Problem, generate, problems, suite};

/// The model as a GGUF file: Qwen3 architecture, q8_0 weights, tokenizer and chat template.
pub const GGUF: &[u8] = include_bytes!("../weights/acorn-q8_0.gguf");
