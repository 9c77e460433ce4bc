//! Answers as they grow: server-sent events in OpenAI's shape.
//!
//! Choices interleave, each under its own index. A fork's first chunk names its parent and brings the text that both share,
//! so whoever listens to one index alone hears a whole answer. What the engine decoded in one step is sent as one batch,
//! a chunk for each choice.

use std::collections::BTreeMap;

use eager_core::{Candidate, Finish, SeqId};
use serde_json::{Value, json};

use crate::answer::{Heading, Said, Usage, index, logprobs};
use crate::error::ApiError;
use crate::growth::{Event, Growth, Seed};
use crate::leaf::{Harvest, finish_words};
use crate::request::{Kind, Vote};
use crate::sse::{Line, Outlet};
use crate::strand::Strand;
use crate::watched::News;

/// A sequence as far as its client has heard it.
#[derive(Debug, Clone)]
struct Branch {
    /// Its parent's choice and the position where it left.
    fork: Option<(usize, usize)>,
    strand: Strand,
    /// Only where log-probabilities were asked for.
    said: Vec<(Candidate, Box<[Candidate]>)>,
    /// How much of `said` was sent.
    sent: usize,
    /// Characters that were sent.
    characters: usize,
    announced: bool,
    changed: bool,
    /// In OpenAI's words; `None` while it grows.
    finish: Option<&'static str>,
}

/// Sends a request's answer while it grows.
struct Telling<'a> {
    seed: &'a Seed,
    heading: &'a Heading,
    branches: BTreeMap<(usize, SeqId), Branch>,
    decoded: usize,
}

/// Tells all of it. An error after the first byte can only be told as an event.
pub async fn tell(mut growth: Growth, heading: Heading, mut out: Outlet) {
    let seed = growth.seed.clone();
    let mut telling = Telling { seed: &seed, heading: &heading, branches: BTreeMap::new(), decoded: 0 };
    let told = if seed.ask.vote == Vote::Majority {
        telling.tell_majority(&mut growth, &mut out).await
    } else {
        telling.tell_all(&mut growth, &mut out).await
    };
    match told {
        Ok(()) => out.send(vec![Line::data("[DONE]".to_owned())]).await,
        Err(error) => out.send(vec![Line::data(error.body().to_string())]).await,
    }
}

