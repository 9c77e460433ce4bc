//! The embedded engine: grows the trees of many prompts together, one batch a step.
//!
//! The path of a token, top to bottom in [`Run::step`]: the scheduler picks rows, the model computes them, the sampler
//! reads the logits, the grove decides, and the sequence goes on, forks or ends.

use std::ops::ControlFlow;
use std::sync::Arc;

use eager_core::{Decoded, Engine, Forest, Grove, Next, Pulse, RuleError};

use crate::hands::Hands;
use crate::kernel::{Attention, KvType, PAGE};
use crate::load::Config;
use crate::model::Model;
use crate::pages::Pool;
use crate::phases::{Phase, Phases};
use crate::sampler::Draw;
use crate::scheduler::{Limits, Plot, Schedule, Slot};
use crate::threads::Threads;

/// How the engine uses the machine.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Threads; 0 means one for each processor.
    pub threads: usize,
    /// Most bytes of keys and values.
    pub kv_bytes: usize,
    /// Most rows in a step.
    pub rows: usize,
    /// Most rows that one sequence's prompt takes in a step in which others decode.
    pub chunk: usize,
    /// How keys and values are stored: the only option that changes, a little, what is generated.
    pub kv: KvType,
}

impl Default for Options {
    fn default() -> Self {
        Options { threads: 0, kv_bytes: 4 << 30, rows: 256, chunk: 64, kv: KvType::Q16 }
    }
}

/// Bytes of keys and values that one more token of a sequence takes.
pub fn kv_bytes_per_token(config: &Config, kv: KvType) -> usize {
    let Config { heads, kv_heads, head_dim, layers, .. } = *config;
    layers * Attention { heads, kv_heads, head_dim, kv }.page_bytes() / PAGE
}

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error(
        "the prompt has {prompt} tokens and may grow by {more}, but the model's context is {context}; shorten it or allow fewer tokens"
    )]
    Context { prompt: usize, more: usize, context: usize },
    #[error("token {token} is not in the model's vocabulary of {vocab}")]
    Token { token: u32, vocab: usize },
    #[error(
        "a sequence of {tokens} tokens does not fit into the KV memory, which holds {limit}; allow more KV memory or fewer tokens"
    )]
    KvMemory { tokens: usize, limit: usize },
    #[error(transparent)]
    Rules(#[from] RuleError),
    #[error("the model computed something that is not a number; its file may be damaged")]
    NotANumber,
    #[error("cannot start {threads} threads: {reason}")]
    Threads { threads: usize, reason: String },
}

/// A model and the memory to run it.
#[derive(Debug)]
pub struct NativeEngine {
    model: Arc<Model>,
    options: Options,
    threads: Threads,
    pool: Pool,
    hands: Hands,
}

impl NativeEngine {
    pub fn new(model: Arc<Model>, options: Options) -> Result<Self, EngineError> {
        let threads = Threads::new(options.threads)
            .map_err(|e| EngineError::Threads { threads: options.threads, reason: e.to_string() })?;
        let size = model.page_bytes(options.kv);
        let limit = options.kv_bytes / size;
        let hands = Hands::new(&model);
        Ok(NativeEngine { model, options, threads, pool: Pool::new(limit, size), hands })
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Where its time goes. What is returned can be asked while the engine runs.
    pub fn phases(&self) -> Phases {
        self.hands.phases()
    }

    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Has memory for so many pages of keys and values ready, so that growing into them does not wait for the system: what it
    /// gives has to be cleared first.
    pub fn reserve(&mut self, pages: usize) {
        self.pool.reserve(pages);
    }

    pub fn kv_use(&self) -> KvUse {
        KvUse {
            page_tokens: PAGE,
            page_bytes: self.model.page_bytes(self.options.kv),
            pages: self.pool.in_use(),
            peak_pages: self.pool.peak(),
        }
    }
}

/// How much memory keys and values have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvUse {
    /// Tokens that a page holds.
    pub page_tokens: usize,
    pub page_bytes: usize,
    /// Pages in use; none between runs.
    pub pages: usize,
    /// Most pages in use at a time.
    pub peak_pages: usize,
}

impl Engine for NativeEngine {
    type Error = EngineError;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), EngineError> {
        let mut run = Run { engine: self, plots: Vec::new(), retired: 0, schedule: Schedule::default() };
        let result = run.until_done(forest);
        run.give_back(forest);
        result
    }
}

/// One call of [`Engine::grow`].
struct Run<'e> {
    engine: &'e mut NativeEngine,
    /// The groves being grown, oldest first: that is also their order of precedence.
    plots: Vec<Plot>,
    /// Tokens decoded for groves that were handed back.
    retired: usize,
    schedule: Schedule,
}

