"""Shapes of real models, one of each family, for random weights. Where the whole would be large, layers are left out
and the title says so; every width is the real one, and so is the vocabulary.
"""

import dataclasses

from peer_parameters import Config


@dataclasses.dataclass(frozen=True)
class Shape:
    real: str  # the model it is made after
    real_layers: int
    config: Config

    @property
    def title(self) -> str:
        layers = self.config["num_hidden_layers"]
        return self.real if layers == self.real_layers else f"{self.real}, {layers} of {self.real_layers} layers"


def config(model_type: str, hidden: int, layers: int, inner: int | None, **more) -> Config:
    usual = {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "max_position_embeddings": 32768,
    }
    return usual | more | ({} if inner is None else {"intermediate_size": inner})


def heads(queries: int, keys: int, size: int) -> Config:
    return {"num_attention_heads": queries, "num_key_value_heads": keys, "head_dim": size}


LLAMA_3_2_1B = config(
    "llama", 2048, 16, 8192, **heads(32, 8, 64),
    vocab_size=128256, max_position_embeddings=131072, rms_norm_eps=1e-5,
    rope_theta=500000.0,  # without scaling, whose speed it would not change
)  # fmt: skip
SMOLLM2_135M = config(
    "llama", 576, 30, 1536, **heads(9, 3, 64),
    vocab_size=49152, max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=100000.0,
)  # fmt: skip

