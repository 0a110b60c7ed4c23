"""POST /v1/chat/completions as its users call it. Numbers in comments are the user cases that a test stands for."""

import re

import httpx
import pytest

from streams import chat_text, finish_reasons, post_stream

CHAT = "/v1/chat/completions"


def ask(text: str, **fields) -> dict:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24} | fields


def answer(http: httpx.Client, body: dict) -> dict:
    response = http.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_knows_the_capital_of_france(http):
    body = answer(http, ask("What is the capital of France?"))
    assert "Paris" in body["choices"][0]["message"]["content"]
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")


@pytest.mark.parametrize(
    "prompt",
    ["Write a Python function with a nested function inside.", "Say something in Chinese with an emoji.", "Count to ten."],
)
def test_stream_equals_whole_answer_byte_for_byte(http, prompt):  # 12
    body = ask(prompt, max_tokens=48)
    whole = answer(http, body)["choices"][0]
    chunks, done = post_stream(http, CHAT, body)
    assert done
    assert chat_text(chunks) == whole["message"]["content"]
    assert finish_reasons(chunks) == [whole["finish_reason"]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert all("�" not in (item["delta"].get("content") or "") for chunk in chunks for item in chunk["choices"])


def test_end_of_turn_is_neither_text_nor_counted(http):  # 6
    body = ask("What is the capital of France?", max_tokens=200, return_token_ids=True)
    whole = answer(http, body)
    choice = whole["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert "<|im_end|>" not in choice["message"]["content"]
    assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"]
    chunks, _ = post_stream(http, CHAT, body | {"stream_options": {"include_usage": True}})
    streamed = [token for chunk in chunks for item in chunk["choices"] for token in item.get("token_ids", [])]
    assert streamed == choice["token_ids"]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_stop_string_inside_the_answer(http):  # 3
    text = answer(http, ask("Count from one to ten in words.", max_tokens=40))["choices"][0]["message"]["content"]
    assert len(text) > 12
    stop = text[5:11]  # wherever the tokens end
    expected = text[: text.index(stop)]
    body = ask("Count from one to ten in words.", max_tokens=40, stop=[stop])
    choice = answer(http, body)["choices"][0]
    assert choice["message"]["content"] == expected
    assert choice["finish_reason"] == "stop"
    chunks, done = post_stream(http, CHAT, body)
    assert done
    assert chat_text(chunks) == expected
    assert finish_reasons(chunks) == ["stop"]


def test_usage_chunk_only_when_asked_for(http):  # 35
    chunks, _ = post_stream(http, CHAT, ask("Hi", max_tokens=4))
    assert all(chunk.get("usage") is None for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)
    chunks, done = post_stream(http, CHAT, ask("Hi", max_tokens=4, stream_options={"include_usage": True}))
    assert done
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    assert with_usage == [chunks[-1]]
    assert chunks[-1]["choices"] == []
    usage = chunks[-1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("fields", [{"max_tokens": 1}, {"max_tokens": 3}, {"n": 2, "max_tokens": 3}, {"stop": ["a", "e"]}])
def test_every_choice_ends_in_one_finish_reason_and_the_stream_in_done(http, fields):  # 36
    chunks, done = post_stream(http, CHAT, ask("Tell me a story.", **fields))
    assert done
    for choice in range(fields.get("n", 1)):
        assert len(finish_reasons(chunks, choice)) == 1


def test_choices_are_independent_and_seeded(http):
    body = ask("Name a colour.", temperature=1.5, seed=11, n=3, max_tokens=12)
    first = [choice["message"]["content"] for choice in answer(http, body)["choices"]]
    again = [choice["message"]["content"] for choice in answer(http, body)["choices"]]
    assert first == again
    assert len(set(first)) > 1
    chunks, _ = post_stream(http, CHAT, body)
    assert [chat_text(chunks, choice) for choice in range(3)] == first


def test_tool_choice_required_without_tools_is_refused_and_none_makes_no_calls(http):  # 33
    response = http.post(CHAT, json=ask("Hi", tool_choice="required"))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tool_choice"
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
    choice = answer(http, ask("Weather in Paris?", tools=[tool], tool_choice="none"))["choices"][0]
    assert not choice["message"].get("tool_calls")
    assert "<tool_call>" not in choice["message"]["content"]


def test_lone_surrogate_is_the_clients_fault(http):  # 13
    response = http.post(
        CHAT,
        content=rb'{"messages": [{"role": "user", "content": "\uD800"}], "max_tokens": 1}',
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_prompt_over_the_context_is_refused_with_both_numbers(http):  # 62
    context = http.get("/stats").json()["memory"]["max_context"]
    response = http.post(CHAT, json=ask("word " * (context + 1)))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "context_length_exceeded"
    numbers = [int(number) for number in re.findall(r"\d+", error["message"])]
    assert context in numbers
    assert max(numbers) > context


def test_text_far_over_the_context_is_refused_without_being_tokenized(http):  # 62
    response = http.post(CHAT, json=ask("x" * 10_000_000))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "context_length_exceeded"
    context = http.get("/stats").json()["memory"]["max_context"]
    assert re.fullmatch(
        rf"this model's context is {context} tokens, but the prompt has at least \d+; shorten it", error["message"]
    )


def test_other_models_are_not_found_and_nothing_is_loaded(http, model):  # 92
    for name in ["gpt-4", "../../etc/passwd", "org/other"]:
        response = http.post(CHAT, json=ask("Hi", model=name))
        assert response.status_code == 404
        error = response.json()["error"]
        assert error["code"] == "model_not_found"
        assert model in error["message"]
    for name in [model, "", "default"]:
        assert answer(http, ask("Hi", model=name, max_tokens=1))["model"] == model


def test_an_error_fails_its_request_only(http):  # 47
    context = http.get("/stats").json()["memory"]["max_context"]
    bad = [ask("word " * (context + 1)), {"messages": "no list"}, {"messages": [{"role": "nobody", "content": "x"}]}]
    for body in bad:
        assert http.post(CHAT, json=body).status_code == 400
        assert http.post(CHAT, json=ask("Hi", max_tokens=1)).status_code == 200
        assert http.get("/health").json() == {"status": "ok"}


def test_unknown_fields_are_named_in_a_header(http):
    response = http.post(CHAT, json=ask("Hi", max_tokens=1, made_up=True))
    assert response.status_code == 200
    assert "made_up" in response.headers["x-redpoll-warnings"]
    assert response.headers["x-request-id"]


def test_template_error_is_a_400(http):
    response = http.post(CHAT, json={"messages": [], "max_tokens": 1})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages"


def test_min_tokens_and_ignore_eos(http):
    body = ask("What is the capital of France?", max_tokens=60, ignore_eos=True)
    whole = answer(http, body)
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 60
    short = answer(http, ask("What is the capital of France?", max_tokens=60))
    assert short["usage"]["completion_tokens"] < 30
    longer = answer(http, ask("What is the capital of France?", max_tokens=60, min_tokens=30))
    assert longer["usage"]["completion_tokens"] >= 30


def test_timings_add_up(http):
    timings = answer(http, ask("Tell me a story."))["timings"]
    assert timings["queue_ms"] >= 0
    assert timings["prefill_ms"] > 0
    assert timings["decode_ms"] > 0
    assert timings["ttft_ms"] == pytest.approx(timings["queue_ms"] + timings["prefill_ms"], abs=5)
