//! Chat templates: how a model wants a conversation written, as the Jinja program that came with it.
//!
//! Templates are written for Python's Jinja as `transformers` configures it, so that is what we imitate (see
//! [`jinja`](super::jinja)).
//!
//! Templates come from strangers, too. Rendering has a bound on its steps, on the length of its text and of each
//! repetition (`'x' * n`), and on the depth of what `{{ }}` and `tojson` print. That is not all one could wish for,
//! and the engine has no place for the rest: a template that sets out to can still end the process, by doubling a
//! string with `~` until the memory is gone, or by overflowing the stack where no printing is involved, with a
//! namespace that contains itself (compared, or made a string by `~` or a filter) or lists nested a million deep.
//! So the template of a model that one does not trust with the process belongs in a process of its own.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::LoadError;
use super::bounded::Text;
use super::jinja;

/// One turn of a conversation: its `role` and `content`, and whatever else templates know, such as `tool_calls` or
/// `reasoning_content`. Templates can tell a field that is missing from one that is null, and so can this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(pub Map<String, serde_json::Value>);

impl Message {
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self(Map::new()).with("role", role.into()).with("content", content.into())
    }

    /// The same with one more field.
    pub fn with(mut self, field: &str, value: impl Into<serde_json::Value>) -> Self {
        self.0.insert(field.to_owned(), value.into());
        self
    }
}

impl Message {
    /// What an assistant thought goes by several names; templates find it under the two that they ask for.
    fn with_reasoning(mut self) -> Self {
        let names = ["reasoning_content", "thinking", "reasoning"];
        let Some(thought) =
            names.iter().filter_map(|name| self.0.get(*name)).find(|thought| !thought.is_null())
        else {
            return self;
        };
        let thought = thought.clone();
        self.0.entry("thinking").or_insert_with(|| thought.clone());
        self.with("reasoning_content", thought)
    }
}

/// How much a model that can be told should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// As templates want it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|effort| effort.name() == name);
        found.ok_or_else(|| format!("'{name}' is not low, medium or high"))
    }
}

/// What else a template may be told. Each model knows some of these and ignores the others.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// End with the opening of the assistant's turn; true by default.
    pub add_generation_prompt: bool,
    /// Whether to think before answering: `enable_thinking` to Qwen3 and SmolLM3, `thinking` to DeepSeek and others. A
    /// model that is not told does as it likes, which mostly means that it thinks.
    pub thinking: Option<bool>,
    /// How long to think, for models such as gpt-oss.
    pub reasoning_effort: Option<Effort>,
    /// The functions that the model may call, as OpenAI's API describes them.
    pub tools: Option<serde_json::Value>,
    /// The time to tell a template that asks, or else the time it is.
    pub now: Option<SystemTime>,
    /// Further variables.
    pub variables: Map<String, serde_json::Value>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            add_generation_prompt: true,
            thinking: None,
            reasoning_effort: None,
            tools: None,
            now: None,
            variables: Map::new(),
        }
    }
}

impl ChatOptions {
    /// The variables by which templates are told how to think, and the further ones.
    pub fn switches(&self) -> Map<String, serde_json::Value> {
        let mut switches = Map::new();
        if let Some(thinking) = self.thinking {
            switches.insert("enable_thinking".into(), thinking.into());
            switches.insert("thinking".into(), thinking.into());
        }
        if let Some(effort) = self.reasoning_effort {
            switches.insert("reasoning_effort".into(), effort.name().into());
        }
        switches.extend(self.variables.clone());
        switches
    }
}

#[derive(Debug)]
pub struct ChatTemplate {
    /// A template that does not compile is only an error for those who use it.
    compiled: Result<Environment<'static>, Error>,
    bos: Option<String>,
    eos: Option<String>,
    file: String,
}

impl ChatTemplate {
    /// A template, the texts of the tokens `bos_token` and `eos_token` in it, and the file to name in errors.
    pub fn new(source: &str, bos: Option<String>, eos: Option<String>, file: &str) -> Self {
        Self { compiled: jinja::compile(source), bos, eos, file: file.to_owned() }
    }

    /// The conversation as the text that the model continues.
    pub fn render(&self, messages: &[Message], options: &ChatOptions) -> Result<String, LoadError> {
        let failed = |e: &Error| LoadError::Template { file: self.file.clone(), why: jinja::describe(e) };
        let environment = self.compiled.as_ref().map_err(failed)?;
        let template = environment.get_template(jinja::NAME).map_err(|e| failed(&e))?;
        let mut text = Text::default();
        let context = Value::from(Serde(self.context(messages, options)));
        let rendered = template.render_captured_to(context, &mut text).map(drop);
        text.finish(rendered).map_err(|e| failed(&e))
    }

    fn context(&self, messages: &[Message], options: &ChatOptions) -> Map<String, serde_json::Value> {
        let mut context = Map::new();
        let messages: Vec<Message> = messages.iter().cloned().map(Message::with_reasoning).collect();
        context.insert("messages".into(), serde_json::json!(messages));
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        context.insert("bos_token".into(), self.bos.clone().into());
        context.insert("eos_token".into(), self.eos.clone().into());
        // transformers defines these always, and templates ask `is not none`.
        context.insert("tools".into(), options.tools.clone().into());
        context.insert("documents".into(), serde_json::Value::Null);
        if let Some(now) = options.now {
            context.insert(jinja::CLOCK.into(), jinja::seconds(now).into());
        }
        context.extend(options.switches());
        context
    }
}
