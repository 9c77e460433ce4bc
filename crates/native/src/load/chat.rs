//! Chat templates: how a model wants a conversation written, as the Jinja program that came with it.
//!
//! Templates are written for Python's Jinja as `transformers` configures it, so that is what we imitate: block
//! trimming, the methods of Python's strings and dictionaries, `raise_exception`, `strftime_now`, and a
//! `tojson` that formats like Python's.
//!
//! Templates come from strangers, too. Rendering has a bound on its steps, on the length of its text and of each
//! repetition (`'x' * n`), and on the depth of what `{{ }}` and `tojson` print. That is not all one could wish for,
//! and the engine has no place for the rest: a template that sets out to can still end the process, by doubling a
//! string with `~` until the memory is gone, or by overflowing the stack where no printing is involved, with a
//! namespace that contains itself (compared, or made a string by `~` or a filter) or lists nested a million deep.
//! So the template of a model that one does not trust with the process belongs in a process of its own.

use std::io;

use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, escape_formatter, syntax::SyntaxConfig};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::LoadError;
use super::bounded::{self, Nested, Text};

/// Steps of the template engine; a long conversation takes some hundred thousands.
const FUEL: u64 = 20_000_000;

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

impl Message {
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// What else a template may be told.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// End with the opening of the assistant's turn; true by default.
    pub add_generation_prompt: bool,
    /// Further variables, such as `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self { add_generation_prompt: true, variables: serde_json::Map::new() }
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
        Self { compiled: compile(source), bos, eos, file: file.to_owned() }
    }

    /// The conversation as the text that the model continues.
    pub fn render(&self, messages: &[Message], options: &ChatOptions) -> Result<String, LoadError> {
        let failed = |e: &Error| LoadError::Template { file: self.file.clone(), why: describe(e) };
        let environment = self.compiled.as_ref().map_err(failed)?;
        let mut context = serde_json::Map::new();
        context.insert("messages".into(), serde_json::json!(messages));
        context.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        context.insert("bos_token".into(), self.bos.clone().into());
        context.insert("eos_token".into(), self.eos.clone().into());
        // transformers defines these always, and templates ask `is not none`.
        context.insert("tools".into(), serde_json::Value::Null);
        context.insert("documents".into(), serde_json::Value::Null);
        context.extend(options.variables.clone());
        let template = environment.get_template(NAME).map_err(|e| failed(&e))?;
        let mut text = Text::default();
        let rendered = template.render_captured_to(Value::from(Serde(context)), &mut text).map(drop);
        text.finish(rendered).map_err(|e| failed(&e))
    }
}

/// Without an extension, so that nothing is escaped as HTML.
const NAME: &str = "chat";

fn compile(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(|out, state, value| {
        bounded::check(value)?;
        escape_formatter(out, state, value)
    });
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

/// `{% generation %}` marks what a trainer should learn from; for us it is a block like any other.
fn without_generation_tags(source: &str) -> String {
    let mut source = source.to_owned();
    for (open, close) in [("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}")] {
        for (tag, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
            source = source.replace(&format!("{open} {tag} {close}"), &format!("{open} {instead} {close}"));
        }
    }
    source
}

/// The date, in UTC so that it does not depend on the machine.
fn strftime_now(format: String) -> Result<String, Error> {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &now)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))
}

/// Python's `json.dumps(value, ensure_ascii=False)`.
fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let mut text = Text::default();
    let value = Nested::new(value);
    let written = match indent {
        Some(width) if width <= 16 => {
            let indent = " ".repeat(width);
            let pretty = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut text, pretty))
        }
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent above 16")),
        None => value.serialize(&mut Serializer::with_formatter(&mut text, PythonSpacing)),
    };
    text.finish(written.map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string())))
}

/// `[1, 2]` and `{"a": 1}`, with a space after the comma and the colon.
struct PythonSpacing;

impl Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// A template's error on one line, without the engine's own vocabulary where the template raised it itself.
fn describe(error: &Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), Some(line)) => format!("{detail} (line {line})"),
        (Some(detail), None) => detail.to_owned(),
        (None, Some(line)) => format!("{} (line {line})", error.kind()),
        (None, None) => error.kind().to_string(),
    }
}
