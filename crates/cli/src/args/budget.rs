//! What a second pass may spend over a set of prompts. A prompt by itself has no surplus to share.

use clap::Args;
use eager_core::SurplusLimit;
use eager_core::budget::SURPLUS;
use serde::Serialize;

#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "Forking")]
pub struct BudgetArgs {
    /// Most of the saved sequences that a second pass gives one prompt beyond M, in multiples of M; 0: no limit. The default
    /// is our reading of the paper
    #[arg(long, default_value_t = SURPLUS)]
    pub surplus: usize,
    /// Let --surplus limit all prompts together, by the letter of the paper's equation; for rerun-literal it always does
    #[arg(long)]
    pub surplus_total: bool,
}

impl BudgetArgs {
    pub fn limit(&self) -> SurplusLimit {
        match self.surplus_total {
            true => SurplusLimit::AllPrompts(self.surplus),
            false => SurplusLimit::EachPrompt(self.surplus),
        }
    }
}
