"""What mlx-optiq computes with keys and values in codes: the exact tier's --kv-quant, to the bit.

usage: make_kv_goldens.py [--only NAME...] [--out FOLDER]   (pip: mlx-cpu==0.32.4 mlx-lm==0.32.2 mlx-optiq==0.7.7 --no-deps)

Writes, into the folders that make_goldens.py has made, kv_config.json, exact_kv_8.safetensors and
exact_kv_4.safetensors, all layers in as many bits, and exact_kv_config.safetensors, what kv_config.json says. Each has the greedy `answer` (m) and
`answer_logits` (m, vocab) of the variant's tokens, the same as `chunked_` where the prompt was taken 16 tokens at a time,
and as `short_` of its first token alone. --out is for another device's bits, as make_goldens.py has it.

What `optiq eval` and `optiq serve --no-fused-kv` do to a single stream: mlx-lm's own loop, in which the first tokens
that are computed attend before anything is packed, with mlx-optiq's caches for windows and its attention with sinks.
"""

import argparse
import functools
import json
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import load_model
from optiq.runtime.kv import patch_rotating_to_quantized
from optiq.serve import _load_kv_config, install_mixed_kv

from make_goldens import CHUNK, HERE, generate
from variants import KV_CONFIGS

mlx_lm_generate = sys.modules["mlx_lm.generate"]  # the package has a function of this name
PLAIN_LOOP = mlx_lm_generate.maybe_quantize_kv_cache


def group_size_of(config):
    heads = [config.get("head_dim"), config.get("global_head_dim")]
    return 64 if all(dim % 64 == 0 for dim in heads if dim) else 32


def install(folder, config, scheme):
    """The arguments with which generate_step packs as `scheme` says."""
    mlx_lm_generate.maybe_quantize_kv_cache = PLAIN_LOOP
    patch_rotating_to_quantized()  # after the model's module was imported, which it changes
    if scheme == "config":
        install_mixed_kv(_load_kv_config(folder / "kv_config.json"), quantized_kv_start=0)
        return {"kv_bits": 8, "quantized_kv_start": 0}  # any bits: the file has them
    return {"kv_bits": int(scheme), "kv_group_size": group_size_of(config), "quantized_kv_start": 0}


def make(name, scheme, out):
    nn.gelu = nn.gelu_approx  # see make_goldens.py
    folder = HERE / name
    model, config = load_model(folder)
    tokens = mx.load(str(folder / "expected.safetensors"))["tokens"]
    answers = functools.partial(generate, model, **install(folder, config, scheme))
    answer, answer_logits = answers(tokens)
    chunked_answer, chunked_logits = answers(tokens, prefill_step_size=CHUNK)
    short_answer, short_logits = answers(tokens[:1])
    (out / name).mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(
        str(out / name / f"exact_kv_{scheme}.safetensors"),
        {
            "answer": answer,
            "answer_logits": answer_logits,
            "chunked_answer": chunked_answer,
            "chunked_logits": chunked_logits,
            "short_answer": short_answer,
            "short_logits": short_logits,
        },
    )
    print(f"{name}, {scheme}: answer {answer[:8].tolist()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=list(KV_CONFIGS), help="variants to make instead of all")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="where the files go, by variant")
    arguments = parser.parse_args()
    for name in arguments.only or KV_CONFIGS:
        entries = [dict(zip(["layer_idx", "bits", "group_size"], entry)) for entry in KV_CONFIGS[name]]
        (HERE / name / "kv_config.json").write_text(json.dumps(entries) + "\n")
        for scheme in ["8", "4", "config"]:
            make(name, scheme, arguments.out)
