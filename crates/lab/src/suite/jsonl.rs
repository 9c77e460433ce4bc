//! Problems out of a file of one JSON object a line: the user's own, and the mathematics suites.
//!
//! Whatever is wrong with a file is told by line, in words that say what to write instead.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use eager_grade::Grader;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Problem, SuiteError};
use crate::judge::{Judge, Kind};

/// Which fields of a line hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// `None` takes `id` where there is one, and the line's number where there is none.
    pub id: Option<String>,
    pub problem: String,
    pub answer: String,
    /// What a problem is grouped by in reports; several fields are joined by a slash.
    pub group: Vec<String>,
}

impl Default for Fields {
    fn default() -> Self {
        Self { id: None, problem: "problem".to_owned(), answer: "answer".to_owned(), group: Vec::new() }
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it should be a JSON object such as {{\"problem\": \"...\", \"answer\": \"...\"}}")]
    NotAnObject,
    #[error("it has no \"{field}\"; it has {present}")]
    Missing { field: String, present: String },
    #[error("\"{0}\" should be text or a number")]
    NotText(String),
    #[error("\"{0}\" is empty")]
    Empty(String),
    #[error("its id '{id}' is that of line {first} already")]
    Duplicate { id: String, first: usize },
    #[error("\"{field}\" should be one of the letters {letters}, not '{found}'")]
    NotALetter { field: String, letters: String, found: String },
    #[error("\"choices\" should be a list of at least two and at most 26 texts")]
    NotChoices,
    #[error(
        "\"{0}\" should be a whole number, with the numbers that make it in \"numbers\", such as [1, 2, 3]"
    )]
    NotATarget(String),
}

/// How lines become problems.
pub(super) struct Reader<'a> {
    pub fields: &'a Fields,
    pub kind: Kind,
    #[cfg(unix)]
    pub command: Option<std::sync::Arc<eager_grade::command::CommandGrader>>,
}

impl Reader<'_> {
    /// The problems of a file, in its order.
    pub fn read(&self, path: &Path) -> Result<Vec<Problem>, SuiteError> {
        let fail = |reason: String| SuiteError::Data { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
        let mut problems = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let problem = self.problem(number, line).and_then(|problem| {
                match lines.insert(problem.id.clone(), number) {
                    Some(first) => Err(Fault::Duplicate { id: problem.id, first }),
                    None => Ok(problem),
                }
            });
            let at = |fault| SuiteError::Line { path: path.to_owned(), line: number, fault };
            problems.push(problem.map_err(at)?);
        }
        if problems.is_empty() { Err(fail("it holds no problems".to_owned())) } else { Ok(problems) }
    }

    fn problem(&self, number: usize, line: &[u8]) -> Result<Problem, Fault> {
        let line = Line::parse(line)?;
        let Fields { id, problem, group, .. } = self.fields;
        let id = match id {
            Some(field) => line.required(field)?,
            None => line.text("id")?.unwrap_or_else(|| number.to_string()),
        };
        let text = line.required(problem)?;
        let group = group.iter().map(|field| line.required(field)).collect::<Result<Vec<_>, _>>()?;
        let Key { gold, choices, judge } = self.key(&line)?;
        let group = (!group.is_empty()).then(|| group.join("/"));
        Ok(Problem { id, text, choices, message: String::new(), gold, group, judge })
    }

    /// What makes an answer right.
    fn key(&self, line: &Line) -> Result<Key, Fault> {
        let field = &self.fields.answer;
        let text = |grader: fn(String) -> Grader| {
            let gold = line.required(field)?;
            Ok(Key { judge: Judge::Text(grader(gold.clone())), gold: Some(gold), choices: Vec::new() })
        };
        match self.kind {
            Kind::Math => text(|gold| Grader::Math { gold }),
            Kind::Exact => text(|gold| Grader::Exact { gold }),
            Kind::Choice => line.choice(field),
            Kind::Expression => line.expression(field),
            #[cfg(unix)]
            Kind::Command => match &self.command {
                Some(grader) => Ok(Key {
                    gold: line.text(field)?,
                    choices: line.choices()?,
                    judge: Judge::Command { grader: grader.clone(), problem: line.whole()? },
                }),
                None => Ok(Key::unknown(line.choices()?)),
            },
            #[cfg(not(unix))]
            Kind::Command => Ok(Key::unknown(line.choices()?)),
            Kind::None | Kind::Code => Ok(Key::unknown(line.choices()?)),
        }
    }
}

