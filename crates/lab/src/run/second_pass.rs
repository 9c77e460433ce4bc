//! Readings of the paper's second pass, by the names that `run.json` has for them.
//!
//! Runs under different readings spend different budgets, so they are neither resumed as each other nor averaged.

use eager_core::{Method, Reallocation, SurplusLimit};

/// The reading that a method follows.
pub fn reading(method: Method, surplus: SurplusLimit) -> Option<&'static str> {
    Some(match (method.reallocation()?, surplus) {
        (Reallocation::RerunLiteral, _) => "M + b new sequences, limit over all prompts",
        (_, SurplusLimit::EachPrompt(_)) => "M + b sequences in all, limit for each prompt",
        (_, SurplusLimit::AllPrompts(_)) => "M + b sequences in all, limit over all prompts",
        (_, SurplusLimit::Nothing) => "M sequences in all",
    })
}

/// The reading of runs that do not say: they are from before there was more than one for each method.
pub(super) fn unsaid(method: &str) -> Option<&'static str> {
    match method.split_once('/')?.1 {
        "rerun" => Some("M + b new sequences, limit over all prompts"),
        "regrow" => Some("b new sequences, limit over all prompts"),
        _ => None,
    }
}
