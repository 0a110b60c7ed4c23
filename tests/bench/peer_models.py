"""Weights that both sides of a comparison can load: drawn at random, written once as a model folder in MLX's 4-bit
layout and once as a GGUF file of Q4_1 blocks. Every weight is the same number in both.

Four-bit weights in groups of 32 are w = scale * q + bias in either format; only where the sixteen bytes of a group keep
q differs: MLX has neighbours in one byte, Q4_1 the two halves of the group. llama files also interleave the two rotary
halves of each query and key head.
"""

import dataclasses
import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

GROUP = 32
Q4_1 = gguf.GGMLQuantizationType.Q4_1
NORMAL, CONTROL = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)


@dataclasses.dataclass(frozen=True)
class Shape:
    """A Llama model with tied embeddings and without rotary scaling, whose speed it would not change."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    rope_theta: float = 500000.0
    norm_eps: float = 1e-5


LLAMA_3_2_1B = Shape(hidden=2048, layers=16, heads=32, kv_heads=8, head_dim=64, intermediate=8192, vocab=128256,
                     context=131072)
SMOLLM2_135M = Shape(hidden=576, layers=30, heads=9, kv_heads=3, head_dim=64, intermediate=1536, vocab=49152,
                     context=8192, rope_theta=100000.0)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Byte-level BPE that splits off single digits first: the pre-tokenizer that GGUF files call smollm."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    end: int  # id that ends an answer

    def padded(self, size: int) -> "Vocabulary":
        """With entries that no text is made of, so that random ids have something to say."""
        more = [f"~{i}" for i in range(len(self.tokens), size)]
        return dataclasses.replace(self, tokens=self.tokens + more, types=self.types + [NORMAL] * len(more))


def read_vocabulary(path: pathlib.Path) -> Vocabulary:
    """Of a GGUF file whose pre-tokenizer is smollm."""
    fields = gguf.GGUFReader(path).fields

    def field(name):
        return fields["tokenizer.ggml." + name].contents()

    if field("pre") != "smollm":
        raise ValueError(f"{path}: expected the pre-tokenizer smollm, got {field('pre')}")
    return Vocabulary(field("tokens"), field("token_type"), field("merges"), field("eos_token_id"))


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Row i, column j is scales[i, j // 32] * q[i, j] + biases[i, j // 32]."""

    q: np.ndarray  # (rows, columns), uint8 below 16
    scales: np.ndarray  # (rows, columns / 32), float16, as are the biases
    biases: np.ndarray

    def mlx_words(self) -> np.ndarray:
        """(rows, columns / 8) uint32, lowest bits first."""
        return np.ascontiguousarray(self.q[:, 0::2] | self.q[:, 1::2] << 4).view("<u4")

    def q4_1_blocks(self) -> np.ndarray:
        """(rows, columns / 32 * 20) uint8: scale, bias, then a byte for each pair (j, j + 16)."""
        rows, groups = self.scales.shape
        halves = self.q.reshape(rows, groups, 2, GROUP // 2)
        blocks = np.empty((rows, groups, 4 + GROUP // 2), dtype=np.uint8)
        blocks[:, :, 0:2] = self.scales.astype("<f2")[..., None].view(np.uint8)
        blocks[:, :, 2:4] = self.biases.astype("<f2")[..., None].view(np.uint8)
        blocks[:, :, 4:] = halves[:, :, 0] | halves[:, :, 1] << 4
        return blocks.reshape(rows, -1)

    def with_interleaved_halves(self, heads: int) -> "Matrix":
        """The rows of each head as llama files order them: 0, d/2, 1, d/2 + 1, ... where d is the size of a head."""
        rows = np.arange(len(self.q)).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)
        return Matrix(self.q[rows], self.scales[rows], self.biases[rows])


def draw_matrix(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Weights around zero, small enough that activations neither grow nor vanish over the layers."""
    deviation = 1 / columns**0.5
    groups = (rows, columns // GROUP)
    scales = (random.uniform(0.8, 1.2, groups) * deviation / 4.6).astype(np.float16)  # q alone deviates by 4.6
    biases = (random.uniform(-8, -7, groups) * scales).astype(np.float16)
    return Matrix(random.integers(0, 16, (rows, columns), dtype=np.uint8), scales, biases)


def matrices(shape: Shape):
    """(Hugging Face name, GGUF name, rows, columns, heads whose halves are interleaved or 0) of every matrix."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "model.embed_tokens", "token_embd", shape.vocab, shape.hidden, 0
    for layer in range(shape.layers):
        name, block = f"model.layers.{layer}", f"blk.{layer}"
        yield f"{name}.self_attn.q_proj", f"{block}.attn_q", queries, shape.hidden, shape.heads
        yield f"{name}.self_attn.k_proj", f"{block}.attn_k", keys, shape.hidden, shape.kv_heads
        yield f"{name}.self_attn.v_proj", f"{block}.attn_v", keys, shape.hidden, 0
        yield f"{name}.self_attn.o_proj", f"{block}.attn_output", shape.hidden, queries, 0
        yield f"{name}.mlp.gate_proj", f"{block}.ffn_gate", shape.intermediate, shape.hidden, 0
        yield f"{name}.mlp.up_proj", f"{block}.ffn_up", shape.intermediate, shape.hidden, 0
        yield f"{name}.mlp.down_proj", f"{block}.ffn_down", shape.hidden, shape.intermediate, 0


def norms(shape: Shape):
    """(Hugging Face name, GGUF name) of every norm; all have `hidden` weights."""
    yield "model.norm", "output_norm"
    for layer in range(shape.layers):
        yield f"model.layers.{layer}.input_layernorm", f"blk.{layer}.attn_norm"
        yield f"model.layers.{layer}.post_attention_layernorm", f"blk.{layer}.ffn_norm"


def config_json(shape: Shape, vocabulary: Vocabulary) -> dict:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_eps,
        "tie_word_embeddings": True,
        "eos_token_id": vocabulary.end,
        "quantization": {"group_size": GROUP, "bits": 4},
    }


def tokenizer_json(vocabulary: Vocabulary) -> dict:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token} | plain for i, token in enumerate(vocabulary.tokens)
                         if vocabulary.types[i] == CONTROL],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(vocabulary.tokens)}, "merges": vocabulary.merges},
    }  # fmt: skip


