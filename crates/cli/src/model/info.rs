//! `eager model info`: what a model is and what it takes, without running it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use eager_core::Profile;
use eager_lab::profiles::Profiles;
use eager_native::load::{Checkpoint, DType};
use eager_native::{KvType, kv_bytes_per_token};
use serde::Serialize;

use super::hub;
use crate::args::at_least_one;
use crate::engine::info::{grouped, mib};
use crate::session::hash_model;
use crate::table::{list_lines, new_list};
use crate::{Outcome, print};

/// Lengths of branches that are worth knowing; the context comes last.
const LENGTHS: [usize; 4] = [1024, 4096, 16_384, 32_768];

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the Hugging Face hub, such
    /// as Qwen/Qwen3-4B [default: the embedded acorn]
    model: Option<PathBuf>,
    /// MiB that weights, keys and values may take together [default: what is free on this machine]
    #[arg(long, value_parser = at_least_one)]
    memory: Option<usize>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Info {
    model: String,
    architecture: &'static str,
    parameters: usize,
    /// Of all tensors, as the files have them.
    weight_bytes: usize,
    /// Types and the bytes in each, largest first.
    quantisation: Vec<Share>,
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    context: usize,
    chat_template: bool,
    kv_bytes_per_token: Kv,
    memory: Option<Memory>,
    thetas: Thetas,
}

#[derive(Debug, Serialize)]
struct Share {
    r#type: &'static str,
    bytes: usize,
}

/// By how keys and values are stored.
#[derive(Debug, Serialize)]
struct Kv {
    q16: usize,
    q8: usize,
}

#[derive(Debug, Serialize)]
struct Memory {
    /// For weights, keys and values.
    bytes: usize,
    /// How many sequences of so many tokens fit beside the weights, if they share nothing.
    branches: Vec<Branches>,
}

#[derive(Debug, Serialize)]
struct Branches {
    tokens: usize,
    q16: usize,
    q8: usize,
}

#[derive(Debug, Serialize)]
struct Thetas {
    /// `calibrated` here, the name of the profile, or `uncalibrated`: then theta is found when it is needed.
    source: String,
    eager_init: Option<f32>,
    eager: Option<f32>,
}

impl Thetas {
    fn describe(&self) -> String {
        match (self.eager_init, self.eager) {
            (Some(init), Some(full)) => {
                format!("{init} for eager-init, {full} for eager ({})", self.source)
            }
            _ => {
                "nobody has calibrated this model; one that can fork is found from samples when it is needed"
                    .to_owned()
            }
        }
    }
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let path = args.model.as_deref().map(hub::locate).transpose()?;
    let checkpoint = match &path {
        Some(path) => Checkpoint::open(path)?,
        None => Checkpoint::from_gguf_bytes(eager_acorn::GGUF)?,
    };
    let thetas = thetas(&checkpoint, path.as_deref())?;
    let memory = args.memory.map(|mib| mib.saturating_mul(1 << 20)).or_else(free_memory);
    let info = Info::new(&checkpoint, memory, thetas);
    print(&if args.json { serde_json::to_string(&info)? } else { info.describe() })?;
    Ok(Outcome::Done)
}

/// What calibration has found for this very model, or else what is known for its kind.
fn thetas(checkpoint: &Checkpoint, path: Option<&std::path::Path>) -> anyhow::Result<Thetas> {
    let profiles = Profiles::place().map(|place| Profiles::read(&place)).transpose()?;
    // A large model takes a while to hash; there must be something to look up.
    if let (Some(profiles), Some(path)) = (profiles.filter(|profiles| !profiles.is_empty()), path)
        && let Some(found) = profiles.get(&hash_model(path)?)
    {
        let (eager_init, eager) = (Some(found.theta_init), Some(found.theta_full));
        return Ok(Thetas { source: "calibrated".to_owned(), eager_init, eager });
    }
    let profile = Profile::of(&checkpoint.name);
    let known = profile.is_calibrated();
    let (eager_init, eager) = (known.then_some(profile.theta_init), known.then_some(profile.theta_full));
    Ok(Thetas { source: profile.name.to_owned(), eager_init, eager })
}

/// What the system says that new programs can have.
fn free_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

impl Info {
    fn new(checkpoint: &Checkpoint, memory: Option<usize>, thetas: Thetas) -> Self {
        let config = &checkpoint.config;
        let weight_bytes = checkpoint.tensor_bytes();
        let kv =
            Kv { q16: kv_bytes_per_token(config, KvType::Q16), q8: kv_bytes_per_token(config, KvType::Q8) };
        let lengths = LENGTHS.into_iter().filter(|&tokens| tokens < config.context).chain([config.context]);
        let memory = memory.map(|bytes| {
            let room = bytes.saturating_sub(weight_bytes);
            let fit = |per_token: usize, tokens: usize| room / (per_token * tokens).max(1);
            let branches = |tokens| Branches { tokens, q16: fit(kv.q16, tokens), q8: fit(kv.q8, tokens) };
            Memory { bytes, branches: lengths.map(branches).collect() }
        });
        Self {
            model: checkpoint.name.clone(),
            architecture: config.architecture.name(),
            parameters: checkpoint.parameters(),
            weight_bytes,
            quantisation: shares(checkpoint),
            layers: config.layers,
            hidden: config.hidden,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            vocab: config.vocab,
            context: config.context,
            chat_template: checkpoint.chat.is_some(),
            kv_bytes_per_token: kv,
            memory,
            thetas,
        }
    }

    fn describe(&self) -> String {
        let mut table = new_list();
        let mut row = |name: &str, value: String| {
            table.add_row([name, &value]);
        };
        let Info { layers, hidden, heads, kv_heads, head_dim, kv_bytes_per_token: kv, thetas, .. } = self;
        row("model", format!("{} ({})", self.model, self.architecture));
        row("parameters", grouped(self.parameters));
        row("size", mib(self.weight_bytes));
        let share = |share: &Share| {
            format!("{} {:.1}%", share.r#type, 100.0 * share.bytes as f64 / self.weight_bytes.max(1) as f64)
        };
        row("quantisation", self.quantisation.iter().map(share).collect::<Vec<_>>().join(", "));
        row("layers", format!("{layers}, {hidden} wide"));
        row("heads", format!("{heads} of {head_dim}, {kv_heads} for keys and values"));
        row("vocabulary", grouped(self.vocab));
        row("context", format!("{} tokens", grouped(self.context)));
        row("chat template", if self.chat_template { "yes" } else { "no" }.to_owned());
        row(
            "keys and values",
            format!("{} bytes a token ({} with --kv q8)", grouped(kv.q16), grouped(kv.q8)),
        );
        for Branches { tokens, q16, q8 } in self.memory.iter().flat_map(|memory| &memory.branches) {
            row(
                &format!("branches of {}", grouped(*tokens)),
                format!("{} ({} with --kv q8)", grouped(*q16), grouped(*q8)),
            );
        }
        if let Some(memory) = &self.memory {
            row("in memory of", mib(memory.bytes));
        }
        row("theta", thetas.describe());
        list_lines(&table)
    }
}

/// The types of the tensors, the one with most bytes first.
fn shares(checkpoint: &Checkpoint) -> Vec<Share> {
    let mut by_type: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (dtype, bytes) in checkpoint.types() {
        *by_type.entry(DType::name(dtype)).or_default() += bytes;
    }
    let mut shares: Vec<Share> = by_type.into_iter().map(|(r#type, bytes)| Share { r#type, bytes }).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}
