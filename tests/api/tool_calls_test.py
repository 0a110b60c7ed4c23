"""Tool calls over HTTP by the official SDK: models that write a call in each of the formats, whole and streamed."""

import json

import httpx
import openai
import pytest

from scripted_checkpoint import write_checkpoint
from server_process import ServerProcess

QUESTION = {"role": "user", "content": "What is the weather in Zürich?"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of the next days",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]
ARGUMENTS = '{"city":"Zürich","days":2}'

# As each family's template does: the markup that the model shall write, then the conversation.
CONVERSATION = (
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}"
    "{% for call in message.tool_calls %}({{ call.function.name }} {{ call.function.arguments | tojson }}){% endfor %}"
    "{% endfor %}<|start|>"
)
# For each format: what its template shows, the pieces of an answer with one call, and which of them are special tokens.
FORMATS = {
    "json": (
        '{"name": NAME, "arguments": OBJECT} in tags: <tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>',
        ["I will", " look.\n", "<tool_call>", '\n{"name": "wea', 'ther", "arguments": {"city": "Zür', 'ich", "days": 2}}',
         "\n</tool_call>"],
        [],
    ),
    "function_tags": (
        "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>",
        ["I will", " look.\n", "<tool_call>", "\n<function=", "weather>\n<parameter=city>", "\nZür", "ich\n",
         "</parameter>\n<parameter=days>\n2", "\n</parameter>\n</function>\n", "</tool_call>"],
        ["<tool_call>", "</tool_call>"],
    ),
    "named_tags": (
        '<function name="NAME"><param name="KEY">VALUE</param></function>',
        ["I will", " look.\n", "<function", ' name="weather">', "<param", ' name="city"><![CDATA[Zür', "ich]]>",
         "</param>", '<param name="days">', "2</par", "am>", "</function>"],
        ["<function", "<param", "</param>", "</function>"],
    ),
}


@pytest.fixture(scope="module", params=FORMATS)
def client(request, tmp_path_factory):
    markup, pieces, special = FORMATS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    shown = "{% if tools %}" + markup + "{{ tools | tojson }}{% endif %}"
    write_checkpoint(folder, pieces, shown + CONVERSATION, special)
    with ServerProcess("--model", str(folder)) as process:
        with openai.OpenAI(base_url=process.url + "/v1", api_key="none", max_retries=0, timeout=60) as sdk:
            yield sdk


def ask(client, **more):
    return client.chat.completions.create(model="default", messages=[QUESTION], tools=TOOLS, temperature=0, **more)


def test_a_call(client):
    choice = ask(client).choices[0]
    assert choice.message.content == "I will look.\n"
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    assert call.type == "function"
    assert call.id.startswith("call_")
    assert (call.function.name, call.function.arguments) == ("weather", ARGUMENTS)


def test_a_stream_says_the_same(client):
    text = ""
    calls = {}
    reasons = []
    for chunk in ask(client, stream=True, n=2):
        choice = chunk.choices[0]
        if choice.index == 0:
            text += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            assert (choice.index, call.index) not in calls
            calls[choice.index, call.index] = call
        reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == "I will look.\n"
    assert reasons == ["tool_calls"] * 2
    assert sorted(calls) == [(0, 0), (1, 0)]
    assert calls[0, 0].id != calls[1, 0].id
    for call in calls.values():
        assert call.type == "function"
        assert (call.function.name, call.function.arguments) == ("weather", ARGUMENTS)


def test_one_call_at_a_time(client):
    choice = ask(client, parallel_tool_calls=False).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert len(choice.message.tool_calls) == 1


def test_no_call_without_tools(client):
    for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        answer = client.chat.completions.create(model="default", messages=[QUESTION], temperature=0, **more)
        assert answer.choices[0].finish_reason == "stop"
        assert answer.choices[0].message.tool_calls is None
        assert answer.choices[0].message.content.startswith("I will look.\n")


def test_a_call_that_is_cut_off_is_text(client):
    choice = ask(client, max_tokens=5).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is None
    assert choice.message.content.startswith("I will look.\n<")


def test_logprobs_are_those_of_every_token(client):
    answer = ask(client, logprobs=True)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert "weather" in b"".join(bytes(token.bytes) for token in tokens).decode()


def test_the_way_back(client):
    message = ask(client).choices[0].message
    [call] = message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages = [QUESTION, message.model_dump(), result]
    url = str(client.base_url).removesuffix("v1/") + "apply-template"
    prompt = httpx.post(url, json={"messages": messages, "tools": TOOLS}).json()["prompt"]
    spaced = json.dumps(json.loads(ARGUMENTS), ensure_ascii=False)
    assert f"[assistant]I will look.\n(weather {spaced})[tool]sunny<|start|>" in prompt
    again = client.chat.completions.create(model="default", messages=messages, tools=TOOLS, temperature=0)
    assert again.choices[0].message.tool_calls[0].id != call.id
