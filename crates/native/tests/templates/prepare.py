"""Fetches chat templates of real models and says how `transformers` renders conversations with them.

    pip install transformers==5.22.2 jinja2==3.1.6
    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
    python3 prepare.py cases.json llama_cpp_python-0.3.36.tar.gz
    EAGER_TEST_TEMPLATES=cases.json cargo test --release -p eager-native --test templates

The templates are other people's, so they are fetched and never committed: the sources of PyPI's llama-cpp-python carry a
collection. Every template meets every conversation with every set of options. What `transformers` says is written down:
a text, or null where the template refuses the conversation. Where Python itself fails, in a template that did not expect
such a conversation, there is nothing to compare.
"""

import datetime
import json
import sys
import tarfile

import jinja2
import transformers.utils.chat_template_utils as reference


class Noon(datetime.datetime):
    """A clock that stands still, for templates that tell the date."""

    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 4, 12, 0, 0)


reference.datetime = Noon

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather", "description": "The weather at a place.\nNow, or on a \"given\" day.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A city, such as São Paulo"},
                "days": {"type": "integer", "description": "How many", "default": 1},
                "unit": {"type": "string", "enum": ["°C", "°F"]},
                "near": {"type": "array", "items": {"type": "number"}, "description": "Places <near> it"},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = say("system", "You are terse.\nAnswer in \\boxed{}.")
USER = say("user", "What is 17 + 25?")
WET = say("user", "Is it wet in Kyoto?")
ASKED = say("assistant", "", tool_calls=[call("get_weather", {"place": "京都", "days": 2, "near": [1, 2.5, 1e-7], "unit": None})])
ASKED_TWICE = say("assistant", "Let me see.", tool_calls=[call("get_weather", {"place": "Kyoto"}), call("now", {}, "call00002")])
TOLD = say("tool", "{\"rain\": true}", tool_call_id="call00001", name="get_weather")
THOUGHT = "<think>\nIt is 42.\n</think>\n\nThe answer is 42."

CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, say("assistant", "42"), say("user", "  And\ttwice that?\n\n")],
    "thought": [USER, say("assistant", THOUGHT), say("user", "Sure?")],
    "thought last": [USER, say("assistant", THOUGHT)],
    "reasoning field": [USER, say("assistant", "42", reasoning_content="17 + 25\nis 42"), say("user", "Sure?"), say("assistant", "Yes", reasoning_content="\nI am.\n")],
    "thinking field": [USER, say("assistant", "42", thinking="17 + 25 is 42"), say("user", "Sure?"), say("assistant", "Yes.", thinking="I am.")],
    "empty": [say("user", ""), say("assistant", ""), say("user", " ")],
    "unicode": [say("system", "Sei höflich. <|x|> & \"quotes\" 'single'"), say("user", "日本語 🌳 {{ not code }} {% raw %}")],
    "two users": [USER, WET],
    "assistant first": [say("assistant", "Hello."), USER],
    "system late": [USER, SYSTEM],
    "called": [SYSTEM, WET, ASKED, TOLD],
    "called and answered": [WET, ASKED, TOLD, say("assistant", "It is wet."), say("user", "Thanks.")],
    "called twice": [WET, ASKED_TWICE, TOLD, say("tool", "noon", tool_call_id="call00002", name="now"), say("assistant", "Wet at noon.")],
    "called while thinking": [WET, say("assistant", "", reasoning_content="I must look.", thinking="I must look.", tool_calls=[call("now", {})]), say("tool", "noon")],
    "arguments as text": [WET, say("assistant", None, tool_calls=[call("get_weather", "{\"place\": \"Kyoto\"}")]), TOLD],
    "parts": [say("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "17 + 25?"}])],
    "developer": [say("developer", "Be kind."), USER],
    "soft switch": [say("system", "Short. /no_think"), say("user", "17 + 25? /think")],
}
OPTIONS = {
    "plain": {},
    "closed": {"add_generation_prompt": False},
    "thinking": {"enable_thinking": True, "thinking": True},
    "not thinking": {"enable_thinking": False, "thinking": False},
    "low effort": {"reasoning_effort": "low"},
    "high effort": {"reasoning_effort": "high"},
    "tools": {"tools": [WEATHER, CLOCK]},
    "tools, not thinking": {"tools": [WEATHER], "enable_thinking": False, "thinking": False},
    "no tools": {"tools": []},
}


def render(source, messages):
    """By options."""
    found = {}
    for name, options in OPTIONS.items():
        options = {"add_generation_prompt": True, **options}
        try:
            rendered, _ = reference.render_jinja_template(
                [messages], chat_template=source, bos_token="<s>", eos_token="</s>", **options
            )
            found[name] = rendered[0]
        except Exception as error:
            if type(error) is jinja2.TemplateError:  # what `raise_exception` raises
                found[name] = None
    return found


def templates(archive):
    with tarfile.open(archive) as tar:
        for member in sorted(tar, key=lambda member: member.name):
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                yield member.name.rsplit("/", 1)[1].removesuffix(".jinja"), tar.extractfile(member).read().decode()


if __name__ == "__main__":
    out, archive = sys.argv[1:]
    found = [
        {
            "name": name,
            "source": source,
            "expected": {name: render(source, messages) for name, messages in CONVERSATIONS.items()},
        }
        for name, source in templates(archive)
    ]
    with open(out, "w") as file:
        json.dump({"conversations": CONVERSATIONS, "options": OPTIONS, "templates": found}, file)
    print(len(found), "templates,", sum(len(case) for one in found for case in one["expected"].values()), "cases")
