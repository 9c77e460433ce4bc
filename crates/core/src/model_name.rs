//! The name of a model, without what only says where a copy of it lies and how it is packed.
//!
//! One model goes by many names: `Qwen/Qwen3-4B`, `Qwen_Qwen3-4B-Q4_K_M.gguf`, `unsloth/Qwen3-4B-GGUF:UD-Q4_K_XL`. What it
//! was trained into is part of its name all the same: `Qwen3-4B-Base` is another model. So only words that are known to
//! speak of the file are taken off, from the end, and whatever is left has to be the name.

/// Words that say how a model is packed, and nothing about what it is.
const PACKAGING: [&str; 20] = [
    "gguf",
    "ggml",
    "safetensors",
    "ud",
    "i1",
    "imat",
    "imatrix",
    "awq",
    "gptq",
    "bnb",
    "unsloth",
    "mlx",
    "quantized",
    "exl2",
    "exl3",
    "hqq",
    "dwq",
    "autoround",
    "marlin",
    "torchao",
];

/// Words that only follow a quantised type, as in `Q4_K_M`, `IQ2_XXS`, `Q4_0_4_4`, `MXFP4_MOE` and `FP8-dynamic`.
const VARIANTS: [&str; 15] =
    ["k", "s", "m", "l", "xl", "xs", "xxs", "nl", "0", "1", "4", "8", "moe", "dynamic", "kv"];

/// The words of a model's name, in lower case. `name` may be a path, a name on the hub or what the model calls itself.
pub(crate) fn words(name: &str) -> Vec<String> {
    let file = name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let words = file.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    while let Some(kept) = without_packaging(&words) {
        words.truncate(kept);
    }
    words
}

/// How many words are left when the last one that is about packaging is taken off; `None` where there is none.
fn without_packaging(words: &[String]) -> Option<usize> {
    let last = words.last()?;
    if PACKAGING.contains(&last.as_str()) {
        return Some(words.len() - 1);
    }
    if let [.., part, of, parts] = words
        && of == "of"
        && [part, parts].iter().all(|number| number.len() == 5 && number.bytes().all(|b| b.is_ascii_digit()))
    {
        return Some(words.len() - 3);
    }
    let variants = words.iter().rev().take_while(|word| VARIANTS.contains(&word.as_str())).count();
    let kept = words.len().checked_sub(variants + 1)?;
    is_type(&words[kept]).then_some(kept)
}

/// Is this how numbers are stored: `q4`, `iq3`, `bf16`, `mxfp4`, `int8`, `w4a16`, `4bit`?
fn is_type(word: &str) -> bool {
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let after = |prefix: &&str| word.strip_prefix(*prefix).is_some_and(is_number);
    let weights_and_activations = || word.strip_prefix('w')?.split_once('a');
    ["q", "iq", "tq", "f", "fp", "bf", "mxfp", "nvfp", "int"].iter().any(after)
        || word.strip_suffix("bit").is_some_and(is_number)
        || weights_and_activations()
            .is_some_and(|(weights, activations)| is_number(weights) && is_number(activations))
}
