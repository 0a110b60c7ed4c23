"""A real checkpoint, small and by construction, that writes one given answer.

Its model is a chain: a token's embedding is a direction of its own, the layer adds nothing, and the head's row for the
token that comes next points there. So after the last token of a prompt come the given pieces, one token each, and the
end. What writes a token twice cannot be said: the pieces must differ.
"""

import json
import pathlib

import numpy
import safetensors.numpy

END = "<|end|>"
START = "<|start|>"  # the last token of every prompt
HEAD_DIM = 64


def _byte_characters() -> list[str]:
    """The character by which byte-level vocabularies write each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + hidden.index(byte)) for byte in range(256)]


def _tokenizer(pieces: list[str], special: list[str]) -> tuple[dict, dict[str, int]]:
    """tokenizer.json, and the ids of special tokens and pieces by their text."""
    characters = _byte_characters()
    vocabulary = {character: byte for byte, character in enumerate(characters)}
    ids = {}
    for text in [END, START, *special, *(piece for piece in pieces if piece not in special)]:
        is_special = text in (END, START, *special)
        ids[text] = len(vocabulary)
        vocabulary[text if is_special else "".join(characters[byte] for byte in text.encode())] = ids[text]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    file = {
        "version": "1.0",
        "added_tokens": [{"id": ids[text], "content": text, **flags} for text in (END, START, *special)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    return file, ids


def _weights(chain: list[int], vocabulary_size: int, hidden_size: int) -> dict[str, numpy.ndarray]:
    def zeros(rows: int, columns: int = hidden_size) -> numpy.ndarray:
        return numpy.zeros((rows, columns), numpy.float32)

    head = zeros(vocabulary_size)
    for token, following in zip(chain, chain[1:], strict=False):
        head[following, token] = 1
    ones = numpy.ones(hidden_size, numpy.float32)
    layer = "model.layers.0."
    weights = {
        "model.embed_tokens.weight": numpy.eye(vocabulary_size, hidden_size, dtype=numpy.float32),
        "model.norm.weight": ones,
        "lm_head.weight": head,
        layer + "input_layernorm.weight": ones,
        layer + "post_attention_layernorm.weight": ones,
        layer + "mlp.gate_proj.weight": zeros(HEAD_DIM),
        layer + "mlp.up_proj.weight": zeros(HEAD_DIM),
        layer + "mlp.down_proj.weight": zeros(hidden_size, HEAD_DIM),
    }
    for name in "qkvo":
        weights[f"{layer}self_attn.{name}_proj.weight"] = zeros(hidden_size)
    return weights


def write_checkpoint(folder: pathlib.Path, pieces: list[str], chat_template: str, special: list[str]) -> pathlib.Path:
    """`chat_template` must end prompts with START. Those of `pieces` that are in `special` are special tokens."""
    assert len(set(pieces)) == len(pieces), "a chain cannot come back to a token"
    assert all(len(piece.encode()) > 1 for piece in pieces), "single bytes have tokens already"
    tokenizer, ids = _tokenizer(pieces, special)
    vocabulary_size = len(tokenizer["model"]["vocab"])
    num_heads = -(-vocabulary_size // HEAD_DIM)
    hidden_size = num_heads * HEAD_DIM
    config = {
        "model_type": "llama",
        "hidden_size": hidden_size,
        "intermediate_size": HEAD_DIM,
        "num_hidden_layers": 1,
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_heads,
        "head_dim": HEAD_DIM,
        "vocab_size": vocabulary_size,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "eos_token_id": ids[END],
    }
    chain = [ids[START], *(ids[piece] for piece in pieces), ids[END]]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "chat_template": chat_template}))
    safetensors.numpy.save_file(_weights(chain, vocabulary_size, hidden_size), folder / "model.safetensors")
    return folder
