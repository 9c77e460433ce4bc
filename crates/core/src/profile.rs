//! What is known about particular models: where to fork them, and how they close their reasoning.
//!
//! The thresholds of the four large models are the paper's (its table of best thresholds, chosen on ten problems of
//! MATH-500). acorn's come from its own problems. A threshold belongs to one model: what was made of it by more training goes
//! by another name, and must not inherit it. How reasoning is closed is another matter: a model's tokenizer tells.

use crate::method::Method;
use crate::model_name;

/// Settings that belong to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    pub name: &'static str,
    /// Who publishes the model: some file names begin with it.
    owner: &'static str,
    /// Entropy threshold for EAGer-init and EAGer-adapt.
    pub theta_init: f32,
    /// Entropy threshold for full EAGer, which wants to save more for later.
    pub theta_full: f32,
}

const PROFILES: [Profile; 5] = [
    Profile { name: "acorn", owner: "", theta_init: 0.3, theta_full: 0.3 },
    Profile { name: "SmolLM3-3B", owner: "HuggingFaceTB", theta_init: 2.5, theta_full: 2.5 },
    Profile { name: "Qwen3-4B", owner: "Qwen", theta_init: 2.0, theta_full: 2.5 },
    Profile { name: "DeepSeek-R1-0528-Qwen3-8B", owner: "deepseek-ai", theta_init: 2.0, theta_full: 2.5 },
    Profile { name: "gpt-oss-20b", owner: "openai", theta_init: 2.2, theta_full: 2.5 },
];

/// For models that nobody has calibrated: the middle of what the paper found for its four.
const UNKNOWN: Profile = Profile { name: "uncalibrated", owner: "", theta_init: 2.0, theta_full: 2.5 };

/// How chains of thought are closed: a special token that only a model with this mark has, and the mark.
/// Magistral, Kimi and Command A have marks of their own.
const REASONING_ENDS: [(&str, &str); 5] = [
    ("<|channel|>", "<|channel|>final"),
    ("</think>", "</think>"),
    ("[/THINK]", "[/THINK]"),
    ("◁/think▷", "◁/think▷"),
    ("<|END_THINKING|>", "<|END_THINKING|>"),
];

/// The text that closes the chain of thought of a model with these special tokens; `None` where it has no such mark. A model
/// that would spell a mark out letter by letter was not trained to use it.
pub fn reasoning_end<E>(
    mut is_token: impl FnMut(&str) -> Result<bool, E>,
) -> Result<Option<&'static str>, E> {
    for (token, mark) in REASONING_ENDS {
        if is_token(token)? {
            return Ok(Some(mark));
        }
    }
    Ok(None)
}

impl Profile {
    /// The profile of the model that goes by this name, wherever it lies and however it is packed.
    pub fn of(model: &str) -> Profile {
        let words = model_name::words(model);
        PROFILES.into_iter().find(|profile| profile.is_of(&words)).unwrap_or(UNKNOWN)
    }

    fn is_of(&self, words: &[String]) -> bool {
        let own = model_name::words(self.name);
        words == own || words.strip_prefix(&model_name::words(self.owner)[..]).is_some_and(|rest| rest == own)
    }

