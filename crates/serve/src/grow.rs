//! `POST /eager/grow`: a tree while it grows, for those who want to see it. The body is that of a chat.
//!
//! Every event has a name and JSON. A *branch* is a sequence, by its number in the tree; a position counts generated tokens.
//!
//! | event | data |
//! |---|---|
//! | `start` | `model`, `method`, `theta`, `cap`, `seed`, `temperature`, `max_tokens`, `prompt_tokens`, `notice` |
//! | `root` | `branch`: it begins at the prompt |
//! | `fork` | `branch`, `parent`, `at`, `entropy`, `candidates`: the two ways from there, the parent's first, each with `branch`, `text`, `p` |
//! | `tokens` | `branch`, `at` (of the first), and lists of one length: `text`, `entropy`, `p`; `forced`: which positions the method chose |
//! | `finish` | `branch`, `finish`, `tokens`, `answer`, `correct` |
//! | `votes` | `votes`: `answer`, `count`, `weight`, `branches`, `tied` (only where true), most votes first |
//! | `end` | `decoded`, `full_parallel` (old) and `apart`, `full_samples`, `shared`, `saved`, `sequences`, `forks`, `answer`, `cut`, `seconds` |
//! | `error` | `error`, as everywhere |
//!
//! A `fork` comes before the tokens of its branch, whose first is its candidate. A branch brings only what it decoded itself;
//! what it shares with its parent is before `at` there. A token that is only part of a character has an empty text, and
//! the one that completes the character has it all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use eager_core::vote::weighted_tally;
use eager_core::{Candidate, Finish, SeqId};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::Instrument;

use crate::app::{App, Asking, Who};
use crate::error::ApiError;
use crate::growth::{Cut, Event, Growth, Seed, full_parallel, full_samples, share_left};
use crate::leaf::{finish_words, plain};
use crate::parameters;
use crate::request::Kind;
use crate::sse::{Line, Outlet};
use crate::strand::Strand;
use crate::watched::{Detail, News};

/// Votes are counted no more often than this: it means reading all answers again.
const COUNTING: Duration = Duration::from_millis(200);

pub async fn grow(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let asking = Asking { app, who, body };
    let growth = asking.begin(Kind::Chat, |_| Detail { steps: true, top: 0 }).await?;
    let (outlet, response) = Outlet::open();
    let ignored = parameters::ignored(&growth.seed.ask.ignored);
    tokio::spawn(tell(growth, outlet).in_current_span());
    Ok((ignored, response).into_response())
}

/// A candidate at a fork.
#[derive(Debug, Clone, Serialize)]
pub struct Way {
    pub branch: usize,
    pub text: String,
    pub p: f32,
}

/// How a tree forked.
#[derive(Debug, Clone, Serialize)]
pub struct Fork {
    pub branch: usize,
    pub parent: usize,
    pub at: usize,
    pub entropy: f32,
    pub candidates: [Way; 2],
}

/// An answer and who gave it.
#[derive(Debug, Clone, Serialize)]
pub struct Ballot {
    pub answer: String,
    pub count: usize,
    pub weight: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tied: bool,
    pub branches: Vec<usize>,
}

/// What it came to.
#[derive(Debug, Clone, Serialize)]
pub struct Sum {
    pub decoded: usize,
    /// Of the same sequences, each decoded by itself: two names for one number.
    pub full_parallel: usize,
    pub apart: usize,
    /// Of as many whole samples as the cap allows, of the mean length.
    pub full_samples: usize,
    /// The shares of these two that were not spent.
    pub shared: f64,
    pub saved: f64,
    pub sequences: usize,
    pub forks: usize,
    pub answer: Option<String>,
    pub cut: Option<&'static str>,
    pub seconds: f64,
}

/// Tokens of a branch that have not been told yet.
#[derive(Debug, Default, Serialize)]
struct Batch {
    branch: usize,
    at: usize,
    text: Vec<String>,
    entropy: Vec<f32>,
    p: Vec<f32>,
    forced: Vec<usize>,
}

