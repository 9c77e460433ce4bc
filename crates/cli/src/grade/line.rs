//! A line of input, which keeps all that it held.

use anyhow::{Context, bail};
use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::judge::Verdict;

/// A JSON object. Values are kept as they are written, so that what is printed is what came in: no digit of a long number
/// is lost, and no key moves.
#[derive(Debug)]
pub struct Line(IndexMap<String, Box<RawValue>>);

// Some of it is for graders that run programs, and those exist on Unix only.
#[cfg_attr(not(unix), allow(dead_code))]
impl Line {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let line = serde_json::from_str(text.trim()).map(Line);
        line.context("it should be a JSON object such as {\"gold\": \"1/2\", \"pred\": \"\\\\boxed{0.5}\"}")
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn get(&self, key: &str) -> anyhow::Result<Option<Value>> {
        let value = self.0.get(key).map(|raw| serde_json::from_str(raw.get()));
        value.transpose().with_context(|| format!("the value of \"{key}\" cannot be read"))
    }

    /// A value that is text, or a number as it is written; `None` for null.
    pub fn text(&self, key: &str) -> anyhow::Result<Option<String>> {
        let Some(raw) = self.0.get(key) else { bail!("it has no \"{key}\"") };
        match self.get(key)? {
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(_)) => Ok(Some(raw.get().to_owned())),
            Some(Value::Null) | None => Ok(None),
            Some(_) => bail!("\"{key}\" should be text"),
        }
    }

    /// Had the prompt opened a chain of thought, so that the response begins in the middle of one? Others keep the text
    /// of the thoughts under this name, which says nothing of the response.
    pub fn thinking(&self) -> anyhow::Result<bool> {
        Ok(self.get("thinking")? == Some(Value::Bool(true)))
    }

    /// Did the model end the response? Nothing said means so, and every other reason than `stop` that it did not.
    pub fn is_complete(&self) -> anyhow::Result<bool> {
        Ok(self.get("finish")?.is_none_or(|finish| finish.is_null() || finish == "stop"))
    }

    /// Everything but the response: what a grading program is told of the problem.
    pub fn problem(&self) -> anyhow::Result<Value> {
        let others = self.0.keys().filter(|key| *key != "pred");
        let values = others.map(|key| Ok((key.clone(), self.get(key)?.unwrap_or_default())));
        Ok(Value::Object(values.collect::<anyhow::Result<_>>()?))
    }

    /// Adds a verdict, in place of any that was there.
    pub fn add(&mut self, verdict: &Verdict, explain: bool) {
        for (key, value) in verdict.fields(explain) {
            self.0.shift_remove(key);
            // JSON values can be written as JSON.
            if let Ok(raw) = to_raw_value(&value) {
                self.0.insert(key.to_owned(), raw);
            }
        }
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| std::fmt::Error)?)
    }
}
