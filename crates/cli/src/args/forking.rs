//! Where and how often to fork, and how the methods that do not are set.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use eager_core::grove::TOP_K;
use eager_core::strategy::{CapRule, DeepConfOptions, EscOptions, Preference, Regrowing};
use eager_core::{AdaptTo, Forking, Method, Plan, Profile, SurplusLimit};
use serde::Serialize;
use serde_json::Value;

use crate::Usage;

use super::number::{at_least_one, at_least_two, at_least_zero, exact_share, positive, sequences, share};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Forking")]
pub struct ForkingArgs {
    /// Most sequences of a prompt (the paper's M)
    #[arg(long, short = 'm', default_value_t = 32, value_parser = sequences)]
    pub max_sequences: usize,
    /// Entropy, in nats, from which a step forks [default: what suits the model]
    #[arg(long, value_parser = at_least_zero, allow_negative_numbers = true)]
    pub theta: Option<f32>,
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    pub baselines: BaselineArgs,
}

/// What does not change within a sweep.
#[derive(Debug, Clone, Args, Serialize)]
#[command(next_help_heading = "Forking")]
#[serde(rename_all = "kebab-case")]
pub struct RuleArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub tree: TreeArgs,
    /// Which prompts eager-adapt spends on
    #[arg(long, value_enum, default_value_t = AdaptArg::Saturated)]
    pub adapt_to: AdaptArg,
}

/// What acts on a prompt by itself: a server has these, too.
#[derive(Debug, Clone, Args, Serialize)]
#[command(next_help_heading = "Forking")]
#[serde(rename_all = "kebab-case")]
pub struct TreeArgs {
    /// Use the thresholds of this model: acorn, SmolLM3-3B, Qwen3-4B, DeepSeek-R1-0528-Qwen3-8B or gpt-oss-20b
    #[arg(long)]
    pub profile: Option<String>,
    /// How many candidates enter the entropy (the paper's K)
    #[arg(long, default_value_t = TOP_K, value_parser = at_least_two)]
    pub entropy_top_k: usize,
    /// Temperature of the distribution whose entropy is measured [default: the sampling temperature]
    #[arg(long, value_parser = positive, allow_negative_numbers = true)]
    pub entropy_temperature: Option<f32>,
    /// Stop watching a sequence this many tokens after its last fork; 0 watches for ever
    #[arg(long, default_value_t = 1000)]
    pub window: usize,
    /// Fork after the chain of thought as well
    #[arg(long)]
    pub everywhere: bool,
    /// Which sequences count against --max-sequences
    #[arg(long, value_enum, default_value_t = CapArg::All)]
    pub cap: CapArg,
    /// The share of theta from which a second pass considers a step
    #[arg(long, default_value_t = 0.8, value_parser = share, allow_negative_numbers = true)]
    pub relax: f32,
    /// Least number of tokens between two forks of a sequence
    #[arg(long, default_value_t = 0)]
    pub fork_spacing: usize,
    /// Which untaken tokens regrow takes first
    #[arg(long, value_enum, default_value_t = PreferenceArg::Likely)]
    pub regrow_first: PreferenceArg,
    /// How many branches of a prompt regrow starts at a time; the next ones may start from what these found
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    pub regrow_wave: usize,
    /// Least distance, in tokens, between branches that regrow starts at a time from one sequence
    #[arg(long, default_value_t = 0)]
    pub regrow_spacing: usize,
    /// Most tokens taken at one step, the first pass's included; 2 leaves regrow one where it did not fork, 0 is no limit
    #[arg(long, default_value_t = 0)]
    pub regrow_candidates: usize,
    /// Least probability of a token that regrow starts from
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    pub regrow_least: f32,
}

/// The methods that EAGer is compared with.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "Baselines")]
pub struct BaselineArgs {
    /// Sequences of one of esc's windows, of which programs agree where their text does: nothing is run meanwhile [default:
    /// --max-sequences shared among the windows]
    #[arg(long, value_parser = sequences)]
    pub esc_window: Option<usize>,
    /// Most windows of esc [default: 8, or what --esc-window leaves of --max-sequences]
    #[arg(long, value_parser = sequences)]
    pub esc_windows: Option<usize>,
    /// Sequences that set deepconf's bar [default: half of --max-sequences]
    #[arg(long, value_parser = sequences)]
    pub deepconf_warmup: Option<usize>,
    /// The share of these that lie at or above the bar; less halts more: 0.9 is the authors' DeepConf-high, 0.1 their
    /// DeepConf-low, the default of their online program
    #[arg(long, default_value_t = DeepConfOptions::default().keep, value_parser = exact_share, allow_negative_numbers = true)]
    pub deepconf_keep: f64,
    /// Tokens over which deepconf averages confidence [default: 2048, or a quarter of the mean length if that is less]
    #[arg(long, value_parser = at_least_one)]
    pub deepconf_window: Option<usize>,
    /// Have deepconf sample one by one after its warm-up, and stop when one answer has 95% of the weighted vote: the paper's
    /// consensus stop, which its published program does not have
    #[arg(long)]
    pub deepconf_consensus: bool,
    /// Samples that two-stage gives every prompt, of --max-sequences; those that none of them solves get the rest [default: a
    /// quarter]
    #[arg(long, value_parser = sequences)]
    pub first_stage: Option<usize>,
}

