//! A request while its trees grow: from what was asked to the last token.
//!
//! The prompts of a request grow together. A method with a second pass goes on with a prompt when its first pass is done
//! and its answers have been looked at. Over one prompt the budget of that pass is what the first left of `n`, so there are
//! never more than `n` sequences: EAGer-adapt spends it where the sequences do not agree, full EAGer and two-stage where none is right.

use std::sync::Arc;
use std::time::Instant;

use eager_core::method::Standing;
use eager_core::{
    AdaptTo, Answers, EndedPath, Finish, Forking, Grove, Judged, Key, Outcome, Plan, Prompt, Settings,
    Strategy, SurplusLimit, Token, Tree,
};
use eager_grade::response::{Extract, Extraction, ThoughtMark};
use eager_grade::{Grade, Grader};
use eager_native::load::Message;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout_at;
use tracing::info;

use crate::app::App;
use crate::error::ApiError;
use crate::keys::Visit;
use crate::metrics::Counters;
use crate::model::{Model, Speech};
use crate::options::{Defaults, Limits};
use crate::queue::{Order, Refusal, Ticket};
use crate::request::{Ask, Beginning};
use crate::voice::Voice;
use crate::watched::{Detail, End, Herald, News, Watched};

/// Tokens at the end of a prompt among which a mark that opens the thoughts is looked for.
const PROMPT_END: usize = 32;

/// What the sequences of a tree would have cost without sharing their beginnings.
pub fn full_parallel(tree: &Tree) -> usize {
    tree.sequences().iter().map(|s| s.len()).sum()
}

/// What so many whole samples of the mean length would have cost: what full-parallel is expected to.
pub fn full_samples(apart: usize, sequences: usize, n: usize) -> usize {
    (apart as f64 / sequences.max(1) as f64 * n as f64).round() as usize
}

/// The share of the tokens that was not spent.
pub fn share_left(spent: usize, of: usize) -> f64 {
    1.0 - spent as f64 / of.max(1) as f64
}

/// A request with its prompts as tokens, ready to be grown.
#[derive(Debug, Clone)]
pub struct Seed {
    pub ask: Arc<Ask>,
    pub model: Arc<Model>,
    pub prompts: Vec<Arc<[Token]>>,
    pub plan: Plan,
    settings: Vec<Arc<Settings>>,
    /// How answers are found in the responses to each prompt.
    extractions: Vec<Arc<Extraction>>,
}

impl Seed {
    /// Turns text into tokens and sees that it fits.
    pub fn new(ask: Ask, model: &Arc<Model>, limits: &Limits, defaults: &Defaults) -> Result<Self, ApiError> {
        let prompts = tokens(&ask.beginning, model)?;
        let settings =
            prompts.iter().map(|p| settings(&ask, model, (limits, defaults), p)).collect::<Result<_, _>>()?;
        let extractions = prompts.iter().map(|p| extraction(model, p, defaults.extract)).collect();
        let theta = ask.theta.or(defaults.theta).unwrap_or_else(|| model.theta(ask.method));
        let seed = ask.seed.unwrap_or_else(random);
        let forking = Forking { theta, cap: ask.n, ..defaults.plan.forking.clone() };
        let plan = Plan {
            seed,
            forking,
            adapt_to: AdaptTo::Divided,
            surplus: SurplusLimit::Nothing,
            ..defaults.plan.clone()
        };
        Ok(Seed { ask: Arc::new(ask), model: Arc::clone(model), prompts, plan, settings, extractions })
    }

    /// What to say of the last question of a chat, if the model cannot answer questions of its kind.
    pub fn notice(&self) -> Option<String> {
        let Beginning::Chat { messages, .. } = &self.ask.beginning else { return None };
        let field = |message: &Message, name: &str| message.0.get(name)?.as_str().map(str::to_owned);
        let question = messages.iter().rfind(|message| field(message, "role").as_deref() == Some("user"))?;
        self.model.notice?(&field(question, "content")?)
    }

