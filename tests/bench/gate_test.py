"""The numerics gate's own parts: its arithmetic against values worked out by hand, and gate_logits on a tiny
checkpoint against what mlx-lm computed from it. GATE_LOGITS names the program."""

import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest

import gate
from gate_candidates import Redpoll
from gate_measures import Comparison, Expected, num_continued, passes, windows_of

TINY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models" / "qwen3_4bit_two_shards"
LN2, LN3 = math.log(2), math.log(3)


def read_safetensors(path):
    """The arrays of a small file of float32 and int32."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    types = {"F32": np.float32, "I32": np.int32}
    arrays = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            values = raw[8 + size :][slice(*entry["data_offsets"])]
            arrays[name] = np.frombuffer(values, types[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def tiny_command(*flags):
    return [os.environ["GATE_LOGITS"], "--model", TINY, "--threads", "1", *flags]


def tiny_logits(ids, *flags):
    model = Redpoll(tiny_command(*flags))
    logits = model.logits(ids)
    assert model.close() == 0
    return logits


def test_windows_follow_one_another_and_predict_something():
    assert windows_of([1, 2, 3, 4, 5, 6, 7], 3) == [[1, 2, 3], [4, 5, 6]]
    assert windows_of([1, 2, 3, 4, 5], 3) == [[1, 2, 3], [4, 5]]
    assert windows_of([], 3) == []


def test_divergence_of_known_distributions():
    # p = (1/2, 1/2) against q = (1/4, 3/4): ln 2 - ln 3 / 2; then p = q, however the logits are shifted.
    comparison = Comparison()
    comparison.add(Expected([0, 1], [[5.0, 5.0], [0.0, LN3]]), np.array([[0.0, LN3], [7.0, 7.0 + LN3]]))
    figures = comparison.figures()
    assert figures["tokens"] == 2
    assert figures["mean_kl"] == pytest.approx((LN2 - LN3 / 2) / 2, rel=1e-12)
    assert figures["max_kl"] == pytest.approx(LN2 - LN3 / 2, rel=1e-12)
    assert figures["p99_kl"] == pytest.approx(0.99 * (LN2 - LN3 / 2), rel=1e-9)
    assert figures["agreement"] == 0.5  # a tie goes to the lower index, as 0 against 1
    assert figures["perplexity"] == pytest.approx(4 / 3)  # the candidate's 3/4 for token 1 after token 0


def test_divergence_has_the_reference_first():
    comparison = Comparison()
    comparison.add(Expected([0, 0], [[0.0, LN3]] * 2), np.zeros((2, 2)))
    assert comparison.figures()["mean_kl"] == pytest.approx(0.75 * LN3 - LN2)


def test_small_differences_are_not_lost():
    # To second order KL is the variance of the difference over two.
    rows = np.random.default_rng(1).normal(0, 3, (40, 1000))
    noise = np.random.default_rng(2).normal(0, 1e-5, rows.shape)
    comparison = Comparison()
    comparison.add(Expected(np.zeros(40, dtype=int), rows), rows + noise)
    p = np.exp(rows - np.log(np.exp(rows).sum(axis=1, keepdims=True)))
    variance = (p * noise**2).sum(axis=1) - (p * noise).sum(axis=1) ** 2
    assert comparison.figures()["mean_kl"] == pytest.approx(variance.mean() / 2, rel=1e-3)


def test_logits_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"expected logits of shape \(1, 2\), got \(2, 2\)"):
        Comparison().add(Expected([0], [[0.0, 0.0]]), np.zeros((2, 2)))


def test_a_continuation_is_counted_where_it_was_chosen():
    rows = np.eye(5)[[4, 2, 3, 0, 1]]  # after the tokens 7 8 | 2 3 1 come 4, 2, 3, 0, 1
    assert num_continued([7, 8], [2, 3, 1], rows) == 2


def test_the_bar_is_passed_by_both_figures_and_all_ids_or_not_at_all():
    bar = {"mean_kl": 0.1, "agreement": 0.9}
    assert passes({"mean_kl": 0.1, "agreement": 0.9}, (512, 512), bar)
    assert not passes({"mean_kl": 0.11, "agreement": 0.95}, (512, 512), bar)
    assert not passes({"mean_kl": 0.05, "agreement": 0.89}, (512, 512), bar)
    assert not passes({"mean_kl": 0.05, "agreement": 0.95}, (511, 512), bar)


def verdicts(capsys, **agreements):
    """What fails, and what is printed, of candidates with these greedy agreements."""
    names = {name: name.replace("_", "-").replace("llama-cpp", gate.BAR) for name in agreements}
    figures = {names[name]: {gate.ALL: {"mean_kl": 0, "agreement": share}} for name, share in agreements.items()}
    failed = gate.print_verdicts(figures, dict.fromkeys(figures, (512, 512)))
    return failed, capsys.readouterr().out.split("\n")


def test_only_what_runs_by_default_must_pass(capsys):
    failed, lines = verdicts(capsys, llama_cpp=0.9, redpoll_int16_avx2=0.8, redpoll_int8_avx2=0.8)
    assert failed == ["redpoll-int16-avx2"]
    assert "redpoll-int8-avx2: FAILS the gate" in lines
    failed, lines = verdicts(capsys, llama_cpp=0.9, redpoll_float32_avx2=0.8, redpoll_int16_avx2=0.9, redpoll_int8_avx2=0.8)
    assert failed == []
    assert "redpoll-float32-avx2: FAILS the gate" in lines
    assert "redpoll-int16-avx2: passes the gate" in lines


def test_a_verdict_on_none_of_the_defaults_is_a_failure(capsys):
    failed, _ = verdicts(capsys, llama_cpp=0.9, redpoll_float32_avx2=1)
    assert failed == [f"one of {', '.join(gate.MUST_PASS)}"]


def test_every_machine_measures_one_of_the_defaults():
    assert set(gate.DEFAULT_CANDIDATES) & set(gate.MUST_PASS)


def test_a_missing_bar_is_said(capsys):
    failed, lines = verdicts(capsys, redpoll_float32_avx2=1)
    assert failed == []
    assert "no verdict: llama.cpp is the bar and was not measured" in lines


@pytest.mark.parametrize(
    ("activations", "kv", "bound"), [("float32", "f32", 1e-3), ("int16", "f32", 5e-3), ("int16", "f16", 0.05)]
)
def test_logits_are_mlx_lms_whatever_the_step(activations, kv, bound):
    expected = read_safetensors(TINY / "expected.safetensors")
    ids = expected["tokens"].tolist()
    flags = ["--activations", activations, "--kv", kv]
    logits = tiny_logits(ids, *flags)
    assert np.abs(logits - expected["logits"]).max() < bound
    assert np.array_equal(tiny_logits(ids, *flags, "--step-tokens", "7"), logits)


def test_keys_and_values_are_halves_unless_asked_otherwise():
    ids = list(range(40))
    assert np.array_equal(tiny_logits(ids), tiny_logits(ids, "--kv", "f16"))
    assert not np.array_equal(tiny_logits(ids), tiny_logits(ids, "--kv", "f32"))


def test_int8_activations_are_near_and_not_the_same():
    expected = read_safetensors(TINY / "expected.safetensors")
    ids = expected["tokens"].tolist()
    comparison = Comparison()
    comparison.add(Expected(ids, expected["logits"]), tiny_logits(ids, "--activations", "int8"))
    assert 1e-7 < comparison.figures()["mean_kl"] < 1e-2


def test_a_second_window_knows_nothing_of_the_first():
    model = Redpoll(tiny_command())
    model.logits([5, 6, 7, 8])
    assert np.array_equal(model.logits([1, 2, 3]), tiny_logits([1, 2, 3]))
    model.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 96", "line 2: expected a whole number from 0 to 95, got 96"),
        ("1 x", "line 2: expected a whole number from 0 to 95, got 'x'"),
        ("", "line 2: expected 1 to 256 token ids, got 0"),
    ],
)
def test_bad_windows_are_refused_by_line(line, message):
    done = subprocess.run(tiny_command(), input=f"1 2\n{line}\n".encode(), capture_output=True)
    assert done.returncode == 1
    assert message in done.stderr.decode()
