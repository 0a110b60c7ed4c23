"""The conversations that chat templates are tested with: for each name, the variables that a template sees.

They cover what templates differ in: system turns, white space, reasoning, tool calls with object and string arguments,
tool results, content in parts, numbers that Python prints in its own way, and characters beyond ASCII.
"""


def _user(content):
    return {"role": "user", "content": content}


def _assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def _system(content):
    return {"role": "system", "content": content}


def _tool(name, identifier, content):
    return {"role": "tool", "name": name, "tool_call_id": identifier, "content": content}


def _call(identifier, name, arguments):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather in a given location <b>&'quoted'</b>",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {"type": "string", "description": "The city, e.g. Zürich ☃ 北京"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 1e2, "default": 1.0},
                    "epsilon": {"type": "number", "default": 1e-05, "exclusiveMaximum": 0.1},
                },
                "required": ["location"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": 'Add two numbers.\nReturns: the "sum" \\ total',
            "parameters": {
                "type": "object",
                "properties": {
                    "zeta": {"type": "number"},
                    "alpha": {"type": ["number", "null"]},
                    "more": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["zeta", "alpha"],
            },
            "return": {"type": "number", "description": "sum"},
        },
    },
]

_WEATHER = {"location": "Paris", "unit": "celsius", "days": 2, "list": [1, 2.5, None, True], "object": {"k": "v"}}

CONVERSATIONS = {
    "single": [_user("Hello, how are you?")],
    "multi": [
        _system("You are a careful assistant.\n  Be brief.  "),
        _user("  What's 2+2?\n"),
        _assistant("4"),
        _user('And <3 & "quotes" 北京 😀?'),
    ],
    "answered": [
        _user("a"),
        _assistant("<think>\nreason\n</think>\n\nb"),
        _user("c"),
        _assistant("d\n"),
    ],
    "reasoning": [_user("q"), _assistant("ans", reasoning_content="because"), _user("again")],
    "tool_call": [
        _system("sys"),
        _user("Weather in Paris?"),
        _assistant("", tool_calls=[_call("call00001", "get_weather", _WEATHER)]),
        _tool("get_weather", "call00001", '{"temp": 21.5}'),
        _assistant("21.5 C"),
        _user("thanks"),
    ],
    "two_calls": [
        _user("Do both"),
        _assistant(
            None,
            tool_calls=[
                _call("call00001", "get_weather", {"location": "Zürich"}),
                _call("call00002", "add", {"zeta": 1, "alpha": 2.0}),
            ],
        ),
        _tool("get_weather", "call00001", "sunny"),
        _tool("add", "call00002", "3"),
    ],
    "string_arguments": [
        _user("x"),
        _assistant("ok", tool_calls=[_call("call00001", "add", '{"zeta": 1, "alpha": 2}')]),
        _tool("add", "call00001", "3"),
    ],
    "parts": [
        _user([{"type": "text", "text": "Describe"}, {"type": "image"}, {"type": "text", "text": " this."}])
    ],
    "two_user_turns": [_user("one"), _user("two")],
}

_ONLY_WITH_TOOLS = {"tool_call", "two_calls", "string_arguments"}
_WITHOUT_THINKING = {"single", "multi", "reasoning"}


def contexts():
    """Name -> the template's variables."""
    result = {}
    for name, messages in CONVERSATIONS.items():
        common = {
            "messages": messages,
            "documents": None,
            "add_generation_prompt": name != "answered",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        }
        result[f"{name}/tools"] = {**common, "tools": TOOLS}
        if name not in _ONLY_WITH_TOOLS:
            result[f"{name}/plain"] = {**common, "tools": None}
        if name in _WITHOUT_THINKING:
            result[f"{name}/no_thinking"] = {**common, "tools": None, "enable_thinking": False}
    return result
