"""Reading streams of server-sent events as clients do, and what they must add up to."""

import json

import httpx


def events(response: httpx.Response) -> list[str]:
    """The data of each event of a finished or running stream, comments left out."""
    # Not splitlines or iter_lines: those also split at U+2028, which JSON need not escape.
    lines = response.read().decode().split("\n")
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def post_stream(http: httpx.Client, path: str, body: dict) -> tuple[list[dict], bool]:
    """The chunks of a streamed answer, and whether [DONE] came last."""
    with http.stream("POST", path, json=body | {"stream": True}) as response:
        data = events(response) if response.status_code == 200 else []
        if response.status_code != 200:
            response.read()
            raise AssertionError(f"{response.status_code}: {response.text}")
    done = bool(data) and data[-1] == "[DONE]"
    return [json.loads(item) for item in data if item != "[DONE]"], done


def chat_text(chunks: list[dict], choice: int = 0) -> str:
    return "".join(
        item["delta"].get("content") or "" for chunk in chunks for item in chunk["choices"] if item["index"] == choice
    )


def completion_text(chunks: list[dict], choice: int = 0) -> str:
    return "".join(item["text"] for chunk in chunks for item in chunk["choices"] if item["index"] == choice)


def finish_reasons(chunks: list[dict], choice: int = 0) -> list[str]:
    """Every finish_reason that is not null: exactly one is right."""
    return [
        item["finish_reason"]
        for chunk in chunks
        for item in chunk["choices"]
        if item["index"] == choice and item["finish_reason"] is not None
    ]
