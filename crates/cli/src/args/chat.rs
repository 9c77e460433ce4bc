//! How a problem is put to the model.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use eager_core::Profile;
use eager_native::load::{ChatOptions, Effort};
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Prompt")]
pub struct ChatArgs {
    /// A system message to put before the problem
    #[arg(long)]
    pub system: Option<String>,
    /// Give the model the bare text, without its chat template
    #[arg(long)]
    pub raw: bool,
    /// Tell the model to think before it answers, or not to, if its chat template has a switch for that [default: what the
    /// template does by itself]
    #[arg(long, value_enum, conflicts_with = "raw")]
    pub thinking: Option<Switch>,
    /// How long to think, for models that can be told: low, medium or high
    #[arg(long, conflicts_with = "raw")]
    pub reasoning_effort: Option<Effort>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl ChatArgs {
    /// With the longest thinking for the paper's models, which ran so, unless something else was asked for. DeepSeek's has no
    /// switch: it always thinks.
    pub fn for_model(mut self, name: &str) -> Self {
        if !self.raw {
            match Profile::of(name).name {
                "SmolLM3-3B" | "Qwen3-4B" => drop(self.thinking.get_or_insert(Switch::On)),
                "gpt-oss-20b" => drop(self.reasoning_effort.get_or_insert(Effort::High)),
                _ => {}
            }
        }
        self
    }

    /// What was asked for, by the names of the options.
    pub fn recorded(&self) -> BTreeMap<String, Value> {
        let effort = self.reasoning_effort.map(Effort::name);
        let thinking = self.thinking.map(|switch| if switch == Switch::On { "on" } else { "off" });
        let all = [
            ("system", self.system.as_ref().map(|text| json!(text))),
            ("raw", self.raw.then(|| json!(true))),
            ("thinking", thinking.map(|switch| json!(switch))),
            ("reasoning-effort", effort.map(|effort| json!(effort))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// As the template wants to be told.
    pub fn options(&self) -> ChatOptions {
        ChatOptions {
            thinking: self.thinking.map(|switch| switch == Switch::On),
            reasoning_effort: self.reasoning_effort,
            ..ChatOptions::default()
        }
    }
}
