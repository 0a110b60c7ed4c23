"""Tiny seeded checkpoints per family, and what mlx-lm computes from them, in float32 and in their own type.

usage: make_goldens.py [--only NAME...] [--exact [--out FOLDER]] [--mlx FOLDER]      (pip: mlx-cpu==0.32.4 mlx-lm==0.32.2)

Writes, beside this file, one folder per variant: config.json, *.safetensors and expected.safetensors with `tokens`
(n) and teacher-forced `logits` (n, vocab), and exact.safetensors with the same `logits` in the checkpoint's own type
and, of its greedy continuation, `answer` (m) and `answer_logits` (m, vocab), and the same as `chunked_` where the prompt
was taken 16 tokens at a time. --exact makes the latter file only, from checkpoints that are there, and with --out
somewhere else: the bits of another device, which REDPOLL_TEST_EXACT=FOLDER lets the tests expect. Every variant has real
structure: grouped heads, a head_dim that is not hidden / heads, prompts longer than the original context of its rope
scaling, weights that differ per layer. What make_kv_goldens.py adds to a folder goes with the folder: make it again.

With --mlx FOLDER (the starter model as an MLX checkpoint) it also writes starter_greedy.json: greedy continuations of
eight prompts, 64 tokens each, end of sequence ignored.
"""

import argparse
import json
import pathlib
import shutil

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from variants import SEEDS, VARIANTS, VOCAB

HERE = pathlib.Path(__file__).parent
CHUNK = 16


def model_class(model_type):
    name = {"mistral": "llama"}.get(model_type, model_type)
    module = __import__(f"mlx_lm.models.{name}", fromlist=["Model", "ModelArgs"])
    return module.Model, module.ModelArgs


def randomize(model, dtype):
    center = 0.0 if model.model_type in ("gemma", "gemma2", "gemma3_text") else 1.0  # Gemma adds one to the weights of its norms

    def draw(path, parameter):
        if path.endswith("A_log"):  # memories that fade slowly; else one token decides alone what a norm enlarges
            return -2.0 + 0.3 * mx.random.normal(parameter.shape)
        if parameter.ndim == 1:  # norms near one, biases too: both far from doing nothing
            return (center + 0.3 * mx.random.normal(parameter.shape)).astype(dtype)
        fan_in = parameter.shape[1] if parameter.shape[-1] == 1 else parameter.shape[-1]  # of a convolution, its taps
        return (mx.random.normal(parameter.shape) * (1.5 / fan_in**0.5)).astype(dtype)

    model.update(tree_map_with_path(draw, model.parameters()))
    for module in model.modules():
        if "switch_mlp" in module:
            tie_experts(module)


def tie_experts(moe):
    """The last expert is the first one again: wherever they tie, either choice is right."""
    moe.gate.weight[-1] = moe.gate.weight[0]
    for name in ["gate_proj", "up_proj", "down_proj"]:
        moe.switch_mlp[name].weight[-1] = moe.switch_mlp[name].weight[0]


def quantize(model, config, bits, embedding_bits):
    mode = "affine"
    group_size = 32
    if isinstance(bits, str):  # the name of a format of small floats
        mode = bits
        group_size, bits = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}[mode]
    config["quantization"] = {"group_size": group_size, "bits": bits, "mode": mode}

    def decide(path, module):
        if not hasattr(module, "to_quantized"):
            return False
        if mode == "mxfp4" and "self_attn" in path:  # as published: experts in small floats, the rest in integers
            config["quantization"][path] = {"group_size": 32, "bits": 8, "mode": "affine"}
            return config["quantization"][path]
        if "embed_tokens" in path and embedding_bits != bits:
            rule = {"group_size": group_size, "bits": embedding_bits} if embedding_bits else False
            config["quantization"][path] = rule
            return rule
        return True

    nn.quantize(model, group_size=group_size, bits=bits, mode=mode, class_predicate=decide)


