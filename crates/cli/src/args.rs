//! Options that several commands share.

use clap::{Args, ValueEnum};
use eager_core::grove::TOP_K;
use eager_core::strategy::{CapRule, Preference};
use eager_core::{DeepConfOptions, EscOptions, Forking, Method, Plan, Profile, Regrowing, Sampling};
use eager_native::{KvType, Options};

/// How tokens are drawn.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Keep the most likely tokens that together hold this much probability
    #[arg(long, default_value_t = 0.95, value_parser = positive_share, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Keep this many tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    pub top_k: usize,
    /// Drop tokens less likely than this share of the most likely one
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    pub min_p: f32,
    /// The same seed gives the same trees
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl SamplingArgs {
    pub fn sampling(&self) -> Sampling {
        let &Self { temperature, top_p, top_k, min_p, .. } = self;
        Sampling { temperature, top_p, top_k, min_p }
    }
}

/// Where and how often to fork.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Forking")]
pub struct ForkingArgs {
    /// Most sequences of a prompt (the paper's M)
    #[arg(long, short = 'm', default_value_t = 32, value_parser = sequences)]
    pub max_sequences: usize,
    /// Entropy, in nats, from which a step forks [default: what suits the model]
    #[arg(long, value_parser = at_least_zero, allow_negative_numbers = true)]
    pub theta: Option<f32>,
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
    #[command(flatten)]
    pub baselines: BaselineArgs,
}

/// The methods that EAGer is compared with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Baselines")]
pub struct BaselineArgs {
    /// Sequences of one of esc's windows [default: --max-sequences shared among the windows]
    #[arg(long, value_parser = sequences)]
    pub esc_window: Option<usize>,
    /// Most windows of esc [default: 8, or what --esc-window leaves of --max-sequences]
    #[arg(long, value_parser = sequences)]
    pub esc_windows: Option<usize>,
    /// Sequences that set deepconf's bar [default: half of --max-sequences]
    #[arg(long, value_parser = sequences)]
    pub deepconf_warmup: Option<usize>,
    /// The share of these that lie at or above the bar; less halts more
    #[arg(long, default_value_t = DeepConfOptions::default().keep, value_parser = exact_share, allow_negative_numbers = true)]
    pub deepconf_keep: f64,
    /// Tokens over which deepconf averages confidence [default: 2048, or a quarter of the mean length if that is less]
    #[arg(long, value_parser = at_least_one)]
    pub deepconf_window: Option<usize>,
}

impl BaselineArgs {
    fn esc(&self) -> EscOptions {
        EscOptions { window: self.esc_window, windows: self.esc_windows }
    }

    fn deepconf(&self) -> DeepConfOptions {
        let &Self { deepconf_warmup: warmup, deepconf_keep: keep, deepconf_window: window, .. } = self;
        DeepConfOptions { warmup, keep, window }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CapArg {
    /// Live and finished ones
    All,
    /// Only live ones, as Algorithm 1 is written
    Live,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
        self.theta.unwrap_or(match method {
            Method::Eager(_) => profile.theta_full,
            _ => profile.theta_init,
        })
    }

    pub fn plan(&self, seed: u64, theta: f32) -> Plan {
        let forking = Forking {
            cap_rule: match self.cap {
                CapArg::All => CapRule::All,
                CapArg::Live => CapRule::Live,
            },
            window: self.window,
            everywhere: self.everywhere,
            relax: self.relax,
            spacing: self.fork_spacing,
            ..Forking::new(theta, self.max_sequences)
        };
        let regrowing = Regrowing {
            first: self.regrow_first.preference(),
            wave: self.regrow_wave,
            spacing: self.regrow_spacing,
            candidates: self.regrow_candidates,
            least: self.regrow_least,
        };
        Plan { seed, forking, regrowing, esc: self.baselines.esc(), deepconf: self.baselines.deepconf() }
    }
}

/// How the embedded engine uses the machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Threads [default: one for each processor]
    #[arg(long, value_parser = threads)]
    pub threads: Option<usize>,
    /// How keys and values are stored
    #[arg(long, value_enum, default_value_t = KvArg::Q16)]
    pub kv: KvArg,
    /// Most MiB of keys and values
    #[arg(long, default_value_t = 4096, value_parser = at_least_one)]
    pub kv_memory: usize,
    /// Most tokens computed in one step, over all sequences
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    pub rows: usize,
    /// Vector instructions to use: vnni, avx512, avx2 or portable; or vnni8, which is faster but rounds activations to 8 bits
    /// [default: the best that do not]
    #[arg(long, env = "EAGER_KERNEL")]
    pub kernel: Option<String>,
}

impl EngineArgs {
    pub fn kv_bytes(&self) -> usize {
        self.kv_memory.saturating_mul(1 << 20)
    }

    pub fn options(&self) -> Options {
        let threads = self.threads.unwrap_or(0);
        let kv = match self.kv {
            KvArg::Q16 => KvType::Q16,
            KvArg::Q8 => KvType::Q8,
        };
        Options { threads, kv_bytes: self.kv_bytes(), rows: self.rows, kv, ..Options::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvArg {
    /// 16 bits with a scale for each token and head: as exact as half precision
    Q16,
    /// Bytes with a scale for each token and head: half the memory, less exact
    Q8,
}

impl KvArg {
    pub fn name(self) -> &'static str {
        match self {
            KvArg::Q16 => "q16",
            KvArg::Q8 => "q8",
        }
    }
}

fn number(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() { Ok(value) } else { Err("must be a finite number".to_owned()) }
}

fn at_least_zero(text: &str) -> Result<f32, String> {
    number(text).and_then(|v| if v >= 0.0 { Ok(v) } else { Err("must not be negative".to_owned()) })
}

fn positive(text: &str) -> Result<f32, String> {
    number(text).and_then(|v| if v > 0.0 { Ok(v) } else { Err("must be above 0".to_owned()) })
}

fn share(text: &str) -> Result<f32, String> {
    number(text)
        .and_then(|v| if (0.0..=1.0).contains(&v) { Ok(v) } else { Err("must be from 0 to 1".to_owned()) })
}

/// A share in double precision: 0.9 is a percentile here, and must not be 0.89999998.
fn exact_share(text: &str) -> Result<f64, String> {
    share(text)?;
    text.parse().map_err(|_| "not a number".to_owned())
}

fn positive_share(text: &str) -> Result<f32, String> {
    share(text).and_then(|v| if v > 0.0 { Ok(v) } else { Err("must be above 0".to_owned()) })
}

fn count(text: &str, least: usize) -> Result<usize, String> {
    let value: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if value >= least { Ok(value) } else { Err(format!("must be at least {least}")) }
}

pub fn at_least_one(text: &str) -> Result<usize, String> {
    count(text, 1)
}

/// More would only be a slip of the finger, and an expensive one.
fn at_most(text: &str, most: usize) -> Result<usize, String> {
    let value = at_least_one(text)?;
    if value <= most { Ok(value) } else { Err(format!("must be at most {most}")) }
}

pub fn sequences(text: &str) -> Result<usize, String> {
    at_most(text, 65_536)
}

fn threads(text: &str) -> Result<usize, String> {
    at_most(text, 1024)
}

fn at_least_two(text: &str) -> Result<usize, String> {
    count(text, 2)
}
