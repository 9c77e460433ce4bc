//! What is known about particular models: where to fork them, and how they close their reasoning.
//!
//! The thresholds of the four large models are the paper's (its table of best thresholds, chosen on ten problems of
//! MATH-500). acorn's come from its own problems.

use crate::method::Method;

/// Settings that belong to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    pub name: &'static str,
    /// How the model's own name is recognised: letters and digits only, lower case.
    key: &'static str,
    /// Entropy threshold for EAGer-init and EAGer-adapt.
    pub theta_init: f32,
    /// Entropy threshold for full EAGer, which wants to save more for later.
    pub theta_full: f32,
    /// The text that closes the chain of thought.
    pub reasoning_end: &'static str,
}

const THINK_END: &str = "</think>";

const PROFILES: [Profile; 5] = [
    Profile { name: "acorn", key: "acorn", theta_init: 0.3, theta_full: 0.3, reasoning_end: THINK_END },
    Profile {
        name: "SmolLM3-3B",
        key: "smollm33b",
        theta_init: 2.5,
        theta_full: 2.5,
        reasoning_end: THINK_END,
    },
    Profile { name: "Qwen3-4B", key: "qwen34b", theta_init: 2.0, theta_full: 2.5, reasoning_end: THINK_END },
    Profile {
        name: "DeepSeek-R1-0528-Qwen3-8B",
        key: "deepseekr10528qwen38b",
        theta_init: 2.0,
        theta_full: 2.5,
        reasoning_end: THINK_END,
    },
    Profile {
        name: "gpt-oss-20b",
        key: "gptoss20b",
        theta_init: 2.2,
        theta_full: 2.5,
        reasoning_end: "<|channel|>final",
    },
];

/// For models that nobody has calibrated: the middle of what the paper found for its four.
const UNKNOWN: Profile =
    Profile { name: "uncalibrated", key: "", theta_init: 2.0, theta_full: 2.5, reasoning_end: THINK_END };

impl Profile {
    /// The profile of the model that calls itself `model`, in whatever spelling.
    pub fn of(model: &str) -> Profile {
        let plain: String = model.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        PROFILES.into_iter().find(|p| plain.contains(p.key)).unwrap_or(UNKNOWN)
    }

    /// The profile of this name, for a model that goes by another.
    pub fn named(name: &str) -> Option<Profile> {
        PROFILES.into_iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The names that [`Profile::named`] knows.
    pub fn names() -> [&'static str; PROFILES.len()] {
        PROFILES.map(|p| p.name)
    }

    /// The threshold of a method.
    pub fn theta(&self, method: Method) -> f32 {
        if matches!(method, Method::Eager(_)) { self.theta_full } else { self.theta_init }
    }

    /// Was the threshold chosen for this very model?
    pub fn is_calibrated(&self) -> bool {
        *self != UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_recognised_however_they_are_spelled() {
        for (model, theta) in [
            ("acorn", 0.3),
            ("SmolLM3 3B", 2.5),
            ("Qwen3-4B-Q4_K_M", 2.0),
            ("qwen3_4b", 2.0),
            ("DeepSeek-R1-0528-Qwen3-8B", 2.0),
            ("gpt-oss-20b-mxfp4", 2.2),
        ] {
            let profile = Profile::of(model);
            assert!(profile.is_calibrated(), "{model}");
            assert_eq!(profile.theta_init, theta, "{model}");
        }
        assert!(!Profile::of("SmolLM2-135M-Instruct").is_calibrated());
        assert!(!Profile::of("").is_calibrated());
    }
}
