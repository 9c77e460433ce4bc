//! A model ready to grow trees: checkpoint, engine and what is known about it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use eager_core::{Answers, Profile, Prompt, Settings, Token};
use eager_grade::Grader;
use eager_native::load::{ChatOptions, Checkpoint, Message};
use eager_native::{Isa, Model, NativeEngine};
use indicatif::ProgressBar;

use crate::Usage;
use crate::args::{EngineArgs, ForkingArgs, SamplingArgs};

#[derive(Debug)]
pub struct Session {
    pub checkpoint: Arc<Checkpoint>,
    pub engine: NativeEngine,
    pub profile: Profile,
    reasoning_end: Vec<Token>,
}

impl Session {
    /// Opens the model at a path, or the embedded one.
    pub fn open(model: Option<&Path>, args: &EngineArgs) -> anyhow::Result<Self> {
        let (checkpoint, weights) = load(model, kernel(args)?)?;
        let engine = NativeEngine::new(weights, args.options())?;
        let profile = Profile::of(&checkpoint.name);
        let reasoning_end = reasoning_end(&checkpoint, &profile)?;
        Ok(Session { checkpoint: Arc::new(checkpoint), engine, profile, reasoning_end })
    }

    /// The prompt of a problem: as the model's chat template writes it, or the bare text.
    pub fn encode(&self, problem: &str, system: Option<&str>, raw: bool) -> anyhow::Result<Vec<Token>> {
        let text = match &self.checkpoint.chat {
            Some(chat) if !raw => {
                let system = system.map(|text| Message::new("system", text));
                let messages: Vec<Message> =
                    system.into_iter().chain([Message::new("user", problem)]).collect();
                chat.render(&messages, &ChatOptions::default())?
            }
            _ => problem.to_owned(),
        };
        Ok(self.checkpoint.encode_prompt(&text)?)
    }

    /// A prompt with its settings. `key` is what its randomness is keyed by.
    pub fn prompt(
        &self,
        tokens: Vec<Token>,
        key: &str,
        max_tokens: Option<usize>,
        sampling: &SamplingArgs,
        forking: &ForkingArgs,
    ) -> anyhow::Result<Prompt> {
        let context = self.checkpoint.config.context;
        let room = context.checked_sub(tokens.len()).filter(|&room| room > 0).with_context(|| {
            format!(
                "the prompt has {} tokens, but the context of {} is {context}; shorten the problem",
                tokens.len(),
                self.checkpoint.name
            )
        })?;
        let settings = Settings {
            sampling: sampling.sampling(),
            top_k: forking.entropy_top_k,
            entropy_temperature: forking.entropy_temperature,
            max_tokens: max_tokens.unwrap_or(Settings::default().max_tokens).min(room),
            stop: self.checkpoint.config.stop_tokens.clone(),
            reasoning_end: self.reasoning_end.clone(),
        };
        Ok(Prompt { tokens: tokens.into(), settings: settings.into(), key: fingerprint(key), answers: None })
    }

    /// A sequence's text. Special tokens are kept: they show where reasoning ends.
    pub fn text(&self, tokens: &[Token]) -> String {
        self.checkpoint.tokenizer.decode(tokens)
    }

    /// Reads the answers out of sequences as this grader finds them.
    pub fn reader(&self, grader: &Grader) -> Arc<dyn Answers> {
        Arc::new(Reader { checkpoint: self.checkpoint.clone(), grader: grader.clone() })
    }
}

/// Finds answers for the methods that look at them while they sample.
#[derive(Debug)]
struct Reader {
    checkpoint: Arc<Checkpoint>,
    grader: Grader,
}

impl Answers for Reader {
    fn answers(&self, paths: &[Vec<Token>]) -> Vec<Option<String>> {
        let texts = paths.iter().map(|path| self.checkpoint.tokenizer.decode(path));
        self.grader.grade_all(texts).into_iter().map(|grade| grade.answer).collect()
    }
}

/// The kernel that was asked for, or the best there is.
pub fn kernel(args: &EngineArgs) -> Result<Isa, Usage> {
    match args.kernel.as_deref() {
        None | Some("") => Ok(Isa::detect()),
        Some(name) => Isa::named(name).ok_or_else(|| {
            let known: Vec<String> = Isa::available().iter().map(Isa::to_string).collect();
            Usage(format!("this machine has no kernel '{name}'; it can run {}", known.join(", ")))
        }),
    }
}

/// Reads the model at a path, or the embedded one, and packs its weights.
pub fn load(model: Option<&Path>, kernel: Isa) -> anyhow::Result<(Checkpoint, Arc<Model>)> {
    let loading = ProgressBar::new_spinner().with_message("loading the model");
    loading.enable_steady_tick(Duration::from_millis(200));
    let checkpoint = match model {
        Some(path) => Checkpoint::open(path)?,
        None => Checkpoint::from_gguf_bytes(eager_acorn::GGUF)?,
    };
    let weights = Arc::new(Model::load(&checkpoint, kernel)?);
    loading.finish_and_clear();
    Ok((checkpoint, weights))
}

/// The tokens that close the reasoning, if the model has the marker in its vocabulary; a model that would spell it out
/// letter by letter was not trained to use it.
fn reasoning_end(checkpoint: &Checkpoint, profile: &Profile) -> anyhow::Result<Vec<Token>> {
    let marker = profile.reasoning_end;
    let special = marker.find('>').map_or(marker, |end| &marker[..=end]);
    match checkpoint.tokenizer.token(special) {
        Some(_) => Ok(checkpoint.tokenizer.encode(marker)?),
        None => Ok(Vec::new()),
    }
}

/// A number for a name (FNV-1a), so that a problem's randomness does not depend on its place in a list.
fn fingerprint(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
