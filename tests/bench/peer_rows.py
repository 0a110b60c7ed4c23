"""The rows of the table and the measurements that fill them; one measurement may fill several rows."""

import dataclasses
import pathlib
from collections.abc import Callable

from peer_report import Row
from peer_sides import Engine, Load, Server

CONTEXT = 8192
DECODE_TOKENS = 64
STREAMS = 8
STREAM_PROMPT = 94  # words, each of which is a token
STREAM_ANSWER = 128
LONG_PROMPT = 4030

ROWS = [
    Row("decode", "decode, 1 stream", "tok/s"),
    Row("decode-2048", "decode at depth 2,048", "tok/s"),
    Row("prefill-128", "prefill 128", "tok/s"),
    Row("prefill-512", "prefill 512", "tok/s"),
    Row("prefill-2048", "prefill 2,048", "tok/s"),
    Row("streams", "8 streams over HTTP", "tok/s"),
    Row("ttft-8", "first token, 8 prompts of 94 at once, p50", "ms", False, 0),
    Row("ttft-4030", "first token, prompt of 4,030", "ms", False, 0),
    Row("memory", "resident memory, 8,192 context", "MB", False, 0),
    Row("start", "start to /health ok", "ms", False, 0),
]

PROMPT_TOKENS = "prompt_tokens"  # beside the rows, in what a measurement over HTTP returns


@dataclasses.dataclass(frozen=True)
class Measurement:
    rows: list[str]
    # (side, the redpoll program for the client, number of the turn) to {row key: figure}
    take: Callable[[object, pathlib.Path, int], dict[str, float]]


def engine(row: str, what: Engine) -> Measurement:
    return Measurement([row], lambda side, program, turn: {row: side.rate(what)})


def take_streams(side, program: pathlib.Path, turn: int) -> dict[str, float]:
    with Server(side, CONTEXT, STREAMS) as server:
        seen = Load(STREAMS, STREAM_PROMPT, STREAM_ANSWER, turn + 1).send(program, server.url)
    return {"streams": seen["rate"], "ttft-8": seen["ttft_ms"], PROMPT_TOKENS: seen[PROMPT_TOKENS]}


def take_long(side, program: pathlib.Path, turn: int) -> dict[str, float]:
    """A server that answers one long prompt after it started."""
    with Server(side, CONTEXT, 1) as server:
        seen = Load(1, LONG_PROMPT, 16, turn + 1).send(program, server.url)
        memory = server.resident_mb()
    return {"ttft-4030": seen["ttft_ms"], "memory": memory, "start": server.start_s * 1000,
            PROMPT_TOKENS: seen[PROMPT_TOKENS]}  # fmt: skip


def check_same_prompts(turns: list[dict[str, float]]) -> None:
    counts = [values[PROMPT_TOKENS] for values in turns if PROMPT_TOKENS in values]
    if len(set(counts)) > 1:
        raise RuntimeError(f"expected the same prompts on every side, got {counts} tokens a prompt")


MEASUREMENTS = [
    engine("decode", Engine(decode=DECODE_TOKENS)),
    engine("decode-2048", Engine(decode=DECODE_TOKENS, depth=2048)),
    engine("prefill-128", Engine(prefill=128)),
    engine("prefill-512", Engine(prefill=512)),
    engine("prefill-2048", Engine(prefill=2048)),
    Measurement(["streams", "ttft-8"], take_streams),
    Measurement(["ttft-4030", "memory", "start"], take_long),
]
