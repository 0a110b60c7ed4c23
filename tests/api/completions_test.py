"""POST /v1/completions: raw prompts, stop strings, echo and scores, as evaluation tools call it."""

import math

import httpx
import pytest

from streams import completion_text, finish_reasons, post_stream

PATH = "/v1/completions"


def complete(http: httpx.Client, **body) -> dict:
    response = http.post(PATH, json={"temperature": 0} | body)
    assert response.status_code == 200, response.text
    return response.json()


def ids_of(http: httpx.Client, text: str) -> list[int]:
    return http.post("/tokenize", json={"content": text}).json()["tokens"]


def test_stop_string_that_the_answer_begins_with_leaves_nothing(http):  # 1
    prompt = "Here is the English alphabet: ABC"
    text = complete(http, prompt=prompt, max_tokens=12)["choices"][0]["text"]
    assert text.startswith("DEFGHIJ"), "the starter model knows the alphabet"
    chunks, done = post_stream(http, PATH, {"prompt": prompt, "temperature": 0, "max_tokens": 12, "stop": ["DEFGHIJ"]})
    assert done
    assert completion_text(chunks) == ""
    assert all("D" not in item["text"] for chunk in chunks for item in chunk["choices"])
    assert finish_reasons(chunks) == ["stop"]


def test_token_ids_are_as_many_as_usage_counts_when_a_stop_string_cuts_the_text(http):
    body = {"prompt": "1, 2, 3, 4, 5,", "max_tokens": 30, "stop": ["8, 9"], "return_token_ids": True, "n": 2}
    whole = complete(http, **body)
    for choice in whole["choices"]:
        assert choice["text"] == " 6, 7, "
        assert choice["finish_reason"] == "stop"
        assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"] / 2
        text = http.post("/detokenize", json={"tokens": choice["token_ids"]}).json()["content"]
        assert text.strip() == "6, 7, 8, 9", "up to the token that completed the stop string"
    chunks, _ = post_stream(http, PATH, {"temperature": 0} | body)
    streamed = [t for chunk in chunks for c in chunk["choices"] if c["index"] == 1 for t in c.get("token_ids", [])]
    assert streamed == whole["choices"][1]["token_ids"]


def test_the_literal_text_of_a_special_token_does_not_end_an_answer(http):  # 5
    # The model copies a line in which ordinary tokens spell the end-of-turn token.
    special = ids_of(http, "<|im_end|>")
    line = [token for piece in ["<|", "im", "_end", "|>", "\n"] for token in ids_of(http, piece)]
    assert len(special) == 1
    assert special[0] not in line
    choice = complete(http, prompt=line * 8, max_tokens=3 * len(line))["choices"][0]
    assert choice["text"] == "<|im_end|>\n" * 3
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize("prompt", ["a", "ab"])
def test_shortest_prompts(http, prompt):  # 14
    assert complete(http, prompt=prompt, max_tokens=1)["usage"]["completion_tokens"] <= 1


def test_token_ids_and_text_are_the_same_prompt(http):
    text = "The quick brown fox"
    by_text = complete(http, prompt=text, max_tokens=8)["choices"][0]["text"]
    by_ids = complete(http, prompt=ids_of(http, text), max_tokens=8)["choices"][0]["text"]
    assert by_text == by_ids


def test_arrays_of_prompts_answer_in_order(http):
    prompts = ["One, two, three,", "The capital of France is", "def add(a, b):"]
    alone = [complete(http, prompt=prompt, max_tokens=6)["choices"][0]["text"] for prompt in prompts]
    together = complete(http, prompt=prompts, max_tokens=6, n=2)
    assert [choice["index"] for choice in together["choices"]] == list(range(6))
    assert [choice["text"] for choice in together["choices"]] == [text for text in alone for _ in range(2)]
    assert together["usage"]["prompt_tokens"] == sum(len(ids_of(http, prompt)) for prompt in prompts)


def test_loglikelihood_as_evaluation_harnesses_ask_for_it(http):
    context, continuation = ids_of(http, "The capital of France is"), ids_of(http, " Paris")
    body = complete(http, prompt=[context + continuation], max_tokens=0, echo=True, logprobs=1)
    choice = body["choices"][0]
    scores = choice["logprobs"]
    assert choice["text"] == "The capital of France is Paris"
    assert len(scores["token_logprobs"]) == len(context) + len(continuation)
    assert scores["token_logprobs"][0] is None
    assert "".join(scores["tokens"]) == choice["text"]
    paris = scores["token_logprobs"][len(context)]
    assert -3 < paris <= 0
    best = scores["top_logprobs"][len(context)]
    assert max(best.values()) >= paris - 1e-6
    assert body["usage"]["completion_tokens"] == 0


def test_scores_of_a_prompt_equal_those_of_generating_it(http):
    prompt = ids_of(http, "One, two, three,")
    generated = complete(http, prompt=prompt, max_tokens=6, logprobs=0, return_token_ids=True)["choices"][0]
    whole = complete(http, prompt=prompt + generated["token_ids"], max_tokens=0, echo=True, logprobs=0)["choices"][0]
    again = whole["logprobs"]["token_logprobs"][len(prompt) :]
    assert again == pytest.approx(generated["logprobs"]["token_logprobs"], abs=1e-3)


def test_logprobs_are_of_the_model_whatever_the_temperature(http):
    prompt = {"prompt": "The capital of France is", "max_tokens": 1, "logprobs": 5, "seed": 1}
    cold = complete(http, **prompt, temperature=0.01)["choices"][0]["logprobs"]["top_logprobs"][0]
    hot = complete(http, **prompt, temperature=2)["choices"][0]["logprobs"]["top_logprobs"][0]
    for token in cold:
        if token in hot:
            assert cold[token] == pytest.approx(hot[token], abs=1e-4)
    assert all(value <= 0 for value in cold.values())
    assert math.fsum(math.exp(value) for value in cold.values()) <= 1 + 1e-6


def test_echo_streams_the_prompt_first(http):
    body = {"prompt": "One, two,", "max_tokens": 4, "temperature": 0, "echo": True}
    whole = complete(http, **body)["choices"][0]["text"]
    assert whole.startswith("One, two,")
    chunks, done = post_stream(http, PATH, body)
    assert done
    assert completion_text(chunks) == whole


def test_more_prompts_than_the_queue_holds_are_refused_with_the_number(http):
    response = http.post(PATH, json={"prompt": ["a"] * 200, "max_tokens": 1})
    assert response.status_code == 400
    assert "at most 72 prompts" in response.json()["error"]["message"]


def test_completions_of_16_tokens_unless_told(http):
    assert complete(http, prompt="Once upon a time", ignore_eos=True)["usage"]["completion_tokens"] == 16
