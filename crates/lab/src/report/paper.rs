//! The paper's own figures, quoted beside ours where the setting is the same.
//!
//! Source of all of `paper.tsv`: *EAGer: Entropy-Aware GEneRation for Adaptive Inference-Time Scaling* (Scalena, Zotos,
//! Fersini, Nissim and Üstün). `table` says which table a line is from: `recap` (performance), `budget`, `complete` (all
//! thetas), `related` (ESC, DeepConf, wall clock) and `temperature`. All are for M = 32.
//! Numbers stand as printed, also where the tables of the paper differ among themselves.
//!
//! Tokens are printed in units of 10^5. That cannot be: 185 of them for SmolLM3's 32 sequences of GPQA's 198 problems would be
//! 2,920 tokens a sequence, where such runs end at the limit of 32k; in units of 10^6 they are 29,200. So only ratios of these
//! numbers are used.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use eager_core::budget::SURPLUS;
use eager_core::{Profile, SurplusLimit};
use serde_json::Value;

use crate::report::cells::{Cell, Subject};
use crate::report::names;
use crate::run::reading;

/// What the paper's tables were made with.
const MAX_SEQUENCES: usize = 32;
const TOP_P: f32 = 0.95;
const ENTROPY_TOP_K: usize = 20;
/// "32k": the paper says no more of its limit, and that it is one of the context.
const LIMIT: RangeInclusive<usize> = 32_000..=32_768;
/// Its methods, as `--method` takes them. There is one way of reallocating.
const METHODS: [&str; 6] =
    ["full-parallel", "esc", "deepconf", "eager-init", "eager-adapt/rerun", "eager/rerun"];
/// How many problems its suites have.
const SIZES: [(&str, usize); 5] = [
    ("aime2024", 30),
    ("aime2025", 30),
    ("hmmt-feb-2025", 30),
    ("gpqa-diamond", 198),
    ("humaneval-plus", 164),
];

pub const UNIT: &str = "The paper's tokens stand as it prints them, in units that it calls 10^5 and that are most likely 10^6 \
                        (185 of them for 198 x 32 sequences that mostly end at 32k): compare ratios only.";

pub const SOURCE: &str =
    "EAGer: Entropy-Aware GEneRation for Adaptive Inference-Time Scaling (Scalena et al.)";

/// One setting of one of the paper's tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Quote {
    pub table: &'static str,
    /// As [`Profile`] names it.
    pub model: &'static str,
    pub suite: &'static str,
    pub method: &'static str,
    pub theta: Option<f32>,
    pub temperature: f32,
    pub pass_at_k: Option<f64>,
    pub cons_at_k: Option<f64>,
    pub pass_rate: Option<f64>,
    /// Of the whole benchmark, in the paper's units.
    pub tokens: Option<f64>,
    /// Per prompt.
    pub sequences: Option<f64>,
    pub seconds: Option<f64>,
}

static QUOTES: LazyLock<Vec<Quote>> =
    LazyLock::new(|| include_str!("paper.tsv").lines().skip(1).map(parse).collect());

fn parse(line: &'static str) -> Quote {
    let fields: Vec<&'static str> = line.split('\t').collect();
    // The file is part of the crate, and a test reads every line of it.
    let text = |at: usize| *fields.get(at).expect("every line has all columns");
    let number = |at: usize| (!text(at).is_empty()).then(|| text(at).parse::<f64>().expect("a number"));
    Quote {
        table: text(0),
        model: text(1),
        suite: text(2),
        method: text(3),
        theta: number(4).map(|v| v as f32),
        temperature: number(5).map_or(0.6, |v| v as f32),
        pass_at_k: number(6),
        cons_at_k: number(7),
        pass_rate: number(8),
        tokens: number(9),
        sequences: number(10),
        seconds: number(11).map(|hours| hours * 3600.0),
    }
}

impl Quote {
    /// The share of full-parallel's tokens that was not spent, by the same table.
    pub fn saved(&self) -> Option<f64> {
        let is_full = self.method == names::FULL_PARALLEL;
        let alike = |q: &&Quote| {
            q.method == names::FULL_PARALLEL
                && (q.table, q.model, q.suite) == (self.table, self.model, self.suite)
                && q.temperature == self.temperature
        };
        let full = QUOTES.iter().find(alike)?.tokens?;
        self.tokens.filter(|_| !is_full).map(|tokens| 1.0 - tokens / full)
    }
}

