//! Answers in one piece: `chat.completion` and `text_completion`.

use std::collections::HashMap;

use eager_core::{Candidate, SeqId, Token};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::growth::Seed;
use crate::leaf::{Harvest, Leaf};
use crate::model::Speech;
use crate::request::{Kind, Vote};
use crate::watched::News;

/// What an answer is called and when it was given; the same in all chunks of a stream.
#[derive(Debug, Clone)]
pub struct Heading {
    pub id: String,
    pub created: u64,
    pub model: String,
}

/// What was read and written.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Tokens decoded: what is shared counts once.
    pub completion_tokens: usize,
    pub total_tokens: usize,
}

impl Usage {
    pub fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// The best candidates of every own token of every sequence, where they were asked for: trees do not keep them.
#[derive(Debug, Default)]
pub struct Tops {
    own: HashMap<(usize, SeqId), Own>,
}

#[derive(Debug, Default)]
struct Own {
    parent: Option<SeqId>,
    fork_at: usize,
    tops: Vec<Box<[Candidate]>>,
}

impl Tops {
    pub fn hear(&mut self, prompt: usize, news: News) {
        match news {
            News::Fork { id, parent, at, .. } => {
                let own = Own { parent: Some(parent), fork_at: at, tops: Vec::new() };
                self.own.insert((prompt, id), own);
            }
            News::Token { id, top, .. } => self.own.entry((prompt, id)).or_default().tops.push(top),
            News::Root { .. } | News::End { .. } | News::Back { .. } => {}
        }
    }

    /// Those at a position of a path.
    fn at(&self, prompt: usize, mut id: SeqId, position: usize) -> &[Candidate] {
        while let Some(own) = self.own.get(&(prompt, id)) {
            match own.parent {
                Some(parent) if position < own.fork_at => id = parent,
                _ => return own.tops.get(position - own.fork_at).map_or(&[], |top| top),
            }
        }
        &[]
    }
}

/// The whole answer.
pub fn whole(seed: &Seed, heading: &Heading, harvest: &Harvest, tops: Option<&Tops>) -> Value {
    let choices: Vec<Value> =
        harvest.leaves.iter().enumerate().map(|(at, leaf)| choice(seed, at, leaf, tops)).collect();
    let object = match seed.ask.kind {
        Kind::Chat => "chat.completion",
        Kind::Completion => "text_completion",
    };
    let mut answer = json!({
        "id": heading.id,
        "object": object,
        "created": heading.created,
        "model": heading.model,
        "choices": choices,
        "usage": Usage::new(seed.prompt_tokens(), harvest.told.tokens_decoded),
    });
    if seed.ask.eager {
        answer["eager"] = json!(harvest.told);
    }
    answer
}

/// The number of a choice. A vote leaves one sequence of each prompt, and those are counted anew.
pub fn index(seed: &Seed, at: usize, leaf: &Leaf) -> usize {
    if seed.ask.vote == Vote::Majority { at } else { leaf.told.index }
}

fn choice(seed: &Seed, at: usize, leaf: &Leaf, tops: Option<&Tops>) -> Value {
    let index = index(seed, at, leaf);
    let logprobs = tops.map_or(Value::Null, |tops| {
        let prompt = leaf.told.index / seed.ask.n;
        let said = leaf.tokens.iter().zip(&leaf.logprobs).enumerate();
        let said: Vec<Said> = said
            .map(|(position, (&token, &logprob))| Said {
                token: Candidate { token, logprob },
                top: tops.at(prompt, leaf.id, position),
            })
            .collect();
        logprobs(seed.ask.kind, seed.model.words.as_ref(), &said, 0)
    });
    match seed.ask.kind {
        Kind::Chat => json!({
            "index": index,
            "message": {"role": "assistant", "content": leaf.text, "refusal": null},
            "logprobs": logprobs,
            "finish_reason": leaf.reason,
        }),
        Kind::Completion => json!({
            "index": index,
            "text": leaf.text,
            "logprobs": logprobs,
            "finish_reason": leaf.reason,
        }),
    }
}

/// A token with its log-probability and those of its rivals.
#[derive(Debug, Clone)]
pub struct Said<'a> {
    pub token: Candidate,
    pub top: &'a [Candidate],
}

/// Log-probabilities as the two APIs have them. `offset` is the length of the text before, in characters.
pub fn logprobs(kind: Kind, words: &dyn Speech, said: &[Said<'_>], offset: usize) -> Value {
    let text = |token: Token| words.decode(&[token]);
    match kind {
        Kind::Chat => {
            let entry = |c: &Candidate| {
                let text = text(c.token);
                // Half a character has bytes that its text does not tell.
                let bytes = (!text.contains('\u{FFFD}')).then(|| text.as_bytes().to_vec());
                json!({"token": text, "logprob": finite(c.logprob), "bytes": bytes})
            };
            let content = said.iter().map(|said| {
                let mut value = entry(&said.token);
                value["top_logprobs"] = said.top.iter().map(entry).collect();
                value
            });
            json!({"content": content.collect::<Vec<_>>(), "refusal": null})
        }
        Kind::Completion => {
            let texts: Vec<String> = said.iter().map(|said| text(said.token.token)).collect();
            let mut at = offset;
            let offset = |text: &String| {
                let here = at;
                at += text.chars().count();
                here
            };
            let offsets: Vec<usize> = texts.iter().map(offset).collect();
            let top = |said: &Said<'_>| {
                let best = said.top.iter().map(|c| (text(c.token), json!(finite(c.logprob))));
                Value::Object(best.collect::<Map<_, _>>())
            };
            json!({
                "tokens": texts,
                "token_logprobs": said.iter().map(|said| finite(said.token.logprob)).collect::<Vec<_>>(),
                "top_logprobs": said.iter().map(top).collect::<Vec<_>>(),
                "text_offset": offsets,
            })
        }
    }
}

/// JSON has no infinity; OpenAI writes the log-probability of an impossible token like this.
fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}
