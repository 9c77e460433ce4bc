//! What things are called in a report, and in which order they come.

use eager_core::Profile;

pub const FULL_PARALLEL: &str = "full-parallel";

/// Methods in the order of the paper's tables: the baseline, what others do (without labels, then with), then EAGer from the
/// cheapest to the fullest.
const METHODS: [&str; 8] =
    [FULL_PARALLEL, "esc", "deepconf", "until-right", "two-stage", "eager-init", "eager-adapt", "eager"];

/// Suites in the order of the paper's tables.
const SUITES: [(&str, &str); 5] = [
    ("aime2024", "AIME 2024"),
    ("aime2025", "AIME 2025"),
    ("hmmt-feb-2025", "HMMT 2025"),
    ("gpqa-diamond", "GPQA-Diamond"),
    ("humaneval-plus", "HumanEval Plus"),
];

/// Models in the order of the paper's tables, by size.
const MODELS: [&str; 4] = ["SmolLM3-3B", "Qwen3-4B", "DeepSeek-R1-0528-Qwen3-8B", "gpt-oss-20b"];

/// A method's name without how it reallocates.
pub fn base(method: &str) -> &str {
    method.split('/').next().unwrap_or(method)
}

pub fn method_rank(method: &str) -> usize {
    METHODS.iter().position(|m| *m == base(method)).unwrap_or(METHODS.len())
}

pub fn model_rank(model: &str) -> usize {
    let profile = Profile::of(model).name;
    MODELS.iter().position(|m| *m == profile).unwrap_or(MODELS.len())
}

pub fn suite_rank(suite: &str) -> usize {
    SUITES.iter().position(|(key, _)| *key == suite).unwrap_or(SUITES.len())
}

/// A method as people write it.
pub fn method(name: &str) -> String {
    let written = match base(name) {
        FULL_PARALLEL => "Full parallel",
        "esc" => "ESC",
        "deepconf" => "DeepConf",
        "until-right" => "Until right",
        "two-stage" => "Two-stage",
        "eager-init" => "EAGer-init",
        "eager-adapt" => "EAGer-adapt",
        "eager" => "EAGer",
        other => other,
    };
    match name.split_once('/') {
        Some((_, how)) => format!("{written} ({how})"),
        None => written.to_owned(),
    }
}

/// A suite as people write it.
pub fn suite(name: &str) -> &str {
    SUITES.iter().find(|(key, _)| *key == name).map_or(name, |(_, written)| written)
}

/// The CSS variable with a method's colour; others of the same kind (`/regrow`, `/rerun-literal`) have shades of their own.
pub fn colour(method: &str) -> &'static str {
    match method.split_once('/').unwrap_or((method, "")) {
        (FULL_PARALLEL, _) => "--full-parallel",
        ("esc", _) => "--esc",
        ("deepconf", _) => "--deepconf",
        ("until-right", _) => "--until-right",
        ("two-stage", _) => "--two-stage",
        ("eager-init", _) => "--init",
        ("eager-adapt", "regrow") => "--adapt-regrow",
        ("eager-adapt", "rerun-literal") => "--adapt-literal",
        ("eager-adapt", _) => "--adapt",
        ("eager", "regrow") => "--eager-regrow",
        ("eager", "rerun-literal") => "--eager-literal",
        ("eager", _) => "--eager",
        _ => "--other",
    }
}

/// Is this the theta that the model's profile gives the method?
pub fn is_own_theta(model: &str, method: &str, theta: Option<f32>) -> bool {
    let profile = Profile::of(model);
    let own = if base(method) == "eager" { profile.theta_full } else { profile.theta_init };
    profile.is_calibrated() && theta == Some(own)
}

/// Enough of a hash to tell two apart.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_reallocate_has_a_colour_of_its_own() {
        for base in ["eager", "eager-adapt"] {
            let [bare, rerun, literal, regrow] =
                ["", "/rerun", "/rerun-literal", "/regrow"].map(|how| colour(&format!("{base}{how}")));
            assert_eq!(bare, rerun);
            assert!(literal != rerun && literal != regrow && rerun != regrow, "{base}");
        }
    }
}
