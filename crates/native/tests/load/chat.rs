//! Chat templates render as `transformers` would render them.

use super::{acorn_folder, acorn_gguf, smollm2};
use eager_native::load::{ChatOptions, ChatTemplate, Effort, Message};

fn user(text: &str) -> Vec<Message> {
    vec![Message::new("user", text)]
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, Some("<s>".into()), Some("</s>".into()), "test.jinja")
}

fn render(source: &str) -> Result<String, String> {
    template(source).render(&user("hi"), &ChatOptions::default()).map_err(|e| e.to_string())
}

fn with(variable: &str, value: impl Into<serde_json::Value>) -> ChatOptions {
    let mut options = ChatOptions::default();
    options.variables.insert(variable.into(), value.into());
    options
}

#[test]
fn acorn_speaks_chatml() {
    let expected = "<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n";
    for checkpoint in [acorn_gguf(), acorn_folder()] {
        let chat = checkpoint.chat.unwrap();
        assert_eq!(chat.render(&user("What is 1 + 1?"), &ChatOptions::default()).unwrap(), expected);
    }
}

#[test]
fn smollm2_introduces_itself() {
    let Some(checkpoint) = smollm2() else { return };
    let text = checkpoint.chat.unwrap().render(&user("What is 17 + 25?"), &ChatOptions::default()).unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
         <|im_start|>user\nWhat is 17 + 25?<|im_end|>\n<|im_start|>assistant\n"
    );
}

