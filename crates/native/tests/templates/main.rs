//! Chat templates of real models render as `transformers` renders them.
//!
//! Every template at hand, with conversations that have system prompts, tools, tool calls and thoughts, and with the
//! switches for thinking; `prepare.py` fetches the templates and writes down what `transformers` makes of each. Where the
//! template refuses (two users in a row, perhaps), it must refuse us too.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use eager_native::load::{ChatOptions, ChatTemplate, Message};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Cases {
    conversations: BTreeMap<String, Vec<Message>>,
    options: BTreeMap<String, Map<String, Value>>,
    templates: Vec<Template>,
}

#[derive(Deserialize)]
struct Template {
    name: String,
    source: String,
    /// By conversation and options.
    expected: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

/// Those of the models that this engine is for: they must be among the checked.
const OURS: [&str; 12] = [
    "Qwen-Qwen3-0.6B",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-QwQ-32B",
    "Qwen3-Coder",
    "HuggingFaceTB-SmolLM3-3B",
    "openai-gpt-oss-120b",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "llama-cpp-deepseek-r1",
];

fn options(given: &Map<String, Value>) -> ChatOptions {
    let mut variables = given.clone();
    let add_generation_prompt = variables.remove("add_generation_prompt").is_none_or(|flag| flag == true);
    let effort = variables.remove("reasoning_effort").map(|effort| effort.as_str().unwrap().parse().unwrap());
    variables.remove("thinking");
    ChatOptions {
        add_generation_prompt,
        thinking: variables.remove("enable_thinking").and_then(|flag| flag.as_bool()),
        reasoning_effort: effort,
        tools: variables.remove("tools"),
        // Noon of 4 July 2025.
        now: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_751_630_400)),
        variables,
    }
}

/// The cases that come out otherwise.
fn differences(template: &Template, cases: &Cases) -> Vec<String> {
    let chat = ChatTemplate::new(&template.source, Some("<s>".into()), Some("</s>".into()), &template.name);
    let mut found = Vec::new();
    for (conversation, expected) in &template.expected {
        for (name, expected) in expected {
            let got = chat.render(&cases.conversations[conversation], &options(&cases.options[name]));
            let same = match (&got, expected) {
                (Ok(got), Some(expected)) => got == expected,
                (Err(_), None) => true,
                _ => false,
            };
            if !same {
                let got = got.unwrap_or_else(|e| format!("[{e}]"));
                let expected = expected.as_deref().unwrap_or("[an error]");
                let at = got.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
                let near = |text: &str| text.chars().skip(at.saturating_sub(20)).take(80).collect::<String>();
                found.push(format!(
                    "{}, {conversation}, {name}: {:?} instead of {:?}",
                    template.name,
                    near(&got),
                    near(expected)
                ));
            }
        }
    }
    found
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let Some(path) = std::env::var_os("EAGER_TEST_TEMPLATES") else {
        eprintln!("skipped: EAGER_TEST_TEMPLATES names no file that tests/templates/prepare.py has written");
        return;
    };
    let cases: Cases = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut all, mut exact, mut wrong, mut lines) = (0, 0, 0, Vec::new());
    for template in &cases.templates {
        let found = differences(template, &cases);
        let each: usize = template.expected.values().map(BTreeMap::len).sum();
        all += each;
        if found.is_empty() {
            exact += 1;
            continue;
        }
        eprintln!("{}: {} of {each} cases differ; the first: {}", template.name, found.len(), found[0]);
        wrong += found.len();
        lines.extend(found);
    }
    // On stderr, so that the log of a run tells what was checked.
    let count = cases.templates.len();
    eprintln!("checked {count} templates in {all} cases: {wrong} cases differ, {exact} templates have none");
    for name in OURS {
        assert!(cases.templates.iter().any(|template| template.name == name), "{name} was not checked");
    }
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}
