"""--activations reaches the kernels: rounded activations give other, but near, probabilities for the same prompt."""

import httpx
import pytest

from server_process import ServerProcess, run_program

PROMPT = [504, 3575, 282, 4649, 314]
SMALL = ["--context-length", "64"]


def scores(*flags, env=None):
    """Log-probabilities of the prompt's tokens after the first."""
    request = {"prompt": PROMPT, "echo": True, "logprobs": 1, "max_tokens": 0}
    with ServerProcess(*SMALL, *flags, env=env) as server:
        answer = httpx.post(server.url + "/v1/completions", json=request, timeout=60).json()
    return answer["choices"][0]["logprobs"]["token_logprobs"][1:]


def test_int8_is_near_float32_and_not_the_same():
    exact, rounded = scores("--activations", "float32"), scores("--activations", "int8")
    assert rounded != exact
    assert rounded == pytest.approx(exact, abs=0.2)
    assert scores(env={"REDPOLL_ACTIVATIONS": "int8"}) == rounded


def test_bench_says_which():
    quick = ["--prefills", "16", "--batches", "none", "--repetitions", "1"]
    for activations, ending in [("float32", False), ("int8", True)]:
        done = run_program("bench", *quick, "--activations", activations)
        assert done.returncode == 0, done.stderr
        kernel_set = next(line for line in done.stdout.splitlines() if line.startswith("kernel set"))
        assert kernel_set.endswith("-int8") == ending
