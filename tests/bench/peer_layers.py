"""The parameters of the model families, under their names in a model folder and in a GGUF file: what stands outside the
layers, and what each layer has.
"""

import numpy as np
from peer_parameters import Config, Row, bias, dealt, interleaved, matrix, norm, norm_less_one, router

# --- Rows that families share ---------------------------------------------------------------------------------------

EMBEDDING = matrix("model.embed_tokens", "token_embd", "vocab", "hidden")
HEAD = matrix("lm_head", "output", "vocab", "hidden")
OUTSIDE = (EMBEDDING, norm("model.norm", "output_norm"))
LFM2_OUTSIDE = (EMBEDDING, norm("model.embedding_norm", "token_embd_norm"))
STARCODER2_OUTSIDE = (*OUTSIDE, bias("model.norm", "output_norm", "hidden"))
GEMMA_OUTSIDE = (EMBEDDING, norm_less_one("model.norm", "output_norm"))

KEYS_AND_VALUES = (
    matrix("self_attn.k_proj", "attn_k", "keys", "hidden"),
    matrix("self_attn.v_proj", "attn_v", "keys", "hidden"),
)
QUERIES = matrix("self_attn.q_proj", "attn_q", "queries", "hidden")
ATTENDED = matrix("self_attn.o_proj", "attn_output", "hidden", "queries")
ATTENTION = (QUERIES, *KEYS_AND_VALUES, ATTENDED)
INTERLEAVED_ATTENTION = (
    matrix("self_attn.q_proj", "attn_q", "queries", "hidden", rows=interleaved("heads")),
    matrix("self_attn.k_proj", "attn_k", "keys", "hidden", rows=interleaved("kv_heads")),
    matrix("self_attn.v_proj", "attn_v", "keys", "hidden"),
    ATTENDED,
)
QKV_BIASES = (
    bias("self_attn.q_proj", "attn_q", "queries"),
    bias("self_attn.k_proj", "attn_k", "keys"),
    bias("self_attn.v_proj", "attn_v", "keys"),
)
OUTPUT_BIAS = bias("self_attn.o_proj", "attn_output", "hidden")
HEAD_NORMS = (
    norm("self_attn.q_norm", "attn_q_norm", "head"),
    norm("self_attn.k_norm", "attn_k_norm", "head"),
)
ATTENTION_NORM = norm("input_layernorm", "attn_norm")
NORMS = (ATTENTION_NORM, norm("post_attention_layernorm", "ffn_norm"))
MLP = (
    matrix("mlp.gate_proj", "ffn_gate", "inner", "hidden"),
    matrix("mlp.up_proj", "ffn_up", "inner", "hidden"),
    matrix("mlp.down_proj", "ffn_down", "hidden", "inner"),
)
FUSED_MLP = (
    matrix("mlp.gate_up_proj", "ffn_up", "double_inner", "hidden"),
    matrix("mlp.down_proj", "ffn_down", "hidden", "inner"),
)


def experts(scope: str) -> tuple[Row, ...]:
    return (
        matrix(f"{scope}.gate_proj", "ffn_gate_exps", "experts", "expert", "hidden"),
        matrix(f"{scope}.up_proj", "ffn_up_exps", "experts", "expert", "hidden"),
        matrix(f"{scope}.down_proj", "ffn_down_exps", "experts", "hidden", "expert"),
    )


# --- Rows of single families ----------------------------------------------------------------------------------------

