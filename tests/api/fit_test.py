"""`redpoll fit`: what a model takes of a memory, here and elsewhere, without loading it."""

import json
import struct

import httpx
import pytest

from server_process import ROOT, ServerProcess, run_program

EXIT_FINE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
GIB = 1 << 30
KV_BYTES = 23_040  # of a token of the starter model: K and V of 3 heads of 64 in 30 layers, two bytes each


def fit(*arguments: str, code: int = EXIT_FINE) -> dict:
    result = run_program("fit", *arguments, "--json")
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


def test_the_starter_model_fits():
    report = fit("--context", "4096")
    assert report["fits"] and report["context"] == 4096 and report["max_context"] == report["model_context"] == 8192
    assert report["kv_bytes_per_token"] == KV_BYTES and report["fixed_bytes"] == 0
    assert report["one_sequence"]["cache_bytes"] == 4096 * KV_BYTES
    assert report["full_batch"]["cache_bytes"] == 8 * 4096 * KV_BYTES
    fixed = report["weights_bytes"] + report["step_bytes"]
    assert report["one_sequence"]["total_bytes"] == fixed + 4096 * KV_BYTES
    assert report["at_context"]["read_bytes"] - report["at_start"]["read_bytes"] == 4096 * KV_BYTES
    assert report["machine"]["read_gb_per_s"] > 0
    speeds = [report[when]["predicted_tokens_per_s"] for when in ("at_start", "at_context")]
    assert speeds[0] > speeds[1] > 0
    rows = report["other_machines"]
    assert all(row["fits"] and row["max_context"] == 8192 for row in rows)
    # Only the bandwidth differs.
    m1, h200 = (next(row for row in rows if row["name"] == name) for name in ("Apple M1", "NVIDIA H200 SXM"))
    for when in ("predicted_tokens_per_s_at_start", "predicted_tokens_per_s_at_context"):
        assert h200[when] / m1[when] == pytest.approx(4800 / 68)


def test_the_text_has_the_same_numbers():
    result = run_program("fit", "--context", "4096")
    assert result.returncode == EXIT_FINE
    lines = result.stdout.splitlines()
    assert any(line.split() == ["cache", "22.5", "KiB", "a", "token"] for line in lines)
    assert any(line.startswith("a sequence of 4096 tokens") and " 90.0 MiB, " in line for line in lines)
    assert any(line.startswith("fits ") and line.endswith(" yes") for line in lines)
    assert any(line.startswith("Apple M4 Max ") for line in lines)


@pytest.mark.parametrize("budget", ["0.2", "0.3"])
def test_the_longest_context_is_the_one_that_is_served(budget):
    flags = ["--memory-budget", budget, "--max-batch", "2"]
    expected = fit(*flags)["max_context"]
    assert 0 < expected < 8192
    with ServerProcess(*flags) as server:
        assert httpx.get(server.url + "/stats").json()["memory"]["max_context"] == expected
        served = httpx.get(server.url + "/fit").json()
    assert served["max_context"] == served["context"] == expected
    assert served.keys() == fit(*flags).keys()
    assert served["machine"]["read_gb_per_s"] is None and served["at_start"]["predicted_tokens_per_s"] is None


def write_large_model(folder):
    """One layer whose MLP takes 192 GiB, in a file of which only the header is on the disk."""
    inner, hidden = 8_388_608, 4096
    config = {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": 1,
        "num_attention_heads": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "vocab_size": 128,
        "max_position_embeddings": 65_536, "tie_word_embeddings": True,
    }  # fmt: skip
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": [128, hidden],
        "model.norm.weight": [hidden],
        layer + "input_layernorm.weight": [hidden],
        layer + "post_attention_layernorm.weight": [hidden],
        layer + "self_attn.q_proj.weight": [hidden, hidden],
        layer + "self_attn.k_proj.weight": [1024, hidden],
        layer + "self_attn.v_proj.weight": [1024, hidden],
        layer + "self_attn.o_proj.weight": [hidden, hidden],
        layer + "mlp.gate_proj.weight": [inner, hidden],
        layer + "mlp.up_proj.weight": [inner, hidden],
        layer + "mlp.down_proj.weight": [hidden, inner],
    }
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors are aligned, as every writer has them
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def test_a_model_larger_than_memory_is_only_looked_at(tmp_path):
    write_large_model(tmp_path)
    report = fit(str(tmp_path), "--memory-budget", "100", "--context", "32768", code=EXIT_FAILED)
    assert not report["fits"] and report["max_context"] == 0
    assert 192 * GIB < report["weights_bytes"] < 193 * GIB
    assert report["one_sequence"]["total_bytes"] > report["weights_bytes"]
    assert report["at_start"]["predicted_tokens_per_s"] is None
    fits = {(row["name"], row["memory_bytes"] // GIB): row["fits"] for row in report["other_machines"]}
    assert fits["Apple M3 Ultra", 512] and not fits["Apple M3 Ultra", 96] and not fits["NVIDIA H200 SXM", 141]
    result = run_program("fit", str(tmp_path), "--memory-budget", "100")
    assert result.returncode == EXIT_FAILED
    assert "no, not with any context" in result.stdout and "192 GiB" in result.stdout


def test_a_context_that_does_not_fit_fails_with_the_one_that_would():
    result = run_program("fit", "--memory-budget", "0.2", "--max-batch", "1", "--context", "8192")
    assert result.returncode == EXIT_FAILED
    longest = fit("--memory-budget", "0.2", "--max-batch", "1")["max_context"]
    assert f"no, a context of {longest} would" in result.stdout


def test_what_cannot_be_looked_at_is_said():
    for arguments, message in [
        (["--context", "8193"], "expected a context of at most 8192 tokens"),
        (["no-such-model"], "no model 'no-such-model'"),
        ([str(ROOT / "tests" / "golden")], "config.json"),
    ]:
        result = run_program("fit", *arguments)
        assert result.returncode == EXIT_FAILED
        assert result.stdout == "" and message in result.stderr
    assert run_program("fit", "--context", "0").returncode == EXIT_USAGE
