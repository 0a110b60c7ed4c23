"""Runs every case of cases/*.yaml against the server. The format is described in cases/README.md."""

import json
import pathlib
import re

import httpx
import pytest
import yaml

from streams import events, finish_reasons

FOLDER = pathlib.Path(__file__).parent / "cases"
ABSENT = object()
TYPES = {"<number>": (int, float), "<string>": str, "<array>": list, "<object>": dict}


def load_cases() -> list:
    cases = []
    for path in sorted(FOLDER.glob("*.yaml")):
        names = set()
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            assert case["name"] not in names, f"{path.name}: two cases are named {case['name']!r}"
            names.add(case["name"])
            cases.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return cases


def mismatch(expected, got, path: str = "") -> str | None:
    """Why `got` does not match, or None."""
    where = path or "the whole"
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f"{where}: expected an object, got {got!r}"
        pairs = ((key, value, got.get(key, ABSENT)) for key, value in expected.items())
        return first(mismatch(value, item, f"{path}.{key}") for key, value, item in pairs)
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return f"{where}: expected an array of {len(expected)}, got {got!r}"
        return first(mismatch(value, got[i], f"{path}[{i}]") for i, value in enumerate(expected))
    shown = "nothing" if got is ABSENT else repr(got)
    return None if scalar_matches(expected, got) else f"{where}: expected {expected!r}, got {shown}"


def first(problems) -> str | None:
    return next((problem for problem in problems if problem), None)


def scalar_matches(expected, got) -> bool:
    if expected == "<absent>" or got is ABSENT:
        return expected == "<absent>" and got is ABSENT
    if expected == "<any>":
        return got is not None
    if isinstance(expected, str) and expected in TYPES:
        return isinstance(got, TYPES[expected]) and not isinstance(got, bool)
    if isinstance(expected, str) and expected.startswith("<regex:"):
        return isinstance(got, str) and re.search(expected[len("<regex:") : -1], got, re.DOTALL) is not None
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return expected == got


def send(http: httpx.Client, request: dict, extra: dict | None = None) -> httpx.Response:
    headers = {"content-type": "application/json"} if "body" in request or "raw_body" in request else {}
    headers |= request.get("headers", {})
    headers = {name: value for name, value in headers.items() if value is not None}
    content = request.get("raw_body")
    if "body" in request:
        content = json.dumps(request["body"] | (extra or {}))
    if isinstance(content, str):
        content = content.encode()
    return http.request(request.get("method", "POST"), request["path"], headers=headers, content=content)


def parse_stream(response: httpx.Response) -> list[dict]:
    """The JSON events, after the checks that every stream must pass."""
    assert response.headers["content-type"].startswith("text/event-stream")
    data = events(response)
    assert data and data[-1] == "[DONE]", f"the stream does not end in [DONE]: {data[-1:]}"
    chunks = [json.loads(item) for item in data[:-1]]
    for index in choice_indices(chunks):
        own = [item for chunk in chunks for item in chunk.get("choices", []) if item["index"] == index]
        assert len(finish_reasons(chunks, index)) == 1, f"choice {index} has not exactly one finish_reason"
        assert own[-1]["finish_reason"] is not None, f"choice {index} goes on after its finish_reason"
    return chunks


def choice_indices(chunks: list[dict]) -> list[int]:
    return sorted({item["index"] for chunk in chunks for item in chunk.get("choices", [])})


def stream_texts(chunks: list[dict]) -> list[str]:
    texts = {index: "" for index in choice_indices(chunks)}
    for chunk in chunks:
        for item in chunk.get("choices", []):
            texts[item["index"]] += item.get("text") or item.get("delta", {}).get("content") or ""
    return [texts[index] for index in sorted(texts)]


def check_events(expected: dict, chunks: list[dict]) -> None:
    texts = stream_texts(chunks)
    ids = [
        token
        for chunk in chunks
        for item in chunk.get("choices", [])
        if item["index"] == 0
        for token in item.get("token_ids") or []
    ]
    got = {
        "text": texts[0] if texts else "",
        "texts": texts,
        "finish_reasons": [finish_reasons(chunks, index)[0] for index in choice_indices(chunks)],
        "first": chunks[0],
        "last": chunks[-1],
        "num_usage": sum(1 for chunk in chunks if chunk.get("usage") is not None),
        "token_ids": ids,
    }
    unknown = set(expected) - set(got)
    assert not unknown, f"the case expects unknown things: {unknown}"
    assert (problem := mismatch(expected, got)) is None, problem


def check_same_when_streamed(http: httpx.Client, request: dict, whole: dict) -> None:
    chunks = parse_stream(send(http, request, {"stream": True}))
    choices = whole["choices"]
    assert stream_texts(chunks) == [item["text"] if "text" in item else item["message"]["content"] for item in choices]
    reasons = [finish_reasons(chunks, index)[0] for index in choice_indices(chunks)]
    assert reasons == [item["finish_reason"] for item in choices]


@pytest.mark.parametrize("case", load_cases())
def test_case(http, case):
    expect = case["expect"]
    response = send(http, case["request"])
    assert response.status_code == expect["status"], response.text
    headers = {name.lower(): value for name, value in response.headers.items()}
    wanted = {name.lower(): value for name, value in expect.get("headers", {}).items()}
    assert (problem := mismatch(wanted, headers)) is None, f"headers{problem}"
    if "raw_body" in expect:
        assert (problem := mismatch(expect["raw_body"], response.text)) is None, problem
    if "body" in expect:
        assert (problem := mismatch(expect["body"], response.json())) is None, problem
    if "events" in expect:
        check_events(expect["events"], parse_stream(response))
    if expect.get("same_when_streamed"):
        check_same_when_streamed(http, case["request"], response.json())


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": "<absent>"}, {"a": None}),
        ({"a": "<any>"}, {"a": None}),
        ("<number>", True),
        (1, True),
        ([1], [1, 2]),
        ("<regex:^a$>", "b"),
        (None, 0),
    ],
)
def test_the_matcher_sees_differences(expected, got):
    assert mismatch(expected, got) is not None
