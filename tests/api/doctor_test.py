"""`redpoll doctor`: what this machine offers, and whether a model loads here."""

import json
import pathlib
import shutil

from server_process import ROOT, run_program

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
    assert text.startswith("qwen3_5_4bit (qwen3_5) loads: 0.0 GiB of weights, ")
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


def test_doctor_fails_with_advice_when_the_model_is_missing():
    result = run_program("doctor", env={"REDPOLL_MODEL": "no-such-model", "HF_HUB_CACHE": "/nonexistent"})
    assert result.returncode == EXIT_FAILED
    assert "model: no model 'no-such-model'" in result.stdout
