//! Parameters of OpenAI's API, vLLM and llama-server that are not served here, and those that nobody knows.
//!
//! A client must not believe that it was heard when it was not. A parameter in this table is refused by its name, unless its
//! value asks for nothing or whatever it says changes no answer. One that is in no table is named in a header of the answer.
//! What is served is in [`request::Body`](crate::request::Body).

use axum::http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::error::ApiError;

/// When a parameter may be there.
#[derive(Debug, Clone, Copy)]
enum Accepted {
    /// Always: it changes no answer.
    Always,
    /// With one of these values (JSON), or null: they ask for nothing.
    Only(&'static [&'static str]),
}

use Accepted::{Always, Only};

const NULL: Accepted = Only(&[]);
const FALSE: Accepted = Only(&["false"]);
const TRUE: Accepted = Only(&["true"]);
const ZERO: Accepted = Only(&["0"]);
const ONE: Accepted = Only(&["1"]);
const NONE: Accepted = Only(&["[]", "{}", "\"\""]);

/// Where the same name means something else in two of them, the more careful reading holds.
const KNOWN: &[(&str, Accepted)] = &[
    // OpenAI
    ("model", Always),
    ("user", Always),
    ("metadata", Always),
    ("store", Always),
    ("service_tier", Always),
    ("safety_identifier", Always),
    ("prompt_cache_key", Always),
    ("prompt_cache_retention", Always),
    // A guess of the answer, which only saves time.
    ("prediction", Always),
    ("tools", NONE),
    ("functions", NONE),
    ("tool_choice", Only(&["\"none\"", "\"auto\""])),
    ("function_call", Only(&["\"none\"", "\"auto\""])),
    // Without tools there is nothing to be called at once.
    ("parallel_tool_calls", Always),
    ("response_format", Only(&[r#"{"type":"text"}"#])),
    ("modalities", Only(&[r#"["text"]"#])),
    ("audio", NULL),
    ("verbosity", Only(&["\"medium\""])),
    ("web_search_options", NULL),
    ("echo", FALSE),
    ("suffix", NONE),
    ("moderation", NULL),
    // vLLM
    ("use_beam_search", FALSE),
    ("length_penalty", ONE),
    ("early_stopping", FALSE),
    ("include_stop_str_in_output", FALSE),
    ("skip_special_tokens", TRUE),
    ("spaces_between_special_tokens", TRUE),
    ("truncate_prompt_tokens", NULL),
    ("truncation_side", NULL),
    ("prompt_logprobs", NULL),
    ("prompt_embeds", NONE),
    ("allowed_token_ids", NULL),
    ("bad_words", NONE),
    ("add_generation_prompt", TRUE),
    ("continue_final_message", FALSE),
    ("add_special_tokens", NULL),
    ("documents", NONE),
    ("chat_template", NULL),
    ("chat_template_content_format", Only(&["\"auto\"", "\"string\""])),
    ("mm_processor_kwargs", NONE),
    ("media_io_kwargs", NONE),
    ("structured_outputs", NULL),
    ("guided_json", NULL),
    ("guided_regex", NULL),
    ("guided_choice", NULL),
    ("guided_grammar", NULL),
    ("guided_decoding_backend", Always),
    ("guided_whitespace_pattern", Always),
    ("structural_tag", NULL),
    ("include_reasoning", TRUE),
    ("thinking_token_budget", NULL),
    ("priority", ZERO),
    ("request_id", Always),
    ("cache_salt", Always),
    ("return_tokens_as_token_ids", FALSE),
    ("return_token_ids", FALSE),
    ("return_prompt_text", FALSE),
    ("logprob_token_ids", NULL),
    ("flat_logprobs", FALSE),
    ("logits_processors", NONE),
    ("repetition_detection", NULL),
    ("kv_transfer_params", NULL),
    ("ec_transfer_params", NULL),
    ("vllm_xargs", NONE),
    // llama-server
    ("n_predict", Only(&["-1"])),
    ("n_cmpl", ONE),
    ("n_indent", ZERO),
    ("n_keep", ZERO),
    ("n_discard", ZERO),
    ("t_max_predict_ms", Only(&["0", "-1"])),
    ("t_max_prompt_ms", Only(&["0", "-1"])),
    ("repeat_penalty", ONE),
    // These say how another one works, which is refused where it is switched on.
    ("repeat_last_n", Always),
    ("penalize_nl", Always),
    ("dynatemp_range", ZERO),
    ("dynatemp_exponent", Always),
    ("typical_p", ONE),
    ("tfs_z", ONE),
    ("top_n_sigma", Only(&["-1", "0"])),
    ("xtc_probability", ZERO),
    ("xtc_threshold", Always),
    ("dry_multiplier", ZERO),
    ("dry_base", Always),
    ("dry_allowed_length", Always),
    ("dry_penalty_last_n", Always),
    ("dry_sequence_breakers", Always),
    ("mirostat", ZERO),
    ("mirostat_tau", Always),
    ("mirostat_eta", Always),
    ("adaptive_target", Only(&["-1"])),
    ("adaptive_decay", Always),
    ("min_keep", ZERO),
    ("samplers", NULL),
    ("backend_sampling", Always),
    ("grammar", NONE),
    ("grammar_lazy", Always),
    ("grammar_triggers", Always),
    ("preserved_tokens", NONE),
    ("json_schema", NULL),
    ("n_probs", ZERO),
    ("post_sampling_probs", FALSE),
    ("return_tokens", FALSE),
    ("return_progress", FALSE),
    ("timings_per_token", FALSE),
    ("response_fields", NONE),
    ("lora", NONE),
    ("image_data", NONE),
    ("input_prefix", NONE),
    ("input_suffix", NONE),
    ("input_extra", NONE),
    ("id_slot", Only(&["-1"])),
    ("cache_prompt", Always),
    ("n_cache_reuse", Always),
    ("sse_ping_interval", Always),
    ("speculative.n_max", Always),
    ("speculative.n_min", Always),
    ("speculative.p_min", Always),
    ("speculative.type", Always),
    ("reasoning_format", Only(&["\"none\""])),
    ("reasoning_in_content", TRUE),
    ("thinking_forced_open", FALSE),
    ("parse_tool_calls", FALSE),
    ("reasoning_budget", Only(&["-1"])),
    ("reasoning_budget_tokens", Only(&["-1"])),
];

/// The same for a turn of a conversation.
const KNOWN_OF_A_TURN: &[(&str, Accepted)] = &[
    ("tool_calls", NONE),
    ("tool_call_id", NONE),
    ("function_call", NULL),
    ("refusal", NONE),
    ("audio", NULL),
    ("annotations", NONE),
];

/// Refuses what is known and would have to be followed; returns the names that are not known.
pub fn check(rest: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    look_up(KNOWN, "", rest)
}

/// The same for a turn of a conversation.
pub fn check_turn(rest: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    look_up(KNOWN_OF_A_TURN, "messages.", rest)
}

fn look_up(
    table: &[(&str, Accepted)],
    place: &str,
    rest: &Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    let mut unknown = Vec::new();
    for (name, value) in rest {
        match table.iter().find(|(known, _)| known == name) {
            None => unknown.push(format!("{place}{name}")),
            Some((_, accepted)) if accepted.allows(value) => {}
            Some(_) => return Err(ApiError::unsupported(&format!("{place}{name}"))),
        }
    }
    Ok(unknown)
}

impl Accepted {
    fn allows(self, value: &Value) -> bool {
        match self {
            Always => true,
            Only(quiet) => value.is_null() || quiet.iter().any(|json| is(value, json)),
        }
    }
}

/// 1 and 1.0 are one number.
fn is(value: &Value, json: &str) -> bool {
    let quiet: Value = serde_json::from_str(json).unwrap_or_default();
    match (value.as_f64(), quiet.as_f64()) {
        (Some(value), Some(quiet)) => value == quiet,
        _ => *value == quiet,
    }
}

/// Bytes of the header's value, and of a name in it.
const LONGEST: usize = 500;
const LONGEST_NAME: usize = 50;

/// The header that names what was ignored, where something was. Names come from strangers: what is not a plain letter becomes
/// a question mark, and a long list ends in dots.
pub fn ignored(names: &[String]) -> Option<[(HeaderName, HeaderValue); 1]> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '?' };
    let mut list = String::new();
    for name in names {
        let name: String = name.chars().take(LONGEST_NAME).map(plain).collect();
        if list.len() + name.len() > LONGEST {
            list.push_str(", ...");
            break;
        }
        list.push_str(if list.is_empty() { "" } else { ", " });
        list.push_str(&name);
    }
    let value = HeaderValue::from_str(&list).ok().filter(|_| !names.is_empty())?;
    Some([(HeaderName::from_static("x-eager-ignored"), value)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(body: Value) -> Result<Vec<String>, Option<String>> {
        check(body.as_object().unwrap()).map_err(|error| error.param)
    }

    #[test]
    fn every_row_is_json_and_stands_once() {
        let mut names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for (name, accepted) in KNOWN {
            if let Only(quiet) = accepted {
                assert!(quiet.iter().all(|json| serde_json::from_str::<Value>(json).is_ok()), "{name}");
            }
            assert_eq!(checked(json!({ *name: null })), Ok(vec![]), "{name}");
        }
    }

    #[test]
    fn what_asks_for_something_is_refused_by_name() {
        let quiet = json!({"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "typical_p": 1.0,
            "echo": false, "suffix": "", "user": "me", "metadata": {"a": "b"}, "store": true, "n_predict": -1});
        assert_eq!(checked(quiet), Ok(vec![]));
        for (name, value) in [
            ("tools", json!([{"type": "function"}])),
            ("tool_choice", json!("required")),
            ("response_format", json!({"type": "json_object"})),
            ("guided_json", json!({})),
            ("structured_outputs", json!({"choice": ["a"]})),
            ("allowed_token_ids", json!([])),
            ("mirostat", json!(2)),
            ("typical_p", json!(0.9)),
            ("n_predict", json!(5)),
            ("grammar", json!("root ::= \"a\"")),
            ("return_token_ids", json!(true)),
        ] {
            assert_eq!(checked(json!({ name: value })), Err(Some(name.to_owned())), "{name}");
        }
    }

    #[test]
    fn what_is_unknown_is_named_in_plain_letters() {
        let unknown = checked(json!({"tempature": 1, "user": "me"})).unwrap();
        assert_eq!(ignored(&unknown).unwrap()[0].1, "tempature");
        assert!(ignored(&[]).is_none());
        assert_eq!(ignored(&["".into(), "a\r\nb: c".into(), "é".into()]).unwrap()[0].1, "a??b??c, ?");
        let many: Vec<String> = (0..1000).map(|i| format!("{i:0>100}")).collect();
        let header = &ignored(&many).unwrap()[0].1;
        assert!(header.len() < LONGEST + 60 && header.to_str().unwrap().ends_with(", ..."));
    }
}
