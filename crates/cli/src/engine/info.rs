//! `eager engine info`: what the engine runs on, and what a model takes.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use eager_native::{Isa, NativeEngine};
use serde::Serialize;

use crate::args::EngineArgs;
use crate::session::{kernel, load};
use crate::table::{list_lines, new_list};
use crate::{Outcome, print};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the Hugging Face hub, such as
    /// Qwen/Qwen3-4B [default: the embedded acorn]
    #[arg(long)]
    model: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Serialize)]
struct Info {
    kernel: String,
    /// Best first.
    kernels: Vec<String>,
    threads: usize,
    model: String,
    architecture: &'static str,
    layers: usize,
    hidden: usize,
    feed_forward: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    context: usize,
    parameters: usize,
    /// Bytes of the weights in the model's file.
    file_weight_bytes: usize,
    /// Bytes of the weights in memory.
    weight_bytes: usize,
    kv_bytes_per_token: usize,
    page_tokens: usize,
}

pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let kernel = kernel(&args.engine, None)?;
    let (checkpoint, model) = load(args.model.as_deref(), kernel)?;
    let engine = NativeEngine::new(model, args.engine.options())?;
    let (config, kv) = (&checkpoint.config, engine.kv_use());
    let info = Info {
        kernel: kernel.to_string(),
        kernels: Isa::available().iter().map(Isa::to_string).collect(),
        threads: engine.threads(),
        model: checkpoint.name.clone(),
        architecture: config.architecture.name(),
        layers: config.layers,
        hidden: config.hidden,
        feed_forward: config.ffn,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        vocab: config.vocab,
        context: config.context,
        parameters: checkpoint.parameters(),
        file_weight_bytes: checkpoint.tensor_bytes(),
        weight_bytes: engine.model().weight_bytes(),
        kv_bytes_per_token: kv.page_bytes / kv.page_tokens,
        page_tokens: kv.page_tokens,
    };
    print(&if args.json { serde_json::to_string(&info)? } else { info.describe() })?;
    Ok(Outcome::Done)
}

impl Info {
    fn describe(&self) -> String {
        let mut table = new_list();
        let mut row = |name: &str, value: String| {
            table.add_row([name, &value]);
        };
        let Info { layers, hidden, feed_forward, heads, kv_heads, head_dim, .. } = self;
        row("kernel", format!("{} (of {})", self.kernel, self.kernels.join(", ")));
        row("threads", self.threads.to_string());
        row("model", format!("{} ({})", self.model, self.architecture));
        row("layers", format!("{layers}, {hidden} wide, feed-forward {feed_forward}"));
        row("heads", format!("{heads} of {head_dim}, {kv_heads} for keys and values"));
        row("vocabulary", grouped(self.vocab));
        row("context", format!("{} tokens", grouped(self.context)));
        row("parameters", grouped(self.parameters));
        row("weights in the file", mib(self.file_weight_bytes));
        row("weights in memory", mib(self.weight_bytes));
        row("keys and values", format!("{} bytes a token", grouped(self.kv_bytes_per_token)));
        row("page", format!("{} tokens", self.page_tokens));
        list_lines(&table)
    }
}

pub fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A number with commas between its thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 6_400_123].map(grouped), ["0", "999", "1,000", "6,400,123"]);
    }
}
