"""The checkpoints that make_goldens.py makes: configs of real structure and tiny sizes."""

import mlx.core as mx

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
GEMMA4 = dict(
    BASE,
    model_type="gemma4_text",
    hidden_size=32,
    intermediate_size=64,
    rms_norm_eps=1e-6,
    hidden_activation="gelu_pytorch_tanh",
    sliding_window=20,
    sliding_window_pattern=2,
    final_logit_softcapping=3.0,
    rope_parameters=dict(
        full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=1e4),
    ),
)
del GEMMA4["hidden_act"], GEMMA4["rope_theta"]
GPT_OSS = dict(
    BASE,
    model_type="gpt_oss",
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=4,
    num_local_experts=5,
    num_experts_per_tok=2,
    sliding_window=20,
    tie_word_embeddings=False,
    layer_types=["sliding_attention", "full_attention"] * 2,
    rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, original_max_position_embeddings=32),
)
GEMMA4_SHARED = dict(GEMMA4, num_hidden_layers=4, num_kv_shared_layers=2, hidden_size_per_layer_input=32, vocab_size_per_layer_input=VOCAB, use_double_wide_mlp=True, attention_k_eq_v=False)
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
    "gemma_4bit": (
        dict(GEMMA, model_type="gemma", hidden_size=32, intermediate_size=64, head_dim=24),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "starcoder2_f16": (
        dict(BASE, model_type="starcoder2", hidden_size=48, intermediate_size=96, norm_epsilon=1e-5, hidden_act="gelu_pytorch_tanh", use_bias=True, sliding_window=None),
        mx.float16,
        0,
        0,
        1,
    ),
    # As e2b: layers have inputs of their own, the last two read the K and V of the first two, and their MLP is twice as
    # wide; layers 1 and 3 see 20 tokens.
    "gemma4_shared_4bit": (
        dict(GEMMA4_SHARED, head_dim=16, global_head_dim=32),
        mx.bfloat16,
        4,
        8,
        1,
    ),
    "gemma4_wide_heads_4bit": (dict(GEMMA4_SHARED, head_dim=32, global_head_dim=32), mx.bfloat16, 4, 8, 1),
    # As 26B-A4B: experts beside the MLP, and no values but keys where all tokens are seen.
    "gemma4_experts_bf16": (
        dict(GEMMA4, num_hidden_layers=2, head_dim=16, global_head_dim=24, num_kv_shared_layers=0, hidden_size_per_layer_input=0, vocab_size_per_layer_input=VOCAB, use_double_wide_mlp=False, attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16, intermediate_size=32),
        mx.bfloat16,
        0,
        0,
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
        dict(GPT_OSS, head_dim=16),
        mx.bfloat16,
        "mxfp4",
        0,
        1,
    ),
    "gpt_oss_wide_heads_mxfp4": (dict(GPT_OSS, head_dim=32), mx.bfloat16, "mxfp4", 0, 1),
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
    # Each query head has keys and values of its own.
    "llama_wide_heads_4bit": (
        dict(BASE, model_type="llama", hidden_size=32, intermediate_size=64, head_dim=128, num_key_value_heads=4),
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
    # Layers 2 and 4 have attention.
    "qwen3_5_wide_heads_4bit": (
        dict(BASE, model_type="qwen3_5", hidden_size=32, num_hidden_layers=4, head_dim=64, full_attention_interval=2, intermediate_size=64, rms_norm_eps=1e-3, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.25), **DELTA),
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
    "gemma4_shared_4bit": 24,
    "gemma4_experts_bf16": 25,
    "gemma_4bit": 26,
    "starcoder2_f16": 27,
    "qwen3_mxfp8": 22,
    "qwen3_nvfp4": 23,
    "llama_wide_heads_4bit": 28,
    "gpt_oss_wide_heads_mxfp4": 29,
    "qwen3_5_wide_heads_4bit": 32,
    "gemma4_wide_heads_4bit": 35,
}

# Layers whose keys and values are packed in the golden of a mixed kv_config.json: (layer, bits, group size). The others
# stay as they are. Those that make_kv_goldens.py makes; MLX packs groups of 32, 64 or 128.
KV_CONFIGS = {
    "llama_wide_heads_4bit": [(0, 4, 128), (1, 8, 32)],
    "qwen3_4bit_two_shards": [(1, 4, 32)],
    "qwen3_5_wide_heads_4bit": [(1, 8, 32), (3, 4, 64)],
    "gemma3_text_windows_4bit": [(0, 8, 32), (2, 4, 32), (3, 4, 32)],  # layer 2 sees all
    "gemma4_wide_heads_4bit": [(0, 4, 32), (1, 8, 32)],  # layers 2 and 3 read them
    "gpt_oss_wide_heads_mxfp4": [(0, 4, 32), (1, 8, 32), (3, 4, 32)],
}
