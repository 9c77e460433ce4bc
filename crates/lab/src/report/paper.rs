//! The paper's own figures, quoted beside ours.
//!
//! Source of all of `paper.tsv`: *EAGer: Entropy-Aware GEneRation for Adaptive Inference-Time Scaling* (Scalena, Zotos,
//! Fersini, Nissim and Üstün). `table` says which table a line is from: `recap` (performance), `budget`, `complete` (all
//! thetas), `related` (ESC, DeepConf, wall clock) and `temperature`. All are for M = 32; tokens are in units of 100,000.
//! Numbers stand as printed, also where the tables of the paper differ among themselves.

use std::sync::LazyLock;

use eager_core::Profile;

use crate::report::names;

/// What the paper's tables were made with.
const MAX_SEQUENCES: usize = 32;
/// The unit of its token counts.
const TOKENS: f64 = 1e5;

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
    /// Of the whole benchmark.
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
        tokens: number(9).map(|v| v * TOKENS),
        sequences: number(10),
        seconds: number(11).map(|hours| hours * 3600.0),
    }
}

/// A setting to look up. The paper knows one way of reallocating, so `/rerun` and `/regrow` both find it.
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
            (setting("qwen3_4b-q8", "aime2025", "full-parallel", None), 0.80, 17e5),
            (setting("Qwen3-4B", "aime2025", "eager/rerun", Some(2.5)), 0.83, 7e5),
            (setting("SmolLM3-3B", "gpqa-diamond", "eager-init", Some(2.5)), 0.59, 113e5),
            (setting("gpt-oss-20b", "humaneval-plus", "eager", Some(2.3)), 0.97, 5e5),
            (setting("DeepSeek-R1-0528-Qwen3-8B", "hmmt-feb-2025", "eager-adapt", Some(2.0)), 0.47, 11e5),
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