impl Telling<'_> {
    async fn tell_all(&mut self, growth: &mut Growth, out: &mut Outlet) -> Result<(), ApiError> {
        let mut trees = vec![None; self.seed.prompts.len()];
        while let Some(event) = out.or_gone(growth.next()).await? {
            let mut next = Some(event);
            while let Some(event) = next {
                match event {
                    Event::News(prompt, news) => self.hear(prompt, news),
                    Event::Grown(prompt, tree) => {
                        self.end_all(prompt);
                        trees[prompt] = Some(*tree);
                    }
                }
                next = growth.ready().await?;
            }
            let lines = self.chunks();
            out.send(lines).await;
        }
        let trees: Vec<_> = trees.into_iter().flatten().collect();
        if self.branches.values().all(|branch| branch.strand.path.is_empty()) {
            return Err(ApiError::unavailable("there was no time to begin; try again later"));
        }
        self.decoded = trees.iter().map(|tree| tree.tokens_generated()).sum();
        if self.seed.ask.eager {
            let (seed, cut) = (growth.seed.clone(), growth.cut);
            let harvest = tokio::task::spawn_blocking(move || Harvest::new(&seed, &trees, cut));
            let harvest = harvest.await.map_err(|_| ApiError::internal("the answers could not be read"))?;
            out.send(vec![self.line(json!([]), Some(("eager", json!(harvest.told))))]).await;
        }
        self.send_usage(out).await;
        Ok(())
    }

    /// A vote is known when all have voted: until then there is nothing to say.
    async fn tell_majority(&mut self, growth: &mut Growth, out: &mut Outlet) -> Result<(), ApiError> {
        let trees = out.or_gone(growth.finish(|_, _| ())).await?;
        let (seed, cut) = (growth.seed.clone(), growth.cut);
        let harvest = tokio::task::spawn_blocking(move || Harvest::new(&seed, &trees, cut));
        let harvest = harvest.await.map_err(|_| ApiError::internal("the answers could not be read"))?;
        let mut lines = Vec::new();
        for (at, leaf) in harvest.leaves.iter().enumerate() {
            let index = index(self.seed, at, leaf);
            lines.push(self.line(json!([self.delta(index, true, &leaf.text, Value::Null, None)]), None));
            lines
                .push(self.line(json!([self.delta(index, false, "", Value::Null, Some(leaf.reason))]), None));
        }
        lines.push(self.line(json!([]), Some(("eager", json!(harvest.told)))));
        out.send(lines).await;
        self.decoded = harvest.told.tokens_decoded;
        self.send_usage(out).await;
        Ok(())
    }

    async fn send_usage(&self, out: &mut Outlet) {
        if self.seed.ask.include_usage {
            let usage = Usage::new(self.seed.prompt_tokens(), self.decoded);
            out.send(vec![self.line(json!([]), Some(("usage", json!(usage))))]).await;
        }
    }

    fn hear(&mut self, prompt: usize, news: News) {
        match news {
            News::Root { id } => {
                let branch = Branch::silent(self.seed, None);
                self.branches.insert((prompt, id), branch);
            }
            News::Fork { id, parent, at, .. } => {
                let fork = Some((self.index(prompt, parent), at));
                let branch = match self.branches.get(&(prompt, parent)) {
                    Some(parent) => parent.fork(self.seed, fork, at),
                    None => Branch::silent(self.seed, fork),
                };
                self.branches.insert((prompt, id), branch);
            }
            News::Token { id, token, top, .. } => {
                if let Some(branch) = self.branches.get_mut(&(prompt, id)) {
                    branch.push(self.seed, token, top);
                }
            }
            News::End { id, finish } => {
                if let Some(branch) = self.branches.get_mut(&(prompt, id)) {
                    branch.end(finish);
                }
            }
            News::Back { .. } => {}
        }
    }

    /// What did not end by itself was cut off.
    fn end_all(&mut self, prompt: usize) {
        let live =
            |(key, branch): &(&(usize, SeqId), &mut Branch)| key.0 == prompt && branch.finish.is_none();
        self.branches.iter_mut().filter(live).for_each(|(_, branch)| branch.end(None));
    }

    fn index(&self, prompt: usize, id: SeqId) -> usize {
        prompt * self.seed.ask.n + id.0
    }

    /// What there is to say of every sequence since the last time.
    fn chunks(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut branches = std::mem::take(&mut self.branches);
        for (&(prompt, id), branch) in branches.iter_mut().filter(|(_, branch)| branch.changed) {
            branch.changed = false;
            let index = self.index(prompt, id);
            if let Some(mut choice) = self.say(index, branch) {
                if let Some((parent, fork_at)) = branch.fork.take() {
                    choice["eager"] = json!({"parent": parent, "fork_at": fork_at});
                }
                lines.push(self.line(json!([choice]), None));
            }
            if let Some(reason) = branch.finish {
                lines.push(self.line(json!([self.delta(index, false, "", Value::Null, Some(reason))]), None));
            }
        }
        self.branches = branches;
        lines
    }

    /// The next piece of one sequence, if there is one.
    fn say(&self, index: usize, branch: &mut Branch) -> Option<Value> {
        let first = !std::mem::replace(&mut branch.announced, true);
        let text = branch.strand.voice.take().to_owned();
        let news = &branch.said[branch.sent..];
        if !first && text.is_empty() && news.is_empty() {
            return None;
        }
        let logprobs = match self.seed.ask.logprobs {
            None => Value::Null,
            Some(_) => {
                let said: Vec<Said> = news.iter().map(|(token, top)| Said { token: *token, top }).collect();
                logprobs(self.seed.ask.kind, self.seed.model.words.as_ref(), &said, branch.characters)
            }
        };
        branch.sent = branch.said.len();
        branch.characters += text.chars().count();
        Some(self.delta(index, first, &text, logprobs, None))
    }

    fn delta(&self, index: usize, first: bool, text: &str, logprobs: Value, reason: Option<&str>) -> Value {
        if self.seed.ask.kind == Kind::Completion {
            return json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason});
        }
        let delta = match (first, reason) {
            (true, _) => json!({"role": "assistant", "content": text}),
            (false, None) => json!({"content": text}),
            (false, Some(_)) => json!({}),
        };
        json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason})
    }

    fn line(&self, choices: Value, more: Option<(&str, Value)>) -> Line {
        let object = match self.seed.ask.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completion => "text_completion",
        };
        let Heading { id, created, model } = self.heading;
        let mut chunk =
            json!({"id": id, "object": object, "created": created, "model": model, "choices": choices});
        if let Some((name, value)) = more {
            chunk[name] = value;
        }
        Line::data(chunk.to_string())
    }
}

impl Branch {
    fn silent(seed: &Seed, fork: Option<(usize, usize)>) -> Self {
        Branch {
            fork,
            strand: Strand::new(seed.voice()),
            said: Vec::new(),
            sent: 0,
            characters: 0,
            announced: false,
            changed: false,
            finish: None,
        }
    }

    /// A branch that has said what this one said before a position.
    fn fork(&self, seed: &Seed, fork: Option<(usize, usize)>, at: usize) -> Self {
        let said = self.said[..at.min(self.said.len())].to_vec();
        Branch { strand: self.strand.fork(seed, at), said, ..Branch::silent(seed, fork) }
    }

    fn push(&mut self, seed: &Seed, token: Candidate, top: Box<[Candidate]>) {
        self.changed = true;
        self.strand.push(seed, token.token);
        if seed.ask.logprobs.is_some() && !seed.ends(token.token) {
            self.said.push((token, top));
        }
    }

    fn end(&mut self, finish: Option<Finish>) {
        self.strand.end();
        self.changed = true;
        self.finish = Some(finish_words(finish, self.strand.voice.is_stopped()).0);
    }
}
