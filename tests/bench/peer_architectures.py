"""What the model families are: for each model_type of config.json the name of the architecture in GGUF files, the sizes
that the parameters have, and the metadata that a GGUF file has in place of config.json.
"""

import dataclasses
from collections.abc import Callable

import peer_layers
from peer_layers import gemma4_own_layers
from peer_parameters import Config, Parameter, Row, Sizes, placed


# --- Sizes ----------------------------------------------------------------------------------------------------------


def head_dim(config: Config) -> int:
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def sizes_of(config: Config, head: int, inner: int) -> Sizes:
    heads, kv_heads, hidden = config["num_attention_heads"], config["num_key_value_heads"], config["hidden_size"]
    return {
        "one": 1,
        "hidden": hidden,
        "triple_hidden": 3 * hidden,
        "vocab": config["vocab_size"],
        "inner": inner,
        "double_inner": 2 * inner,
        "heads": heads,
        "kv_heads": kv_heads,
        "head": head,
        "queries": heads * head,
        "double_queries": 2 * heads * head,
        "keys": kv_heads * head,
        "qkv": (heads + 2 * kv_heads) * head,
    }


def usual_sizes(config: Config, _: int) -> Sizes:
    return sizes_of(config, head_dim(config), config.get("intermediate_size", 0))


def moe_sizes(config: Config, layer: int) -> Sizes:
    return usual_sizes(config, layer) | {"experts": config["num_experts"], "expert": config["moe_intermediate_size"]}


def gpt_oss_sizes(config: Config, layer: int) -> Sizes:
    return usual_sizes(config, layer) | {"experts": config["num_local_experts"], "expert": config["intermediate_size"]}


def qwen3_5_sizes(config: Config, layer: int) -> Sizes:
    key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    keys, values = key_heads * config["linear_key_head_dim"], value_heads * config["linear_value_head_dim"]
    delta = {
        "delta_key_heads": key_heads,
        "delta_value_heads": value_heads,
        "delta_value": config["linear_value_head_dim"],
        "delta_keys": 2 * keys,  # queries too
        "delta_values": values,
        "delta": 2 * keys + values,
        "taps": config["linear_conv_kernel_dim"],
    }
    if "num_experts" not in config:
        return usual_sizes(config, layer) | delta
    return moe_sizes(config, layer) | delta | {"shared": config["shared_expert_intermediate_size"]}


