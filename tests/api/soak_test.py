"""Many random requests at once on a server that has little of everything: no failure but the refusals that are
documented, nothing that grows, nothing that is held afterwards, and the answers of a server that has seen nothing else.

200 requests; 2,000 if REDPOLL_TEST_SOAK=1 asks for them. `pytest -s` shows what happened.
"""

import collections
import concurrent.futures
import dataclasses
import json
import os
import random
import time

import httpx
from golden_checkpoint import random_prompt
from server_process import ServerProcess, wait_until

NUM_REQUESTS = 2000 if os.environ.get("REDPOLL_TEST_SOAK") == "1" else 200
NUM_CLIENTS = 12
CONTEXT = 768
STARTER_TOKENS = 40_000
PATH = "/v1/completions"
BEGINNINGS = [random_prompt(length, 1000 + length, STARTER_TOKENS) for length in (33, 64, 150, 257, 400, 520)]
DISK_BYTES = 0.03 * 2**30  # five files of 256 tokens
SHARED_FLAGS = ["--context-length", str(CONTEXT), "--max-batch", "4", "--step-tokens", "64"]
# 256 MiB of the budget are for the disk tier's buffers.
FLAGS = [*SHARED_FLAGS, "--memory-budget", "0.4", "--max-queue", "4", "--prompt-cache", "0.02", "--ssd-cache-max",
         "0.03"]  # fmt: skip
# Bytes from the first third on. Allocators keep pages: as many as the payloads of two files of the disk tier, 6 MB each,
# come and go from minute to minute. After 67 requests not all of the cache's own have been used yet.
MOST_GROWTH = 12 << 20 if NUM_REQUESTS == 2000 else 24 << 20


@dataclasses.dataclass
class Plan:
    """One request, the same for the same number."""

    number: int
    body: dict
    leaves_after: float | None  # seconds after which the client closes its connection, if the answer takes that long

    @property
    def is_too_long(self) -> bool:
        return len(self.body["prompt"]) > CONTEXT


def plan_of(number: int) -> Plan:
    dice = random.Random(number)
    beginning = dice.choice(BEGINNINGS)
    prompt = beginning[: dice.randint(1, len(beginning))] if dice.random() < 0.3 else beginning
    prompt = prompt + dice.choices(range(1, STARTER_TOKENS), k=dice.randint(1, dice.choice([8, 40, 200])))
    if dice.random() < 0.03:
        prompt = prompt * (CONTEXT // len(prompt) + 1)
    body = {
        "prompt": prompt,
        "max_tokens": dice.randint(1, 24),
        "n": dice.choice([1, 1, 1, 2, 3]),
        "temperature": dice.choice([0, 0, 0.8]),
        "seed": number,
        "stream": dice.random() < 0.5,
        "return_token_ids": True,
    }
    if dice.random() < 0.2:
        body["logprobs"] = dice.randint(0, 3)
    return Plan(number, body, dice.uniform(0, 0.6) if dice.random() < 0.2 else None)


class Left(Exception):
    """The client has closed its connection."""


def tokens_of(response: httpx.Response, plan: Plan, deadline: float) -> list[list[int]]:
    """By choice."""
    tokens = [[] for _ in range(plan.body["n"])]
    if not plan.body["stream"]:
        for choice in json.loads(response.read())["choices"]:
            tokens[choice["index"]] = choice["token_ids"]
        return tokens
    lines = [""]
    for line in response.iter_lines():
        lines.append(line)
        if time.monotonic() > deadline:
            raise Left
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                tokens[choice["index"]] += choice.get("token_ids") or []
    assert "data: [DONE]" in lines, lines[-3:]
    return tokens


def send(http: httpx.Client, plan: Plan) -> tuple[str, list[list[int]] | None]:
    """What became of it, and the tokens of a whole answer. Anything that is not documented fails here."""
    limit = plan.leaves_after or 120
    try:
        with http.stream("POST", PATH, json=plan.body, timeout=limit) as response:
            if response.status_code == 200:
                return "answered", tokens_of(response, plan, time.monotonic() + limit)
            error = json.loads(response.read())["error"]
            if response.status_code == 429:
                assert error["code"] == "queue_full" and int(response.headers["retry-after"]) >= 1
                return "refused", None
            assert (response.status_code, error["code"]) == (400, "context_length_exceeded"), error
            assert plan.is_too_long
            return "too long", None
    except (Left, httpx.ReadTimeout):
        assert plan.leaves_after, f"request {plan.number} got no answer in {limit} s"
        return "left", None


def send_until_taken(http: httpx.Client, number: int) -> tuple[collections.Counter, list[list[int]] | None]:
    plan = plan_of(number)
    seen = collections.Counter()
    for attempt in range(1000):
        outcome, tokens = send(http, plan)
        seen[outcome] += 1
        if outcome != "refused":
            assert (outcome == "too long") == plan.is_too_long or outcome == "left"
            return seen, tokens
        time.sleep(random.Random(f"{number} {attempt}").uniform(0.02, 0.3))
    raise AssertionError(f"request {number} was refused a thousand times")


def memory_when_idle(http: httpx.Client) -> int:
    """Bytes that are resident once all that is held is what the prompt cache holds."""

    def is_idle() -> bool:
        stats = http.get("/stats").json()
        held = stats["kv"]["bytes_used"] - stats["prompt_cache"]["bytes"]
        return (stats["engine"]["running"], stats["engine"]["waiting"], held) == (0, 0, 0)

    wait_until(is_idle, 10, "nothing runs, and every block is accounted for")
    return http.get("/stats").json()["memory"]["rss_bytes"]


def client_of(server: ServerProcess) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=120, limits=httpx.Limits(max_connections=NUM_CLIENTS + 1))


