"""The official openai package for Python against a real server: python check.py http://127.0.0.1:PORT/v1"""

import sys
import time
import urllib.request

import openai

BASE = sys.argv[1]
HARD = [{"role": "user", "content": "Using each of 5, 8, 30, 43, 28 exactly once, make 68."}]
EASY = [{"role": "user", "content": "What is 888 * 27 + 271?"}]
client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)


def chat(messages=EASY, **more):
    return client.chat.completions.create(model="acorn", messages=messages, **more)


def metric(name):
    with urllib.request.urlopen(BASE.removesuffix("/v1") + "/metrics") as page:
        lines = page.read().decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(name + " ")]
    return int(value)


def check_models():
    assert [model.id for model in client.models.list()] == ["acorn"]
    assert client.models.retrieve("acorn").object == "model"


def check_chat():
    answer = chat(temperature=0)
    assert answer.choices[0].message.content.endswith("\\boxed{24247}"), answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def check_completion():
    answer = client.completions.create(model="acorn", prompt=["1+1=", "2+2="], max_tokens=8, temperature=0)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(choice.finish_reason == "length" for choice in answer.choices)


def check_streaming():
    whole = chat(HARD, n=8, seed=3)
    texts, ends, usage = {}, {}, None
    for chunk in chat(HARD, n=8, seed=3, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            ends[choice.index] = choice.finish_reason or ends.get(choice.index)
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert ends == {choice.index: choice.finish_reason for choice in whole.choices}
    assert usage == whole.usage
    pieces = client.completions.create(model="acorn", prompt="1+1=", max_tokens=8, seed=1, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices)


def check_n():
    answer = chat(HARD, n=8, seed=3, extra_body={"eager": {}})
    assert 1 < len(answer.choices) <= 8
    assert [choice.index for choice in answer.choices] == list(range(len(answer.choices)))
    told = answer.eager
    assert told["tokens_decoded"] < told["tokens_full_parallel"]
    best = chat(HARD, n=8, seed=3, extra_body={"eager": {"vote": "majority"}})
    assert len(best.choices) == 1 and best.eager["votes"][0][0]["count"] >= 1


def check_stop():
    whole = chat(temperature=0).choices[0].message.content
    for stop in ["=", ["never", "</think>"]]:
        choice = chat(temperature=0, stop=stop).choices[0]
        first = min(whole.find(s) for s in ([stop] if isinstance(stop, str) else stop) if s in whole)
        assert (choice.message.content, choice.finish_reason) == (whole[:first], "stop")


def check_seed():
    def texts(seed):
        return [choice.message.content for choice in chat(HARD, n=4, seed=seed).choices]

    assert texts(11) == texts(11) and texts(11) != texts(12)


def check_logprobs():
    choice = chat(logprobs=True, top_logprobs=4, temperature=0).choices[0]
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 4 and token.top_logprobs[0].logprob == token.logprob
    choice = client.completions.create(model="acorn", prompt="1+1=", max_tokens=4, logprobs=2).choices[0]
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == 4


def check_sampling():
    def text(**more):
        return chat(HARD, max_tokens=40, temperature=1.5, **more).choices[0].message.content

    assert len({text(seed=seed, extra_body={"top_k": 1}) for seed in range(6)}) == 1
    assert len({text(seed=seed) for seed in range(6)}) > 1
    assert text(seed=1, presence_penalty=2, frequency_penalty=2) != text(seed=1)
    # The text tells its tokens' ids to nobody, so every digit of the vocabulary's start is forbidden.
    assert text(seed=1, logit_bias={str(token): -100 for token in range(300)}) != text(seed=1)
    raw = client.chat.completions.with_raw_response.create(
        model="acorn", messages=EASY, max_tokens=2, extra_body={"tempature": 1}
    )
    assert raw.headers["x-eager-ignored"] == "tempature"


def check_errors():
    def fails(error, code=None, **more):
        try:
            chat(**more)
        except error as caught:
            assert caught.body["message"] and (code is None or caught.body["code"] == code), caught.body
        else:
            raise AssertionError(f"{more} did not fail")

    fails(openai.BadRequestError, n=10**9)
    fails(openai.BadRequestError, temperature=-1)
    fails(openai.BadRequestError, "context_length_exceeded", max_tokens=10**6)
    fails(openai.BadRequestError, "unsupported_parameter", tools=[{"type": "function", "function": {"name": "f"}}])
    fails(openai.BadRequestError, "unsupported_parameter", extra_body={"guided_json": {"type": "object"}})
    fails(openai.BadRequestError, "invalid_value", presence_penalty=5)
    try:
        client.models.retrieve("nothing")
    except openai.NotFoundError:
        pass


def check_cancel():
    before = metric("eager_tokens_decoded_total")
    stream = chat(HARD, n=64, stream=True, temperature=1.5, extra_body={"eager": {"method": "full-parallel"}})
    for at, _ in enumerate(stream):
        if at == 200:
            break
    stream.close()
    deadline = time.monotonic() + 5
    while metric("eager_prompts_growing") or metric("eager_kv_pages"):
        assert time.monotonic() < deadline, "the server decodes for nobody"
        time.sleep(0.02)
    assert metric("eager_tokens_decoded_total") - before < 20_000


for name, check in list(globals().items()):
    if name.startswith("check_"):
        check()
        print("python", openai.__version__, name.removeprefix("check_"), "ok", flush=True)