    /// The profile of this name, for a model that goes by another.
    pub fn named(name: &str) -> Option<Profile> {
        PROFILES.into_iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The names that [`Profile::named`] knows.
    pub fn names() -> [&'static str; PROFILES.len()] {
        PROFILES.map(|p| p.name)
    }

    /// Thresholds that were found on this machine for this very model.
    pub fn calibrated(theta_init: f32, theta_full: f32) -> Profile {
        Profile { name: "calibrated", owner: "", theta_init, theta_full }
    }

    /// The threshold of a method.
    pub fn theta(&self, method: Method) -> f32 {
        if matches!(method, Method::Eager(_)) { self.theta_full } else { self.theta_init }
    }

    /// Was the threshold chosen for this very model?
    pub fn is_calibrated(&self) -> bool {
        self.name != UNKNOWN.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_recognised_wherever_they_lie_and_however_they_are_packed() {
        for (name, models) in [
            ("acorn", &["acorn", "models/acorn/weights/acorn-q8_0.gguf"][..]),
            (
                "SmolLM3-3B",
                &[
                    "SmolLM3 3B",
                    "HuggingFaceTB/SmolLM3-3B",
                    "ggml-org/SmolLM3-3B-GGUF:Q4_K_M",
                    "SmolLM3-3B.i1-IQ2_XXS.gguf",
                ],
            ),
            (
                "Qwen3-4B",
                &[
                    "Qwen/Qwen3-4B",
                    "qwen3_4b",
                    "Qwen3 4B",
                    "/models/Qwen3-4B/",
                    "C:\\models\\Qwen3-4B-Q8_0.gguf",
                    "Qwen3-4B-Q4_K_M.gguf",
                    "Qwen3-4B.Q2_K.gguf",
                    "unsloth/Qwen3-4B-UD-Q4_K_XL.gguf",
                    "unsloth/Qwen3-4B-GGUF:UD-IQ1_S",
                    "unsloth/Qwen3-4B-unsloth-bnb-4bit",
                    "Qwen_Qwen3-4B-IQ4_XS.gguf",
                    "Qwen3-4B-IQ4_NL.gguf",
                    "Qwen3-4B-Q4_0_4_4.gguf",
                    "Qwen3-4B-TQ1_0.gguf",
                    "Qwen3-4B-bf16.gguf",
                    "Qwen3-4B-F32",
                    "Qwen3-4B-BF16-00001-of-00003.gguf",
                    "Qwen3-4B-AWQ",
                    "JunHowie/Qwen3-4B-GPTQ-Int4",
                    "Qwen/Qwen3-4B-FP8",
                    "RedHatAI/Qwen3-4B-FP8-dynamic",
                    "RedHatAI/Qwen3-4B-quantized.w4a16",
                    "mlx-community/Qwen3-4B-4bit-DWQ",
                ],
            ),
            (
                "DeepSeek-R1-0528-Qwen3-8B",
                &[
                    "DeepSeek R1 0528 Qwen3 8B",
                    "deepseek-ai_DeepSeek-R1-0528-Qwen3-8B-Q6_K_L.gguf",
                    "unsloth/DeepSeek-R1-0528-Qwen3-8B-GGUF",
                ],
            ),
            (
                "gpt-oss-20b",
                &[
                    "openai/gpt-oss-20b",
                    "Openai_Gpt Oss 20b",
                    "Gpt-Oss-20B",
                    "ggml-org/gpt-oss-20b-mxfp4.gguf",
                    "openai_gpt-oss-20b-MXFP4_MOE.gguf",
                    "gpt-oss-20b-MXFP4-00001-of-00002.gguf",
                ],
            ),
        ] {
            for model in models {
                assert_eq!(Profile::of(model).name, name, "{model}");
            }
        }
    }

    /// More training, less of it or another size make another model.
    #[test]
    fn other_models_inherit_nothing() {
        for model in [
            "",
            "gguf",
            "Q4_K_M.gguf",
            "Qwen/Qwen3-4B-Base",
            "Qwen/Qwen3-4B-Instruct-2507",
            "Qwen/Qwen3-4B-Thinking-2507",
            "Qwen3-4B-Thinking-2507-FP8",
            "unsloth/Qwen3-4B-Instruct-2507-GGUF:UD-Q4_K_XL",
            "unsloth/Qwen3-4B-128K-GGUF",
            "Qwen3-4B-abliterated.Q4_K_M.gguf",
            "Qwen/Qwen3-Embedding-4B",
            "Qwen-34B",
            "Qwen/Qwen3-14B",
            "Qwen/Qwen3-8B",
            "someone/My-Qwen3-4B",
            "HuggingFaceTB/SmolLM3-3B-Base",
            "HuggingFaceTB/SmolLM3-3B-checkpoints",
            "SmolLM2-135M-Instruct",
            "deepseek-ai/DeepSeek-R1",
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
            "openai/gpt-oss-120b",
            "openai/gpt-oss-safeguard-20b",
            "huihui-ai/Huihui-gpt-oss-20b-BF16-abliterated",
            "acorns",
        ] {
            assert!(!Profile::of(model).is_calibrated(), "{model} is taken for {}", Profile::of(model).name);
        }
    }

    #[test]
    fn the_tokenizer_tells_how_reasoning_is_closed() {
        let end = |tokens: &[&str]| reasoning_end(|token| Ok::<_, ()>(tokens.contains(&token))).unwrap();
        assert_eq!(end(&["<|channel|>", "<|message|>"]), Some("<|channel|>final"));
        assert_eq!(end(&["<think>", "</think>"]), Some("</think>"));
        for mark in ["[/THINK]", "◁/think▷", "<|END_THINKING|>"] {
            assert_eq!(end(&["</s>", mark]), Some(mark));
        }
        assert_eq!(end(&["<|im_end|>"]), None);
    }
}
