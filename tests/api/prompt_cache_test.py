"""What a conversation need not compute again, as its user sees it."""

import contextlib

import httpx
import pytest
from golden_checkpoint import VOCABULARY, random_prompt, write_golden
from server_process import ServerProcess, wait_until

LONG = "The quick brown fox jumps over the lazy dog near the river bank while it rains. " * 40


@pytest.fixture(scope="module")
def client():
    with ServerProcess("--context-length", "4096") as server:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            yield client


@contextlib.contextmanager
def loaded(*flags: str):
    """A client of a server of its own, whose model is loaded."""
    with ServerProcess(*flags) as server, httpx.Client(base_url=server.url, timeout=120) as client:
        wait_until(lambda: client.get("/health").status_code == 200, 60, "the model is loaded")
        yield client


def ask(client, messages, **more) -> dict:
    body = {"messages": messages, "max_tokens": 16, "temperature": 0} | more
    return client.post("/v1/chat/completions", json=body).raise_for_status().json()


def cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def computed(answer: dict) -> int:
    """Tokens of the prompt that were not cached."""
    return answer["usage"]["prompt_tokens"] - cached(answer)


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
    assert computed(answer) <= 0.1 * computed(cold)
    assert answer["timings"]["cached_tokens"] == cached(answer)


# What the time to the first token is spent on are the tokens that are computed for it.
@pytest.mark.parametrize("name", ["qwen3_5_4bit", "gemma4_shared_4bit"])
def test_a_short_turn_after_a_long_one_computes_a_tenth_at_most(name, tmp_path):  # 55
    model = write_golden(tmp_path / "model", name, context=16_384)
    with loaded("--model", str(model)) as client:

        def complete(prompt: list[int]) -> dict:
            body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
            return client.post("/v1/completions", json=body).raise_for_status().json()

        first = random_prompt(8000, 1, VOCABULARY)
        cold = complete(first)
        assert computed(cold) == len(first)
        own = cold["choices"][0]["token_ids"]
        for answered in (own, own[:-1] + [own[-1] % (VOCABULARY - 1) + 1]):  # as it was, and as a client has changed it
            second = first + answered + random_prompt(20, 2, VOCABULARY)
            explained = client.post("/v1/cache/explain", json={"prompt": second}).raise_for_status().json()
            warm = complete(second)
            assert cached(warm) == explained["cached_tokens"] == warm["timings"]["cached_tokens"]
            assert cached(warm) >= 0.95 * len(second)
            assert computed(warm) <= 0.1 * computed(cold)


def test_an_answer_that_the_server_ends_says_what_was_cached(client):
    messages = [{"role": "user", "content": LONG + "What is the capital of France?"}]
    whole = ask(client, messages)
    ended = ask(client, messages, stop=[whole["choices"][0]["message"]["content"][2:4]])
    assert ended["choices"][0]["finish_reason"] == "stop"
    assert cached(ended) == whole["usage"]["prompt_tokens"] - 1


def test_eight_conversations_hold_their_beginning_once():
    system = {"role": "system", "content": LONG * 6}
    with loaded("--context-length", "8192") as client:
        kv = client.get("/stats").json()["kv"]
        block_tokens, block_bytes = kv["block_tokens"], kv["bytes_total"] // kv["blocks_total"]

        def is_held(num_blocks: int) -> bool:
            stats = client.get("/stats").json()
            return stats["prompt_cache"]["bytes"] == stats["kv"]["bytes_used"] == num_blocks * block_bytes

        num_blocks = 0
        for number in range(8):
            answer = ask(client, [system, {"role": "user", "content": f"Say {number} and no more."}], ignore_eos=True)
            # Nothing is computed for the last token. Blocks whose tokens are all cached are those of another.
            num_tokens = answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"] - 1
            own = -(-num_tokens // block_tokens) - cached(answer) // block_tokens
            num_blocks += own
            assert number == 0 or (cached(answer) >= 4000 and own <= 3)
            wait_until(lambda: is_held(num_blocks), 10, f"{num_blocks} blocks are held after {number}")


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
