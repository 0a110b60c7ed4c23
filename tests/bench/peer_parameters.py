"""How tables name the parameters of a model: a row stands for one parameter of a model folder, which is one tensor of a
GGUF file, with sizes by name and what the two forms do differently.
"""

import dataclasses
import enum
from collections.abc import Callable

import numpy as np

Config = dict  # the fields of config.json
Sizes = dict[str, int]
Order = Callable[[Sizes], np.ndarray]  # which row or column of the folder's stands where in the file


class Form(enum.Enum):
    """How numbers are kept in the folder and in the file."""

    FOUR_BITS = enum.auto()  # MLX's four bits in groups of 32, Q4_1
    ROUTER = enum.auto()  # MLX's eight bits in groups of 64, F32: what mlx-lm and llama.cpp's converter leave precise
    FLOATS = enum.auto()  # F16, F32


def unchanged(values: np.ndarray) -> np.ndarray:
    return values


@dataclasses.dataclass(frozen=True)
class Row:
    """A parameter of a layer, or of the model."""

    name: str  # in the folder; without .weight, .scales and .biases where these are three tensors
    gguf: str
    sizes: tuple[str, ...]
    form: Form = Form.FLOATS
    span: tuple[float, float] = (0.0, 0.0)  # between which floats are drawn
    to_gguf: Callable[[np.ndarray], np.ndarray] = unchanged  # of floats
    rows: Order | None = None
    columns: Order | None = None


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A row with its place and sizes filled in."""

    name: str
    gguf: str
    shape: tuple[int, ...]
    row: Row
    sizes: Sizes

    @property
    def gguf_shape(self) -> tuple[int, ...]:
        """GGUF files have no axes of one element, but where there is nothing else."""
        return tuple(size for size in self.shape if size != 1) or (1,)


def placed(row: Row, sizes: Sizes, name_prefix: str, gguf_prefix: str) -> Parameter:
    shape = tuple(sizes[size] for size in row.sizes)
    return Parameter(name_prefix + row.name, gguf_prefix + row.gguf, shape, row, sizes)


def matrix(name: str, gguf: str, *sizes: str, rows: Order | None = None, columns: Order | None = None) -> Row:
    """Of `sizes` rows and columns, or as many such as the first of three says."""
    return Row(name, f"{gguf}.weight", sizes, Form.FOUR_BITS, rows=rows, columns=columns)


def router(name: str, gguf: str, rows: str, columns: str = "hidden") -> Row:
    return Row(name, f"{gguf}.weight", (rows, columns), Form.ROUTER)


def norm(name: str, gguf: str, size: str = "hidden") -> Row:
    return Row(f"{name}.weight", f"{gguf}.weight", (size,), span=(0.9, 1.1))


def norm_less_one(name: str, gguf: str, size: str = "hidden") -> Row:
    """As Gemma's folders have them; GGUF files do not."""
    return Row(f"{name}.weight", f"{gguf}.weight", (size,), span=(-0.1, 0.1), to_gguf=lambda values: values + 1)


def bias(name: str, gguf: str, *sizes: str) -> Row:
    return Row(f"{name}.bias", f"{gguf}.bias", sizes, span=(-0.02, 0.02))


def interleaved(heads: str) -> Order:
    """The rows of each head as llama's files order them: 0, d/2, 1, d/2 + 1, ... where d is the size of a head."""

    def order(sizes: Sizes) -> np.ndarray:
        rows = np.arange(sizes[heads] * sizes["head"])
        return rows.reshape(sizes[heads], 2, -1).swapaxes(1, 2).reshape(-1)

    return order


def dealt(each: str, before: str = "") -> Order:
    """Value heads of a gated delta rule, `each` rows of one, after the rows `before` them: the folder has those of one
    key head together, the file the first ones of all key heads, then the second ones."""

    def order(sizes: Sizes) -> np.ndarray:
        first = sizes[before] if before else 0
        heads = np.arange(sizes["delta_value_heads"]).reshape(sizes["delta_key_heads"], -1).T.reshape(-1)
        rows = heads[:, None] * sizes[each] + np.arange(sizes[each])
        return np.concatenate([np.arange(first), first + rows.reshape(-1)])

    return order
