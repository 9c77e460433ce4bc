//! The workloads both engines run.

use serde::Serialize;

/// What is done before the clock starts, and what while it runs.
///
/// Counts are `u16` because every other integer an API asks for can be had from one without a cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Workload {
    pub name: &'static str,
    /// Sequences decoded side by side.
    pub branches: u16,
    /// Tokens all branches have in common, computed once and forked.
    pub shared: u16,
    /// Tokens each branch has for itself when the clock starts.
    pub own: u16,
    /// Tokens each branch is given while the clock runs.
    pub tokens: u16,
    pub phase: Phase,
}

/// How the timed tokens arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// One after the other, with logits for each.
    Decode,
    /// All known in advance, with logits for the last only.
    Prefill,
}

/// How the keys and values of past tokens are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kv {
    F16,
    Q8,
}

impl Kv {
    pub fn name(self) -> &'static str {
        match self {
            Kv::F16 => "f16",
            Kv::Q8 => "q8",
        }
    }
}

impl Workload {
    pub const BRANCHES_8: Workload = decode("branches-8", 8, 256, 0, 256);

    pub const ALL: [Workload; 6] = [
        decode("branches-32", 32, 256, 0, 256),
        decode("private-32", 32, 0, 1500, 16),
        decode("shared-32", 32, 1500, 100, 16),
        Workload::BRANCHES_8,
        decode("single", 1, 256, 0, 256),
        Workload { name: "prefill", branches: 1, shared: 0, own: 0, tokens: 1024, phase: Phase::Prefill },
    ];

    pub fn named(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|workload| workload.name == name)
    }

    /// Whether a smaller cache can matter: the time goes into reading long private contexts.
    pub fn is_cache_bound(&self) -> bool {
        self.shared == 0 && self.own > 0
    }

    /// The cache types our engine is measured with; each makes a row of the result.
    pub fn eager_kv(&self) -> &'static [Kv] {
        if self.is_cache_bound() { &[Kv::F16, Kv::Q8] } else { &[Kv::F16] }
    }

    /// The name of the row for one cache type.
    pub fn row(&self, kv: Kv) -> String {
        match kv {
            Kv::F16 => self.name.to_owned(),
            Kv::Q8 => format!("{} q8", self.name),
        }
    }

    /// Tokens of all branches per second, when each was given `tokens` in `seconds`.
    pub fn rate(&self, tokens: u16, seconds: f64) -> f64 {
        f64::from(self.branches) * f64::from(tokens) / seconds
    }
}

const fn decode(name: &'static str, branches: u16, shared: u16, own: u16, tokens: u16) -> Workload {
    Workload { name, branches, shared, own, tokens, phase: Phase::Decode }
}
