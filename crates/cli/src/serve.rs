//! `eager serve`: the model behind OpenAI's API, and a page that shows its trees.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use eager_core::{Method, Settings};
use eager_serve::{Defaults, Keys, Limits, Options, Origin, Server};
use tracing_subscriber::EnvFilter;

use crate::args::{
    BaselineArgs, CapArg, ChatArgs, DrawArgs, EngineArgs, ExtractArgs, RemoteArgs, TreeArgs, at_least_one,
    at_least_zero, sequences,
};
use crate::backend::Backend;
use crate::session::Session;
use crate::{Outcome, Usage, theta};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the hub such as
    /// Qwen/Qwen3-4B. With --url only its tokenizer is read [default: the embedded acorn]
    #[arg(long)]
    model: Option<PathBuf>,
    /// The address to listen on; others than this machine can reach it only if it is not a loopback address
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// A file that says who may ask: a name, the SHA-256 of the key, and limits (n=, requests=, tokens-per-minute=) a line
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Let the pages of this origin ask, such as `https://app.example.org`; give it several times for several, or * for all
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<Origin>,
    /// A folder with runs for the page to show
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    defaults: DefaultArgs,
    #[command(flatten)]
    chat: ChatArgs,
    #[command(flatten)]
    draw: DrawArgs,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    baselines: BaselineArgs,
    #[command(flatten)]
    extract: ExtractArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What a request that does not say gets.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Defaults of a request")]
struct DefaultArgs {
    /// full-parallel, eager-init, eager-adapt, esc or deepconf
    #[arg(long, default_value = "eager-init")]
    method: Method,
    /// Entropy, in nats, from which a step forks [default: what suits the model]
    #[arg(long, value_parser = at_least_zero, allow_negative_numbers = true)]
    theta: Option<f32>,
    /// The temperature; theta was found at this one
    #[arg(long, default_value_t = 0.6, value_parser = at_least_zero, allow_negative_numbers = true)]
    temperature: f32,
}

/// What requests may ask for, and how much of it there may be.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Highest n of a request
    #[arg(long, default_value_t = 128, value_parser = sequences)]
    max_n: usize,
    /// Most tokens of one sequence [default: what the context leaves]
    #[arg(long, value_parser = at_least_one)]
    max_tokens: Option<usize>,
    /// Most prompts that wait; whoever comes then is told to come back
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    queue: usize,
    /// Most KiB of a request
    #[arg(long, default_value_t = 2048, value_parser = at_least_one)]
    max_body: usize,
    /// Seconds after which a request gets what there is
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time: u64,
    /// Most connections at a time
    #[arg(long, default_value_t = 1024, value_parser = at_least_one)]
    connections: usize,
    /// Seconds that requests may go on when the server is told to stop
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=3600))]
    grace: u64,
}

#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Log")]
struct LogArgs {
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
    /// What is logged, such as `debug` or `eager_serve=debug`
    #[arg(long, env = "EAGER_LOG", default_value = "info")]
    log_level: String,
    /// Log what people ask. Without it no prompt is ever written down
    #[arg(long)]
    log_prompts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// A line for people
    Text,
    /// An object for programs
    Json,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if args.defaults.method.needs_labels() {
        let method = args.defaults.method;
        let why = format!(
            "{method} decides by the right answer, which only a request can know; use --method eager-adapt"
        );
        return Err(Usage(why).into());
    }
    args.tree.check(args.defaults.theta)?;
    if args.baselines.fix_sequences() {
        let why = "--esc-window and --esc-windows together set a number of sequences, which is for requests to say (n); give one";
        return Err(Usage(why.to_owned()).into());
    }
    if args.tree.cap == CapArg::Live {
        let why = "--cap live lets a prompt have more sequences than a request may get (n); leave it out";
        return Err(Usage(why.to_owned()).into());
    }
    args.log.start()?;
    let keys = args.keys.as_deref().map(Keys::read).transpose().map_err(|error| Usage(error.to_string()))?;
    if let Some(runs) = args.runs.as_ref().filter(|runs| !runs.is_dir()) {
        return Err(Usage(format!("there is no folder {}", runs.display())).into());
    }
    if args.model.is_none()
        && let Some(servers) = args.remote.connect()?
    {
        return Err(Usage(wordless(servers.model())).into());
    }
    let mut session = Session::open(args.model.as_deref(), &args.engine, &args.remote, None)?;
    session.use_profile(args.tree.profile.as_deref())?;
    let finds_theta = args.defaults.theta.is_none() && !session.profile.is_calibrated();
    if finds_theta {
        eprintln!(
            "eager: {} has no calibrated theta; looking for one that can fork before requests are taken, which takes two \
             minutes at most (--theta sets it; {} finds the best)",
            session.name,
            theta::calibration(args.model.as_deref(), &args.remote, &args.chat, args.defaults.temperature)
        );
    }
    let (engine, model) = session.into_served(&args.engine, args.chat.raw)?;
    let model = eager_serve::Model { finds_theta, ..model };
    let width = match &engine {
        Backend::Embedded(_) => args.engine.rows,
        Backend::Remote(servers) => servers.streams(),
    };
    let refused = match &engine {
        Backend::Embedded(_) => Vec::new(),
        Backend::Remote(servers) => servers.refused(),
    };
    let rules = args.draw.rules();
    if let Some((option, why)) = refused.iter().find(|(name, _)| rules.asked().any(|asked| asked == *name)) {
        return Err(Usage(format!("--{}: {why}; leave it out", option.replace('_', "-"))).into());
    }
    // Else every request would be told.
    let settings = Settings { stop: rules.ends(&model.stop), rules, ..Settings::default() };
    settings.check_rules(model.vocab).map_err(|error| Usage(error.to_string()))?;
    let (name, options) = (model.name.clone(), Options { width, ..args.options(keys, refused) });
    let server = Server::start(engine, model, options)?;
    eprintln!(
        "eager: serving {name} at http://{0} (OpenAI's API at http://{0}/v1); Ctrl-C ends",
        server.address()
    );
    server.run()?;
    Ok(Outcome::Done)
}

