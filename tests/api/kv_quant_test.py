"""--kv-quant reaches the cache: other, but near, probabilities for the same prompt, and fewer bytes."""

import httpx
import pytest

from server_process import ServerProcess, run_program

PROMPT = [504, 3575, 282, 4649, 314, 260, 2240, 314]
SMALL = ["--context-length", "64"]


def served(*flags, env=None):
    """Log-probabilities of the prompt's tokens after the first, and what /stats says of the cache."""
    request = {"prompt": PROMPT, "echo": True, "logprobs": 1, "max_tokens": 0}
    with ServerProcess(*SMALL, *flags, env=env) as server:
        answer = httpx.post(server.url + "/v1/completions", json=request, timeout=60).json()
        stats = httpx.get(server.url + "/stats", timeout=60).json()
    return answer["choices"][0]["logprobs"]["token_logprobs"][1:], stats["kv"]


def block_bytes(kv):
    return kv["bytes_total"] / kv["blocks_total"]


def test_packed_scores_are_near_and_take_fewer_bytes():
    exact, plain = served()
    assert plain["scheme"] == "f16"
    # SmolLM2-135M: 30 layers of 3 heads of 64, blocks of 32 tokens; keys and values.
    heads = 2 * 30 * 3 * 32
    assert block_bytes(plain) == heads * 64 * 2
    for bits, nearness in [(8, 0.05), (4, 1.5)]:
        scores, packed = served("--kv-quant", str(bits))
        assert packed["scheme"] == f"q{bits}"
        assert block_bytes(packed) == heads * (64 * bits / 8 + 4)
        assert scores != exact
        assert sum(abs(score - other) for score, other in zip(scores, exact)) / len(exact) < nearness
        assert served(env={"REDPOLL_KV_QUANT": str(bits)})[0] == scores


def test_it_stands_in_a_settings_file_as_a_number_or_in_quotes(tmp_path):
    config = tmp_path / "redpoll.toml"
    for value, scheme in [("8", "q8"), ('"4"', "q4"), ("'off'", "f16")]:
        config.write_text(f"kv-quant = {value}\n")
        with ServerProcess(*SMALL, "--config", str(config)) as server:
            assert httpx.get(server.url + "/stats", timeout=60).json()["kv"]["scheme"] == scheme
    config.write_text("kv-quant = 5\n")
    done = run_program("serve", "--config", str(config))
    assert done.returncode == 2
    assert f"{config}:1: kv-quant: expected one of off, 8, 4, config; got '5'" in done.stderr


@pytest.mark.parametrize("verb", [["serve"], ["generate", "--prompt", "x"], ["chat"], ["bench"], ["bench", "serve"]])
def test_it_is_refused_with_exact(verb):
    done = run_program(*verb, "--exact", "--kv-quant", "8")
    assert done.returncode == 2
    assert "--exact computes what mlx-lm computes without that; leave one of them out" in done.stderr


def test_a_model_without_kv_config_is_refused():
    done = run_program("generate", "--prompt", "x", "--kv-quant", "config")
    assert done.returncode == 1
    assert "kv_config.json is a file of a model's folder, and" in done.stderr
    done = run_program("generate", "--prompt", "x", "--kv-quant", "5")
    assert done.returncode == 2
    assert "expected one of off, 8, 4, config; got '5'" in done.stderr
