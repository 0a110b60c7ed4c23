"""What a conversation need not compute again, as its user sees it."""

import httpx
import pytest
from server_process import ServerProcess

LONG = "The quick brown fox jumps over the lazy dog near the river bank while it rains. " * 40


@pytest.fixture(scope="module")
def client():
    with ServerProcess("--context-length", "4096") as server:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            yield client


def ask(client, messages, **more) -> dict:
    body = {"messages": messages, "max_tokens": 16, "temperature": 0} | more
    return client.post("/v1/chat/completions", json=body).raise_for_status().json()


def cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_second_turn_computes_what_is_new(client):  # 55
    first = [{"role": "user", "content": LONG + "What did the fox do?"}]
    cold = ask(client, first)
    assert cached(cold) == 0
    warm = ask(client, first)
    assert cached(warm) == warm["usage"]["prompt_tokens"] - 1
    assert warm["choices"][0]["message"] == cold["choices"][0]["message"]
    second = first + [cold["choices"][0]["message"], {"role": "user", "content": "And the dog?"}]
    answer = ask(client, second)
    assert cached(answer) >= 0.95 * cold["usage"]["prompt_tokens"]
    assert answer["timings"]["cached_tokens"] == cached(answer)


def test_an_answer_that_the_server_ends_says_what_was_cached(client):
    messages = [{"role": "user", "content": LONG + "What is the capital of France?"}]
    whole = ask(client, messages)
    ended = ask(client, messages, stop=[whole["choices"][0]["message"]["content"][2:4]])
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert cached(ended) == whole["usage"]["prompt_tokens"] - 1


def test_eight_conversations_share_one_beginning(client):
    system = {"role": "system", "content": LONG}
    ask(client, [system, {"role": "user", "content": "Say 0."}])
    before = client.get("/stats").json()["prompt_cache"]["bytes"]
    for number in range(1, 9):
        answer = ask(client, [system, {"role": "user", "content": f"Say {number} and no more."}])
        assert cached(answer) >= 0.95 * answer["usage"]["prompt_tokens"] - 16
    after = client.get("/stats").json()["prompt_cache"]["bytes"]
    assert after < before * 2  # not eight times


def test_choices_count_what_their_prompt_found(client):
    messages = [{"role": "user", "content": LONG + "Count to three."}]
    first = ask(client, messages)
    again = ask(client, messages, n=3)
    assert cached(again) == first["usage"]["prompt_tokens"] - 1
    assert [choice["message"] for choice in again["choices"]] == [first["choices"][0]["message"]] * 3


def test_prompts_are_not_kept_if_nobody_wants_that():
    with ServerProcess("--prompt-cache", "0") as server:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            for _ in range(2):
                answer = ask(client, [{"role": "user", "content": "Hi"}])
                assert cached(answer) == 0
            assert client.get("/stats").json()["prompt_cache"]["max_bytes"] == 0


def test_what_is_explained_is_what_a_request_then_gets(client):
    tokens = [1000 + i % 500 for i in range(600)]
    cases = [
        ({}, "end_of_prompt", "all but the last token, which is always computed, is cached"),
        ({"logprobs": 1}, "end_of_prompt", "all but the last token"),
        ({"echo": True}, "end_of_prompt", "all but the last token"),
        ({"echo": True, "logprobs": 1}, "prompt_logprobs", "computes all of it, whatever is cached"),
        ({"prompt": [1234]}, "end_of_prompt", "the prompt has one token"),
    ]
    for more, stops_because, message in cases:
        body = {"prompt": tokens, "max_tokens": 1, "temperature": 0} | more
        client.post("/v1/completions", json=body | {"echo": False}).raise_for_status()
        found = client.post("/v1/cache/explain", json=body).raise_for_status().json()
        answer = client.post("/v1/completions", json=body).raise_for_status().json()
        assert (found["stops_because"], found["cached_tokens"]) == (stops_because, cached(answer)), more
        assert message in found["message"], more
    assert found["cached_tokens"] == 0