    pub fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.len()).sum()
    }

    /// Most tokens of a sequence.
    pub fn max_tokens(&self) -> usize {
        self.settings.iter().map(|s| s.max_tokens).max().unwrap_or(0)
    }

    /// Says a sequence from its beginning, up to a stop string.
    pub fn voice(&self) -> Voice {
        Voice::new(Arc::clone(&self.model.words), Arc::clone(&self.ask.stops), self.ask.rules.min_tokens)
    }

    /// The same, where there are stop strings to hear.
    fn stops(&self) -> Option<Voice> {
        (!self.ask.stops.is_empty()).then(|| self.voice())
    }

    /// Does this token end a sequence? Then it says nothing.
    pub fn ends(&self, token: Token) -> bool {
        self.settings.first().is_some_and(|settings| settings.stop.contains(&token))
    }

    /// The text of a sequence without the token that ended it, and whether a stop string ended it.
    pub fn text(&self, tokens: &[Token]) -> (String, bool) {
        spelled(&*self.model.words, self.stops(), tokens)
    }

    pub fn grader(&self) -> Grader {
        Grader::Math { gold: self.ask.answer.clone().unwrap_or_default() }
    }

    /// How answers are found in the responses to a prompt.
    pub fn extraction(&self, prompt: usize) -> Arc<Extraction> {
        Arc::clone(&self.extractions[prompt])
    }

    fn reader(&self, prompt: usize) -> Reader {
        Reader {
            words: Arc::clone(&self.model.words),
            stops: self.stops(),
            grader: self.grader(),
            extraction: self.extraction(prompt),
            ends: self.settings[prompt].stop.clone(),
        }
    }

    fn watched(&self, strategy: Box<dyn Strategy>, herald: &Herald, detail: Detail) -> Box<dyn Strategy> {
        Box::new(Watched::new(strategy, herald.clone(), detail, self.stops()))
    }

    /// The first pass over a prompt.
    fn plant(&self, index: usize, herald: &Herald, detail: Detail) -> Grove {
        let prompt = Prompt {
            tokens: Arc::clone(&self.prompts[index]),
            settings: Arc::clone(&self.settings[index]),
            key: fingerprint(&self.prompts[index]),
            answers: Some(Arc::new(self.reader(index))),
        };
        let strategy = self.watched(self.plan.opening(self.ask.method, &prompt), herald, detail);
        Grove::new(index, Key::prompt(self.plan.seed, prompt.key), prompt.tokens, prompt.settings, strategy)
    }

    /// The second pass over a prompt, if it deserves one.
    fn second(&self, prompt: usize, tree: &Tree) -> Option<Box<dyn Strategy>> {
        let (sequences, judged) = (tree.len(), Judged::from(&grade(self, prompt, tree)));
        let standing = Standing { key: tree.key(), sequences, finished: true, judged };
        let extra = self.plan.extra(self.ask.method, &[standing]).first().copied().unwrap_or(0);
        (extra > 0).then(|| self.plan.reallocate(self.ask.method, sequences, extra))
    }
}

/// Finds the answers of a tree's sequences and judges them.
pub fn grade(seed: &Seed, prompt: usize, tree: &Tree) -> Outcome {
    let paths: Vec<EndedPath> = tree.ids().map(|id| EndedPath::of(tree, id)).collect();
    let grades = seed.reader(prompt).grade(&paths);
    Outcome::of(tree, grades.into_iter().map(|grade| (grade.answer, grade.correct)))
}

/// The text of tokens up to the first stop string, and whether there was one; `stops` hears them, where there are any.
fn spelled(words: &dyn Speech, stops: Option<Voice>, tokens: &[Token]) -> (String, bool) {
    let Some(mut voice) = stops else { return (words.decode(tokens), false) };
    for &token in tokens {
        voice.push(token);
    }
    voice.finish();
    (voice.settled().to_owned(), voice.is_stopped())
}

/// How the responses to a prompt are read: it may have opened a chain of thought at its end.
fn extraction(model: &Model, prompt: &[Token], extract: Extract) -> Arc<Extraction> {
    let mark = ThoughtMark::closed_by(model.words.decode(&model.reasoning_end).trim());
    let end = model.words.decode(&prompt[prompt.len().saturating_sub(PROMPT_END)..]);
    Arc::new(Extraction { opened: mark.opened_by(&end), mark, extract })
}

/// Reads answers: for the methods that look at them while they sample, and at the end.
#[derive(Debug)]
struct Reader {
    words: Arc<dyn Speech>,
    stops: Option<Voice>,
    grader: Grader,
    extraction: Arc<Extraction>,
    /// The tokens that end a sequence: they say nothing, so they are no part of an answer.
    ends: Vec<Token>,
}