impl BaselineArgs {
    /// Do they say how many sequences there are, whatever the cap?
    pub fn fix_sequences(&self) -> bool {
        self.esc_window.is_some() && self.esc_windows.is_some()
    }

    fn esc(&self) -> EscOptions {
        EscOptions { window: self.esc_window, windows: self.esc_windows }
    }

    fn deepconf(&self) -> DeepConfOptions {
        DeepConfOptions {
            warmup: self.deepconf_warmup,
            keep: self.deepconf_keep,
            window: self.deepconf_window,
            consensus: self.deepconf_consensus,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CapArg {
    /// Live and finished ones
    All,
    /// Only live ones, as Algorithm 1 is written
    Live,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AdaptArg {
    /// Those that reached --max-sequences
    Saturated,
    /// Those whose sequences do not agree on an answer
    Divided,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PreferenceArg {
    /// Those that the model found most likely
    Likely,
    /// Those at the steps of highest entropy
    Unsure,
    /// By probability times entropy
    Both,
    /// The earliest in the path
    Early,
    /// The latest in the path
    Late,
    /// By the likelihood of the whole path
    Path,
    /// The likely ones, but less where branches already start
    Fresh,
}

impl PreferenceArg {
    fn preference(self) -> Preference {
        match self {
            PreferenceArg::Likely => Preference::Likely,
            PreferenceArg::Unsure => Preference::Unsure,
            PreferenceArg::Both => Preference::Both,
            PreferenceArg::Early => Preference::Early,
            PreferenceArg::Late => Preference::Late,
            PreferenceArg::Path => Preference::Path,
            PreferenceArg::Fresh => Preference::Fresh,
        }
    }
}

impl ForkingArgs {
    /// The threshold for a method: the user's, or the model's own.
    pub fn theta(&self, method: Method, profile: &Profile) -> f32 {
        self.theta.unwrap_or_else(|| profile.theta(method))
    }

    pub fn plan(&self, seed: u64, theta: f32, surplus: SurplusLimit) -> Plan {
        Plan { surplus, ..self.rules.plan(seed, theta, self.max_sequences, &self.baselines) }
    }
}

impl TreeArgs {
    /// Refuses a theta that no step can reach: it would look like a method that never forks.
    pub fn check(&self, theta: Option<f32>) -> Result<(), Usage> {
        let highest = (self.entropy_top_k as f32).ln();
        match theta.filter(|&theta| theta > highest) {
            Some(theta) => Err(Usage(format!(
                "theta {theta} is out of range: the entropy of {} candidates is at most {highest:.2} nats",
                self.entropy_top_k
            ))),
            None => Ok(()),
        }
    }

    pub fn plan(&self, seed: u64, theta: f32, max_sequences: usize, baselines: &BaselineArgs) -> Plan {
        let forking = Forking {
            cap_rule: match self.cap {
                CapArg::All => CapRule::All,
                CapArg::Live => CapRule::Live,
            },
            window: self.window,
            everywhere: self.everywhere,
            relax: self.relax,
            spacing: self.fork_spacing,
            ..Forking::new(theta, max_sequences)
        };
        let regrowing = Regrowing {
            first: self.regrow_first.preference(),
            wave: self.regrow_wave,
            spacing: self.regrow_spacing,
            candidates: self.regrow_candidates,
            least: self.regrow_least,
        };
        let (esc, deepconf) = (baselines.esc(), baselines.deepconf());
        let first_stage = baselines.first_stage;
        Plan { regrowing, esc, deepconf, first_stage, ..Plan::new(seed, forking) }
    }
}

impl RuleArgs {
    pub fn check(&self, theta: Option<f32>) -> Result<(), Usage> {
        self.tree.check(theta)
    }

    pub fn plan(&self, seed: u64, theta: f32, max_sequences: usize, baselines: &BaselineArgs) -> Plan {
        let adapt_to = match self.adapt_to {
            AdaptArg::Saturated => AdaptTo::Saturated,
            AdaptArg::Divided => AdaptTo::Divided,
        };
        Plan { adapt_to, ..self.tree.plan(seed, theta, max_sequences, baselines) }
    }
}

/// Options by their names, for a run's record.
pub fn recorded(options: &impl Serialize) -> BTreeMap<String, Value> {
    // By way of text, which keeps 0.8 as it was typed; plain data becomes an object without fail.
    let text = serde_json::to_string(options).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
