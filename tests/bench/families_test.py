"""What tests/bench/families.py rests on, without llama.cpp: that every family's folder is one that Redpoll loads, and
that its GGUF file has the same numbers.
"""

import json
import pathlib

import gguf
import numpy as np
import peer_architectures
import peer_models
import peer_parameters
import peer_report
import peer_shapes
import pytest
from peer_parameters import Form
from peers_test import LETTERS, greedy, samples
from safetensors.numpy import load_file

FAMILIES = list(peer_shapes.SHAPES)
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64,
         "num_hidden_layers": 6}  # fmt: skip
SMALLER = {  # of what some families have besides
    "intermediate_size": 96, "block_ff_dim": 96, "block_multiple_of": 32, "block_dim": 64, "full_attn_idxs": [1],
    "num_experts": 6, "num_local_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 32, "linear_value_head_dim": 32, "global_head_dim": 64, "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 64, "sliding_window_pattern": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 3, "query_pre_attn_scalar": 32,
}  # fmt: skip


def small(family: str) -> dict:
    """Heads together are as wide as the stream, or wider, as they are in the real shape."""
    config = peer_shapes.SHAPES[family].config
    is_wider = config["num_attention_heads"] * config["head_dim"] != config["hidden_size"]
    smaller = {name: value for name, value in SMALLER.items() if name in config}
    return config | SMALL | {"head_dim": 32 if is_wider else 16} | smaller


def four_bits(tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    return dequantized(tensors, name, 4, 32)


def eight_bits(tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    return dequantized(tensors, name, 8, 64)


def dequantized(tensors: dict[str, np.ndarray], name: str, bits: int, group: int) -> np.ndarray:
    q = tensors[f"{name}.weight"][..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & 2**bits - 1
    scales, biases = (np.repeat(tensors[f"{name}.{part}"].astype(np.float32), group, axis=-1)
                      for part in ("scales", "biases"))  # fmt: skip
    return q.reshape(scales.shape) * scales + biases


READERS = {Form.FOUR_BITS: four_bits, Form.ROUTER: eight_bits, Form.FLOATS: lambda tensors, name: tensors[name]}


def gguf_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """In the shapes that the file states, slowest axis first."""
    tensors = gguf.GGUFReader(path).tensors
    shapes = {tensor.name: [int(size) for size in reversed(tensor.shape)] for tensor in tensors}
    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shapes[tensor.name])
            for tensor in tensors}  # fmt: skip


def test_there_is_a_shape_of_every_architecture_and_no_other():
    types = {shape.config["model_type"] for shape in peer_shapes.SHAPES.values()}
    assert types == set(peer_architectures.ARCHITECTURES)


def test_a_title_says_which_layers_are_left_out():
    assert peer_shapes.SHAPES["qwen3"].title == "Qwen3-0.6B"
    assert peer_shapes.SHAPES["gpt_oss"].title == "gpt-oss-20b, 4 of 24 layers"


@pytest.mark.parametrize("family", FAMILIES)
def test_quantized_rows_are_whole_groups_in_the_real_shape(family):
    for parameter in peer_architectures.parameters(peer_shapes.SHAPES[family].config):
        group = {Form.FOUR_BITS: 32, Form.ROUTER: 64, Form.FLOATS: 1}[parameter.row.form]
        assert parameter.shape[-1] % group == 0 and 0 not in parameter.shape, parameter.name


@pytest.mark.parametrize("family", FAMILIES)
def test_both_forms_of_a_family_hold_the_same_numbers(family, tmp_path):
    folder = peer_models.make_model(tmp_path / "small", small(family), LETTERS)
    in_folder = load_file(folder / "model.safetensors")
    in_gguf = gguf_tensors(peer_models.gguf_path(folder))
    parameters = peer_architectures.parameters(small(family))
    constants = peer_architectures.architecture(small(family)).constants(small(family))
    assert set(in_gguf) == {parameter.gguf for parameter in parameters} | set(constants)
    assert len(in_folder) == sum(len(peer_models.folder_tensors(parameter)) for parameter in parameters)
    for parameter in parameters:
        expected = READERS[parameter.row.form](in_folder, parameter.name)
        assert expected.shape == parameter.shape
        assert in_gguf[parameter.gguf].shape == parameter.gguf_shape
        expected = parameter.row.to_gguf(expected.astype(np.float32))
        if parameter.row.rows is not None:
            expected = expected[parameter.row.rows(parameter.sizes)]
        if parameter.row.columns is not None:
            expected = expected[:, parameter.row.columns(parameter.sizes)]
        assert np.array_equal(in_gguf[parameter.gguf].reshape(-1), expected.reshape(-1)), parameter.name


@pytest.mark.parametrize("family", FAMILIES)
def test_redpoll_loads_every_family(family, tmp_path):
    """It refuses parameters that are missing, of another shape, or not read."""
    folder = peer_models.make_model(tmp_path / "small", small(family), LETTERS)
    assert len(greedy(folder)["token_ids"]) == 24


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_redpoll_reads_a_family_from_either_form(family, tmp_path):
    folder = peer_models.make_model(tmp_path / "small", small(family), LETTERS)
    assert greedy(folder)["token_ids"] == greedy(peer_models.gguf_path(folder))["token_ids"]


def test_orders_of_rows():
    sizes = {"heads": 2, "head": 4, "one": 1, "delta_value": 2, "delta_keys": 3, "delta_key_heads": 2,
             "delta_value_heads": 4}  # fmt: skip
    assert peer_parameters.interleaved("heads")(sizes).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert peer_parameters.dealt("one")(sizes).tolist() == [0, 2, 1, 3]
    assert peer_parameters.dealt("delta_value", "delta_keys")(sizes).tolist() == [0, 1, 2, 3, 4, 7, 8, 5, 6, 9, 10]


def test_a_router_has_eight_bits_in_the_config(tmp_path):
    folder = peer_models.make_model(tmp_path / "small", small("qwen3_moe"), LETTERS)
    quantization = json.loads((folder / "config.json").read_text())["quantization"]
    assert quantization["model.layers.5.mlp.gate"] == {"group_size": 64, "bits": 8}
    assert (quantization["group_size"], quantization["bits"]) == (32, 4)


def test_a_smaller_vocabulary_has_no_merge_of_what_it_lacks():
    assert LETTERS.sized(64).merges == ["w o"] and len(LETTERS.sized(64).tokens) == 64
    assert LETTERS.sized(28).merges == [] and LETTERS.sized(28).tokens[-1] == "Ġ"


def test_the_table_has_a_line_for_each_model():
    figures = {"decode": {"redpoll": samples(30), "llama.cpp": [peer_report.Sample(20, load=1.5)]}}
    rows = [peer_report.Row("decode", "decode", "tok/s")]
    assert peer_report.table_of_models(rows, [(["gemma", "Gemma-2B"], figures)], "llama.cpp").splitlines() == [
        "| model | made after | decode, tok/s | llama.cpp | ratio | load |",
        "|-------|------------|---------------|-----------|-------|------|",
        "| gemma | Gemma-2B   | 30.0          | 20.0      | 1.50  | 1.5  |",
    ]
