"""The official openai SDK against the server: what most users run."""

import openai
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def test_chat(sdk, model):
    answer = sdk.chat.completions.create(model=model, messages=QUESTION, temperature=0, max_completion_tokens=24)
    assert "Paris" in answer.choices[0].message.content
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


def test_stream_with_usage(sdk, model):
    stream = sdk.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text
    assert chunks[-1].usage.prompt_tokens > 0
    assert chunks[-1].choices == []


def test_logprobs(sdk, model):
    answer = sdk.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )
    choice = answer.choices[0]
    tokens = choice.logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    for token in tokens:
        values = [top.logprob for top in token.top_logprobs]
        assert len(values) == 3
        assert values == sorted(values, reverse=True)
        assert token.logprob == pytest.approx(values[0], abs=1e-6)  # greedy: the chosen one is the best


def test_completions(sdk, model):
    answer = sdk.completions.create(model=model, prompt="The capital of France is", temperature=0, max_tokens=4)
    assert "Paris" in answer.choices[0].text


def test_models(sdk, model):
    assert [entry.id for entry in sdk.models.list()] == [model]
    assert sdk.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-4")


def test_bad_request(sdk, model):
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(model=model, messages=QUESTION, temperature=-1)
    assert caught.value.param == "temperature"
    assert caught.value.type == "invalid_request_error"


def test_unknown_model(sdk):
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.chat.completions.create(model="gpt-4", messages=QUESTION)
    assert caught.value.code == "model_not_found"


def test_bad_request_while_asking_for_a_stream(sdk, model):
    with pytest.raises(openai.BadRequestError):
        sdk.chat.completions.create(model=model, messages=QUESTION, top_p=7, stream=True)
