//! HumanEval+ problems, as evalplus publishes them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::CodeError;
use super::marshal::{Value, Writer, parse};

/// One problem: a function to be written, and inputs on which it is to behave as the reference solution does.
#[derive(Debug)]
pub struct Problem {
    /// `HumanEval/0` to `HumanEval/163`.
    pub id: String,
    /// Imports, perhaps other functions, and the head of the one to be written with its description.
    pub prompt: String,
    pub entry_point: String,
    /// The reference solution, as a continuation of the prompt.
    pub canonical_solution: String,
    /// The tolerance for numbers; 0 where the problem states none.
    pub atol: f64,
    /// The inputs of the original HumanEval.
    pub(super) base: Inputs,
    /// Those that evalplus added.
    pub(super) plus: Inputs,
}

impl Problem {
    /// Reads a file of one problem a line, compressed or not.
    pub fn load(path: &Path) -> Result<Vec<Self>, CodeError> {
        let fail = |reason: String| CodeError::Data { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| fail(error.to_string()))?;
        let compressed = path.extension().is_some_and(|extension| extension == "gz");
        let reader: Box<dyn Read> = if compressed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let mut problems = Vec::new();
        for (number, line) in (1..).zip(BufReader::new(reader).lines()) {
            let line = line.map_err(|error| fail(error.to_string()))?;
            if !line.trim().is_empty() {
                problems.push(Self::parse(&line).map_err(|error| fail(format!("line {number}: {error}")))?);
            }
        }
        Ok(problems)
    }

    /// Reads one line of such a file.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let row: Row = serde_json::from_str(line)?;
        Ok(Self {
            id: row.task_id,
            prompt: row.prompt,
            entry_point: row.entry_point,
            canonical_solution: row.canonical_solution,
            atol: row.atol,
            base: Inputs::new(&row.base_input)?,
            plus: Inputs::new(&row.plus_input)?,
        })
    }

    /// How many inputs the original tests have, and how many were added.
    pub fn inputs(&self) -> (usize, usize) {
        (self.base.len(), self.plus.len())
    }

    /// Of all inputs, the base ones first: the arguments as `marshal` bytes.
    pub(super) fn input(&self, index: usize) -> &[u8] {
        match index.checked_sub(self.base.len()) {
            None => self.base.get(index),
            Some(index) => self.plus.get(index),
        }
    }

    pub(super) fn input_count(&self) -> usize {
        self.base.len() + self.plus.len()
    }

    /// `find_zero` has as many right answers as its polynomial has roots: the coefficients of an input, if this is
    /// that problem.
    pub(super) fn polynomial(&self, index: usize) -> Option<Vec<f64>> {
        if self.entry_point != "find_zero" {
            return None;
        }
        let Some(Value::List(arguments)) = parse(self.input(index)) else { return None };
        let [Value::List(coefficients)] = arguments.as_slice() else { return None };
        let number = |value: &Value<'_>| match value {
            Value::Int(int) => Some(f64::from(*int)),
            Value::Float(float) => Some(*float),
            _ => None,
        };
        coefficients.iter().map(number).collect()
    }
}

#[derive(Deserialize)]
struct Row {
    task_id: String,
    prompt: String,
    entry_point: String,
    canonical_solution: String,
    atol: f64,
    base_input: Vec<Box<RawValue>>,
    plus_input: Vec<Box<RawValue>>,
}

/// The arguments of many calls, ready to be sent.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Inputs {
    fn new(inputs: &[Box<RawValue>]) -> Result<Self, serde_json::Error> {
        let mut writer = Writer::default();
        let mut ends = Vec::with_capacity(inputs.len());
        for input in inputs {
            writer.json(input)?;
            ends.push(writer.0.len());
        }
        Ok(Self { data: writer.0, ends })
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.data[start..self.ends[index]]
    }
}
