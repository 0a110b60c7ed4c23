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


def test_rounded_scores_are_near_float32s_and_not_the_same():
    exact = scores("--activations", "float32")
    for name, nearness in [("int16", 5e-3), ("int8", 0.2)]:
        rounded = scores("--activations", name)
        assert rounded != exact
        assert rounded == pytest.approx(exact, abs=nearness)
        assert scores(env={"REDPOLL_ACTIVATIONS": name}) == rounded


def test_bench_says_which():
    quick = ["--prefills", "16", "--batches", "none", "--repetitions", "1"]
    for activations in ["float32", "int16", "int8"]:
        done = run_program("bench", *quick, "--activations", activations)
        assert done.returncode == 0, done.stderr
        kernel_set = next(line for line in done.stdout.splitlines() if line.startswith("kernel set"))
        assert kernel_set.endswith("-" + activations) == (activations != "float32")
