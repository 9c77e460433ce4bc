//! A model ready to grow trees: its engine, its language and what is known about it.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use eager_core::{Answers, EndedPath, Profile, Prompt, Settings, Token, Tree};
use eager_grade::response::{Extract, Extraction, ThoughtMark};
use eager_grade::{Grade, Grader};
use eager_lab::bench::{Speller, Unspelled, responses};
use eager_lab::profiles::{Calibrated, Profiles};
use eager_native::load::{Checkpoint, Words};
use eager_native::{Isa, Model, NativeEngine};
use eager_remote::ServerWords;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use crate::Usage;
use crate::args::{ChatArgs, EngineArgs, RemoteArgs, RuleArgs};
use crate::backend::Backend;
use crate::language::Language;
use crate::model::hub;

/// Tokens at the end of a prompt among which a mark that opens the thoughts is looked for.
const PROMPT_END: usize = 32;

#[derive(Debug)]
pub struct Session {
    pub engine: Backend,
    pub profile: Profile,
    /// What the model calls itself.
    pub name: String,
    language: Arc<Language>,
    /// Most tokens of a sequence with its prompt.
    context: usize,
    reasoning_end: Vec<Token>,
    /// Where the model was read from; none for the embedded one.
    source: Option<PathBuf>,
    hash: OnceCell<String>,
}

impl Session {
    /// Opens the model at a path, or the embedded one; or the servers that run one, where some are named. At most so many
    /// sequences will be decoded at a time, where that is known.
    pub fn open(
        model: Option<&Path>,
        args: &EngineArgs,
        remote: &RemoteArgs,
        sequences: Option<usize>,
    ) -> anyhow::Result<Self> {
        let servers = remote.connect()?;
        let locate = if servers.is_some() { hub::locate_words } else { hub::locate };
        let model = model.map(locate).transpose()?;
        let (engine, language, name, context) = match servers {
            Some(servers) => {
                if let Some(advice) = servers.advice() {
                    eprintln!("eager: {advice}");
                }
                let (language, name) = match &model {
                    Some(path) => {
                        let words = Words::open(path)?;
                        let name = words.name.clone();
                        (Language::Files(Box::new(words)), name)
                    }
                    None => (Language::Server(ServerWords::new(&servers)?), servers.model().to_owned()),
                };
                let context = servers.context().unwrap_or(usize::MAX);
                (Backend::Remote(servers), language, name, context)
            }
            None => {
                let (checkpoint, weights) = load(model.as_deref(), kernel(args, sequences)?)?;
                let engine = NativeEngine::new(weights, args.options())?;
                let (name, context) = (checkpoint.name.clone(), checkpoint.config.context);
                (
                    Backend::Embedded(Box::new(engine)),
                    Language::Files(Box::new(checkpoint.into())),
                    name,
                    context,
                )
            }
        };
        let profile = Profile::of(&name);
        let reasoning_end = language.reasoning_end()?;
        let language = Arc::new(language);
        Ok(Session {
            engine,
            profile,
            name,
            language,
            context,
            reasoning_end,
            source: model,
            hash: OnceCell::new(),
        })
    }

    /// The engine, and the model as a server shows it. That takes the model's words from its files: a server says every
    /// token as it comes, and cannot ask another server each time.
    /// `raw` leaves its chat template out.
    pub fn into_served(self, args: &EngineArgs, raw: bool) -> anyhow::Result<(Backend, eager_serve::Model)> {
        let Some(Language::Files(mut words)) = Arc::into_inner(self.language) else {
            let why = "serving what another server decodes needs the model's tokenizer: name its GGUF or folder with --model";
            return Err(Usage(why.to_owned()).into());
        };
        if raw {
            words.chat = None;
        }
        let (context, vocab) = match &self.engine {
            Backend::Embedded(engine) => {
                // A sequence that the memory cannot hold would stop the engine for everybody.
                let kv = engine.kv_use();
                let room = (args.kv_bytes() / kv.page_bytes.max(1)).saturating_mul(kv.page_tokens);
                (self.context.min(room), engine.model().config().vocab)
            }
            Backend::Remote(_) => (self.context, words.tokenizer.len()),
        };
        let notice = notice(&self.name);
        let model =
            eager_serve::Model { notice, ..eager_serve::Model::new(*words, self.profile, context, vocab)? };
        Ok((self.engine, model))
    }

    /// Why this question is none that the model can answer, for a model that knows few kinds of them.
    pub fn notice(&self, question: &str) -> Option<String> {
        notice(&self.name)?(question)
    }

    /// What decodes, in words.
    pub fn engine_name(&self, args: &EngineArgs) -> String {
        match &self.engine {
            Backend::Embedded(engine) => format!("native {} {}", engine.model().isa(), args.kv.name()),
            Backend::Remote(engine) => format!("remote {}", engine.dialect()),
        }
    }

