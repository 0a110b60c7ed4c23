"""--kv-quant reaches the cache, in the exact tier too: other, but near, probabilities for the same prompt, and fewer
bytes."""

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


def test_the_exact_tier_packs_too():
    request = {"prompt": PROMPT, "logprobs": 1, "max_tokens": 6, "temperature": 0}
    answers = {}
    for bits in ["off", "8", "4"]:
        with ServerProcess(*SMALL, "--exact", "--kv-quant", bits) as server:
            answer = httpx.post(server.url + "/v1/completions", json=request, timeout=120).json()
            kv = httpx.get(server.url + "/stats", timeout=60).json()["kv"]
            scored = httpx.post(server.url + "/v1/completions", json=request | {"echo": True}, timeout=120)
        assert scored.status_code == (200 if bits == "off" else 400)
        if bits != "off":
            error = scored.json()["error"]
            assert error["param"] == "echo"
            assert error["message"].startswith("a server with --exact and --kv-quant gives no logprobs of the prompt")
        answers[bits] = answer["choices"][0]["logprobs"]["token_logprobs"]
        if bits != "off":
            assert kv["scheme"] == f"q{bits}"
            # Scales and biases are float32, as what this model computes in.
            assert block_bytes(kv) == 2 * 30 * 3 * 32 * (64 * int(bits) / 8 + 8)
    # The prompt's tokens see each other before they are packed, but the last one sees codes.
    assert len({tuple(scores) for scores in answers.values()}) == 3
    assert answers["8"][0] == pytest.approx(answers["off"][0], abs=0.1)


def test_a_model_without_kv_config_is_refused():
    done = run_program("generate", "--prompt", "x", "--kv-quant", "config")
    assert done.returncode == 1
    assert "kv_config.json is a file of a model's folder, and" in done.stderr
    done = run_program("generate", "--prompt", "x", "--kv-quant", "5")
    assert done.returncode == 2
    assert "expected one of off, 8, 4, config; got '5'" in done.stderr