/// Written for this test, with the constructions that templates of reasoning models use.
const REASONER: &str = r#"
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not (message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '[assistant]<think>' + thought.strip('\n') + '</think>' + content + '\n' }}
        {%- else %}
            {{- '[assistant]' + content + '\n' }}
        {%- endif %}
    {%- else %}
        {{- '[' + message.role + ']' + message['content'] + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '[assistant]' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think></think>' }}
    {%- endif %}
{%- endif %}
"#;

#[test]
fn earlier_thoughts_are_dropped() {
    let messages = [
        Message::new("user", "one?"),
        Message::new("assistant", "<think>\nhm\n</think>\n\n1"),
        Message::new("user", "two?"),
        Message::new("assistant", "<think>\nhm hm\n</think>\n\n2"),
        Message::new("user", "<tool>x</tool>"),
    ];
    let chat = template(REASONER);
    let expected = "[user]one?\n[assistant]1\n[user]two?\n[assistant]<think>hm hm</think>2\n\
                    [user]<tool>x</tool>\n[assistant]";
    assert_eq!(chat.render(&messages, &ChatOptions::default()).unwrap(), expected);
    let quick = chat.render(&messages[..1], &with("enable_thinking", false)).unwrap();
    assert_eq!(quick, "[user]one?\n[assistant]<think></think>");
    let slow = chat.render(&messages[..1], &with("enable_thinking", true)).unwrap();
    assert_eq!(slow, "[user]one?\n[assistant]");
    let closed = ChatOptions { add_generation_prompt: false, ..ChatOptions::default() };
    assert_eq!(chat.render(&messages[..1], &closed).unwrap(), "[user]one?\n");
}

#[test]
fn variables_and_functions_of_transformers_are_there() {
    assert_eq!(render("{{ bos_token }}x{{ eos_token }}").unwrap(), "<s>x</s>");
    assert_eq!(render("{% if tools is not none %}tools{% endif %}.").unwrap(), ".");
    assert_eq!(render("{{ nothing }}.{% if nothing %}!{% endif %}").unwrap(), ".");
    assert_eq!(render("{{ strftime_now('%Y')|length }}").unwrap(), "4");
    assert!(render("{{ strftime_now('%') }}").is_err());
    assert_eq!(render("{% generation %}a{% endgeneration %}b").unwrap(), "ab");
    assert_eq!(
        render("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}").unwrap(),
        "1"
    );
    assert_eq!(
        render("{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}")
            .unwrap(),
        "hi\n"
    );
    assert_eq!(render("{{ messages[0]['content']|trim }}<b>").unwrap(), "hi<b>");
    assert_eq!(
        render("{{ {'a': 1}.get('b', 2) }}{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}")
            .unwrap(),
        "2a1"
    );
}

#[test]
fn json_is_spaced_as_python_spaces_it() {
    let chat = template("{{ tools|tojson }}");
    let tools = serde_json::json!([{"a": [1, 2.5, null, true], "b": {}, "ü": "<&'\">"}]);
    let text = chat.render(&[], &with("tools", tools.clone())).unwrap();
    assert_eq!(text, r#"[{"a": [1, 2.5, null, true], "b": {}, "ü": "<&'\">"}]"#);
    let indented = template("{{ tools|tojson(indent=2) }}").render(&[], &with("tools", tools)).unwrap();
    assert!(indented.starts_with("[\n  {\n    \"a\": [\n      1,\n"), "{indented}");
    assert!(indented.contains("\"b\": {},\n"), "{indented}");
    for (source, expected) in [
        ("{{ {'b': 1, 'a': [1, {}]}|tojson(separators=(',', ':')) }}", r#"{"b":1,"a":[1,{}]}"#),
        (
            "{{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true) }}",
            r#"{"a": {"c": 2, "d": 1}, "b": 1}"#,
        ),
        ("{{ 'ü🌳'|tojson(ensure_ascii=true) }}", r#""\u00fc\ud83c\udf33""#),
        ("{{ [1.0, 1e-7, 1e22]|tojson }}", "[1.0, 1e-07, 1e+22]"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
    assert!(render("{{ 1|tojson(colour=2) }}").is_err());
}

#[test]
fn values_print_as_python_prints_them() {
    for (source, expected) in [
        ("{{ true }} {{ none }} {{ 1.0 }} {{ missing }}", "True None 1.0 "),
        ("{{ ['a', \"it's\", 1, none, {'k': false}] }}", "['a', \"it's\", 1, None, {'k': False}]"),
        ("{{ (1 == 1)|string + '!' }}", "True!"),
        ("{{ missing|length }}", "0"),
        ("{{ none is iterable }} {{ 'a' is iterable }} {{ [1] is sequence }}", "False True True"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn thinking_and_effort_are_options() {
    let chat = template("{{ enable_thinking }} {{ thinking }} {{ reasoning_effort }}");
    let said = |options: &ChatOptions| chat.render(&[], options).unwrap();
    assert_eq!(said(&ChatOptions::default()), "  ");
    assert_eq!(said(&ChatOptions { thinking: Some(false), ..ChatOptions::default() }), "False False ");
    let effort = Some("high".parse::<Effort>().unwrap());
    assert_eq!(said(&ChatOptions { reasoning_effort: effort, ..ChatOptions::default() }), "  high");
    assert!("extreme".parse::<Effort>().is_err());
}

#[test]
fn a_thought_is_found_under_the_names_that_templates_ask_for() {
    let chat = template("{{ messages[0].thinking }}|{{ messages[0].reasoning_content }}");
    for name in ["thinking", "reasoning", "reasoning_content"] {
        let message = Message::new("assistant", "42").with(name, "hm");
        assert_eq!(chat.render(&[message], &ChatOptions::default()).unwrap(), "hm|hm", "{name}");
    }
    assert_eq!(chat.render(&user("hi"), &ChatOptions::default()).unwrap(), "|");
}

#[test]
fn the_clock_can_be_set() {
    let now = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_751_630_400);
    let options = ChatOptions { now: Some(now), ..ChatOptions::default() };
    let text = template("{{ strftime_now('%d %b %Y') }}").render(&[], &options).unwrap();
    assert_eq!(text, "04 Jul 2025");
}

#[test]
fn a_template_that_fails_says_why() {
    let raised = render("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(raised, "test.jinja: the chat template failed: roles must alternate (line 1)");
    assert!(render("{% if %}").unwrap_err().contains("test.jinja"));
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}\
                   {% endfor %}{% endfor %}{% endfor %}";
    assert!(render(endless).unwrap_err().contains("fuel"));
    assert!(render("{{ range(99999999999999)|list }}").is_err());
    assert!(render("{{ [1]|tojson(indent=99999999999999) }}").is_err());
    assert!(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").is_err());
}

#[test]
fn what_contains_itself_is_not_printed() {
    let own = "{% set ns = namespace() %}{% set ns.a = [{'b': ns}] %}";
    for print in ["{{ ns }}", "{{ ns.a }}", "{{ ns|tojson }}", "{{ ns|tojson(indent=1) }}", "{{ [ns]|list }}"]
    {
        let error = render(&format!("{own}{print}")).unwrap_err();
        assert!(error.contains("contains itself"), "{print}: {error}");
    }
    let nest = |depth: usize, print: &str| {
        let grow = "{% set ns.a = [ns.a] %}".repeat(depth);
        render(&format!("{{% set ns = namespace(a=1) %}}{grow}{print}"))
    };
    for print in ["{{ ns.a }}", "{{ ns.a|tojson }}"] {
        assert_eq!(nest(100, print).unwrap(), format!("{}1{}", "[".repeat(100), "]".repeat(100)));
        assert!(nest(1000, print).unwrap_err().contains("too deeply"));
    }
}

#[test]
fn what_is_too_long_is_not_printed() {
    assert!(render("{{ 'x' * 10**14 }}").unwrap_err().contains("too large"));
    assert_eq!(render("{{ 'x' * 10**7 }}").unwrap().len(), 10_000_000);
    let doubled = "{% set ns = namespace(a=1) %}".to_owned() + &"{% set ns.a = [ns.a, ns.a] %}".repeat(60);
    for long in [
        "{{ 'x' * 10**8 }}",
        "{% for i in range(9999) %}{{ 'x' * 10**4 }}{% endfor %}",
        "{{ ('x' * 10**8)|tojson }}",
        &format!("{doubled}{{{{ ns.a }}}}"),
        &format!("{doubled}{{{{ ns.a|tojson }}}}"),
    ] {
        let error = render(long).unwrap_err();
        assert!(error.contains("more than 16 MiB"), "{error}");
    }
}

#[test]
fn lazy_lists_print_and_serialise() {
    let upper = "messages|map(attribute='content')|map('upper')";
    assert_eq!(render(&format!("{{{{ {upper}|tojson }}}}")).unwrap(), r#"["HI"]"#);
    assert_eq!(render(&format!("{{{{ {upper}|list|tojson }}}}")).unwrap(), r#"["HI"]"#);
    assert_eq!(
        render("{{ range(3) }} {{ messages|reverse|tojson }}").unwrap(),
        "[0, 1, 2] [{\"role\": \"user\", \"content\": \"hi\"}]"
    );
    assert_eq!(render("{{ {1: 2, 'a': none}|tojson }}").unwrap(), r#"{"1": 2, "a": null}"#);
}