    /// Sets the thresholds: those of the profile with this name, or else what calibration has found for this very model.
    pub fn use_profile(&mut self, name: Option<&str>) -> anyhow::Result<()> {
        if let Some(name) = name {
            let known = || format!("there is no profile '{name}'; there are {}", Profile::names().join(", "));
            self.profile = Profile::named(name).ok_or_else(|| Usage(known()))?;
        } else if let Some(Calibrated { theta_init, theta_full, .. }) = self.calibrated()? {
            self.profile = Profile::calibrated(theta_init, theta_full);
        }
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

    /// SHA-256 of the model's files; of its name, where only a server has them.
    pub fn hash(&self) -> anyhow::Result<&str> {
        if let Some(known) = self.hash.get() {
            return Ok(known);
        }
        let hash = match (&self.source, &self.engine) {
            (Some(path), _) => hash_model(path).with_context(|| format!("cannot read {}", path.display()))?,
            (None, Backend::Embedded(_)) => hex(&Sha256::digest(eager_acorn::GGUF)),
            (None, Backend::Remote(_)) => hex(&Sha256::digest(&self.name)),
        };
        Ok(self.hash.get_or_init(|| hash))
    }

    /// The prompt of a problem: as the model's chat template writes it, or the bare text.
    pub fn encode(&self, problem: &str, chat: &ChatArgs) -> anyhow::Result<Vec<Token>> {
        Ok(self.language.prompt(problem, chat)?)
    }

    /// A prompt with its settings, of which `drawn` says how tokens are drawn. `key` is what its randomness is keyed by.
    pub fn prompt(
        &self,
        tokens: Vec<Token>,
        key: &str,
        max_tokens: Option<usize>,
        drawn: Settings,
        rules: &RuleArgs,
    ) -> anyhow::Result<Prompt> {
        let context = self.context;
        let room = context.checked_sub(tokens.len()).filter(|&room| room > 0).with_context(|| {
            format!(
                "the prompt has {} tokens, but the context of {} is {context}; shorten the problem",
                tokens.len(),
                self.name
            )
        })?;
        if let Some(most) = max_tokens.filter(|&most| most < drawn.rules.min_tokens) {
            let why = format!("--min-tokens is {}, but --max-tokens only {most}", drawn.rules.min_tokens);
            return Err(Usage(why).into());
        }
        let settings = Settings {
            top_k: rules.tree.entropy_top_k,
            entropy_temperature: rules.tree.entropy_temperature,
            max_tokens: max_tokens.unwrap_or(drawn.max_tokens).min(room),
            stop: drawn.rules.ends(self.language.stop_tokens()),
            reasoning_end: self.reasoning_end.clone(),
            ..drawn
        };
        settings.check_rules(self.vocab()).map_err(|error| Usage(error.to_string()))?;
        Ok(Prompt { tokens: tokens.into(), settings: settings.into(), key: fingerprint(key), answers: None })
    }

    /// The number of tokens that the model knows, as far as can be told.
    fn vocab(&self) -> usize {
        match (&self.engine, &*self.language) {
            (Backend::Embedded(engine), _) => engine.model().config().vocab,
            (Backend::Remote(_), Language::Files(words)) => words.tokenizer.len(),
            (Backend::Remote(_), Language::Server(_)) => usize::MAX,
        }
    }

    /// A sequence's text. Special tokens are kept: they show where reasoning ends.
    pub fn text(&self, tokens: &[Token]) -> anyhow::Result<String> {
        Ok(self.language.text(tokens)?)
    }

    /// The texts of a tree's sequences.
    pub fn texts(&self, tree: &Tree) -> anyhow::Result<Vec<String>> {
        tree.ids().map(|id| self.text(&tree.path(id))).collect()
    }

    /// The same for pictures, which can do without.
    pub fn label(&self, tokens: &[Token]) -> String {
        self.language.text(tokens).unwrap_or_else(|_| "…".to_owned())
    }

    /// The same for those who outlive the session's borrow.
    pub fn speller(&self) -> Speller {
        let language = Arc::clone(&self.language);
        Arc::new(move |tokens| language.text(tokens).map_err(|error| Unspelled(error.to_string())))
    }

    /// How the responses to a prompt are read: it may have opened a chain of thought at its end.
    pub fn extraction(&self, prompt: &[Token], extract: Extract) -> anyhow::Result<Extraction> {
        let mark = ThoughtMark::closed_by(self.text(&self.reasoning_end)?.trim());
        let end = self.text(&prompt[prompt.len().saturating_sub(PROMPT_END)..])?;
        Ok(Extraction { opened: mark.opened_by(&end), mark, extract })
    }

    /// Reads the answers out of sequences as this grader finds them.
    pub fn reader(&self, grader: &Grader, extraction: &Extraction) -> Arc<dyn Answers> {
        let (grader, extraction) = (grader.clone(), extraction.clone());
        Arc::new(Reader { language: Arc::clone(&self.language), grader, extraction })
    }
}

/// Finds answers for the methods that look at them while they sample.
#[derive(Debug)]
struct Reader {
    language: Arc<Language>,
    grader: Grader,
    extraction: Extraction,
}

impl Reader {
    fn grade(&self, paths: &[EndedPath]) -> Vec<Grade> {
        // What cannot be read has no answer.
        let text = |path: &EndedPath| self.language.text(&path.tokens).unwrap_or_default();
        let texts: Vec<String> = paths.iter().map(text).collect();
        let finishes = paths.iter().map(|path| path.finish);
        self.grader.grade_all(responses(&self.extraction, &texts, finishes))
    }
}

impl Answers for Reader {
    fn answers(&self, paths: &[EndedPath]) -> Vec<Option<String>> {
        self.grade(paths).into_iter().map(|grade| grade.answer).collect()
    }

    fn right(&self, paths: &[EndedPath]) -> Vec<bool> {
        self.grade(paths).into_iter().map(|grade| grade.correct).collect()
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

/// The kernel that was asked for, or the best there is for so many sequences at a time.
pub fn kernel(args: &EngineArgs, sequences: Option<usize>) -> Result<Isa, Usage> {
    match args.kernel.as_deref() {
        None | Some("") => Ok(Isa::for_rows(sequences.unwrap_or(usize::MAX).min(args.rows))),
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

/// A number for a name (FNV-1a), so that a problem's randomness does not depend on its place in a list.
fn fingerprint(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What tells whether a model knows the kind of a question: acorn alone knows few.
fn notice(model: &str) -> Option<fn(&str) -> Option<String>> {
    model.eq_ignore_ascii_case("acorn").then_some(eager_acorn::notice)
}
