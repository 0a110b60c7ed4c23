"""Weights that both sides of a comparison can load: drawn at random, written once as a model folder in MLX's 4-bit
layout and once as a GGUF file of Q4_1 blocks. Every weight is the same number in both.

Four-bit weights in groups of 32 are w = scale * q + bias in either format; only where the sixteen bytes of a group keep
q differs: MLX has neighbours in one byte, Q4_1 the two halves of the group. peer_architectures.py has the names, and
where the two order rows differently. Parameters are written one by one, so that a model may be larger than memory.
"""

import dataclasses
import json
import math
import pathlib

import gguf
import numpy as np
import peer_architectures
from peer_parameters import Config, Form, Parameter
from peer_vocabulary import Vocabulary

GROUP, GROUP_BYTES = 32, 16
ROUTER_GROUP = 64
Q4_1 = gguf.GGMLQuantizationType.Q4_1
Q4_1_BYTES = GROUP_BYTES + 4  # of a group


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Row i, column j is scales[i, j // 32] * q[i, j] + biases[i, j // 32]."""

    packed: np.ndarray  # q as MLX packs it: (rows, groups, 16) uint8, the lower half of a byte first
    scales: np.ndarray  # (rows, groups), float16, as are the biases
    biases: np.ndarray

    def ordered(self, parameter: Parameter) -> "Matrix":
        """As the GGUF file orders rows and columns; whole groups of columns move."""
        matrix, row = self, parameter.row
        if row.rows is not None:
            rows = row.rows(parameter.sizes)
            matrix = Matrix(matrix.packed[rows], matrix.scales[rows], matrix.biases[rows])
        if row.columns is not None:
            groups = row.columns(parameter.sizes)[::GROUP] // GROUP
            matrix = Matrix(matrix.packed[:, groups], matrix.scales[:, groups], matrix.biases[:, groups])
        return matrix

    def q4_1_blocks(self) -> np.ndarray:
        """(rows, groups * 20) uint8: scale, bias, then a byte for each pair (j, j + 16)."""
        rows, groups = self.scales.shape
        blocks = np.empty((rows, groups, Q4_1_BYTES), dtype=np.uint8)
        blocks[:, :, 0:2] = self.scales.astype("<f2")[..., None].view(np.uint8)
        blocks[:, :, 2:4] = self.biases.astype("<f2")[..., None].view(np.uint8)
        first, second = self.packed[:, :, :8], self.packed[:, :, 8:]
        blocks[:, :, 4::2] = first & 15 | second << 4
        blocks[:, :, 5::2] = first >> 4 | second & 240
        return blocks.reshape(rows, -1)


def draw_matrix(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Weights around zero, small enough that activations neither grow nor vanish over the layers."""
    groups = (rows, columns // GROUP)
    scales = draw_floats(random, groups, (0.8, 1.2)) / (4.6 * columns**0.5)  # q alone deviates by 4.6
    scales = scales.astype(np.float16)
    biases = (draw_floats(random, groups, (-8, -7)) * scales).astype(np.float16)
    packed = np.frombuffer(random.bytes(math.prod(groups) * GROUP_BYTES), np.uint8)
    return Matrix(packed.reshape(*groups, GROUP_BYTES), scales, biases)


def draw_floats(random: np.random.Generator, shape: tuple[int, ...], span: tuple[float, float]) -> np.ndarray:
    return random.random(shape, dtype=np.float32) * np.float32(span[1] - span[0]) + np.float32(span[0])


Drawn = tuple[dict[str, np.ndarray], np.ndarray]  # the folder's tensors by name, and the file's


def draw_four_bits(random: np.random.Generator, parameter: Parameter) -> Drawn:
    *outer, columns = parameter.shape
    matrix = draw_matrix(random, math.prod(outer), columns)
    parts = {"weight": matrix.packed.view("<u4"), "scales": matrix.scales, "biases": matrix.biases}
    folder = {f"{parameter.name}.{part}": values.reshape(*outer, -1) for part, values in parts.items()}
    return folder, matrix.ordered(parameter).q4_1_blocks()


def draw_router(random: np.random.Generator, parameter: Parameter) -> Drawn:
    rows, columns = parameter.shape
    groups = (rows, columns // ROUTER_GROUP)
    scales = draw_floats(random, groups, (0.8, 1.2)) / (74 * columns**0.5)  # eight bits alone deviate by 74
    scales = scales.astype(np.float16)
    numbers = random.integers(0, 256, (*groups, ROUTER_GROUP), dtype=np.uint8)
    folder = {
        f"{parameter.name}.weight": numbers.view("<u4").reshape(rows, -1),
        f"{parameter.name}.scales": scales,
        f"{parameter.name}.biases": scales * np.float16(-128),
    }
    return folder, (numbers.astype(np.float32) - 128) * scales[..., None].astype(np.float32)


def draw_vector(random: np.random.Generator, parameter: Parameter) -> Drawn:
    row = parameter.row
    values = draw_floats(random, parameter.shape, row.span).astype(np.float16)
    ordered = values if row.rows is None else values[row.rows(parameter.sizes)]
    return {parameter.name: values}, row.to_gguf(ordered.astype(np.float32))


DRAWERS = {Form.FOUR_BITS: draw_four_bits, Form.ROUTER: draw_router, Form.FLOATS: draw_vector}


def folder_tensors(parameter: Parameter) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Types, as safetensors names them, and shapes."""
    if parameter.row.form is Form.FLOATS:
        return {parameter.name: ("F16", parameter.shape)}
    *outer, columns = parameter.shape
    per_word, group = (8, GROUP) if parameter.row.form is Form.FOUR_BITS else (4, ROUTER_GROUP)
    return {
        f"{parameter.name}.weight": ("U32", (*outer, columns // per_word)),
        f"{parameter.name}.scales": ("F16", (*outer, columns // group)),
        f"{parameter.name}.biases": ("F16", (*outer, columns // group)),
    }


class SafetensorsFile:
    """Tensors that are written one by one, in any order."""

    ELEMENT_BYTES = {"U32": 4, "F16": 2}

    def __init__(self, path: pathlib.Path, tensors: dict[str, tuple[str, tuple[int, ...]]]):
        self.offsets, header, end = {}, {"__metadata__": {"format": "mlx"}}, 0
        # Larger elements first, so that all are aligned.
        for name, (dtype, shape) in sorted(tensors.items(), key=lambda item: -self.ELEMENT_BYTES[item[1][0]]):
            begin, end = end, end + math.prod(shape) * self.ELEMENT_BYTES[dtype]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
            self.offsets[name] = begin
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.start = 8 + len(text)
        self.file = path.open("wb")
        self.file.write(len(text).to_bytes(8, "little") + text)

    def write(self, name: str, values: np.ndarray) -> None:
        self.file.seek(self.start + self.offsets[name])
        self.file.write(np.ascontiguousarray(values).data)

    def __enter__(self) -> "SafetensorsFile":
        return self

    def __exit__(self, *_) -> None:
        self.file.close()


def config_json(config: Config, parameters: list[Parameter], vocabulary: Vocabulary) -> dict:
    routers = {parameter.name: {"group_size": ROUTER_GROUP, "bits": 8}
               for parameter in parameters if parameter.row.form is Form.ROUTER}  # fmt: skip
    quantization = {"group_size": GROUP, "bits": 4, "mode": "affine"} | routers
    return config | {"eos_token_id": vocabulary.end, "quantization": quantization}


def add_metadata(writer: gguf.GGUFWriter, key: str, value) -> None:
    adders = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string,
              list: writer.add_array}  # fmt: skip
    adders[type(value)](key, value)


def start_gguf(path: pathlib.Path, config: Config, parameters: list[Parameter], vocabulary: Vocabulary):
    """A file that wants its tensors' data next, in the order of the parameters."""
    architecture = peer_architectures.architecture(config)
    writer = gguf.GGUFWriter(path, architecture.gguf)
    writer.add_name("random weights")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    for key, value in peer_architectures.metadata(config).items():
        add_metadata(writer, key, value)
    vocabulary.add_to(writer)
    for parameter in parameters:
        add_tensor_info(writer, parameter)
    for name, values in architecture.constants(config).items():
        writer.add_tensor_info(name, (len(values),), np.dtype(np.float32), 4 * len(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer


def add_tensor_info(writer: gguf.GGUFWriter, parameter: Parameter) -> None:
    name, shape = parameter.gguf, parameter.gguf_shape
    if parameter.row.form is Form.FOUR_BITS:
        in_bytes = (*shape[:-1], shape[-1] // GROUP * Q4_1_BYTES)
        writer.add_tensor_info(name, in_bytes, np.dtype(np.uint8), math.prod(in_bytes), Q4_1)
    else:
        writer.add_tensor_info(name, shape, np.dtype(np.float32), 4 * math.prod(shape))


def write_model(folder: pathlib.Path, config: Config, vocabulary: Vocabulary, seed: int = 1) -> None:
    """`folder`, and beside it a file of the same name that ends in .Q4_1.gguf. `vocabulary` has the config's size."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    parameters = peer_architectures.parameters(config)
    tensors = {name: how for parameter in parameters for name, how in folder_tensors(parameter).items()}
    writer = start_gguf(gguf_path(folder), config, parameters, vocabulary)
    with SafetensorsFile(folder / "model.safetensors", tensors) as file:
        for parameter in parameters:
            in_folder, in_gguf = DRAWERS[parameter.row.form](random, parameter)
            for name, values in in_folder.items():
                file.write(name, values)
            writer.write_tensor_data(in_gguf)
    for values in peer_architectures.architecture(config).constants(config).values():
        writer.write_tensor_data(np.array(values, dtype=np.float32))
    writer.close()
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary.tokenizer_json()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": vocabulary.tokens[vocabulary.end]}))
    # Last: its presence tells that the model is complete.
    text = json.dumps(config_json(config, parameters, vocabulary), indent=1)
    (folder / "config.json").write_text(text + "\n")


def make_model(folder: pathlib.Path, config: Config, vocabulary: Vocabulary) -> pathlib.Path:
    """Writes the model unless it is there already."""
    if not (folder / "config.json").exists():
        write_model(folder, config, vocabulary.sized(config["vocab_size"]))
    return folder


def gguf_path(folder: pathlib.Path) -> pathlib.Path:
    return folder.with_name(folder.name + ".Q4_1.gguf")