/// A branch as the page has it.
#[derive(Debug)]
struct Shoot {
    strand: Strand,
    batch: Batch,
    finish: Option<(&'static str, bool)>,
}

/// Counts answers: `answers` has one for each branch, in their order.
pub fn count_votes<'a>(answers: impl Iterator<Item = (usize, Option<&'a str>, f32)>) -> Vec<Ballot> {
    let answers: Vec<(usize, Option<&str>, f32)> = answers.collect();
    let votes = weighted_tally(answers.iter().map(|&(_, answer, weight)| (answer, weight)));
    let ballot = |votes: eager_core::vote::Votes| {
        let gave = answers.iter().filter(|(_, answer, _)| *answer == Some(&votes.answer));
        let branches = gave.map(|&(branch, _, _)| branch).collect();
        Ballot { answer: votes.answer, count: votes.count, weight: votes.weight, tied: votes.tied, branches }
    };
    votes.into_iter().map(ballot).collect()
}

async fn tell(growth: Growth, mut out: Outlet) {
    let seed = Arc::clone(&growth.seed);
    let mut telling = Telling { seed, shoots: BTreeMap::new(), counted: Instant::now(), due: false };
    if let Err(error) = telling.tell(growth, &mut out).await {
        out.send(vec![line("error", &error.body())]).await;
    }
}

fn line(name: &str, data: &impl Serialize) -> Line {
    // Plain structs with text keys serialise.
    Line::event(name, &serde_json::to_string(data).unwrap_or_default())
}

struct Telling {
    seed: Arc<Seed>,
    shoots: BTreeMap<SeqId, Shoot>,
    counted: Instant,
    /// A branch has ended since votes were counted.
    due: bool,
}

impl Telling {
    async fn tell(&mut self, mut growth: Growth, out: &mut Outlet) -> Result<(), ApiError> {
        out.send(vec![line("start", &self.start())]).await;
        let mut tree = None;
        while let Some(event) = out.or_gone(growth.next()).await? {
            let (mut lines, mut next) = (Vec::new(), Some(event));
            while let Some(event) = next {
                match event {
                    Event::News(_, news) => self.hear(news, &mut lines),
                    Event::Grown(_, grown) => tree = Some(grown),
                }
                next = growth.ready().await?;
            }
            if tree.is_some() {
                self.shoots.values_mut().filter(|s| s.finish.is_none()).for_each(|s| s.end(None));
                self.due = true;
            }
            self.flush(&mut lines).await;
            if self.due && tree.is_none() && self.counted.elapsed() >= COUNTING {
                lines.push(line("votes", &json!({"votes": self.count(&[]).await})));
            }
            out.send(lines).await;
        }
        let tree = tree.filter(|tree| tree.tokens_generated() > 0);
        let tree =
            tree.ok_or_else(|| ApiError::unavailable("there was no time to begin; try again later"))?;
        let votes = self.count(&tree.weights()).await;
        let sum = Sum {
            forks: tree.sequences().iter().filter(|s| s.parent.is_some()).count(),
            answer: votes.first().map(|votes| votes.answer.clone()),
            cut: growth.cut.map(Cut::name),
            seconds: growth.begun.elapsed().as_secs_f64(),
            ..Sum::new(tree.tokens_generated(), full_parallel(&tree), tree.len(), self.seed.ask.n)
        };
        out.send(vec![line("votes", &json!({"votes": votes})), line("end", &sum)]).await;
        Ok(())
    }

    fn start(&self) -> Value {
        let (ask, plan) = (&self.seed.ask, &self.seed.plan);
        json!({
            "model": self.seed.model.name,
            "method": ask.method.to_string(),
            "theta": ask.method.forks().then(|| plain(plan.forking.theta)),
            "cap": ask.n,
            "seed": plan.seed,
            "temperature": plain(ask.sampling.temperature),
            "max_tokens": self.seed.max_tokens(),
            "prompt_tokens": self.seed.prompt_tokens(),
            "notice": self.seed.notice(),
        })
    }

    fn hear(&mut self, news: News, lines: &mut Vec<Line>) {
        match news {
            News::Root { id } => {
                self.shoots.insert(id, Shoot::new(id, Strand::new(self.seed.voice()), 0));
                lines.push(line("root", &json!({"branch": id.0})));
            }
            News::Fork { id, parent, at, entropy, ways: [first, second] } => {
                let Some(from) = self.shoots.get(&parent) else { return };
                self.shoots.insert(id, Shoot::new(id, from.strand.fork(&self.seed, at), at));
                let way = |branch: SeqId, c: Candidate| Way {
                    branch: branch.0,
                    text: self.seed.model.words.decode(&[c.token]),
                    p: c.logprob.exp(),
                };
                let candidates = [way(parent, first), way(id, second)];
                let fork = Fork { branch: id.0, parent: parent.0, at, entropy, candidates };
                lines.push(line("fork", &fork));
            }
            News::Token { id, token, entropy, forced, .. } => {
                if let Some(shoot) = self.shoots.get_mut(&id) {
                    shoot.push(&self.seed, token, entropy, forced);
                }
            }
            News::End { id, finish } => {
                if let Some(shoot) = self.shoots.get_mut(&id) {
                    shoot.end(finish);
                    self.due = true;
                }
            }
            News::Back { .. } => {}
        }
    }