struct Key {
    gold: Option<String>,
    choices: Vec<String>,
    judge: Judge,
}

impl Key {
    fn unknown(choices: Vec<String>) -> Self {
        Self { gold: None, choices, judge: Judge::None }
    }
}

/// A line. Values are kept as they are written, so that no digit of a long number is lost.
struct Line(BTreeMap<String, Box<RawValue>>);

impl Line {
    fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)?;
        // Some editors begin a file with a mark of its encoding.
        let text = text.trim_start_matches('\u{feff}').trim();
        let json: &RawValue = serde_json::from_str(text)
            .map_err(|error| Fault::NotJson(error.to_string().replace(" at line 1 column", " at column")))?;
        serde_json::from_str(json.get()).map(Self).map_err(|_| Fault::NotAnObject)
    }

    /// What a field holds; `None` where it is not there or null.
    fn value(&self, field: &str) -> Result<Option<Value>, Fault> {
        let Some(raw) = self.0.get(field) else { return Ok(None) };
        // What is well-formed may still say nothing: half of a character, or a number beyond all bounds.
        let value: Value = serde_json::from_str(raw.get()).map_err(|error| {
            let said = error.to_string();
            let why = said.split(" at line ").next().unwrap_or_default();
            Fault::NotJson(format!("\"{field}\": {why}"))
        })?;
        Ok(Some(value).filter(|value| *value != Value::Null))
    }

    /// A value that is text, or a number as it is written; `None` where there is none.
    fn text(&self, field: &str) -> Result<Option<String>, Fault> {
        let written = self.0.get(field).map_or("", |raw| raw.get());
        // However large it is.
        if written.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return Ok(Some(written.to_owned()));
        }
        let text = match self.value(field)? {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => return Err(Fault::NotText(field.to_owned())),
        };
        if text.trim().is_empty() { Err(Fault::Empty(field.to_owned())) } else { Ok(Some(text)) }
    }

    fn required(&self, field: &str) -> Result<String, Fault> {
        self.text(field)?.ok_or_else(|| self.missing(field))
    }

    fn missing(&self, field: &str) -> Fault {
        let names: Vec<String> = self.0.keys().map(|name| format!("\"{name}\"")).collect();
        let present = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Fault::Missing { field: field.to_owned(), present }
    }

    /// The texts of the choices, where the line lists them.
    fn choices(&self) -> Result<Vec<String>, Fault> {
        let Some(value) = self.value("choices")? else { return Ok(Vec::new()) };
        let choices: Vec<String> = serde_json::from_value(value).map_err(|_| Fault::NotChoices)?;
        if (2..=26).contains(&choices.len()) { Ok(choices) } else { Err(Fault::NotChoices) }
    }

    fn choice(&self, field: &str) -> Result<Key, Fault> {
        let choices = self.choices()?;
        // Without their texts, which the problem may hold, there are the usual four.
        let count = if choices.is_empty() { 4 } else { choices.len() };
        let found = self.required(field)?;
        let mut letters = found.trim().trim_matches(['(', ')']).chars();
        let letter = match (letters.next().map(|letter| letter.to_ascii_uppercase()), letters.next()) {
            (Some(letter), None) => {
                (0..count).map(eager_grade::choice::letter).find(|&known| known == letter)
            }
            _ => None,
        };
        let last = eager_grade::choice::letter(count - 1);
        let gold = letter.ok_or_else(|| Fault::NotALetter {
            field: field.to_owned(),
            letters: format!("A to {last}"),
            found: found.clone(),
        })?;
        let judge = Judge::Text(Grader::Choice { gold, choices: choices.clone() });
        Ok(Key { gold: Some(gold.to_string()), choices, judge })
    }

    fn expression(&self, field: &str) -> Result<Key, Fault> {
        let gold = self.required(field)?;
        let numbers = self.value("numbers")?.and_then(|numbers| serde_json::from_value(numbers).ok());
        match (gold.trim().parse(), numbers) {
            (Ok(target), Some(numbers)) => {
                let judge = Judge::Text(Grader::Expression { numbers, target });
                Ok(Key { gold: Some(gold), choices: Vec::new(), judge })
            }
            _ => Err(Fault::NotATarget(field.to_owned())),
        }
    }

    /// All of it, for a program of the user's.
    #[cfg(unix)]
    fn whole(&self) -> Result<Value, Fault> {
        self.0.keys().map(|field| Ok((field.clone(), self.value(field)?.unwrap_or_default()))).collect()
    }
}