impl Reader {
    fn grade(&self, paths: &[EndedPath]) -> Vec<Grade> {
        let ended = |path: &EndedPath| {
            let said = match path.tokens.split_last() {
                Some((last, said)) if self.ends.contains(last) => said,
                _ => &path.tokens[..],
            };
            let (text, stopped) = spelled(&*self.words, self.stops.clone(), said);
            (text, stopped || path.finish == Some(Finish::Stop))
        };
        let ended: Vec<(String, bool)> = paths.iter().map(ended).collect();
        self.grader.grade_all(ended.iter().map(|(text, complete)| self.extraction.response(text, *complete)))
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

fn tokens(beginning: &Beginning, model: &Model) -> Result<Vec<Arc<[Token]>>, ApiError> {
    let words = &model.words;
    let of_text = |param: &str, tokens: Result<Vec<Token>, String>| match tokens {
        Ok(tokens) => Ok(tokens.into()),
        Err(why) => Err(ApiError::bad(param, why)),
    };
    match beginning {
        Beginning::Chat { messages, options } => {
            Ok(vec![of_text("messages", words.converse(messages, options))?])
        }
        Beginning::Texts(texts) => texts.iter().map(|text| of_text("prompt", words.encode(text))).collect(),
        Beginning::Tokens(all) => Ok(all.iter().map(|tokens| tokens.as_slice().into()).collect()),
    }
}

/// The settings of a prompt; an error, which can name the field, where the engine would refuse it.
fn settings(
    ask: &Ask,
    model: &Model,
    (limits, defaults): (&Limits, &Defaults),
    prompt: &[Token],
) -> Result<Arc<Settings>, ApiError> {
    let param = if matches!(ask.beginning, Beginning::Chat { .. }) { "messages" } else { "prompt" };
    if prompt.is_empty() {
        return Err(ApiError::bad(param, "the prompt is empty"));
    }
    if let Some(token) = prompt.iter().find(|&&token| token as usize >= model.vocab) {
        return Err(ApiError::bad(param, format!("the model has no token {token}")));
    }
    let room = model.context.saturating_sub(prompt.len());
    let asked = ask.max_tokens.unwrap_or(1);
    if room < asked {
        let message = format!(
            "the prompt has {} tokens and may grow by {asked}, but the context of {} is {}; shorten it or ask for fewer",
            prompt.len(),
            model.name,
            model.context
        );
        return Err(ApiError { code: Some("context_length_exceeded"), ..ApiError::bad(param, message) });
    }
    let asked = ask.max_tokens.unwrap_or(usize::MAX);
    let settings = Settings {
        sampling: ask.sampling,
        rules: ask.rules.clone(),
        top_k: defaults.entropy_top_k,
        entropy_temperature: defaults.entropy_temperature,
        max_tokens: asked.min(room).min(limits.tokens),
        stop: ask.rules.ends(&model.stop),
        reasoning_end: model.reasoning_end.clone(),
    };
    settings.check_rules(model.vocab).map_err(|error| ApiError::bad(error.param(), error.to_string()))?;
    Ok(Arc::new(settings))
}

/// A seed for those who did not name one.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        since.as_nanos() as u64
    })
}

/// A number for a prompt (FNV-1a over its tokens), so that the same prompt with the same seed grows the same tree.
pub fn fingerprint(prompt: &[Token]) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    prompt.iter().flat_map(|token| token.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, fold)
}

/// Why a request got less than it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Time,
    Shutdown,
}

impl Cut {
    pub fn name(self) -> &'static str {
        match self {
            Cut::Time => "time",
            Cut::Shutdown => "shutdown",
        }
    }
}

/// What a request hears.
#[derive(Debug)]
pub enum Event {
    News(usize, News),
    /// Nothing more happens to this prompt.
    Grown(usize, Box<Tree>),
}

/// What the answers of a first pass lead to.
enum After {
    Done(Box<Tree>),
    More(Box<Grove>),
}

/// A request under way.
#[derive(Debug)]
pub struct Growth {
    pub seed: Arc<Seed>,
    ticket: Ticket,
    visit: Option<Arc<Visit>>,
    detail: Detail,
    to: UnboundedSender<(usize, News)>,
    from: UnboundedReceiver<(usize, News)>,
    /// For each prompt, whether its second pass has begun.
    second: Vec<bool>,
    left: usize,
    pub begun: Instant,
    deadline: tokio::time::Instant,
    /// Set when something came back before it was done.
    pub cut: Option<Cut>,
    counters: Arc<Counters>,
    decoded: usize,
    sequences: usize,
}

impl Growth {
    pub fn begin(
        seed: Seed,
        app: &App,
        client: &Arc<str>,
        visit: Option<Visit>,
        detail: Detail,
    ) -> Result<Self, ApiError> {
        let (to, from) = unbounded_channel();
        let (seed, visit) = (Arc::new(seed), visit.map(Arc::new));
        let order = |prompt: usize| {
            let herald = Herald { prompt, to: to.clone() };
            let grove = seed.plant(prompt, &herald, detail);
            Order { grove, cap: seed.ask.n, herald, visit: visit.clone() }
        };
        let prompts = seed.prompts.len();
        let ticket =
            app.queue.submit(client, (0..prompts).map(order).collect()).map_err(|refusal| match refusal {
                Refusal::Full => ApiError::busy("as many requests wait as may; try again in a moment"),
                Refusal::Closed => ApiError::unavailable("the server is going down"),
            })?;
        let begun = Instant::now();
        let deadline = tokio::time::Instant::from_std(begun) + app.options.limits.time;
        let (second, counters) = (vec![false; prompts], Arc::clone(&app.counters));
        Ok(Growth {
            seed,
            ticket,
            visit,
            detail,
            to,
            from,
            second,
            left: prompts,
            begun,
            deadline,
            cut: None,
            counters,
            decoded: 0,
            sequences: 0,
        })
    }