    /// Tells what branches have got, and which have ended.
    async fn flush(&mut self, lines: &mut Vec<Line>) {
        for (id, shoot) in &mut self.shoots {
            if !shoot.batch.text.is_empty() {
                lines.push(line("tokens", &shoot.batch));
                shoot.batch = Batch { branch: id.0, at: shoot.strand.path.len(), ..Batch::default() };
            }
            if let Some((finish, told @ false)) = &mut shoot.finish {
                *told = true;
                let text = shoot.strand.voice.settled().to_owned();
                let (grader, known) = (self.seed.grader(), self.seed.ask.answer.is_some());
                let (extraction, complete) = (self.seed.extraction(0), *finish == "stop");
                let read = move || grader.grade(extraction.response(&text, complete));
                let read = tokio::task::spawn_blocking(read).await.ok();
                let (answer, correct) = read.map_or((None, false), |grade| (grade.answer, grade.correct));
                let correct = known.then_some(correct);
                let tokens = shoot.strand.path.len();
                let data = json!({"branch": id.0, "finish": finish, "tokens": tokens, "answer": answer,
                    "correct": correct});
                lines.push(line("finish", &data));
            }
        }
    }

    /// The votes of those that have ended.
    async fn count(&mut self, weights: &[f32]) -> Vec<Ballot> {
        (self.counted, self.due) = (Instant::now(), false);
        let ended = |(id, shoot): (&SeqId, &Shoot)| match shoot.finish? {
            // Its vote will weigh nothing, but the weights are known at the end only.
            ("halted", _) => None,
            (finish, _) => Some((*id, shoot.strand.voice.settled().to_owned(), finish == "stop")),
        };
        let ended: Vec<(SeqId, String, bool)> = self.shoots.iter().filter_map(ended).collect();
        let (grader, extraction) = (self.seed.grader(), self.seed.extraction(0));
        let weights = weights.to_vec();
        let counted = tokio::task::spawn_blocking(move || {
            let responses = ended.iter().map(|(_, text, complete)| extraction.response(text, *complete));
            let grades = grader.grade_all(responses);
            let weight = |id: &SeqId| weights.get(id.0).copied().unwrap_or(1.0);
            let answers = ended.iter().zip(&grades);
            count_votes(answers.map(|((id, ..), grade)| (id.0, grade.answer.as_deref(), weight(id))))
        });
        counted.await.unwrap_or_default()
    }
}

impl Sum {
    /// `apart` is what the sequences would have cost each by itself.
    pub fn new(decoded: usize, apart: usize, sequences: usize, cap: usize) -> Self {
        let samples = full_samples(apart, sequences, cap);
        Sum {
            decoded,
            full_parallel: apart,
            apart,
            full_samples: samples,
            shared: share_left(decoded, apart),
            saved: share_left(decoded, samples),
            sequences,
            forks: 0,
            answer: None,
            cut: None,
            seconds: 0.0,
        }
    }
}

impl Shoot {
    fn new(id: SeqId, strand: Strand, at: usize) -> Self {
        Shoot { strand, batch: Batch { branch: id.0, at, ..Batch::default() }, finish: None }
    }

    fn push(&mut self, seed: &Seed, token: Candidate, entropy: f32, forced: bool) {
        let at = self.strand.path.len();
        let text = self.strand.push(seed, token.token).to_owned();
        self.batch.text.push(text);
        self.batch.entropy.push(entropy);
        self.batch.p.push(token.logprob.exp());
        if forced {
            self.batch.forced.push(at);
        }
    }

    fn end(&mut self, finish: Option<Finish>) {
        self.strand.end();
        self.finish = Some((finish_words(finish, self.strand.voice.is_stopped()).1, false));
    }
}
