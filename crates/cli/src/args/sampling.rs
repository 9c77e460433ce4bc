//! How tokens are drawn.

use clap::Args;
use eager_core::Sampling;

use super::number::{at_least_zero, positive_share, share};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    pub temperature: f32,
    /// The same seed gives the same trees
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub draw: DrawArgs,
}

/// What does not change within a sweep.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct DrawArgs {
    /// Keep the most likely tokens that together hold this much probability
    #[arg(long, default_value_t = 0.95, value_parser = positive_share, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Keep this many tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    pub top_k: usize,
    /// Drop tokens less likely than this share of the most likely one
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    pub min_p: f32,
}

impl DrawArgs {
    pub fn sampling(&self, temperature: f32) -> Sampling {
        let &Self { top_p, top_k, min_p } = self;
        Sampling { temperature, top_p, top_k, min_p }
    }
}

impl SamplingArgs {
    pub fn sampling(&self) -> Sampling {
        self.draw.sampling(self.temperature)
    }
}
