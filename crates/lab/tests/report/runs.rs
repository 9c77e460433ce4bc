//! Runs made up for the tests. They are built from JSON, as they are read from disk.

use eager_lab::run::{Asked, Run, Sample};
use serde_json::{Value, json};

/// One sequence: its answer, whether that is right, and its own tokens.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub answer: Option<String>,
    pub correct: Option<bool>,
    pub tokens: usize,
}

pub fn leaf(answer: &str, correct: bool, tokens: usize) -> Leaf {
    Leaf { answer: (!answer.is_empty()).then(|| answer.to_owned()), correct: Some(correct), tokens }
}

pub fn sample(id: &str, leaves: &[Leaf], seconds: f64) -> Sample {
    let sequence = |(at, leaf): (usize, &Leaf)| {
        let entropy: Vec<f32> = (0..leaf.tokens).map(|t| ((t * 7 + at * 3) % 11) as f32 / 10.0).collect();
        json!({
            "tokens": vec![1; leaf.tokens], "logprobs": vec![-0.1; leaf.tokens], "entropy": entropy,
            "parent": null, "fork_at": 0, "finish": "stop", "text": format!("so it is {:?}", leaf.answer),
            "answer": leaf.answer, "correct": leaf.correct,
        })
    };
    let sequences: Vec<Value> = leaves.iter().enumerate().map(sequence).collect();
    raw_sample(id, sequences, seconds)
}

pub fn raw_sample(id: &str, sequences: Vec<Value>, seconds: f64) -> Sample {
    serde_json::from_value(json!({
        "id": id, "prompt_tokens": 5, "sequences_total": sequences.len(), "sequences": sequences,
        "tokens_generated": 0, "saturated": false, "seconds": seconds,
    }))
    .unwrap()
}

/// A setting, with what most tests do not care about filled in.
#[derive(Debug, Clone)]
pub struct Setting {
    pub model: &'static str,
    pub suite: &'static str,
    pub method: &'static str,
    pub theta: Option<f32>,
    pub max_sequences: usize,
    pub temperature: f32,
    pub seed: u64,
}

impl Setting {
    pub fn of(method: &'static str) -> Self {
        let theta = method.starts_with("eager").then_some(2.5);
        Setting {
            model: "acorn",
            suite: "acorn",
            method,
            theta,
            max_sequences: 32,
            temperature: 0.6,
            seed: 0,
        }
    }

    pub fn run(&self, samples: Vec<Sample>) -> Run {
        let manifest = json!({
            "format": 1, "version": "0.1.0",
            "model": {"name": self.model, "hash": format!("hash of {}", self.model), "path": null, "engine": "native avx2 q16"},
            "suite": {"name": self.suite, "hash": format!("hash of {}", self.suite), "problems": samples.len()},
            "method": self.method,
            "parameters": {
                "max_sequences": self.max_sequences, "max_tokens": 100, "temperature": self.temperature, "top_p": 0.95,
                "top_k": 0, "min_p": 0.0, "theta": self.theta, "entropy_top_k": 20, "entropy_temperature": null, "options": {},
            },
            "seed": self.seed,
        });
        let asked = |s: &Sample| Asked {
            id: s.id.clone(),
            problem: format!("What is {}?", s.id),
            gold: Some("4".into()),
        };
        Run {
            folder: format!("runs/{}", self.method).into(),
            manifest: serde_json::from_value(manifest).unwrap(),
            problems: samples.iter().map(asked).collect(),
            samples,
        }
    }
}