def start_gguf(path: pathlib.Path, shape: Shape, vocabulary: Vocabulary) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random weights")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_eos_token_id(vocabulary.end)
    writer.add_add_bos_token(False)
    return writer


def write_model(folder: pathlib.Path, shape: Shape, vocabulary: Vocabulary, seed: int = 1) -> None:
    """`folder`, and beside it a file of the same name that ends in .Q4_1.gguf."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    writer = start_gguf(gguf_path(folder), shape, vocabulary)
    tensors = {}
    for name, gguf_name, rows, columns, heads in matrices(shape):
        matrix = draw_matrix(random, rows, columns)
        tensors[f"{name}.weight"] = matrix.mlx_words()
        tensors[f"{name}.scales"] = matrix.scales
        tensors[f"{name}.biases"] = matrix.biases
        ordered = matrix.with_interleaved_halves(heads) if heads else matrix
        writer.add_tensor(f"{gguf_name}.weight", ordered.q4_1_blocks(), raw_dtype=Q4_1)
    for name, gguf_name in norms(shape):
        weights = random.uniform(0.9, 1.1, shape.hidden).astype(np.float16)
        tensors[f"{name}.weight"] = weights
        writer.add_tensor(f"{gguf_name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(tensors, folder / "model.safetensors", {"format": "mlx"})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocabulary)), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": vocabulary.tokens[vocabulary.end]}))
    # Last: its presence tells that the model is complete.
    (folder / "config.json").write_text(json.dumps(config_json(shape, vocabulary), indent=1) + "\n")


def gguf_path(folder: pathlib.Path) -> pathlib.Path:
    return folder.with_name(folder.name + ".Q4_1.gguf")