def check_sample(answers: dict[int, list[list[int]]]) -> int:
    """Against a server that keeps nothing, which is asked for one after the other."""
    sample = list(answers)[::10]
    with ServerProcess(*SHARED_FLAGS, "--prompt-cache", "0") as server, client_of(server) as http:
        for number in sample:
            plan = plan_of(number)
            assert send(http, dataclasses.replace(plan, leaves_after=None)) == ("answered", answers[number]), plan
    return len(sample)


def test_random_requests_on_a_server_that_has_little(tmp_path):  # 59
    seen, answers, resident = collections.Counter(), {}, []
    start = time.monotonic()
    with ServerProcess(*FLAGS, "--ssd-cache", str(tmp_path)) as server, client_of(server) as http:
        for third in range(3):
            numbers = range(third * NUM_REQUESTS // 3, (third + 1) * NUM_REQUESTS // 3)
            with concurrent.futures.ThreadPoolExecutor(NUM_CLIENTS) as pool:
                for number, (outcomes, tokens) in zip(numbers, pool.map(lambda i: send_until_taken(http, i), numbers)):
                    seen += outcomes
                    if tokens:
                        answers[number] = tokens
            resident.append(memory_when_idle(http))
        stats = http.get("/stats").json()
        seconds = time.monotonic() - start
        server.terminate()
        assert server.wait() == 0
    print(f"\n{NUM_REQUESTS} requests in {seconds:.0f} s: {dict(seen)}")
    print(f"MB resident after each third: {[round(number / 1e6, 1) for number in resident]}")
    print(f"{stats['prompt_cache']}\n{stats['ssd_cache']}")
    assert seen["answered"] > NUM_REQUESTS / 2 and seen["refused"] and seen["too long"] and seen["left"]
    assert resident[2] - resident[0] < MOST_GROWTH, resident
    assert stats["prompt_cache"]["hits"] > NUM_REQUESTS / 4
    assert stats["ssd_cache"]["failed"] == 0 and stats["ssd_cache"]["restores"] > 0
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.kv")) <= DISK_BYTES
    assert check_sample(answers) >= NUM_REQUESTS / 50