/// Why a server's address alone is not enough, and what to write. Every token is spelled as it comes, and no server tells
/// its whole vocabulary. To ask for each token by itself takes half a minute where an answer takes 0.15 ms, and would not
/// do: a token that is only part of a character comes back as a replacement character.
fn wordless(model: &str) -> String {
    let example =
        if names_a_repository(model) || Path::new(model).exists() { model } else { "Qwen/Qwen3-4B" };
    format!(
        "serving what another server decodes needs the words of its model ({model}): add --model with its GGUF, its \
         folder or its name on the hub, of which only the tokenizer is fetched and not the weights, such as \
         --model {example}"
    )
}

/// Is it written as models are on the hub? Servers also call a model by its file.
fn names_a_repository(model: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".gguf");
    matches!(model.split('/').collect::<Vec<_>>()[..], [owner, name] if plain(owner) && plain(name))
}

impl Args {
    fn options(self, keys: Option<Keys>, refused: Vec<(&'static str, &'static str)>) -> Options {
        let DefaultArgs { method, theta, temperature } = self.defaults;
        let drawn = self.draw.settings(temperature);
        let defaults = Defaults {
            method,
            sampling: drawn.sampling,
            rules: drawn.rules,
            theta,
            entropy_top_k: self.tree.entropy_top_k,
            entropy_temperature: self.tree.entropy_temperature,
            // Requests say the seed and how many sequences, and theta may be the model's.
            plan: self.tree.plan(0, 0.0, 1, &self.baselines),
            extract: self.extract.extract,
            chat: self.chat.options(),
            system: self.chat.system,
        };
        let limits = Limits {
            sequences: self.limits.max_n,
            tokens: self.limits.max_tokens.unwrap_or(usize::MAX),
            queue: self.limits.queue,
            body: self.limits.max_body.saturating_mul(1024),
            time: Duration::from_secs(self.limits.time),
            connections: self.limits.connections,
            grace: Duration::from_secs(self.limits.grace),
            refused,
            ..Limits::default()
        };
        Options {
            address: SocketAddr::new(self.host, self.port),
            limits,
            defaults,
            keys,
            cors: self.cors,
            runs: self.runs,
            log_prompts: self.log.log_prompts,
            ..Options::default()
        }
    }
}

impl LogArgs {
    fn start(&self) -> Result<(), Usage> {
        let filter = EnvFilter::try_new(&self.log_level)
            .map_err(|error| Usage(format!("--log-level {}: {error}", self.log_level)))?;
        let colours = std::io::stderr().is_terminal();
        let log =
            tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
        match self.log {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_model_is_told_what_to_write() {
        let table = [
            ("Qwen/Qwen3-8B", "--model Qwen/Qwen3-8B"),
            // It is on this machine, too.
            ("Cargo.toml", "--model Cargo.toml"),
            ("/models/qwen.gguf", "--model Qwen/Qwen3-4B"),
            ("models/qwen.gguf", "--model Qwen/Qwen3-4B"),
            ("./qwen", "--model Qwen/Qwen3-4B"),
            ("qwen", "--model Qwen/Qwen3-4B"),
        ];
        for (model, advice) in table {
            let told = wordless(model);
            assert!(told.ends_with(advice) && told.contains(&format!("({model})")), "{told}");
        }
    }
}