QWEN3_MOE = config(
    "qwen3_moe", 2048, 6, 6144, **heads(32, 4, 128), vocab_size=151936, rope_theta=1e6, tie_word_embeddings=False,
    num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True, decoder_sparse_step=1,
    mlp_only_layers=[],
)  # fmt: skip
GPT_OSS = config(
    "gpt_oss", 2880, 4, 2880, **heads(64, 8, 64), vocab_size=201088, rms_norm_eps=1e-5, tie_word_embeddings=False,
    max_position_embeddings=131072, num_local_experts=32, num_experts_per_tok=4, sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 2, rope_theta=150000.0,
    rope_scaling={"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                  "original_max_position_embeddings": 4096},
)  # fmt: skip
QWEN3_5_ROPE = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
DELTA = {"full_attention_interval": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16}  # fmt: skip
QWEN3_5 = config(
    "qwen3_5", 1024, 24, 3584, **heads(8, 2, 256), vocab_size=248320, rope_parameters=QWEN3_5_ROPE,
    **DELTA, linear_num_value_heads=16,
)  # fmt: skip
QWEN3_5_MOE = config(
    "qwen3_5_moe", 2048, 4, None, **heads(16, 2, 256), vocab_size=248320, rope_parameters=QWEN3_5_ROPE,
    tie_word_embeddings=False, **DELTA, linear_num_value_heads=32, num_experts=256, num_experts_per_tok=8,
    moe_intermediate_size=512, shared_expert_intermediate_size=512,
)  # fmt: skip
LFM2 = config(
    "lfm2", 1024, 16, 6656, **heads(16, 8, 64), vocab_size=65536, rms_norm_eps=1e-5, norm_eps=1e-5, rope_theta=1e6,
    conv_L_cache=3, conv_bias=False, full_attn_idxs=[2, 5, 8, 10, 12, 14], block_dim=1024, block_ff_dim=6656,
    block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0, block_multiple_of=256,
)  # fmt: skip

TANH = {"hidden_activation": "gelu_pytorch_tanh"}
GEMMA3 = config(
    "gemma3_text", 1152, 26, 6912, **heads(4, 1, 256), **TANH, vocab_size=262144, query_pre_attn_scalar=256,
    sliding_window=512, sliding_window_pattern=6, rope_theta=1e6, rope_local_base_freq=10000.0,
)  # fmt: skip
GEMMA3_270M = GEMMA3 | {"hidden_size": 640, "num_hidden_layers": 18, "intermediate_size": 2048}
GEMMA2 = config(
    "gemma2", 2304, 8, 9216, **heads(8, 4, 256), **TANH, vocab_size=256000, max_position_embeddings=8192,
    query_pre_attn_scalar=256, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, sliding_window=4096,
    rope_theta=10000.0,
)  # fmt: skip
GEMMA4 = config(
    "gemma4_text", 1536, 10, 6144, **heads(8, 1, 256), **TANH, vocab_size=262144, max_position_embeddings=131072,
    global_head_dim=512, num_kv_shared_layers=5, use_double_wide_mlp=True, hidden_size_per_layer_input=256,
    vocab_size_per_layer_input=262144, attention_k_eq_v=False, enable_moe_block=False, final_logit_softcapping=30.0,
    sliding_window=512, sliding_window_pattern=5,
    rope_parameters={
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
)  # fmt: skip
GEMMA = config(
    "gemma", 2048, 6, 16384, **heads(8, 1, 256), **TANH, vocab_size=256000, max_position_embeddings=8192,
    rope_theta=10000.0,
)  # fmt: skip

QWEN3 = config("qwen3", 1024, 28, 3072, **heads(16, 8, 128), vocab_size=151936, rope_theta=1e6)
QWEN2 = config("qwen2", 896, 24, 4864, **heads(14, 2, 64), vocab_size=151936, rope_theta=1e6)
OLMO2 = config(
    "olmo2", 2048, 8, 8192, **heads(16, 16, 128), vocab_size=100352, max_position_embeddings=4096, rope_theta=500000.0,
    tie_word_embeddings=False,
)  # fmt: skip
GRANITE = config(
    "granite", 2048, 12, 8192, **heads(32, 8, 64), vocab_size=49159, max_position_embeddings=131072, rope_theta=1e7,
    rms_norm_eps=1e-5, attention_multiplier=0.015625, embedding_multiplier=12.0, residual_multiplier=0.22,
    logits_scaling=8.0, attention_bias=False, mlp_bias=False,
)  # fmt: skip
PHI3 = config(
    "phi3", 3072, 6, 8192, **heads(32, 32, 96), vocab_size=32064, max_position_embeddings=4096, rope_theta=10000.0,
    rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=2047, original_max_position_embeddings=4096,
)  # fmt: skip
SMOLLM3 = config(
    "smollm3", 2048, 8, 11008, **heads(16, 4, 128), vocab_size=128256, max_position_embeddings=65536, rope_theta=5e6,
    no_rope_layer_interval=4,
)  # fmt: skip
STARCODER2 = config(
    "starcoder2", 3072, 6, 12288, **heads(24, 2, 128), vocab_size=49152, max_position_embeddings=16384,
    rope_theta=1e6, rms_norm_eps=1e-5, norm_epsilon=1e-5, use_bias=True, hidden_act="gelu_pytorch_tanh",
    sliding_window=4096,
)  # fmt: skip
GLM4 = config(
    "glm4", 4096, 3, 13696, **heads(32, 2, 128), vocab_size=151552, rope_theta=10000.0, rms_norm_eps=1e-5,
    tie_word_embeddings=False, attention_bias=True, partial_rotary_factor=0.5,
)  # fmt: skip

# By name; those with experts or recurrent layers first.
SHAPES = {
    "qwen3_moe": Shape("Qwen3-30B-A3B", 48, QWEN3_MOE),
    "gpt_oss": Shape("gpt-oss-20b", 24, GPT_OSS),
    "qwen3_5_moe": Shape("Qwen3.5-35B-A3B", 40, QWEN3_5_MOE),
    "qwen3_5": Shape("Qwen3.5-0.8B", 24, QWEN3_5),
    "lfm2": Shape("LFM2-350M", 16, LFM2),
    "gemma3_text": Shape("Gemma-3-1B", 26, GEMMA3),
    "gemma3_270m": Shape("Gemma-3-270M", 18, GEMMA3_270M),
    "gemma4_text": Shape("Gemma-4-E2B", 35, GEMMA4),
    "gemma2": Shape("Gemma-2-2B", 26, GEMMA2),
    "gemma": Shape("Gemma-2B", 18, GEMMA),
    "llama": Shape("Llama-3.2-1B", 16, LLAMA_3_2_1B),
    "qwen3": Shape("Qwen3-0.6B", 28, QWEN3),
    "qwen2": Shape("Qwen2.5-0.5B", 24, QWEN2),
    "olmo2": Shape("OLMo-2-1B", 16, OLMO2),
    "granite": Shape("Granite-3.3-2B", 40, GRANITE),
    "phi3": Shape("Phi-3-mini-4k", 32, PHI3),
    "smollm3": Shape("SmolLM3-3B", 36, SMOLLM3),
    "starcoder2": Shape("StarCoder2-3B", 30, STARCODER2),
    "glm4": Shape("GLM-4-9B-0414", 40, GLM4),
}
