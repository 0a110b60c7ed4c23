"""`redpoll doctor`: what this machine offers, and whether a model loads here."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import unicodedata

import pytest

from golden_checkpoint import write_golden
from server_process import ROOT, clean_environment, program, run_program

EXIT_FINE, EXIT_FAILED = 0, 1


def test_doctor_is_content_with_the_starter_model():
    result = run_program("doctor", "--json")
    assert result.returncode == EXIT_FINE
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows.keys() == {"system", "processor", "memory", "mlx", "default model"}
    assert all(row["ok"] and row["text"] for row in rows.values())
    assert run_program("doctor").stdout.count("ok       ") == len(rows)


def test_doctor_says_whether_a_model_loads_and_in_what_memory(tmp_path):
    golden = pathlib.Path(__file__).parents[1] / "golden" / "models"
    text = json.loads(run_program("doctor", str(golden / "qwen3_5_4bit"), "--json").stdout)[-1]["text"]
    assert re.match(r"qwen3_5_4bit \(qwen3_5\) loads: \d+(\.\d+)? KiB of weights, ", text)
    assert " KiB of cache a token and " in text and "a context of 256 tokens" in text
    broken = tmp_path / "broken"
    shutil.copytree(golden / "qwen3_5_4bit", broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    result = run_program("doctor", str(broken))
    assert result.returncode == 1
    assert "MISSING  model: " in result.stdout and "model.layers.4" in result.stdout


def test_doctor_does_not_call_a_model_good_that_has_no_tokenizer():
    golden = ROOT / "tests" / "golden" / "models" / "qwen3_5_4bit"
    result = run_program("doctor", str(golden))
    assert result.returncode == 1
    assert f"but {golden} has no tokenizer.json, which says how a text becomes tokens" in result.stdout
    result = run_program("generate", str(golden), "--prompt", "Hi")
    assert result.returncode == 1
    assert "has no tokenizer.json" in result.stderr


def model_row(*arguments: str) -> dict:
    return next(row for row in json.loads(run_program("doctor", *arguments, "--json").stdout) if "model" in row["name"])


# SmolLM2-135M: K and V of 30 layers of 3 heads of 64; 68 or 36 bytes for 64 elements in codes.
@pytest.mark.parametrize("bits, kibibytes", [("off", "22.5"), ("8", "12.0"), ("4", "6.33")])
def test_doctor_says_what_a_scheme_takes(bits, kibibytes):
    row = model_row("--kv-quant", bits)
    assert row["ok"] and row["name"] == "default model"
    assert "; it is at " in row["text"] and row["text"].endswith(".gguf")
    assert f" {kibibytes} KiB of cache a token" in row["text"]
    assert ("with --kv-quant " + bits in row["text"]) == (bits != "off")


def test_doctor_says_whether_a_kv_config_can_hold(tmp_path):
    model = write_golden(tmp_path / "model", "qwen3_untied_6bit")
    config = model / "kv_config.json"
    flags = [str(model), "--kv-quant", "config"]
    assert not model_row(*flags)["ok"] and f"{config} is not there" in model_row(*flags)["text"]
    for text, message in [
        ("{}", "expected an array of objects, got object"),
        ('[{"layer_idx": 2, "bits": 8, "group_size": 32}]', "expected one of the model's 2 layers"),
        ('[{"layer_idx": 0, "bits": 5, "group_size": 32}]', "expected bits of 4 or 8, got 5"),
        ('[{"layer_idx": 0, "bits": 8, "group_size": 48}]', "expected a group_size"),
    ]:
        config.write_text(text)
        row = model_row(*flags)
        assert not row["ok"] and str(config) in row["text"] and message in row["text"]
    config.write_text('[{"layer_idx": 0, "bits": 8, "group_size": 32}]')
    row = model_row(*flags)
    assert row["ok"] and "with --kv-quant config" in row["text"]
    assert run_program("doctor", *flags).returncode == EXIT_FINE


def test_doctor_counts_what_else_takes_memory(tmp_path):
    def context(*flags: str) -> int:
        text = model_row("--memory-budget", "0.5", *flags)["text"]
        assert "with a budget of 512 MiB a context of " in text
        return int(text.split(" a context of ")[1].split()[0])

    assert context() == 8192
    assert context("--context-length", "100") == 100
    assert context("--ssd-cache", str(tmp_path / "none")) < 8192
    assert "does not fit" in model_row("--memory-budget", "0.3", "--ssd-cache", str(tmp_path / "none"))["text"]


def disk_row(directory: pathlib.Path) -> dict:
    rows = json.loads(run_program("doctor", "--ssd-cache", str(directory), "--json").stdout)
    return next(row for row in rows if row["name"] == "disk cache")


def test_doctor_says_whether_a_folder_can_be_used(tmp_path):
    assert disk_row(tmp_path / "none")["ok"] and not (tmp_path / "none").exists()
    tmp_path.chmod(0o700)
    assert disk_row(tmp_path)["ok"]
    tmp_path.chmod(0o770)
    row = disk_row(tmp_path)
    assert not row["ok"] and row["text"].startswith("--ssd-cache: ") and "chmod go-w" in row["text"]


def test_doctor_says_whether_a_folder_could_be_made(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for folder, why in [
        (tmp_path / "file" / "cache", "Not a directory"),
        (tmp_path / "file" / "cache" / "deeper", "Not a directory"),
        (tmp_path / "link", "No such file or directory"),
        (tmp_path / "link" / "cache", "No such file or directory"),
        (tmp_path / ("long" * 100), "File name too long"),
    ]:
        row = disk_row(folder)
        assert not row["ok"] and row["text"].startswith(f"--ssd-cache: cannot make {folder}: {why}; name a folder")
    assert disk_row(tmp_path / "some" / "folders" / "below")["ok"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"], "nothing is made"
    if pathlib.Path("/proc/self").exists():
        row = disk_row(pathlib.Path("/proc/nope/cache"))
        assert not row["ok"] and "cannot write into /proc" in row["text"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_doctor_says_that_a_folder_may_not_be_made(tmp_path):
    tmp_path.chmod(0o500)
    row = disk_row(tmp_path / "cache")
    assert not row["ok"] and f"cannot write into {tmp_path}: Permission denied" in row["text"]


def gguf_of(**texts: bytes) -> bytes:
    """A GGUF file without tensors whose metadata are these strings, `__` in a key standing for a dot."""
    def counted(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    string_type = struct.pack("<I", 8)
    entries = [counted(key.replace("__", ".").encode()) + string_type + counted(text) for key, text in texts.items()]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


HOSTILE = b"\x1b[2J\xff\r\n\xc2\x9b31m\x07"


@pytest.fixture(params=["gguf", "key", "config"])
def hostile(request, tmp_path) -> pathlib.Path:
    """A model that would clear the screen of whoever prints what is in it."""
    if request.param == "config":  # whose JSON must be UTF-8
        golden = ROOT / "tests" / "golden"
        config = json.loads((golden / "models" / "qwen2_f16" / "config.json").read_text())
        config["model_type"] = HOSTILE.decode(errors="ignore")
        (tmp_path / "config.json").write_text(json.dumps(config))
        shutil.copy(golden / "models" / "qwen2_f16" / "model.safetensors", tmp_path)
        shutil.copy(golden / "text" / "tokenizers" / "byte_level.json", tmp_path / "tokenizer.json")
        return tmp_path
    path = tmp_path / "model.gguf"
    if request.param == "gguf":
        path.write_bytes(gguf_of(general__architecture=HOSTILE))
    else:
        whole = gguf_of(general__architecture=b"llama", NAME=b"text")
        named = whole.replace(struct.pack("<Q", 4) + b"NAME", struct.pack("<Q", len(HOSTILE)) + HOSTILE)
        path.write_bytes(named[:-1])  # so that the message is about this key
    return path


@pytest.mark.parametrize("verb", [["doctor"], ["doctor", "--json"], ["generate", "--prompt", "Hi"], ["serve"]],
                         ids=" ".join)
def test_what_a_file_holds_reaches_no_terminal_as_it_is(verb, hostile):
    done = subprocess.run([program(), verb[0], str(hostile), *verb[1:]], capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=clean_environment())
    assert done.returncode == EXIT_FAILED
    printed = (done.stdout + done.stderr).decode()  # strictly: it must be UTF-8
    controls = [c for c in printed if unicodedata.category(c) == "Cc" and c != "\n"]
    assert controls == []
    assert "x1b[2J" in printed and "x9b31m" in printed
    if "--json" in verb:
        assert "\\x1b[2J" in json.loads(done.stdout)[-1]["text"]


def test_doctor_fails_with_advice_when_the_model_is_missing():
    result = run_program("doctor", env={"REDPOLL_MODEL": "no-such-model", "HF_HUB_CACHE": "/nonexistent"})
    assert result.returncode == EXIT_FAILED
    assert "model: no model 'no-such-model'" in result.stdout