/// In what a cell differs from the paper's setting; `None` where it is the same, as far as a run says.
///
/// Thetas and temperatures are left to [`quote`]: the paper has several.
pub fn difference(subject: &Subject, cell: &Cell) -> Option<String> {
    let parameters = cell.parameters();
    let (model, suite) = &subject.plain;
    let known = Profile::of(model);
    if !QUOTES.iter().any(|q| q.model == known.name && q.suite == suite) {
        return Some(format!("the paper has no {} on {}", subject.model, names::suite(&subject.suite)));
    }
    // A method's bare name leaves open how it reallocates.
    let is_method = |method: &&str| **method == cell.method || names::base(method) == cell.method;
    if !METHODS.iter().any(is_method) {
        return Some(format!("the paper has no {}", cell.method));
    }
    if cell.max_sequences != MAX_SEQUENCES {
        return Some(format!("M is {}, in the paper {MAX_SEQUENCES}", cell.max_sequences));
    }
    if parameters.top_p != TOP_P || parameters.top_k != 0 || parameters.min_p != 0.0 {
        return Some(format!("the paper samples with top-p {TOP_P} and no top-k or min-p"));
    }
    let measured = parameters.entropy_temperature.unwrap_or(parameters.temperature);
    let entropy = (parameters.entropy_top_k, measured) == (ENTROPY_TOP_K, parameters.temperature);
    if cell.theta.is_some() && !entropy {
        let own = "the sampling temperature";
        return Some(format!("the paper measures entropy over {ENTROPY_TOP_K} candidates at {own}"));
    }
    let usual = SurplusLimit::EachPrompt(SURPLUS);
    let ours = cell.method.parse().ok().and_then(|method| reading(method, usual));
    if let (Some(followed), Some(ours)) = (parameters.second_pass.as_deref(), ours)
        && followed != ours
    {
        return Some(format!("its second pass is \"{followed}\", and our reading of the paper \"{ours}\""));
    }
    other_problems(subject, cell).or_else(|| other_limit(cell)).or_else(|| other_option(known.name, cell))
}

/// Other problems than the whole of the suite, or not all of them finished.
fn other_problems(subject: &Subject, cell: &Cell) -> Option<String> {
    let size = SIZES.iter().find(|(suite, _)| *suite == subject.plain.1)?.1;
    let asked = cell.runs.iter().map(|run| run.manifest.suite.problems).find(|&asked| asked != size);
    match asked {
        Some(asked) => Some(format!("{asked} of the suite's {size} problems were asked")),
        None => (!cell.is_complete()).then(|| "it is not complete".to_owned()),
    }
}

/// The paper limits the context, and so does a run that is told nothing; either may be what bounds a sequence.
fn other_limit(cell: &Cell) -> Option<String> {
    let tokens = cell.parameters().max_tokens;
    let prompts = cell.runs.iter().flat_map(|run| &run.samples).map(|sample| sample.prompt_tokens);
    let context = tokens + prompts.min().unwrap_or(0);
    let alike = LIMIT.contains(&tokens) || LIMIT.contains(&context);
    (!alike).then(|| format!("a sequence has at most {tokens} tokens, in the paper a context of 32k"))
}

/// An option that the paper does not have, or has otherwise.
fn other_option(model: &str, cell: &Cell) -> Option<String> {
    let options = &cell.parameters().options;
    let differs = |(name, value): &(&String, &Value)| !is_papers(name, value);
    if let Some((name, value)) = options.iter().find(differs) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return Some(format!("{name} is {text}"));
    }
    // The longest thinking is the default of the other models' templates.
    let thinks_less = model == "gpt-oss-20b" && !options.contains_key("reasoning-effort");
    thinks_less.then(|| "the paper has reasoning-effort high".to_owned())
}

/// Is this how the paper has it, or left it open?
fn is_papers(option: &str, value: &Value) -> bool {
    let is_number = |number: f64| value.as_f64() == Some(number);
    match option {
        "window" => is_number(1000.0),
        "relax" => is_number(0.8),
        "surplus" => is_number(2.0),
        "fork-spacing" => is_number(0.0),
        "esc-window" => is_number(4.0),
        "esc-windows" => is_number(8.0),
        "deepconf-warmup" => is_number(16.0),
        // It took the program's default and does not say which.
        "deepconf-keep" => true,
        "cap" => value == "all",
        "adapt-to" => value == "saturated",
        "extract" => value == "lenient",
        "thinking" => value == "on",
        "reasoning-effort" => value == "high",
        _ => matches!(value, Value::Null | Value::Bool(false)),
    }
}

/// A setting to look up.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// In whatever spelling.
    pub model: &'a str,
    pub suite: &'a str,
    pub method: &'a str,
    pub theta: Option<f32>,
    pub temperature: f32,
    pub max_sequences: usize,
}