def lfm2_sizes(config: Config, _: int) -> Sizes:
    inner, multiple = 2 * config["block_ff_dim"] // 3, config["block_multiple_of"]
    inner = -(-inner // multiple) * multiple
    return sizes_of(config, head_dim(config), inner) | {"taps": config["conv_L_cache"]}


def gemma4_sizes(config: Config, layer: int) -> Sizes:
    head = config["head_dim"] if slides(config)[layer] else config["global_head_dim"]
    inner = config["intermediate_size"] * (2 if layer >= gemma4_own_layers(config) else 1)
    each = config["hidden_size_per_layer_input"]
    return sizes_of(config, head, inner) | {"layer_input": each, "layer_inputs": config["num_hidden_layers"] * each}


def slides(config: Config) -> list[bool]:
    """Which layers see a window only: all but every so many."""
    return [(layer + 1) % config["sliding_window_pattern"] != 0 for layer in range(config["num_hidden_layers"])]


# --- Metadata -------------------------------------------------------------------------------------------------------


def rope_field(config: Config, name: str, default: float) -> float:
    return config.get("rope_parameters", config).get(name, default)


def usual_metadata(config: Config) -> dict:
    """By key without the architecture's name before it."""
    return {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config.get("intermediate_size", 0),
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim(config),
        "attention.value_length": head_dim(config),
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.dimension_count": int(head_dim(config) * rope_field(config, "partial_rotary_factor", 1.0)),
        "rope.freq_base": rope_field(config, "rope_theta", 0.0),
    }


def moe_metadata(config: Config) -> dict:
    return {
        "expert_count": config["num_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
    }


def gpt_oss_metadata(config: Config) -> dict:
    scaling = config["rope_scaling"]
    return {
        "expert_count": config["num_local_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_feed_forward_length": config["intermediate_size"],
        "attention.sliding_window": config["sliding_window"],
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": scaling["factor"],
        "rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
    }


def qwen3_5_metadata(config: Config) -> dict:
    rotated = int(head_dim(config) * rope_field(config, "partial_rotary_factor", 1.0))
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    delta = {
        "full_attention_interval": config["full_attention_interval"],
        "rope.dimension_sections": [rotated // 2, 0, 0, 0],  # text has one kind of position
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.inner_size": values,
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.time_step_rank": config["linear_num_value_heads"],
        "ssm.group_count": config["linear_num_key_heads"],
    }
    if "num_experts" not in config:
        return delta
    shared = {"expert_shared_feed_forward_length": config["shared_expert_intermediate_size"]}
    return delta | moe_metadata(config) | shared


def lfm2_metadata(config: Config) -> dict:
    layers = range(config["num_hidden_layers"])
    kv_heads = [config["num_key_value_heads"] if i in config["full_attn_idxs"] else 0 for i in layers]
    return {
        "feed_forward_length": lfm2_sizes(config, 0)["inner"],
        "attention.head_count_kv": kv_heads,
        "shortconv.l_cache": config["conv_L_cache"],
        "vocab_size": config["vocab_size"],
    }


def gemma2_metadata(config: Config) -> dict:
    return {
        "attention.sliding_window": config["sliding_window"],
        "attn_logit_softcapping": config["attn_logit_softcapping"],
        "final_logit_softcapping": config["final_logit_softcapping"],
    }


def gemma3_metadata(config: Config) -> dict:
    return {
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": config["sliding_window_pattern"],
        "rope.freq_base_swa": config["rope_local_base_freq"],
    }


def gemma4_metadata(config: Config) -> dict:
    ropes = config["rope_parameters"]
    inners = [gemma4_sizes(config, layer)["inner"] for layer in range(config["num_hidden_layers"])]
    return {
        "feed_forward_length": inners,
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "attention.shared_kv_layers": config["num_kv_shared_layers"],
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": slides(config),
        "attention.key_length": config["global_head_dim"],
        "attention.value_length": config["global_head_dim"],
        "attention.key_length_swa": config["head_dim"],
        "attention.value_length_swa": config["head_dim"],
        "rope.dimension_count": config["global_head_dim"],
        "rope.dimension_count_swa": config["head_dim"],
        "rope.freq_base": ropes["full_attention"]["rope_theta"],
        "rope.freq_base_swa": ropes["sliding_attention"]["rope_theta"],
        "final_logit_softcapping": config["final_logit_softcapping"],
    }


def granite_metadata(config: Config) -> dict:
    return {
        "attention.scale": config["attention_multiplier"],
        "embedding_scale": config["embedding_multiplier"],
        "residual_scale": config["residual_multiplier"],
        "logit_scale": config["logits_scaling"],
        "vocab_size": config["vocab_size"],
    }


def starcoder2_metadata(config: Config) -> dict:
    return {"attention.layer_norm_epsilon": config["rms_norm_eps"]}


def gemma4_constants(config: Config) -> dict[str, list[float]]:
    """Where all tokens are seen, only the first pairs of each half are rotated."""
    pairs = config["global_head_dim"] // 2
    rotated = int(pairs * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    return {"rope_freqs.weight": [1.0] * rotated + [1e30] * (pairs - rotated)}


# --- The table ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Architecture:
    gguf: str  # its name in GGUF files
    layer: Callable[[Config, int], tuple[Row, ...]]
    outside: tuple[Row, ...] = peer_layers.OUTSIDE  # the layers; an output matrix comes on top
    sizes: Callable[[Config, int], Sizes] = usual_sizes
    metadata: Callable[[Config], dict] = lambda config: {}  # beside the usual
    constants: Callable[[Config], dict[str, list[float]]] = lambda config: {}  # tensors of the GGUF file alone
    prefix: str = ""  # of all names in the folder


def always(rows: tuple[Row, ...]) -> Callable[[Config, int], tuple[Row, ...]]:
    return lambda config, layer: rows


ARCHITECTURES = {
    "gemma": Architecture("gemma", always(peer_layers.GEMMA), peer_layers.GEMMA_OUTSIDE),
    "gemma2": Architecture("gemma2", always(peer_layers.GEMMA2), peer_layers.GEMMA_OUTSIDE, metadata=gemma2_metadata),
    "gemma3_text": Architecture(
        "gemma3", always(peer_layers.GEMMA3), peer_layers.GEMMA_OUTSIDE, metadata=gemma3_metadata
    ),
    "gemma4_text": Architecture(
        "gemma4", peer_layers.gemma4_layer, peer_layers.GEMMA4_OUTSIDE, gemma4_sizes, gemma4_metadata, gemma4_constants
    ),
    "glm4": Architecture("glm4", always(peer_layers.GLM4)),
    "gpt_oss": Architecture("gpt-oss", always(peer_layers.GPT_OSS), sizes=gpt_oss_sizes, metadata=gpt_oss_metadata),
    "granite": Architecture("granite", always(peer_layers.LLAMA), metadata=granite_metadata),
    "lfm2": Architecture(
        "lfm2", peer_layers.lfm2_layer, peer_layers.LFM2_OUTSIDE, sizes=lfm2_sizes, metadata=lfm2_metadata
    ),
    "llama": Architecture("llama", always(peer_layers.LLAMA)),
    "olmo2": Architecture("olmo2", always(peer_layers.OLMO2)),
    "phi3": Architecture("phi3", always(peer_layers.PHI3)),
    "qwen2": Architecture("qwen2", always(peer_layers.QWEN2)),
    "qwen3": Architecture("qwen3", always(peer_layers.QWEN3)),
    "qwen3_5": Architecture(
        "qwen35", peer_layers.qwen3_5_layer, sizes=qwen3_5_sizes, metadata=qwen3_5_metadata, prefix="language_model."
    ),
    "qwen3_5_moe": Architecture(
        "qwen35moe", peer_layers.qwen3_5_layer, sizes=qwen3_5_sizes, metadata=qwen3_5_metadata, prefix="language_model."
    ),
    "qwen3_moe": Architecture("qwen3moe", always(peer_layers.QWEN3_MOE), sizes=moe_sizes, metadata=moe_metadata),
    "smollm3": Architecture("smollm3", always(peer_layers.LLAMA)),
    "starcoder2": Architecture(
        "starcoder2", always(peer_layers.STARCODER2), peer_layers.STARCODER2_OUTSIDE, metadata=starcoder2_metadata
    ),
}


def architecture(config: Config) -> Architecture:
    return ARCHITECTURES[config["model_type"]]


def parameters(config: Config) -> list[Parameter]:
    """All of a model, in one order."""
    own = architecture(config)
    outside = own.outside if config["tie_word_embeddings"] else (*own.outside, peer_layers.HEAD)
    sizes = own.sizes(config, 0)
    result = [placed(row, sizes, own.prefix, "") for row in outside]
    for layer in range(config["num_hidden_layers"]):
        sizes, name = own.sizes(config, layer), f"{own.prefix}model.layers.{layer}."
        result += [placed(row, sizes, name, f"blk.{layer}.") for row in own.layer(config, layer)]
    return result


def metadata(config: Config) -> dict:
    """Of the GGUF file, by whole key."""
    own = architecture(config)
    return {f"{own.gguf}.{key}": value for key, value in (usual_metadata(config) | own.metadata(config)).items()}
