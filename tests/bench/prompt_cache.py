#!/usr/bin/env python3
"""What the prompt cache and its disk tier save, beside llama.cpp: time to the first token of a long prompt cold, asked
again, and asked again after a restart; what writing to the disk tier costs while tokens are generated; and the memory of
eight conversations with one beginning. All sides take turns; docs/prompt-cache.md says what each row means.

usage: .deps/venv/bin/python tests/bench/prompt_cache.py [flags]     --help lists them
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
import urllib.request

import peer_build
import peer_models
import peer_report
import peer_shapes
import peer_sides
import peer_vocabulary
import peers
from bench_arguments import positive
from peer_report import Row, Sample

TOKEN_IDS = range(1000, 40_000)  # words, and nothing special, in the vocabulary of the starter and of what has its
WARM_UP = 8
TIMES_ASKED_AGAIN = 3  # of which the median counts: the first time, what was computed is still being written
SPARE = 64  # tokens of the context beyond the prompt
DECODE_TOKENS = 4096  # some twenty seconds, in each of which a file is written
WRITTEN_PROMPT = 4000  # of sixteen files
FEWEST_FILES = 5  # written while tokens are generated, or the figure says nothing of writing
CONVERSATIONS = 8
SYSTEM_PROMPT, TAIL = 4000, 40
FORMS = {"Q4_1": "with the numbers that Redpoll reads", "Q4_0": "which is its fastest"}
# Tokens of the prompt.
MODELS = {"starter": 4000, "1b": 13_000}

FIRST_TOKEN = [
    Row("cold", "first token, cold", "ms", False, 0),
    Row("warm", "first token, asked again", "ms", False),
    Row("restart", "first token, after a restart", "ms", False),
    Row("warm-share", "asked again, of cold", "%", False, 2),
    Row("restart-share", "after a restart, of cold", "%", False, 2),
]
OFF = "without the disk tier"
DECODE = [
    Row("decode", f"decode, {DECODE_TOKENS:,} tokens after a prompt of {WRITTEN_PROMPT:,}, which is being written", "tok/s"),
    Row("files", "written meanwhile", "files", digits=0),
]
PARTS = ["first-token", "decode", "conversations"]


@dataclasses.dataclass(frozen=True)
class Redpoll(peer_sides.Redpoll):
    folder: pathlib.Path | None = None  # of the disk tier
    path = "/v1/completions"

    def serve_command(self, port: int, context: int, streams: int) -> list:
        disk = ["--ssd-cache", self.folder] if self.folder else []
        return super().serve_command(port, context, streams) + disk

    def body(self, prompt: list[int]) -> dict:
        return {"prompt": prompt, "max_tokens": 1, "temperature": 0, "stream_options": {"include_usage": True}}

    def cached(self, chunk: dict) -> int | None:
        return chunk["usage"]["prompt_tokens_details"]["cached_tokens"] if chunk.get("usage") else None

    def save(self, url: str) -> None:
        """Nothing: the server does when it stops."""

    def restore(self, url: str) -> None:
        """Nothing: the server does when it is asked."""


@dataclasses.dataclass(frozen=True)
class LlamaCpp(peer_sides.LlamaCpp):
    folder: pathlib.Path | None = None  # of saved slots
    path = "/completion"

    def serve_command(self, port: int, context: int, streams: int) -> list:
        return super().serve_command(port, context, streams) + ["--slot-save-path", self.folder]

    def body(self, prompt: list[int]) -> dict:
        return {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True, "id_slot": 0}

    def cached(self, chunk: dict) -> int | None:
        return chunk["timings"]["cache_n"] if "timings" in chunk else None

    def save(self, url: str) -> None:
        post(url + "/slots/0?action=save", {"filename": "prompt"}).read()

    def restore(self, url: str) -> None:
        post(url + "/slots/0?action=restore", {"filename": "prompt"}).read()


def post(url: str, body: dict):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=1800)


def prompt_of(length: int, seed: str) -> list[int]:
    return random.Random(f"{length} {seed}").choices(TOKEN_IDS, k=length)


def first_token(side, url: str, prompt: list[int]) -> tuple[float, int]:
    """Milliseconds, and how many tokens of the prompt were not computed."""
    start, first, cached = time.perf_counter(), None, None
    with post(url + side.path, side.body(prompt) | {"stream": True}) as response:
        for line in response:
            if line.startswith(b"data: {"):
                first = first or time.perf_counter()
                found = side.cached(json.loads(line.removeprefix(b"data: ")))
                cached = found if cached is None else cached
    if first is None or cached is None:
        raise RuntimeError(f"{side.name} sent no token, or did not say how many it had")
    return (first - start) * 1000, cached


def take_first_tokens(side, length: int, turn: int) -> dict[str, float]:
    """Cold, warm, and after a restart. What a server needs to start counts for neither side; reading does."""
    prompt = prompt_of(length, f"turn {turn}")
    with tempfile.TemporaryDirectory() as folder:
        side = dataclasses.replace(side, folder=pathlib.Path(folder))
        with peer_sides.Server(side, length + SPARE, 1) as server:
            first_token(side, server.url, prompt_of(WARM_UP, "first"))
            cold, nothing = first_token(side, server.url, prompt)
            warm, kept = zip(*[first_token(side, server.url, prompt) for _ in range(TIMES_ASKED_AGAIN)])
            side.save(server.url)
        with peer_sides.Server(side, length + SPARE, 1) as server:
            first_token(side, server.url, prompt_of(WARM_UP, "first"))
            start = time.perf_counter()
            side.restore(server.url)
            restoring = (time.perf_counter() - start) * 1000
            restart, restored = first_token(side, server.url, prompt)
    if nothing > 0 or min(*kept, restored) < length - SPARE:
        raise RuntimeError(f"{side.name} had {nothing}, {min(kept)} and {restored} of {length} tokens")
    warm, restart = statistics.median(warm), restoring + restart
    return {"cold": cold, "warm": warm, "restart": restart, "warm-share": 100 * warm / cold,
            "restart-share": 100 * restart / cold}  # fmt: skip


def decode_rate(url: str, prompt: list[int]) -> float:
    """Tokens a second after the first."""
    body = {"prompt": prompt, "max_tokens": DECODE_TOKENS, "temperature": 0, "ignore_eos": True}
    with post(url + Redpoll.path, body) as response:
        return 1000 * (DECODE_TOKENS - 1) / json.load(response)["timings"]["decode_ms"]


def files_written(url: str) -> int:
    with urllib.request.urlopen(url + "/stats") as response:
        return json.load(response)["ssd_cache"]["spills"]


def take_decode(side, length: int, turn: int) -> dict[str, float]:
    """Of a server that writes what it has just computed for a prompt of that length, or that has nowhere to write it."""
    with tempfile.TemporaryDirectory() as folder:
        used = side if side.name == OFF else dataclasses.replace(side, folder=pathlib.Path(folder))
        with peer_sides.Server(used, max(length, WARM_UP + DECODE_TOKENS) + SPARE, 1) as server:
            first_token(used, server.url, prompt_of(WARM_UP, "first"))
            first_token(used, server.url, prompt_of(length, f"written {turn}"))
            before = files_written(server.url) if used.folder else 0
            rate = decode_rate(server.url, prompt_of(WARM_UP, f"writing {turn}"))
            if not used.folder:
                return {"decode": rate}
            files = files_written(server.url) - before
    if files < FEWEST_FILES:
        raise RuntimeError(f"{side.name} wrote {files} files, which is too few to say what writing costs")
    return {"decode": rate, "files": files}


def conversation_bytes(side) -> dict[str, float]:
    """Megabytes that the prompt cache holds after one conversation and after all of them."""

    def held() -> int:
        with urllib.request.urlopen(server.url + "/stats") as response:
            return json.load(response)["prompt_cache"]["bytes"]

    beginning = prompt_of(SYSTEM_PROMPT, "system")
    with peer_sides.Server(side, SYSTEM_PROMPT + TAIL + SPARE, 1) as server:
        first_token(side, server.url, beginning + prompt_of(TAIL, "0"))
        one = held()
        for number in range(1, CONVERSATIONS):
            first_token(side, server.url, beginning + prompt_of(TAIL, str(number)))
        return {"of one": one / 1e6, f"of {CONVERSATIONS}": held() / 1e6, "ratio": held() / one}


def measure(arguments: argparse.Namespace, title: str, sides: list, take) -> peer_report.Figures:
    """A turn of every side, the first one last every other time, as often as is asked."""
    figures = {}
    for turn in range(arguments.repeats):
        for side in sides if turn % 2 == 0 else reversed(sides):
            load = os.getloadavg()[0]
            values = take(side, turn)
            for key, value in values.items():
                figures.setdefault(key, {}).setdefault(side.name, []).append(Sample(value, load))
            shown = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
            print(f"{title} {turn + 1}/{arguments.repeats} {side.name}: {shown} (load {load})", file=sys.stderr)
    return figures


def make_own(arguments: argparse.Namespace, model: pathlib.Path) -> Redpoll:
    return Redpoll(**vars(peers.make_redpoll(arguments, model)))


def make_sides(arguments: argparse.Namespace, name: str) -> list:
    programs = arguments.llama or peer_build.build(arguments.folder, arguments.isa)
    model, folder = peers.STARTER, arguments.folder / "models"
    folder.mkdir(parents=True, exist_ok=True)
    if name == "1b":
        vocabulary = peer_vocabulary.read_vocabulary(peers.STARTER)
        model = peer_models.make_model(folder / name, peer_shapes.LLAMA_3_2_1B, vocabulary)
    paths = {"Q4_1": model if name == "starter" else peer_models.gguf_path(model)}
    if "Q4_0" in arguments.formats:
        embedding = "q8_0" if name == "starter" else "q4_0"
        paths["Q4_0"] = peer_build.requantize(programs, paths["Q4_1"], folder / f"{name}.Q4_0.gguf", embedding)
    return [make_own(arguments, model)] + [
        LlamaCpp(programs, paths[form], arguments.threads, f"llama.cpp {form}", peers.plain_environment())
        for form in arguments.formats
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the prompt cache and its disk tier save on this machine.")
    parser.add_argument("--only", type=peers.choices(PARTS), default=PARTS, metavar="PART,...",
                        help="of " + ", ".join(PARTS) + "; the last two are of the starter")
    parser.add_argument("--models", type=peers.choices(list(MODELS)), default=["starter"], metavar="MODEL,...",
                        help="starter (the default) with a prompt of 4,000 tokens, 1b (random weights) with 13,000")
    parser.add_argument("--formats", type=peers.choices(list(FORMS)), default=list(FORMS), metavar="FORMAT,...",
                        help="that llama.cpp gets: " + ", ".join(f"{form}, {why}" for form, why in FORMS.items()))
    parser.add_argument("--prompt-tokens", type=positive, help="another length of the prompt")
    peers.add_side_arguments(parser)
    return parser.parse_args()


def measure_first_tokens(arguments: argparse.Namespace, name: str) -> tuple[dict, str]:
    """As an object, and as a table."""
    length, sides = arguments.prompt_tokens or MODELS[name], make_sides(arguments, name)
    others = [side.name for side in sides[1:]]
    figures = measure(arguments, name, sides, lambda side, turn: take_first_tokens(side, length, turn))
    table = peer_report.table(FIRST_TOKEN, figures, others)
    return ({"prompt_tokens": length} | peer_report.as_json(FIRST_TOKEN, figures, others),
            f"\n{name}, a prompt of {length:,} tokens\n\n{table}")  # fmt: skip


def measure_decode(arguments: argparse.Namespace, ours: Redpoll) -> tuple[dict, str]:
    """Beside itself without the disk tier."""
    sides = [ours, dataclasses.replace(ours, name=OFF)]
    figures = measure(arguments, "decode", sides, lambda side, turn: take_decode(side, WRITTEN_PROMPT, turn))
    return peer_report.as_json(DECODE, figures, [OFF]), "\n" + peer_report.table(DECODE, figures, [OFF])


def main() -> int:
    arguments = parse_arguments()
    conditions = peers.describe(arguments)
    conditions.pop("mlx-lm")
    report = {"conditions": conditions, "models": {}}

    def show(text: str) -> None:
        if not arguments.json:
            print(text, flush=True)

    show("\n".join(f"{name}: {value}" for name, value in conditions.items()))
    for name in arguments.models if "first-token" in arguments.only else []:
        report["models"][name], table = measure_first_tokens(arguments, name)
        show(table)
    if "starter" in arguments.models:
        ours = make_own(arguments, peers.STARTER)
        if "decode" in arguments.only:
            report["decode"], table = measure_decode(arguments, ours)
            show(table)
        if "conversations" in arguments.only:
            report["conversations"] = conversation_bytes(ours)
            show(f"MB of conversations that begin with the same {SYSTEM_PROMPT:,} tokens: {report['conversations']}")
    if arguments.json:
        print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
