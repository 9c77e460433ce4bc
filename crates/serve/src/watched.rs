//! A strategy with somebody looking over its shoulder.
//!
//! Everything that happens to a tree passes through its strategy: what was begun, what became of every step, what ended.
//! [`Watched`] lets another strategy decide and tells of it as it happens. The one thing it decides itself is to end a
//! sequence whose text has reached a stop string, for strategies know tokens and no text.

use std::collections::HashMap;
use std::sync::Arc;

use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Candidate, Finish, SeqId, Strategy, Token, Tree};
use tokio::sync::mpsc::UnboundedSender;

use crate::voice::Voice;

/// Something that happened to a prompt's tree.
#[derive(Debug)]
pub enum News {
    /// A sequence began at the prompt.
    Root { id: SeqId },
    /// A sequence began that shares its parent's path before `at`. Its first token follows.
    Fork { id: SeqId, parent: SeqId, at: usize, entropy: f32, ways: [Candidate; 2] },
    /// A sequence got a token. `top` are its best candidates, as many as were asked for.
    Token { id: SeqId, token: Candidate, entropy: f32, forced: bool, top: Box<[Candidate]> },
    /// A sequence ended.
    End { id: SeqId, finish: Option<Finish> },
    /// The tree came back from the engine.
    Back { tree: Box<Tree>, end: End },
}

/// How a tree came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Complete.
    Whole,
    /// Nobody wanted more of it.
    Cut,
    /// The engine could not go on.
    Failed(String),
}

/// Where news of a prompt goes: which of the request's prompts it is, and what happened.
#[derive(Debug, Clone)]
pub struct Herald {
    pub prompt: usize,
    pub to: UnboundedSender<(usize, News)>,
}

impl Herald {
    pub fn tell(&self, news: News) {
        // Whoever asked may have gone; the engine hears of it in its own way.
        let _ = self.to.send((self.prompt, news));
    }
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Every step, as it happens; otherwise only the whole tree, when it comes back.
    pub steps: bool,
    /// Candidates of every step.
    pub top: usize,
}

/// The decisions of another strategy, told as they are made.
#[derive(Debug)]
pub struct Watched {
    inner: Box<dyn Strategy>,
    herald: Option<Herald>,
    top: usize,
    stops: Option<Stops>,
}

impl Watched {
    /// `silence` says a sequence from its beginning; `None` where there are no stop strings to listen for.
    pub fn new(inner: Box<dyn Strategy>, herald: Herald, detail: Detail, silence: Option<Voice>) -> Self {
        let stops = silence.map(|voice| Stops { silence: Arc::new(voice), voices: HashMap::new() });
        Watched { inner, herald: detail.steps.then_some(herald), top: detail.top, stops }
    }

    fn tell(&self, news: impl FnOnce() -> News) {
        if let Some(herald) = &self.herald {
            herald.tell(news());
        }
    }

    /// Tells of sequences that are about to begin. They get the next numbers, in this order.
    fn tell_starts(&mut self, tree: &Tree, starts: &[Start]) {
        for (start, id) in starts.iter().zip((tree.len()..).map(SeqId)) {
            match *start {
                Start::Root => self.tell(|| News::Root { id }),
                Start::Branch { from, at, token, entropy } => {
                    self.tell(|| {
                        let parent = owner(tree, from, at);
                        let of_parent = tree.get(parent);
                        let own = at - of_parent.fork_at;
                        let way =
                            Candidate { token: of_parent.tokens[own], logprob: of_parent.logprobs[own] };
                        News::Fork { id, parent, at, entropy, ways: [way, token] }
                    });
                    let forced = true;
                    self.tell(|| News::Token { id, token, entropy, forced, top: Box::default() });
                    if let Some(stops) = &mut self.stops {
                        stops.fork(tree, from, at, id, token.token);
                    }
                }
            }
        }
    }

    fn tell_token(&self, id: SeqId, token: Candidate, step: &Step<'_>, forced: bool) {
        self.tell(|| {
            let top = step.top[..step.top.len().min(self.top)].into();
            News::Token { id, token, entropy: step.entropy, forced, top }
        });
    }
}

/// The sequence to which a position of a path belongs: as the tree itself settles whose child a branch is.
fn owner(tree: &Tree, from: SeqId, at: usize) -> SeqId {
    let mut owner = from;
    while let (true, Some(above)) = (at < tree.get(owner).fork_at, tree.get(owner).parent) {
        owner = above;
    }
    owner
}

impl Strategy for Watched {
    fn begin(&mut self, tree: &Tree) -> Vec<Start> {
        let starts = self.inner.begin(tree);
        self.tell_starts(tree, &starts);
        starts
    }

    fn decide(&mut self, tree: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        let mut verdict = self.inner.decide(tree, id, step);
        match verdict {
            Verdict::Wait => {}
            Verdict::Fork { first, second } => {
                let (twin, at, entropy) = (SeqId(tree.len()), step.at, step.entropy);
                self.tell(|| News::Fork { id: twin, parent: id, at, entropy, ways: [first, second] });
                self.tell_token(id, first, step, true);
                self.tell_token(twin, second, step, true);
                if let Some(stops) = &mut self.stops {
                    stops.fork(tree, id, at, twin, second.token);
                    // A fork cannot end a sequence: should this token complete a stop string, the next one ends it.
                    stops.hear(id, first.token);
                }
            }
            Verdict::Keep | Verdict::Remember | Verdict::Halt => {
                let stopped = self.stops.as_mut().is_some_and(|stops| stops.hear(id, step.sampled.token));
                if stopped {
                    verdict = Verdict::Halt;
                }
                self.tell_token(id, step.sampled, step, false);
            }
        }
        verdict
    }

    fn ended(&mut self, tree: &Tree, id: SeqId) -> Vec<Start> {
        self.tell(|| News::End { id, finish: tree.get(id).finish });
        let starts = self.inner.ended(tree, id);
        self.tell_starts(tree, &starts);
        starts
    }

    fn weights(&mut self) -> Vec<(SeqId, f32)> {
        self.inner.weights()
    }
}

/// Listens for stop strings.
#[derive(Debug)]
struct Stops {
    silence: Arc<Voice>,
    voices: HashMap<SeqId, Voice>,
}

impl Stops {
    /// Has a stop string come with this token, or before?
    fn hear(&mut self, id: SeqId, token: Token) -> bool {
        let voice = self.voices.entry(id).or_insert_with(|| (*self.silence).clone());
        voice.push(token);
        voice.is_stopped()
    }

    /// A sequence begins on another's path.
    fn fork(&mut self, tree: &Tree, from: SeqId, at: usize, id: SeqId, token: Token) {
        let mut voice = match self.voices.get(&from) {
            Some(voice) if at == tree.get(from).len() => voice.clone(),
            _ => {
                let mut voice = (*self.silence).clone();
                for &token in &tree.path(from)[..at] {
                    voice.push(token);
                }
                voice
            }
        };
        voice.push(token);
        self.voices.insert(id, voice);
    }
}
