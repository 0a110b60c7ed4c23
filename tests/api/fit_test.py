"""`redpoll fit`: what a model takes of a memory, here and elsewhere, without loading it."""

import json
import pathlib
import struct
import subprocess

import httpx
import pytest

from golden_checkpoint import write_golden
from server_process import ROOT, ServerProcess, run_program

EXIT_FINE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
GIB = 1 << 30
L3_SIZE = subprocess.run(["getconf", "LEVEL3_CACHE_SIZE"], capture_output=True, text=True, check=False).stdout.strip()
L3_BYTES = int(L3_SIZE) if L3_SIZE.isdigit() else 0
LEAST_BYTES = max(2 * L3_BYTES, 64 << 20)  # to measure in, which must not fit into the last cache
MOST_BYTES = max(min(max(8 * L3_BYTES, 256 << 20), 1 << 30), 3 * L3_BYTES)
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
    assert any(line.startswith("fits ") and line.endswith(" yes, 8 such sequences at once") for line in lines)
    assert any(line.startswith("prompts that are kept ") and "up to 2.00 GiB" in line for line in lines)
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


def without_speeds(report: dict) -> dict:
    """What follows from the model and the flags alone."""
    machine = {name: value for name, value in report["machine"].items() if name != "read_gb_per_s"}
    bytes_read = {when: report[when]["read_bytes"] for when in ("at_start", "at_context")}
    return report | {"machine": machine} | bytes_read


# SmolLM2-135M: K and V of 30 layers of 3 heads of 64; codes of 8 or 4 bits and two halves for each 64, or halves.
@pytest.mark.parametrize(
    "flags, kv_bytes, ssd_bytes",
    [
        ([], KV_BYTES, 0),
        (["--kv-quant", "8"], 2 * 30 * 3 * 68, 0),
        (["--kv-quant", "4"], 2 * 30 * 3 * 36, 0),
        (["--exact", "--memory-budget", "4"], None, 0),
        (["--ssd-cache", "DIR"], KV_BYTES, 256 << 20),
        (["--prompt-cache", "0", "--step-tokens", "64"], KV_BYTES, 0),
        (["--memory-budget", "0.2", "--max-batch", "2"], KV_BYTES, 0),
        (["--context", "1000"], KV_BYTES, 0),
    ],
    ids=lambda flags: " ".join(flags) if isinstance(flags, list) else "",
)
def test_the_command_and_the_server_say_the_same(flags, kv_bytes, ssd_bytes, tmp_path):
    flags = [str(tmp_path) if flag == "DIR" else flag for flag in flags]
    told = fit(*flags)
    if kv_bytes is not None:
        assert told["kv_bytes_per_token"] == kv_bytes
    assert told["ssd_cache_bytes"] == ssd_bytes
    fixed = told["weights_bytes"] + told["step_bytes"] + ssd_bytes
    assert told["one_sequence"]["total_bytes"] == fixed + told["one_sequence"]["cache_bytes"]
    assert told["full_batch"]["total_bytes"] == fixed + told["full_batch"]["cache_bytes"]
    with ServerProcess(*[flag.replace("--context", "--context-length") for flag in flags]) as server:
        served = httpx.get(server.url + "/fit", timeout=30).json()
        assert httpx.get(server.url + "/fit", timeout=30).json() == served, "measured once"
    assert without_speeds(served) == without_speeds(told)
    is_small = "0.2" in flags  # GiB, of which a served model leaves too little to measure in
    for report, is_measured in ((served, leaves_room(told)), (told, not is_small)):
        if not is_measured:
            if report is served:
                assert report["machine"]["read_gb_per_s"] is report["at_start"]["predicted_tokens_per_s"] is None
            continue
        speed = report["machine"]["read_gb_per_s"]
        assert speed > 0
        for when in ("at_start", "at_context"):  # of weights 80 %, of the cache 63 % of that speed
            cache_bytes = told["kv_bytes_per_token"] * report["context"] if when == "at_context" else 0
            seconds = (report[when]["read_bytes"] - cache_bytes) / 0.8 + cache_bytes / 0.63
            assert report[when]["predicted_tokens_per_s"] == pytest.approx(speed * 1e9 / seconds)


def leaves_room(report: dict) -> bool:
    """Half of what the starter model leaves of the budget is enough to measure in."""
    return report["machine"]["budget_bytes"] - GIB >= 2 * LEAST_BYTES


def peak_bytes(server: ServerProcess) -> int:
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) << 10


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="nothing says what the peak was")
@pytest.mark.parametrize("flags, most_bytes", [(["--memory-budget", "0.2", "--max-batch", "2"], 0), ([], MOST_BYTES)])
def test_the_server_measures_within_its_budget(flags, most_bytes):
    with ServerProcess(*flags) as server:
        httpx.get(server.url + "/stats")
        before = peak_bytes(server)
        report = httpx.get(server.url + "/fit", timeout=30).json()
        taken = peak_bytes(server) - before
    assert (report["machine"]["read_gb_per_s"] is not None) == (most_bytes > 0 and leaves_room(report))
    assert taken <= most_bytes + (16 << 20), "but for answering and the threads' stacks"


