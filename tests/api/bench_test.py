"""`redpoll bench` on the starter model: a few tokens of each kind, so that the verb keeps working. Not a measurement."""

import json

import pytest

from server_process import run_program

TINY = ["--prefills", "16,40", "--batches", "1,2", "--depths", "0,32", "--decode-tokens", "4", "--repetitions", "2"]


def test_the_engine_is_measured_under_stated_conditions():
    done = run_program("bench", *TINY, "--threads", "1", "--context-length", "512", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    conditions = report["conditions"]
    assert conditions["threads"] == 1 and conditions["context"] == 512 and conditions["max_batch"] == 2
    assert conditions["weight_bytes"] > 80e6
    for name in ["date", "version", "cpu", "usable_cores", "kernel_set", "mlx_version", "model", "seed"]:
        assert conditions[name], name
    assert [figure["tokens"] for figure in report["prefill"]] == [16, 40]
    assert [(figure["depth"], figure["batch"]) for figure in report["decode"]] == [(0, 1), (0, 2), (32, 1), (32, 2)]
    for figure in report["decode"]:
        rate = figure["tokens_per_s"]
        assert 0 < rate["min"] <= rate["median"] <= rate["max"]
        expected = conditions["weight_bytes"] / figure["median_step_ms"] / 1e6
        assert figure["weights_gb_per_s"] == pytest.approx(expected)
        assert figure["with_kv_gb_per_s"] > figure["weights_gb_per_s"]


def test_what_is_not_wanted_is_left_out_of_the_tables():
    done = run_program("bench", "--prefills", "16", "--batches", "none", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    assert "\nprefill" in done.stdout and "decode at depth" not in done.stdout
    assert "prefill of 16" in done.stderr


def test_a_list_with_a_hole_is_wrong_usage():
    done = run_program("bench", "--batches", "1,,2")
    assert done.returncode == 2
    assert "--batches" in done.stderr and "got nothing" in done.stderr
