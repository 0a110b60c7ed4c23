"""What tests/bench/peers.py rests on, without llama.cpp: arithmetic, the formats of both programs, and that the two
forms of the random weights are the same numbers.
"""

import json
import os
import pathlib
import subprocess

import gguf
import numpy as np
import peer_models
import peer_report
import peer_shapes
import peer_vocabulary
import peers
import pytest
from peer_report import Row, Sample

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("REDPOLL_PROGRAM", str(ROOT / "build" / "release" / "bin" / "redpoll"))
TINY = peer_shapes.LLAMA_3_2_1B | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
                                   "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 64}  # fmt: skip
LETTERS = peer_vocabulary.Vocabulary(
    tokens=["<|end|>", *"abcdefghijklmnopqrstuvwxyzĠ", "wo"],
    types=[peer_vocabulary.CONTROL] + 28 * [peer_vocabulary.NORMAL],
    merges=["w o"],
    end=0,
)


def samples(*values: float) -> list[Sample]:
    return [Sample(value, load=0.5) for value in values]


def test_ratios_are_of_medians_and_ours_over_theirs():
    assert peer_report.ratio(samples(30, 10, 20), samples(5, 100, 1)) == 4
    assert peer_report.ratio(samples(1, 3), samples(4)) == 0.5


def test_a_rate_is_read_from_each_programs_json():
    spread = {"median": 12.5, "min": 12, "max": 13}
    assert peer_report.redpoll_rate({"prefill": [], "decode": [{"batch": 1, "tokens_per_s": spread}]}) == 12.5
    assert peer_report.redpoll_rate({"prefill": [{"tokens": 512, "tokens_per_s": spread}], "decode": []}) == 12.5
    assert peer_report.llama_rate([{"n_gen": 64, "avg_ts": 83.7, "stddev_ts": 0.0, "samples_ts": [83.7]}]) == 83.7


def test_a_report_with_two_figures_is_not_taken_for_one():
    with pytest.raises(ValueError):
        peer_report.llama_rate([{"avg_ts": 1.0}, {"avg_ts": 2.0}])
    with pytest.raises(ValueError):
        peer_report.redpoll_rate({"prefill": [], "decode": []})


def test_the_table_leaves_out_what_was_not_measured():
    rows = [Row("decode", "decode, 1 stream", "tok/s"), Row("start", "start", "ms", more_is_better=False, digits=0)]
    figures = {"decode": {"redpoll": samples(150), "llama.cpp Q4_1": [Sample(80, load=1.25), Sample(60, load=0)]}}
    peers = ["llama.cpp Q4_1", "llama.cpp Q4_0"]
    assert peer_report.table(rows, figures, peers).splitlines() == [
        "| figure                  | redpoll | llama.cpp Q4_1 | ratio | llama.cpp Q4_0 | ratio | load |",
        "|-------------------------|---------|----------------|-------|----------------|-------|------|",
        "| decode, 1 stream, tok/s | 150.0   | 70.0           | 2.14  |                |       | 1.2  |",
    ]
    assert peer_report.as_json(rows, figures, peers) == {
        "decode": {
            "unit": "tok/s",
            "better": "more",
            "sides": {
                "redpoll": {"median": 150, "samples": [{"value": 150, "load": 0.5}]},
                "llama.cpp Q4_1": {"median": 70, "samples": [{"value": 80, "load": 1.25}, {"value": 60, "load": 0}]},
            },
            "ratios": {"llama.cpp Q4_1": 150 / 70},
        }
    }


def test_mlx_lm_is_asked_for_no_row_that_needs_a_server():
    mlx, starter = peers.MODELS["mlx"], peers.MODELS["starter"]
    assert peers.rows_of(mlx, None) == ["decode", "prefill-128"]
    assert peers.rows_of(mlx, ["decode", "streams"]) == ["decode"]
    assert peers.rows_of(starter, ["streams"]) == ["streams"]
    assert "streams" in peers.rows_of(starter, None)


def test_a_model_that_the_instructions_exclude_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["peers.py", "--isa", "avx2"])
    assert peers.parse_arguments().models == ["starter", "1b"]
    monkeypatch.setattr("sys.argv", ["peers.py", "--isa", "avx2", "--models", "mlx"])
    with pytest.raises(SystemExit):
        peers.parse_arguments()
    assert "mlx-lm cannot be kept to avx2" in capsys.readouterr().err


def test_both_layouts_of_a_matrix_hold_the_same_numbers():
    matrix = peer_models.draw_matrix(np.random.default_rng(3), 4, 96)
    scales, biases = (np.repeat(values.astype(np.float32), 32, axis=1) for values in (matrix.scales, matrix.biases))
    words = matrix.packed.view("<u4").reshape(4, 12)
    expected = scales * (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(4, 96) + biases
    assert np.array_equal(gguf.quants.dequantize(matrix.q4_1_blocks(), peer_models.Q4_1).reshape(4, 96), expected)


def greedy(model: pathlib.Path) -> dict:
    done = subprocess.run(
        [PROGRAM, "generate", "--model", model, "--raw", "--prompt", "some words", "--temperature", "0", "--ignore-eos",
         "--max-tokens", "24", "--json"], capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_redpoll_reads_the_same_model_from_the_folder_and_from_the_file(tmp_path):
    """Heads in the wrong order or halves of a group exchanged would show in the tokens."""
    folder = tmp_path / "tiny"
    peer_models.make_model(folder, TINY, LETTERS)
    from_folder, from_file = greedy(folder), greedy(peer_models.gguf_path(folder))
    assert len(from_folder["token_ids"]) == 24 and from_folder["token_ids"] == from_file["token_ids"]
    assert from_folder["prompt_token_ids"] == from_file["prompt_token_ids"]
    assert len(from_file["prompt_token_ids"]) == len("some words") - 1  # one pair is merged


@pytest.mark.parametrize("flags", [["--repeats", "0"], ["--threads", "-1"], ["--threads", "x"], ["--program", "/nosuch"]])
def test_bad_arguments_are_refused_before_anything_is_built(flags, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["peers.py", *flags])
    with pytest.raises(SystemExit) as refused:
        peers.main()
    assert refused.value.code == 2
    assert f"argument {flags[0]}: " in capsys.readouterr().err