impl Run<'_> {
    fn until_done(&mut self, forest: &mut dyn Forest) -> Result<(), EngineError> {
        loop {
            self.admit(forest)?;
            if self.plots.is_empty() {
                return Ok(());
            }
            self.step()?;
            self.retire(forest);
            if forest.pulse(&self.pulse()).is_break() {
                return Ok(());
            }
        }
    }

    /// Takes on groves while there is room for more rows and memory.
    fn admit(&mut self, forest: &mut dyn Forest) -> Result<(), EngineError> {
        loop {
            let wanted: usize = self.plots.iter().map(Plot::wanted).sum();
            let set_aside = self.plots.iter().flat_map(|p| &p.slots).any(Slot::is_set_aside);
            let busy = !self.plots.is_empty();
            if busy && (set_aside || wanted >= self.engine.options.rows) {
                return Ok(());
            }
            let Some(grove) = forest.next(!busy) else { return Ok(()) };
            if let Err(error) = self.check(&grove) {
                match forest.failed(grove, &error) {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => return Err(error),
                }
            }
            self.plots.push(Plot::new(grove));
            self.retire(forest);
        }
    }

    fn check(&self, grove: &Grove) -> Result<(), EngineError> {
        let config = &self.engine.model.config;
        let (prompt, more) = (grove.prompt(), grove.settings().max_tokens);
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if prompt.len().saturating_add(more) > config.context {
            return Err(EngineError::Context { prompt: prompt.len(), more, context: config.context });
        }
        grove.settings().check_rules(config.vocab)?;
        match prompt.iter().find(|&&t| t as usize >= config.vocab) {
            Some(&token) => Err(EngineError::Token { token, vocab: config.vocab }),
            None => Ok(()),
        }
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let Run { engine, plots, schedule, .. } = self;
        let NativeEngine { model, options, threads, pool, hands } = &mut **engine;
        hands.watch().start();
        for plot in &mut *plots {
            plot.offer_held();
        }
        let limits = Limits { rows: options.rows, chunk: options.chunk };
        schedule
            .choose(plots, pool, limits)
            .map_err(|tokens| EngineError::KvMemory { tokens, limit: pool.limit() * PAGE })?;
        let picks = schedule.picks();
        if !hands.compute(model, threads, options.kv, pool, (picks, plots)) {
            return Err(EngineError::NotANumber);
        }
        for pick in picks {
            let slot = &mut plots[pick.plot].slots[pick.slot];
            slot.computed = slot.table.len();
        }
        let complete = picks.iter().filter(|p| p.completes);
        for (pick, draw) in complete.zip(hands.draws()) {
            plots[pick.plot].offer(pick.slot, draw);
        }
        for plot in plots {
            plot.take_orders();
        }
        hands.watch().lap(Phase::Decide);
        Ok(())
    }

    /// Hands back the groves that are done, and those that nobody wants any more.
    fn retire(&mut self, forest: &mut dyn Forest) {
        let mut at = 0;
        while at < self.plots.len() {
            let grove = &self.plots[at].grove;
            if grove.is_done() || !forest.wants(grove) {
                self.hand_back(at, forest);
            } else {
                at += 1;
            }
        }
    }

    fn give_back(&mut self, forest: &mut dyn Forest) {
        while !self.plots.is_empty() {
            self.hand_back(0, forest);
        }
    }

    fn hand_back(&mut self, at: usize, forest: &mut dyn Forest) {
        let mut plot = self.plots.remove(at);
        for slot in &mut plot.slots {
            slot.clear(&mut self.engine.pool);
        }
        self.retired += plot.decoded();
        forest.done(plot.grove);
    }

    fn pulse(&self) -> Pulse {
        let slots = || self.plots.iter().flat_map(|p| &p.slots).filter(|s| !s.finished);
        Pulse {
            decoded: self.retired + self.plots.iter().map(Plot::decoded).sum::<usize>(),
            live: slots().filter(|s| !s.is_set_aside()).count(),
            waiting: slots().filter(|s| s.is_set_aside()).count(),
            pages: self.engine.pool.in_use(),
        }
    }
}

impl Plot {
    /// Offers the steps that were told to wait, in the order of their positions.
    fn offer_held(&mut self) {
        for slot in self.held() {
            if let Some(draw) = self.slots[slot].held.take() {
                self.offer(slot, &draw);
            }
        }
        self.take_orders();
    }

    /// Lets the grove decide one step.
    fn offer(&mut self, slot: usize, draw: &Draw) {
        let slot = &mut self.slots[slot];
        match self.grove.offer(slot.id, &Decoded { top: &draw.top, sampled: draw.sampled }) {
            Next::Feed(token) => slot.tokens.push(token),
            Next::Done => slot.finished = true,
            Next::Wait => slot.held = Some(draw.clone()),
        }
    }
}
