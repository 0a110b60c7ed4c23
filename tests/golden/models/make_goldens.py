"""Tiny seeded checkpoints per family, and what mlx-lm computes from them in float32.

usage: make_goldens.py [--only NAME...] [--mlx FOLDER]      (pip: mlx-cpu==0.32.4 mlx-lm==0.32.2)

Writes, beside this file, one folder per variant: config.json, *.safetensors and expected.safetensors with `tokens`
(n) and teacher-forced `logits` (n, vocab). Every variant has real structure: grouped heads, a head_dim that is not
hidden / heads, prompts longer than the original context of its rope scaling, weights that differ per layer.

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
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

HERE = pathlib.Path(__file__).parent
VOCAB = 96
BASE = dict(
    vocab_size=VOCAB,
    hidden_size=64,
    num_hidden_layers=2,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    max_position_embeddings=256,
    hidden_act="silu",
    tie_word_embeddings=True,
)
LLAMA3_ROPE = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=24, linear_conv_kernel_dim=4)
GEMMA = dict(BASE, hidden_size=64, head_dim=32, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh")
del GEMMA["hidden_act"]
# name -> (config, dtype, bits of the projections or a format of small floats, bits of the embedding, number of shards)
VARIANTS = {
    # Caps that bite; mlx-lm has no window here, so the config asks for none.
    "gemma2_capped": (dict(GEMMA, model_type="gemma2", hidden_size=48, intermediate_size=64, head_dim=16, num_hidden_layers=2, query_pre_attn_scalar=24, attn_logit_softcapping=4.0, final_logit_softcapping=3.0), mx.bfloat16, 0, 0, 1),
    # Layers 1, 2 and 4 see 20 tokens of 70, layer 3 all.
    "gemma3_text_windows_4bit": (
        dict(
            GEMMA,
            model_type="gemma3_text",
            num_hidden_layers=4,
            query_pre_attn_scalar=32,
            sliding_window=20,
            sliding_window_pattern=3,
            rope_theta=1e6,
            rope_local_base_freq=1e4,
            rope_scaling=dict(rope_type="linear", factor=8.0),
        ),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "glm4_4bit": (
        dict(BASE, model_type="glm4", head_dim=32, attention_bias=True, partial_rotary_factor=0.5, tie_word_embeddings=False),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    # Windows of 20 tokens in layers 1 and 3, sinks, experts in mxfp4; prompts go beyond yarn's original context.
    "gpt_oss_mxfp4": (
        dict(BASE, model_type="gpt_oss", hidden_size=32, intermediate_size=32, num_hidden_layers=4, head_dim=16, num_local_experts=5, num_experts_per_tok=2, sliding_window=20, tie_word_embeddings=False, layer_types=["sliding_attention", "full_attention"] * 2, rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, original_max_position_embeddings=32)),
        mx.bfloat16,
        "mxfp4",
        0,
        1,
    ),
    "qwen3_mxfp8": (dict(BASE, model_type="qwen3", hidden_size=32, intermediate_size=64, head_dim=16), mx.bfloat16, "mxfp8", 0, 1),
    "qwen3_nvfp4": (dict(BASE, model_type="qwen3", hidden_size=32, intermediate_size=64, head_dim=16), mx.bfloat16, "nvfp4", 0, 1),
    "granite_4bit": (
        dict(BASE, model_type="granite", attention_bias=False, mlp_bias=False, attention_multiplier=0.3, embedding_multiplier=6.0, residual_multiplier=0.4, logits_scaling=2.0),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "llama_bias_llama3_rope": (
        dict(
            BASE,
            model_type="llama",
            hidden_size=48,
            intermediate_size=64,
            head_dim=24,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=False,
            rope_scaling=LLAMA3_ROPE,
        ),
        mx.bfloat16,
        0,
        0,
        1,
    ),
    "llama_interleaved_linear_rope_4bit": (
        dict(BASE, model_type="llama", rope_traditional=True, rope_scaling=dict(type="linear", factor=2.0)),
        mx.float16,
        4,
        8,
        1,
    ),
    "mistral_f32": (dict(BASE, model_type="mistral", hidden_size=32, intermediate_size=48, sliding_window=None, head_dim=16), mx.float32, 0, 0, 1),
    "olmo2_bf16": (dict(BASE, model_type="olmo2", hidden_size=48, intermediate_size=64, head_dim=24), mx.bfloat16, 0, 0, 1),
    "smollm3_4bit": (dict(BASE, model_type="smollm3", num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0]), mx.float16, 4, 8, 1),
    # 32 of the 70 tokens are within the original context; the other four dims of each head are not rotated.
    "phi3_longrope_4bit": (
        dict(
            BASE,
            model_type="phi3",
            partial_rotary_factor=0.75,
            original_max_position_embeddings=32,
            rope_scaling=dict(type="longrope", short_factor=[1.0] * 6, long_factor=[1.0, 1.1, 1.3, 1.9, 3.0, 5.0]),
        ),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "phi3_f16": (dict(BASE, model_type="phi3", hidden_size=48, intermediate_size=64, tie_word_embeddings=False), mx.float16, 0, 0, 1),
    "qwen2_f16": (dict(BASE, model_type="qwen2", hidden_size=48, intermediate_size=64, rope_theta=1e6), mx.float16, 0, 0, 1),
    "qwen3_4bit_two_shards": (dict(BASE, model_type="qwen3", head_dim=32, rope_theta=1e6), mx.float16, 4, 4, 2),
    # Layers 1 and 3 have experts, layer 2 an MLP.
    "qwen3_moe_4bit": (
        dict(BASE, model_type="qwen3_moe", num_hidden_layers=3, head_dim=16, hidden_size=32, intermediate_size=64, moe_intermediate_size=32, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1]),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    # Three recurrent layers, then one with attention; value heads share key heads. A large eps, because the first tokens
    # have but a product of random q and k, which the norm after them enlarges where it is near to zero.
    "qwen3_5_4bit": (
        dict(BASE, model_type="qwen3_5", hidden_size=32, num_hidden_layers=4, head_dim=24, intermediate_size=64, rms_norm_eps=1e-3, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.25), **DELTA),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "qwen3_5_moe_bf16": (
        dict(BASE, model_type="qwen3_5_moe", hidden_size=32, num_hidden_layers=2, head_dim=16, full_attention_interval=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, num_experts=4, num_experts_per_tok=2, tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5), **DELTA),
        mx.bfloat16,
        0,
        0,
        1,
    ),
    "lfm2_4bit": (
        dict(BASE, model_type="lfm2", num_hidden_layers=3, norm_eps=1e-5, conv_bias=False, conv_L_cache=3, block_dim=64, block_ff_dim=96, block_multiple_of=32, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True, layer_types=["conv", "full_attention", "conv"]),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "lfm2_bias_f32": (
        dict(BASE, model_type="lfm2", hidden_size=24, num_hidden_layers=2, norm_eps=1e-5, conv_bias=True, conv_L_cache=4, block_dim=24, block_ff_dim=40, block_multiple_of=32, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=False, full_attn_idxs=[1]),
        mx.float32,
        0,
        0,
        1,
    ),
    "qwen3_moe_f16": (
        dict(BASE, model_type="qwen3_moe", head_dim=16, hidden_size=32, intermediate_size=32, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=2, mlp_only_layers=[]),
        mx.float16,
        0,
        0,
        1,
    ),
    "qwen3_untied_6bit": (
        dict(BASE, model_type="qwen3", head_dim=32, rope_theta=1e6, tie_word_embeddings=False),
        mx.bfloat16,
        6,
        0,
        1,
    ),
}


# What a variant is drawn from: fixed, so that a new one leaves the others as they are.
SEEDS = {
    "llama_bias_llama3_rope": 0,
    "llama_interleaved_linear_rope_4bit": 1,
    "mistral_f32": 2,
    "qwen2_f16": 3,
    "qwen3_4bit_two_shards": 4,
    "qwen3_untied_6bit": 5,
    "gemma2_capped": 6,
    "gemma3_text_windows_4bit": 7,
    "olmo2_bf16": 8,
    "smollm3_4bit": 9,
    "granite_4bit": 10,
    "glm4_4bit": 11,
    "phi3_longrope_4bit": 12,
    "phi3_f16": 13,
    "qwen3_moe_4bit": 14,
    "qwen3_moe_f16": 15,
    "qwen3_5_4bit": 20,
    "qwen3_5_moe_bf16": 17,
    "lfm2_4bit": 18,
    "lfm2_bias_f32": 19,
    "gpt_oss_mxfp4": 21,
    "qwen3_mxfp8": 22,
    "qwen3_nvfp4": 23,
}


def model_class(model_type):
    name = {"mistral": "llama"}.get(model_type, model_type)
    module = __import__(f"mlx_lm.models.{name}", fromlist=["Model", "ModelArgs"])
    return module.Model, module.ModelArgs


def randomize(model, dtype):
    center = 0.0 if model.model_type.startswith("gemma") else 1.0  # Gemma adds one to the weights of its norms

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
    parser.add_argument("--mlx", help="the starter model as an MLX checkpoint folder with its tokenizer.json")
    arguments = parser.parse_args()
    for name in arguments.only or VARIANTS:
        make_variant(SEEDS[name], name)
    if arguments.mlx:
        make_starter(arguments.mlx)