@pytest.mark.parametrize("name, scheme, kv_bytes", [
    ("qwen2_f16", "off", 2 * 2 * 2 * 12 * 2),  # K and V of 2 layers of 2 heads of 12
    ("olmo2_bf16", "off", 2 * 2 * 2 * 24 * 2),
    ("mistral_f32", "off", 2 * 2 * 2 * 16 * 4),
    ("qwen3_untied_6bit", "off", 2 * 2 * 2 * 32 * 2),
    ("qwen3_untied_6bit", "8", 2 * 2 * 2 * (32 + 2 * 2)),  # codes, and a scale and a bias for 32 of them
])  # fmt: skip
def test_the_exact_tier_takes_the_checkpoints_types(name, scheme, kv_bytes, tmp_path):
    model = write_golden(tmp_path / name, name)
    flags = ["--exact", "--kv-quant", scheme, "--memory-budget", "0.5"]
    told = fit(str(model), *flags)
    assert told["kv_bytes_per_token"] == kv_bytes
    with ServerProcess("--model", str(model), *flags) as server:
        memory = httpx.get(server.url + "/stats").json()["memory"]
        served = httpx.get(server.url + "/fit", timeout=30).json()
    assert memory["max_context"] == told["max_context"]
    assert without_speeds(served) == without_speeds(told)


def test_a_kv_config_is_heeded_layer_by_layer(tmp_path):
    model = write_golden(tmp_path / "model", "qwen3_untied_6bit")  # two layers of two heads of 32
    config = model / "kv_config.json"
    missing = run_program("fit", str(model), "--kv-quant", "config")
    assert missing.returncode == EXIT_FAILED and f"--kv-quant config: {config} is not there" in missing.stderr
    config.write_text(json.dumps([{"layer_idx": 1, "bits": 8, "group_size": 32}]))
    assert fit(str(model))["kv_bytes_per_token"] == 2 * 2 * 2 * 64
    assert fit(str(model), "--kv-quant", "config")["kv_bytes_per_token"] == 2 * 2 * 64 + 2 * 2 * 36
    config.write_text(json.dumps([{"layer_idx": 2, "bits": 8, "group_size": 32}]))
    wrong = run_program("fit", str(model), "--kv-quant", "config")
    assert wrong.returncode == EXIT_FAILED and "'[0].layer_idx': expected one of the model's 2 layers" in wrong.stderr


@pytest.mark.parametrize("verb", ["fit", "doctor"])
def test_what_serve_refuses_together_is_refused(verb):
    for flags, message in [
        (["--prompt-cache", "0", "--ssd-cache", "d"], "with --prompt-cache 0 there is none"),
        (["--exact", "--ssd-cache", "d"], "with --exact there is none"),
    ]:
        done = run_program(verb, *flags)
        assert done.returncode == EXIT_USAGE and message in done.stderr


def line_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(label + " ")).removeprefix(label).strip()


def test_what_fits_is_said_with_how_often():
    flags = ["--memory-budget", "0.3"]
    report = fit(*flags)
    at_once = report["sequences_at_once"]
    assert report["fits"] and at_once == 1, "the longest context is one sequence's"
    text = run_program("fit", *flags).stdout
    assert line_of(text, "fits") == "one such sequence at a time, of the 8 of --max-batch; others wait"
    half = ["--context", str(report["max_context"] // 4), *flags]
    at_once = fit(*half)["sequences_at_once"]
    assert 2 <= at_once < 8
    assert line_of(run_program("fit", *half).stdout, "fits") == (
        f"{at_once} such sequences at once, of the 8 of --max-batch; others wait"
    )
    assert line_of(run_program("fit", *half, "--max-batch", "1").stdout, "fits") == "yes"


def test_nothing_is_promised_of_what_does_not_fit():
    report = fit("--memory-budget", "0.05", code=EXIT_FAILED)
    assert (report["fits"], report["sequences_at_once"], report["prompt_cache_bytes"]) == (False, 0, 0)
    text = run_program("fit", "--memory-budget", "0.05").stdout
    assert line_of(text, "fits") == "no, not with any context"
    assert line_of(text, "prompts that are kept") == "none"
    small = fit("--memory-budget", "0.3")
    cache = small["machine"]["budget_bytes"] - small["weights_bytes"] - small["step_bytes"]
    assert 0 < small["prompt_cache_bytes"] <= cache
    assert line_of(run_program("fit", "--prompt-cache", "0").stdout, "prompts that are kept") == "none"


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
    assert not report["fits"] and report["max_context"] == report["sequences_at_once"] == 0
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
    assert run_program("fit", "--context", "64", "--context-length", "32").returncode == EXIT_USAGE