    /// What happens next; `None` when all prompts are done.
    pub async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        while self.left > 0 {
            let received = match timeout_at(self.deadline, self.from.recv()).await {
                Ok(received) => received,
                Err(_) => {
                    self.cut = Some(Cut::Time);
                    self.ticket.cut();
                    self.from.recv().await
                }
            };
            // The channel cannot close: one end of it is ours.
            let Some(received) = received else { break };
            if let Some(event) = self.hear(received).await? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// What has happened already, without waiting for more.
    pub async fn ready(&mut self) -> Result<Option<Event>, ApiError> {
        while let Ok(received) = self.from.try_recv() {
            if let Some(event) = self.hear(received).await? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    async fn hear(&mut self, (prompt, news): (usize, News)) -> Result<Option<Event>, ApiError> {
        match news {
            News::Back { end: End::Failed(why), .. } => {
                Err(ApiError::internal(&format!("the engine stopped: {why}")))
            }
            News::Back { tree, end: End::Cut } => {
                self.cut.get_or_insert(Cut::Shutdown);
                Ok(Some(self.grown(prompt, tree)))
            }
            News::Back { tree, end: End::Whole } => self.go_on(prompt, tree).await,
            news => Ok(Some(Event::News(prompt, news))),
        }
    }

    /// Begins the second pass of a prompt, or says that it is done.
    async fn go_on(&mut self, prompt: usize, tree: Box<Tree>) -> Result<Option<Event>, ApiError> {
        let again = std::mem::replace(&mut self.second[prompt], true);
        if again || !self.seed.ask.method.has_second_pass() {
            return Ok(Some(self.grown(prompt, tree)));
        }
        let (seed, herald) = (Arc::clone(&self.seed), Herald { prompt, to: self.to.clone() });
        let (detail, telling) = (self.detail, herald.clone());
        // Reading answers is work, and this thread has others to serve.
        let looked = tokio::task::spawn_blocking(move || match seed.second(prompt, &tree) {
            None => After::Done(tree),
            Some(strategy) => {
                let strategy = seed.watched(strategy, &telling, detail);
                let (tokens, settings) = (seed.prompts[prompt].clone(), seed.settings[prompt].clone());
                After::More(Box::new(Grove::resume(prompt, tokens, settings, *tree, strategy)))
            }
        });
        match looked.await.map_err(|_| ApiError::internal("the answers could not be read"))? {
            After::Done(tree) => Ok(Some(self.grown(prompt, tree))),
            After::More(grove) => {
                let (grove, cap) = (*grove, self.seed.ask.n);
                self.ticket.go_on(Order { grove, cap, herald, visit: self.visit.clone() });
                Ok(None)
            }
        }
    }

    fn grown(&mut self, prompt: usize, tree: Box<Tree>) -> Event {
        self.left -= 1;
        self.decoded += tree.tokens_generated();
        self.sequences += tree.len();
        Event::Grown(prompt, tree)
    }

    /// Grows to the end; the trees, in the order of the prompts.
    pub async fn finish(&mut self, mut heard: impl FnMut(usize, News)) -> Result<Vec<Tree>, ApiError> {
        let mut trees: Vec<Option<Tree>> = vec![None; self.seed.prompts.len()];
        while let Some(event) = self.next().await? {
            match event {
                Event::News(prompt, news) => heard(prompt, news),
                Event::Grown(prompt, tree) => trees[prompt] = Some(*tree),
            }
        }
        let trees: Vec<Tree> = trees.into_iter().flatten().collect();
        if trees.iter().all(|tree| tree.tokens_generated() == 0) {
            return Err(ApiError::unavailable("there was no time to begin; try again later"));
        }
        Ok(trees)
    }
}

/// A request is over when nobody looks at it any more, whether it was grown to the end or its client went away.
impl Drop for Growth {
    fn drop(&mut self) {
        let Growth { decoded, sequences, .. } = *self;
        let (seconds, cut) = (self.begun.elapsed(), self.cut.map(Cut::name));
        if self.left == 0 {
            self.counters.grown(seconds);
            info!(decoded, sequences, cut, seconds = seconds.as_secs_f64(), "grown");
        } else {
            info!(seconds = seconds.as_secs_f64(), "given up");
        }
    }
}
