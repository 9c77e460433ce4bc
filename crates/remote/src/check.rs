//! Can this server do what trees need, and what does a fork cost there?
//!
//! Nothing here is asked of the server: it is made to decode, and what comes is looked at.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::strategy::{FullParallel, Init};
use eager_core::{Engine, Forest, Forking, Grove, Key, Pulse, Sampling, Settings, Strategy, Token, Tree};

use crate::dialect::Dialect;
use crate::engine::{Options, RemoteEngine};
use crate::error::RemoteError;
use crate::patience::random;
use crate::traffic::{Requests, Tally};
use crate::words::ServerWords;

/// Tokens of the prompt that is forked, if the context has room for them.
const PREFIX: usize = 512;
/// Tokens that are decoded to look at.
const LOOK: usize = 48;
/// How long a sequence that is forked should take. A fork must find it decoding, as in a tree: one that has ended leaves an idle
/// slot behind, which llama-server would hand on to the fork with all that it has cached.
const FORKED: Duration = Duration::from_secs(1);
/// Most prompts that are forked to find out.
const TRIES: usize = 4;
/// From this share on, what a fork goes on from counts as cached: servers cache by blocks.
const CACHED: f64 = 0.8;
/// A server that decodes longer than this for nobody wastes too much.
const PROMPT_STOP: Duration = Duration::from_millis(1500);

/// What was found out about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub dialect: Dialect,
    pub model: String,
    /// Most tokens of a sequence with its prompt, where the server says so.
    pub context: Option<usize>,
    /// Sequences decoded at a time.
    pub streams: usize,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked for, in a word or two.
    pub about: &'static str,
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Good,
    /// It works, but it costs more than it has to.
    Poor,
    /// Trees cannot be grown there.
    Missing,
}

impl Check {
    /// Looks at the server at an address. An error means that there is none to look at.
    pub fn of(url: &str, options: &Options) -> Result<Self, RemoteError> {
        let mut engine = RemoteEngine::connect(url, options)?;
        let mut check = Check {
            dialect: engine.dialect(),
            model: engine.model().to_owned(),
            context: engine.context(),
            streams: engine.streams(),
            findings: Vec::new(),
        };
        let begun = Instant::now();
        if let Some(tokens) = check.look_at_tokens(&mut engine) {
            let pace = begun.elapsed() / tokens.len().max(1) as u32;
            check.look_at_forks(url, options, &tokens, pace)?;
            check.look_at_stopping(&mut engine);
        }
        check.look_at_words(&engine);
        Ok(check)
    }