/// What one of the paper's tables has for a setting.
pub fn quote(table: &str, setting: Setting) -> Option<&'static Quote> {
    let profile = Profile::of(setting.model);
    if !profile.is_calibrated() || setting.max_sequences != MAX_SEQUENCES {
        return None;
    }
    // Its table of related approaches names no theta: it is the model's own.
    let theta = |q: &Quote| match table {
        "related" => {
            setting.theta.is_none() || names::is_own_theta(setting.model, setting.method, setting.theta)
        }
        _ => q.theta == setting.theta,
    };
    QUOTES.iter().find(|q| {
        q.table == table
            && q.model == profile.name
            && q.suite == setting.suite
            && q.method == names::base(setting.method)
            && q.temperature == setting.temperature
            && theta(q)
    })
}

/// What the paper has for a setting, from the first table that has it.
pub fn quote_any(setting: Setting) -> Option<&'static Quote> {
    ["complete", "temperature", "budget", "related"].into_iter().find_map(|table| quote(table, setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(
        model: &'static str,
        suite: &'static str,
        method: &'static str,
        theta: Option<f32>,
    ) -> Setting<'static> {
        Setting { model, suite, method, theta, temperature: 0.6, max_sequences: 32 }
    }

    #[test]
    fn every_table_is_there_as_a_whole() {
        let of = |table: &str| QUOTES.iter().filter(|q| q.table == table).count();
        // Three methods on three suites for four models, less two that the paper leaves out.
        assert_eq!(of("recap"), 36 - 2);
        assert_eq!(of("budget"), 4 * 5 * 4);
        assert_eq!(of("related"), 6 * 4);
        assert_eq!(of("temperature"), 11 * 4);
        // 63 rows for 4 models, less the 31 cells without numbers.
        assert_eq!(of("complete"), 63 * 4 - 31);
        assert_eq!(QUOTES.len(), 403);
    }

    #[test]
    fn settings_are_found_in_whatever_spelling() {
        for (at, pass, tokens) in [
            (setting("qwen3_4b-q8", "aime2025", "full-parallel", None), 0.80, 17.0),
            (setting("Qwen3-4B", "aime2025", "eager/rerun", Some(2.5)), 0.83, 7.0),
            (setting("SmolLM3-3B", "gpqa-diamond", "eager-init", Some(2.5)), 0.59, 113.0),
            (setting("gpt-oss-20b", "humaneval-plus", "eager", Some(2.3)), 0.97, 5.0),
            (setting("DeepSeek-R1-0528-Qwen3-8B", "hmmt-feb-2025", "eager-adapt", Some(2.0)), 0.47, 11.0),
        ] {
            let quote = quote_any(at).unwrap_or_else(|| panic!("{at:?}"));
            assert_eq!((quote.pass_at_k, quote.tokens), (Some(pass), Some(tokens)), "{at:?}");
        }
        let esc = quote("related", setting("SmolLM3 3B", "aime2025", "esc", None)).unwrap();
        assert_eq!((esc.pass_rate, esc.seconds), (Some(0.05), Some(60.0 * 3600.0)));
        let hot = Setting { temperature: 0.9, ..setting("SmolLM3-3B", "aime2025", "eager", Some(2.5)) };
        assert_eq!(quote_any(hot).unwrap().cons_at_k, Some(0.37));
    }

    #[test]
    fn other_settings_have_no_quote() {
        for at in [
            setting("acorn", "acorn", "eager", Some(0.3)),
            setting("Qwen3-4B", "aime2025", "eager", Some(2.1)),
            Setting { max_sequences: 8, ..setting("Qwen3-4B", "aime2025", "full-parallel", None) },
            Setting { temperature: 1.0, ..setting("Qwen3-4B", "aime2025", "full-parallel", None) },
        ] {
            assert_eq!(quote_any(at), None, "{at:?}");
        }
    }

    #[test]
    fn numbers_are_in_their_range() {
        for quote in QUOTES.iter() {
            for share in [quote.pass_at_k, quote.cons_at_k, quote.pass_rate].into_iter().flatten() {
                assert!((0.0..=1.0).contains(&share), "{quote:?}");
            }
            assert!(quote.theta.is_none_or(|t| (1.8..=2.7).contains(&t)), "{quote:?}");
            assert!(quote.sequences.is_none_or(|s| (1.0..=36.0).contains(&s)), "{quote:?}");
            assert!(Profile::of(quote.model).is_calibrated(), "{quote:?}");
        }
    }
}
