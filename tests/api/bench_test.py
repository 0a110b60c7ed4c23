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


def test_a_profile_sums_to_the_step():
    done = run_program("bench", "--profile", "--batches", "1,2", "--depths", "32", "--prefills", "16",
                       "--decode-tokens", "4", "--repetitions", "1", "--context-length", "512", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert all(limit > 0 for limit in report["roofline"].values())
    figures = report["figures"]
    names = ["decode at depth 32, batch 1", "decode at depth 32, batch 2", "prefill of 16"]
    assert [figure["what"] for figure in figures] == names
    for figure in figures:
        rows = figure["rows"]
        assert sum(row["ms"] for row in rows) == pytest.approx(figure["step_ms"])
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert all(row["ms"] >= 0 for row in rows), rows  # operations take no longer than the pass around them
        matmuls = [row for row in rows if row["name"] in ("matmul", "matmuls")]
        weights = sum(row["ms"] * row["gb_per_s"] for row in matmuls)  # MB of a step
        assert weights > report["conditions"]["weight_bytes"] * 0.9e-6
        assert {"attention", "rope", "sample", "between operations"} <= {row["name"] for row in rows}
        assert [row["shape"] for row in rows if row["name"] == "attention"] == ["9 x 64"]


def test_a_profile_of_operations_that_are_put_off_is_refused():
    done = run_program("bench", "--profile", "--exact")
    assert done.returncode != 0
    assert "those of --exact are put off; leave one of them out" in done.stderr


def test_a_profile_measures_what_was_asked_even_if_it_is_the_default_of_the_plain_tables():
    done = run_program("bench", "--profile", "--batches", "1,2,4,8,16", "--depths", "0", "--prefills", "none",
                       "--decode-tokens", "1", "--repetitions", "1", "--context-length", "512", "--json")
    assert done.returncode == 0, done.stderr
    names = [figure["what"] for figure in json.loads(done.stdout)["figures"]]
    assert names == [f"decode at depth 0, batch {batch}" for batch in [1, 2, 4, 8, 16]]


def test_a_list_with_a_hole_is_wrong_usage():
    done = run_program("bench", "--batches", "1,,2")
    assert done.returncode == 2
    assert "--batches" in done.stderr and "got nothing" in done.stderr


def test_a_server_of_its_own_is_measured_over_http():
    done = run_program("bench", "serve", "--streams", "2", "--prompt-words", "8", "--shared-prefix", "4",
                       "--cache-hit-ratio", "0.5", "--max-tokens", "4", "--context-length", "512", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["requests"] == 4 and report["prompt_tokens"] >= 12
    assert report["conditions"]["context"] == 512 and report["conditions"]["cache_hit_ratio"] == 0.5
    for name in ["ttft_ms", "between_tokens_ms", "total_ms"]:
        figures = report[name]
        assert 0 <= figures["p50"] <= figures["p90"] <= figures["p99"] <= figures["max"], name
    assert report["ttft_ms"]["p50"] > 0 and report["output_tokens_per_s"] > 0


def test_streams_are_measured_while_a_long_prompt_comes_in():
    done = run_program("bench", "serve", "--streams", "2", "--prompt-words", "8", "--max-tokens", "24",
                       "--interfere-tokens", "120", "--step-tokens", "32", "--context-length", "512", "--json")
    assert done.returncode == 0, done.stderr
    figure = json.loads(done.stdout)["interference"]
    assert figure["prompt_tokens"] >= 100 and figure["ttft_ms"] > 0
    assert 0 < figure["calm_ms"]["p50"] <= figure["calm_ms"]["max"]
    assert 0 < figure["disturbed_ms"]["p50"] <= figure["disturbed_ms"]["max"]


def test_a_running_server_is_measured_by_its_url(server, model):
    done = run_program("bench", "serve", "--url", server.url, "--streams", "2", "--requests", "3",
                       "--prompt-words", "4", "--max-tokens", "3")
    assert done.returncode == 0, done.stderr
    assert model in done.stdout and server.url in done.stdout
    assert "\nfirst token" in done.stdout and "\ngenerated tok/s" in done.stdout


def test_flags_of_the_engine_do_not_go_with_a_url():
    done = run_program("bench", "serve", "--url", "http://127.0.0.1:1", "--threads", "1")
    assert done.returncode == 2
    assert "the flags under Engine are for a server that is started, not for one at a --url" in done.stderr


def test_nothing_to_measure_is_wrong_usage():
    for flags in [["--batches", "none"], ["--depths", "none"]]:
        done = run_program("bench", "--prefills", "none", *flags)
        assert done.returncode == 2
        assert "nothing to measure" in done.stderr


def test_kernels_that_are_not_there_are_an_error():
    done = run_program("bench", env={"REDPOLL_CPU": "banana"})
    assert done.returncode == 1
    assert "REDPOLL_CPU names kernels that this machine does not have: expected one of portable" in done.stderr


def test_a_ratio_of_hits_needs_something_to_hit():
    done = run_program("bench", "serve", "--cache-hit-ratio", "0.5")
    assert done.returncode == 2
    assert "--cache-hit-ratio is of requests that begin with a --shared-prefix" in done.stderr


def test_a_server_that_is_not_there_is_an_error():
    done = run_program("bench", "serve", "--url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("redpoll: cannot connect to 127.0.0.1:1: ")