LLAMA = (*INTERLEAVED_ATTENTION, *MLP, *NORMS)
QWEN2 = (*ATTENTION, *QKV_BIASES, *MLP, *NORMS)
QWEN3 = (*ATTENTION, *HEAD_NORMS, *MLP, *NORMS)
QWEN3_MOE = (*ATTENTION, *HEAD_NORMS, router("mlp.gate", "ffn_gate_inp", "experts"), *experts("mlp.switch_mlp"), *NORMS)
GPT_OSS = (
    *ATTENTION,
    *QKV_BIASES,
    OUTPUT_BIAS,
    Row("self_attn.sinks", "attn_sinks.weight", ("heads",), span=(-1.0, 1.0)),
    router("mlp.router", "ffn_gate_inp", "experts"),
    bias("mlp.router", "ffn_gate_inp", "experts"),
    *experts("mlp.experts"),
    bias("mlp.experts.gate_proj", "ffn_gate_exps", "experts", "expert"),
    bias("mlp.experts.up_proj", "ffn_up_exps", "experts", "expert"),
    bias("mlp.experts.down_proj", "ffn_down_exps", "experts", "hidden"),
    ATTENTION_NORM,
    norm("post_attention_layernorm", "post_attention_norm"),
)
DELTA = (
    matrix("linear_attn.in_proj_qkv", "attn_qkv", "delta", "hidden", rows=dealt("delta_value", "delta_keys")),
    matrix("linear_attn.in_proj_z", "attn_gate", "delta_values", "hidden", rows=dealt("delta_value")),
    matrix("linear_attn.in_proj_a", "ssm_alpha", "delta_value_heads", "hidden", rows=dealt("one")),
    matrix("linear_attn.in_proj_b", "ssm_beta", "delta_value_heads", "hidden", rows=dealt("one")),
    matrix("linear_attn.out_proj", "ssm_out", "hidden", "delta_values", columns=dealt("delta_value")),
    Row("linear_attn.conv1d.weight", "ssm_conv1d.weight", ("delta", "taps", "one"), span=(-0.5, 0.5),
        rows=dealt("delta_value", "delta_keys")),
    Row("linear_attn.A_log", "ssm_a", ("delta_value_heads",), span=(0.0, 2.0), to_gguf=lambda logs: -np.exp(logs),
        rows=dealt("one")),
    Row("linear_attn.dt_bias", "ssm_dt.bias", ("delta_value_heads",), span=(-4.0, -1.0), rows=dealt("one")),
    norm("linear_attn.norm", "ssm_norm", "delta_value"),
)  # fmt: skip
GATED_ATTENTION = (
    matrix("self_attn.q_proj", "attn_q", "double_queries", "hidden"),
    *KEYS_AND_VALUES,
    ATTENDED,
    *HEAD_NORMS,
)
QWEN3_5_NORMS = (ATTENTION_NORM, norm("post_attention_layernorm", "post_attention_norm"))
QWEN3_5_MOE = (
    router("mlp.gate", "ffn_gate_inp", "experts"),
    *experts("mlp.switch_mlp"),
    router("mlp.shared_expert_gate", "ffn_gate_inp_shexp", "one"),
    matrix("mlp.shared_expert.gate_proj", "ffn_gate_shexp", "shared", "hidden"),
    matrix("mlp.shared_expert.up_proj", "ffn_up_shexp", "shared", "hidden"),
    matrix("mlp.shared_expert.down_proj", "ffn_down_shexp", "hidden", "shared"),
)
LFM2_CONVOLUTION = (
    matrix("conv.in_proj", "shortconv.in_proj", "triple_hidden", "hidden"),
    matrix("conv.out_proj", "shortconv.out_proj", "hidden", "hidden"),
    Row("conv.conv.weight", "shortconv.conv.weight", ("hidden", "taps", "one"), span=(-0.5, 0.5)),
)
LFM2_ATTENTION = (
    QUERIES,
    *KEYS_AND_VALUES,
    matrix("self_attn.out_proj", "attn_output", "hidden", "queries"),
    norm("self_attn.q_layernorm", "attn_q_norm", "head"),
    norm("self_attn.k_layernorm", "attn_k_norm", "head"),
)
LFM2_REST = (
    matrix("feed_forward.w1", "ffn_gate", "inner", "hidden"),
    matrix("feed_forward.w3", "ffn_up", "inner", "hidden"),
    matrix("feed_forward.w2", "ffn_down", "hidden", "inner"),
    norm("operator_norm", "attn_norm"),
    norm("ffn_norm", "ffn_norm"),
)
GEMMA = (
    *ATTENTION,
    *MLP,
    norm_less_one("input_layernorm", "attn_norm"),
    norm_less_one("post_attention_layernorm", "ffn_norm"),
)
GEMMA2 = (
    *ATTENTION,
    *MLP,
    norm_less_one("input_layernorm", "attn_norm"),
    norm_less_one("post_attention_layernorm", "post_attention_norm"),
    norm_less_one("pre_feedforward_layernorm", "ffn_norm"),
    norm_less_one("post_feedforward_layernorm", "post_ffw_norm"),
)
GEMMA3 = (
    *GEMMA2,
    norm_less_one("self_attn.q_norm", "attn_q_norm", "head"),
    norm_less_one("self_attn.k_norm", "attn_k_norm", "head"),
)
GEMMA4_OUTSIDE = (
    *OUTSIDE,
    matrix("model.embed_tokens_per_layer", "per_layer_token_embd", "vocab", "layer_inputs"),
    matrix("model.per_layer_model_projection", "per_layer_model_proj", "layer_inputs", "hidden"),
    norm("model.per_layer_projection_norm", "per_layer_proj_norm", "layer_input"),
)
GEMMA4 = (
    QUERIES,
    ATTENDED,
    norm("self_attn.q_norm", "attn_q_norm", "head"),
    *MLP,
    ATTENTION_NORM,
    norm("post_attention_layernorm", "post_attention_norm"),
    norm("pre_feedforward_layernorm", "ffn_norm"),
    norm("post_feedforward_layernorm", "post_ffw_norm"),
    matrix("per_layer_input_gate", "inp_gate", "layer_input", "hidden"),
    matrix("per_layer_projection", "proj", "hidden", "layer_input"),
    norm("post_per_layer_input_norm", "post_norm"),
    Row("layer_scalar", "layer_output_scale.weight", ("one",), span=(0.9, 1.1)),
)
GEMMA4_OWN_KEYS = (*KEYS_AND_VALUES, norm("self_attn.k_norm", "attn_k_norm", "head"))
OLMO2 = (
    *ATTENTION,
    *MLP,
    norm("self_attn.q_norm", "attn_q_norm", "queries"),
    norm("self_attn.k_norm", "attn_k_norm", "keys"),
    norm("post_attention_layernorm", "post_attention_norm"),
    norm("post_feedforward_layernorm", "post_ffw_norm"),
)
PHI3 = (matrix("self_attn.qkv_proj", "attn_qkv", "qkv", "hidden"), ATTENDED, *FUSED_MLP, *NORMS)
STARCODER2 = (
    *ATTENTION,
    *QKV_BIASES,
    OUTPUT_BIAS,
    matrix("mlp.c_fc", "ffn_up", "inner", "hidden"),
    matrix("mlp.c_proj", "ffn_down", "hidden", "inner"),
    bias("mlp.c_fc", "ffn_up", "inner"),
    bias("mlp.c_proj", "ffn_down", "hidden"),
    *NORMS,
    bias("input_layernorm", "attn_norm", "hidden"),
    bias("post_attention_layernorm", "ffn_norm", "hidden"),
)
GLM4 = (
    *ATTENTION,
    *QKV_BIASES,
    *FUSED_MLP,
    *NORMS,
    norm("post_self_attn_layernorm", "post_attention_norm"),
    norm("post_mlp_layernorm", "post_ffw_norm"),
)


def qwen3_5_layer(config: Config, layer: int) -> tuple[Row, ...]:
    mixer = GATED_ATTENTION if (layer + 1) % config["full_attention_interval"] == 0 else DELTA
    return (*mixer, *(QWEN3_5_MOE if "num_experts" in config else MLP), *QWEN3_5_NORMS)


def lfm2_layer(config: Config, layer: int) -> tuple[Row, ...]:
    return (*(LFM2_ATTENTION if layer in config["full_attn_idxs"] else LFM2_CONVOLUTION), *LFM2_REST)


def gemma4_layer(config: Config, layer: int) -> tuple[Row, ...]:
    return GEMMA4 if layer >= gemma4_own_layers(config) else (*GEMMA4, *GEMMA4_OWN_KEYS)


def gemma4_own_layers(config: Config) -> int:
    """How many have keys and values; the others read those of the last of these."""
    return config["num_hidden_layers"] - config["num_kv_shared_layers"]
