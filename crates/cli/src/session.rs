//! A model ready to grow trees: checkpoint, engine and what is known about it.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use eager_core::{Answers, Profile, Prompt, Sampling, Settings, Token};
use eager_grade::Grader;
use eager_lab::bench::Speller;
use eager_lab::profiles::{Calibrated, Profiles};
use eager_native::load::{Checkpoint, Message};
use eager_native::{Isa, Model, NativeEngine};
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use crate::Usage;
use crate::args::{ChatArgs, EngineArgs, RuleArgs};
use crate::model::hub;

#[derive(Debug)]
pub struct Session {
    pub checkpoint: Arc<Checkpoint>,
    pub engine: NativeEngine,
    pub profile: Profile,
    reasoning_end: Vec<Token>,
    /// Where the model was read from; none for the embedded one.
    source: Option<PathBuf>,
    hash: OnceCell<String>,
}

impl Session {
    /// Opens the model at a path, or the embedded one.
    pub fn open(model: Option<&Path>, args: &EngineArgs) -> anyhow::Result<Self> {
        let model = model.map(hub::locate).transpose()?;
        let (checkpoint, weights) = load(model.as_deref(), kernel(args)?)?;
        let engine = NativeEngine::new(weights, args.options())?;
        let profile = Profile::of(&checkpoint.name);
        let reasoning_end = reasoning_end(&checkpoint, &profile)?;
        let checkpoint = Arc::new(checkpoint);
        Ok(Session { checkpoint, engine, profile, reasoning_end, source: model, hash: OnceCell::new() })
    }

    /// Sets the thresholds: those of the profile with this name, or else what calibration has found for this very model.
    pub fn use_profile(&mut self, name: Option<&str>) -> anyhow::Result<()> {
        let (theta_init, theta_full) = match name {
            Some(name) => {
                let known =
                    || format!("there is no profile '{name}'; there are {}", Profile::names().join(", "));
                let profile = Profile::named(name).ok_or_else(|| Usage(known()))?;
                (profile.theta_init, profile.theta_full)
            }
            None => match self.calibrated()? {
                Some(calibrated) => (calibrated.theta_init, calibrated.theta_full),
                None => return Ok(()),
            },
        };
        (self.profile.theta_init, self.profile.theta_full) = (theta_init, theta_full);
        Ok(())
    }

    fn calibrated(&self) -> anyhow::Result<Option<Calibrated>> {
        let profiles = Profiles::place().map(|place| Profiles::read(&place)).transpose()?;
        // A large model takes a while to hash; there must be something to look up.
        match profiles.filter(|profiles| !profiles.is_empty()) {
            Some(profiles) => Ok(profiles.get(self.hash()?).cloned()),
            None => Ok(None),
        }
    }

    /// SHA-256 of the model's files.
    pub fn hash(&self) -> anyhow::Result<&str> {
        if let Some(known) = self.hash.get() {
            return Ok(known);
        }
        let hash = match &self.source {
            Some(path) => hash_model(path).with_context(|| format!("cannot read {}", path.display()))?,
            None => hex(&Sha256::digest(eager_acorn::GGUF)),
        };
        Ok(self.hash.get_or_init(|| hash))
    }

    /// The prompt of a problem: as the model's chat template writes it, or the bare text.
    pub fn encode(&self, problem: &str, chat_args: &ChatArgs) -> anyhow::Result<Vec<Token>> {
        let text = match &self.checkpoint.chat {
            Some(chat) if !chat_args.raw => {
                let system = chat_args.system.as_ref().map(|text| Message::new("system", text));
                let messages: Vec<Message> =
                    system.into_iter().chain([Message::new("user", problem)]).collect();
                chat.render(&messages, &chat_args.options())?
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
        sampling: Sampling,
        rules: &RuleArgs,
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
            sampling,
            top_k: rules.entropy_top_k,
            entropy_temperature: rules.entropy_temperature,
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

    /// The same for those who outlive the session's borrow.
    pub fn speller(&self) -> Speller {
        let checkpoint = Arc::clone(&self.checkpoint);
        Arc::new(move |tokens| checkpoint.tokenizer.decode(tokens))
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

/// The hash of a model's file, or of all files of its folder with their names.
pub fn hash_model(path: &Path) -> std::io::Result<String> {
    if !path.is_dir() {
        return hash_file(path);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path)?.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let mut whole = Sha256::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        whole.update(format!("{name} {}\n", hash_file(&file)?));
    }
    Ok(hex(&whole.finalize()))
}

pub fn hash_file(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut block) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&block[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
        Some(path) => Checkpoint::open(&hub::locate(path)?)?,
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