    pub fn is_usable(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Missing)
    }

    fn found(&mut self, about: &'static str, verdict: Verdict, seen: String, remedy: Option<&str>) {
        self.findings.push(Finding { about, verdict, seen, remedy: remedy.map(str::to_owned) });
    }

    /// Token ids, candidates and streaming, from one short sequence. Its tokens are returned, to write prompts with.
    fn look_at_tokens(&mut self, engine: &mut RemoteEngine) -> Option<Vec<Token>> {
        let look = self.context.map_or(LOOK, |context| LOOK.min(context / 2));
        let mut forest = One::new(vec![1], look, 1.0, Box::new(FullParallel { sequences: 1 }));
        if let Err(error) = engine.grow(&mut forest) {
            let remedy = match self.dialect {
                Dialect::Vllm => "start vLLM with --max-logprobs 20",
                Dialect::LlamaServer => "use a llama-server of 2025 or later",
                Dialect::Sglang => "see what the server's log says about the request",
            };
            self.found("tokens", Verdict::Missing, error.to_string(), Some(remedy));
            return None;
        }
        let tally = engine.traffic().tally();
        self.found(
            "token ids",
            Verdict::Good,
            format!("{} tokens came with their ids", tally.received),
            None,
        );
        match tally.narrow {
            0 => self.found("candidates", Verdict::Good, "every token came with its top 20".to_owned(), None),
            narrow => {
                let seen = format!("{narrow} of {} tokens came with fewer than 20", tally.received);
                let remedy = "entropies will be over fewer candidates; let the server report 20 of them";
                self.found("candidates", Verdict::Poor, seen, Some(remedy));
            }
        }
        match forest.growth.as_slice() {
            [only] if tally.received > 1 => {
                let seen = format!("all {only} tokens came at once");
                let remedy =
                    "a proxy in between collects the answer: forks would come too late; go around it";
                self.found("streaming", Verdict::Poor, seen, Some(remedy));
            }
            growth => {
                let seen = format!("{} tokens came in {} parts", tally.received, growth.len());
                self.found("streaming", Verdict::Good, seen, None);
            }
        }
        let tree = forest.tree?;
        Some(tree.sequences().first()?.tokens.clone())
    }

    /// The first token of a long prompt that nobody has seen before, and that of its fork, at a server that takes so long for
    /// a token.
    fn look_at_forks(
        &mut self,
        url: &str,
        options: &Options,
        words: &[Token],
        pace: Duration,
    ) -> Result<(), RemoteError> {
        let length = self.context.map_or(PREFIX, |context| PREFIX.min(context / 2));
        let mut tokens =
            (FORKED.as_secs_f64() / pace.as_secs_f64().max(1e-6)).max(8.0).min(length as f64) as usize;
        let mut tries = 0;
        let (Tally { fresh, forks, .. }, copies) = loop {
            // One engine for both, because that is what counts.
            let mut engine = RemoteEngine::connect(url, options)?;
            let strategies: [Box<dyn Strategy>; 2] =
                [Box::new(FullParallel { sequences: 1 }), Box::new(Init::new(Forking::new(0.0, 2)))];
            for strategy in strategies {
                let mut forest = One::new(gibberish(words, length), tokens, 0.0, strategy);
                if let Err(error) = engine.grow(&mut forest) {
                    self.found("forks", Verdict::Missing, error.to_string(), None);
                    return Ok(());
                }
            }
            tries += 1;
            let (tally, copies) = (engine.traffic().tally(), engine.copies_slots());
            if copies || tries == TRIES || !self.may_be_luck(&tally) {
                break (tally, copies);
            }
            tokens = (2 * tokens).min(length);
        };
        let cost = format!(
            "a prompt of {length} tokens takes {} to its first token, a fork of it {}",
            milliseconds(fresh.wait),
            milliseconds(forks.wait)
        );
        self.judge_forks(cost, forks, fresh.wait > 2 * forks.wait, copies);
        Ok(())
    }

    /// A slot that was idle for a moment is handed on with all that it has cached, and then a fork says nothing about those of a
    /// tree. Where slots are not copied, two things leave one idle: a sequence that had to be asked for again, as some prompts make
    /// a model go on in halves of characters; and, on a machine with much else to do, one that ended before its fork was there.
    /// Whether the second happened cannot be told from here, but a server that does share prefixes shares them every time.
    fn may_be_luck(&self, tally: &Tally) -> bool {
        let cached = tally.forks.cached_share().is_some_and(|share| share >= CACHED);
        tally.further.count > 0 || (self.dialect == Dialect::LlamaServer && cached)
    }

    fn judge_forks(&mut self, cost: String, forks: Requests, faster: bool, copies: bool) {
        let remedy = match self.dialect {
            Dialect::LlamaServer if copies => {
                "its slots can be copied, but that brought nothing: see its log"
            }
            Dialect::LlamaServer => {
                "llama-server shares no prefix between slots: start it with --slot-save-path FOLDER --no-kv-unified"
            }
            Dialect::Vllm => "start vLLM with --enable-prefix-caching",
            Dialect::Sglang => "start SGLang without --disable-radix-cache",
        };
        match forks.cached_share() {
            Some(share) => {
                let verdict = if share >= CACHED { Verdict::Good } else { Verdict::Poor };
                let seen = format!("{cost}; {:.0}% of it was cached", 100.0 * share);
                self.found("forks", verdict, seen, Some(remedy).filter(|_| verdict == Verdict::Poor));
            }
            None => {
                let verdict = if faster { Verdict::Good } else { Verdict::Poor };
                let show = match self.dialect {
                    Dialect::Vllm => "--enable-prompt-tokens-details makes vLLM say how much was cached",
                    _ => "the server does not say how much was cached",
                };
                let remedy = if faster { show } else { remedy };
                self.found("forks", verdict, cost, Some(remedy));
            }
        }
    }

    /// Hangs up in the middle of a sequence and sees how long the server goes on.
    fn look_at_stopping(&mut self, engine: &mut RemoteEngine) {
        let longest = self.context.map_or(4096, |context| context / 2);
        let Some(before) = engine.running() else {
            let seen = "the server does not show what it is doing".to_owned();
            let remedy = (self.dialect == Dialect::LlamaServer).then_some("--slots shows it");
            return self.found("stopping", Verdict::Good, seen, remedy);
        };
        let mut forest = One::new(vec![1], longest, 1.0, Box::new(FullParallel { sequences: 1 }));
        forest.stop_after = Some(4);
        if engine.grow(&mut forest).is_err() {
            return;
        }
        let hung_up = Instant::now();
        while hung_up.elapsed() < 3 * PROMPT_STOP && engine.running().is_some_and(|now| now > before) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = hung_up.elapsed();
        let verdict = if took < PROMPT_STOP { Verdict::Good } else { Verdict::Poor };
        let seen = format!("it stopped {} after the connection was closed", milliseconds(took));
        let remedy =
            "what it decodes meanwhile is wasted at every fork; a proxy in between may keep connections open";
        self.found("stopping", verdict, seen, Some(remedy).filter(|_| verdict == Verdict::Poor));
    }

    fn look_at_words(&mut self, engine: &RemoteEngine) {
        match ServerWords::new(engine) {
            Ok(words) => {
                let seen = format!("the server has a tokenizer; {:?} end a response", words.stop_tokens());
                self.found("words", Verdict::Good, seen, None);
            }
            Err(error) => {
                let remedy = "give the model's GGUF, or the folder with its tokenizer.json, with --model";
                self.found("words", Verdict::Poor, error.to_string(), Some(remedy));
            }
        }
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

/// A prompt that no cache can have, of tokens that the model knows.
fn gibberish(words: &[Token], length: usize) -> Vec<Token> {
    let mut state = random();
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 33) as usize % words.len()]
    };
    (0..length).map(word).collect()
}

/// One grove, there and back, and how it grew.
struct One {
    grove: Option<Grove>,
    tree: Option<Tree>,
    /// How many tokens there were, each time that there were more.
    growth: Vec<usize>,
    stop_after: Option<usize>,
}

impl One {
    fn new(prompt: Vec<Token>, max_tokens: usize, temperature: f32, strategy: Box<dyn Strategy>) -> Self {
        let sampling = Sampling { temperature, top_p: 1.0, ..Sampling::default() };
        let settings = Arc::new(Settings { sampling, max_tokens, ..Settings::default() });
        let grove = Grove::new(0, Key::prompt(random(), 0), prompt.into(), settings, strategy);
        One { grove: Some(grove), tree: None, growth: Vec::new(), stop_after: None }
    }
}

impl Forest for One {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.grove.take()
    }

    fn done(&mut self, grove: Grove) {
        self.tree = Some(grove.into_tree());
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        if self.growth.last().copied().unwrap_or(0) < pulse.decoded {
            self.growth.push(pulse.decoded);
        }
        match self.stop_after {
            Some(enough) if pulse.decoded >= enough => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