def save(folder, model, config, shards):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    weights = tree_flatten(model.parameters())
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), dict(weights), {"format": "mlx"})
        return
    index = {"metadata": {}, "weight_map": {}}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(weights[shard::shards])
        mx.save_safetensors(str(folder / name), part, {"format": "mlx"})
        index["weight_map"] |= {key: name for key in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def make_variant(seed, name):
    config, dtype, bits, embedding_bits, shards = VARIANTS[name]
    config = dict(config)
    mx.random.seed(seed)
    nn.gelu = nn.gelu_approx  # as transformers has it in Gemma and StarCoder2, whose weights were trained so
    Model, ModelArgs = model_class(config["model_type"])
    model = Model(ModelArgs.from_dict(config))
    if config["tie_word_embeddings"] and "lm_head" in model:  # mlx-lm drops it when it loads
        model.pop("lm_head")
        model.tie_word_embeddings = True
    randomize(model, dtype)
    if bits:
        quantize(model, config, bits, embedding_bits)
    folder = HERE / name
    save(folder, model, config, shards)

    loaded, _ = load_model(folder)
    loaded.set_dtype(mx.float32)
    tokens = mx.random.randint(0, VOCAB, (70,))
    logits = loaded(tokens[None], cache=make_prompt_cache(loaded))[0]
    mx.save_safetensors(
        str(folder / "expected.safetensors"),
        {"tokens": tokens.astype(mx.int32), "logits": logits.astype(mx.float32)},
    )
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1000:.0f} kB, logits std {logits.std().item():.2f}")


def generate(model, tokens, num_answers=24, **options):
    """The greedy continuation of the tokens, and the logits of each of it."""
    seen = []

    def listen(_, row):
        seen.append(row[0])
        return row

    steps = generate_step(tokens, model, max_tokens=num_answers, logits_processors=[listen], **options)
    return mx.array([token for token, _ in steps], mx.int32), mx.stack(seen[:num_answers])


def make_exact(name, out):
    nn.gelu = nn.gelu_approx  # see make_variant
    folder = HERE / name
    model, config = load_model(folder)
    has_dense_experts = "quantization" not in config and any("switch" in path for path, _ in model.named_modules())
    if has_dense_experts and mx.default_device() == mx.cpu:
        model.set_dtype(mx.float32)  # MLX multiplies them in no other type there
    tokens = mx.load(str(folder / "expected.safetensors"))["tokens"]
    logits = model(tokens[None], cache=make_prompt_cache(model))[0]

    answer, answer_logits = generate(model, tokens)
    chunked_answer, chunked_logits = generate(model, tokens, prefill_step_size=CHUNK)
    (out / name).mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(
        str(out / name / "exact.safetensors"),
        {
            "logits": logits,
            "answer": answer,
            "answer_logits": answer_logits,
            "chunked_answer": chunked_answer,
            "chunked_logits": chunked_logits,
        },
    )
    print(f"{name}: {logits.dtype}, answer {answer[:8].tolist()}")


PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain what a hash table is to a ten-year-old.",
    "List three prime numbers greater than 50.",
    "Translate to French: The weather is nice today.",
    "def fibonacci(n):",
    "Who wrote the play Hamlet, and when?",
    "Give me a short recipe with eggs and tomatoes.",
]


def chat_ids(tokenizer, prompt):
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    text = (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    )
    return tokenizer.encode(text, add_special_tokens=False).ids


def make_starter(folder):
    from tokenizers import Tokenizer

    model, _ = load_model(pathlib.Path(folder))
    model.set_dtype(mx.float32)
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    cases = []
    for prompt in PROMPTS:
        ids = chat_ids(tokenizer, prompt)
        cache = make_prompt_cache(model)
        logits = model(mx.array(ids)[None], cache=cache)[0, -1]
        out, margins = [], []
        for _ in range(64):
            top = mx.sort(logits)[-2:]
            margins.append((top[1] - top[0]).item())
            out.append(mx.argmax(logits).item())
            logits = model(mx.array([[out[-1]]]), cache=cache)[0, -1]
        cases.append({"prompt": prompt, "prompt_token_ids": ids, "token_ids": out, "min_margin": min(margins)})
        print(prompt, min(margins), tokenizer.decode(out)[:60].replace("\n", " "))
    (HERE / "starter_greedy.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), help="variants to make instead of all")
    parser.add_argument("--exact", action="store_true", help="exact.safetensors only")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="where exact.safetensors go, by variant")
    parser.add_argument("--mlx", help="the starter model as an MLX checkpoint folder with its tokenizer.json")
    arguments = parser.parse_args()
    for name in arguments.only or VARIANTS:
        if not arguments.exact:
            make_variant(SEEDS[name], name)
        make_exact(name, arguments.out)
    if arguments.mlx:
        make_starter(arguments.mlx)
