// Config: config.json as typed fields of the same names. Fields that no code here knows stay readable in `raw`.
// Numbers are checked for sense when they are read, so that a hostile file cannot make a model divide by zero or ask
// for the memory of a planet. What a field's value means, a rope type for instance, is checked where it is used.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/token.h"

namespace redpoll::checkpoint {

/// A value. Counts and sizes that the file does not give are 0: decoders call require_decoder_fields before use.
struct Config {
  std::string model_type;
  std::vector<std::string> architectures;

  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;  // absent: num_attention_heads
  int head_dim = 0;             // absent: hidden_size / num_attention_heads
  int intermediate_size = 0;    // or `block_ff_dim`, which wins
  int vocab_size = 0;
  int max_position_embeddings = 0;
  double rms_norm_eps = 0;          // or `norm_eps`, `norm_epsilon`
  std::string hidden_act = "silu";  // or `hidden_activation`, which wins

  double rope_theta = 10000;
  bool rope_traditional = false;     // rotate neighbouring pairs instead of halves
  double partial_rotary_factor = 1;  // share of head_dim that is rotated

  bool tie_word_embeddings = true;  // absent: whether there is no lm_head.weight, decided by open_checkpoint
  bool attention_bias = false;
  bool use_bias = true;  // StarCoder2: of all projections
  bool mlp_bias = false;

  bool norm_weights_include_one = false;  // Gemma's, as GGUF has them; else they are stored less one

  double query_pre_attn_scalar = 0;    // scores are divided by its root; absent: head_dim
  double attn_logit_softcapping = 0;   // absent: none
  double final_logit_softcapping = 0;  // absent: none

  double attention_multiplier = 1;  // of the scores
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  double logits_scaling = 1;  // divides the logits

  std::optional<int> sliding_window;
  int sliding_window_pattern = 0;       // n: layers n, 2n, ... see all tokens; absent: the family's own
  double rope_local_base_freq = 10000;  // rope_theta of the others
  bool use_sliding_window = false;      // absent: whether sliding_window is set
  std::vector<std::string> layer_types;

  std::vector<int> no_rope_layers;  // per layer: 0 if it does not encode positions
  int no_rope_layer_interval = 4;   // without it: every so many layers one does not

  int num_experts = 0;                      // or `num_local_experts`
  int num_experts_per_tok = 0;              // or `top_k_experts`
  int moe_intermediate_size = 0;            // of each expert
  int shared_expert_intermediate_size = 0;  // of the one that sees every token
  std::optional<bool> norm_topk_prob;       // the weights of the chosen ones sum to 1
  double swiglu_limit = 7;                  // gpt-oss: what gates and what they gate are clamped to
  int decoder_sparse_step = 1;              // every so many layers there are experts
  std::vector<int> mlp_only_layers;         // but not in these

  int linear_num_value_heads = 0;  // of gated delta rules
  int linear_num_key_heads = 0;
  int linear_key_head_dim = 0;
  int linear_value_head_dim = 0;
  int linear_conv_kernel_dim = 4;   // tokens that their convolutions see
  int full_attention_interval = 4;  // every so many layers one has attention

  int conv_L_cache = 3;  // tokens that LFM2's convolutions see; NOLINT(readability-identifier-naming): the file's name
  bool conv_bias = false;
  std::vector<int> full_attn_idxs;  // LFM2's layers that have attention
  bool block_auto_adjust_ff_dim = false;
  double block_ffn_dim_multiplier = 1;
  int block_multiple_of = 256;

  int global_head_dim = 0;              // Gemma 4: of layers that see all tokens; absent: head_dim
  int num_global_key_value_heads = 0;   // likewise, where attention_k_eq_v
  bool attention_k_eq_v = false;        // these layers have no values but their keys
  int num_kv_shared_layers = 0;         // the last ones read the K and V of earlier ones
  bool use_double_wide_mlp = false;     // and have an MLP of twice the size
  int hidden_size_per_layer_input = 0;  // what each layer gets beside the stream; absent: nothing
  int vocab_size_per_layer_input = 0;
  bool enable_moe_block = false;

  std::vector<TokenId> eos_token_ids;  // `eos_token_id`, a number or a list
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> pad_token_id;

  json::object raw;  // the whole file, with the fields of its `text_config`, if it has one, in front
};

/// Reads config.json's text. kInvalidArgument for malformed JSON or a field of the wrong type or out of range, with the
/// field as `param`. Never follows `auto_map` or `model_file`: code in a model folder is not run.
[[nodiscard]] Result<Config> parse_config(std::string_view text);
[[nodiscard]] Result<Config> config_from_json(json::object object);

/// Token ids in a field that is a number or a list of numbers; empty if absent. -1 stands for "none".
[[nodiscard]] Result<std::vector<TokenId>> parse_token_ids(const json::object& object, std::string_view name);

/// Fails, naming the field, unless all that every decoder-only model needs is present: hidden_size,
/// num_hidden_layers, num_attention_heads, intermediate_size, vocab_size and rms_norm_eps.
[[nodiscard]] Status require_decoder_fields(const Config& config);

/// How rotary frequencies theta^(-2i/d) are changed to reach further than the training length.
struct RopeScaling {
  enum class Type {
    kDefault,  // not at all
    kLinear,   // positions divided by `factor`
    kLlama3,   // low frequencies divided by `factor`, high ones kept, smooth between
    kYarn,     // high frequencies kept, low ones divided by `factor`, a ramp between (Peng et al., "YaRN", 2023)
    kFactors,  // frequency i divided by frequency_factors[i]: longrope, or as a GGUF file bakes them
  };
  Type type = Type::kDefault;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int original_max_position_embeddings = 8192;
  double beta_fast = 32;  // kYarn: rotations over the original context from which on, and up to which, the ramp goes
  double beta_slow = 1;
  bool truncate = true;                     // kYarn: the ramp begins and ends at whole dimensions
  std::vector<double> frequency_factors{};  // one for each pair that is rotated
  double scale = 1;                         // of what is rotated, with kYarn and kFactors
};

/// Reads `rope_scaling` or `rope_parameters`. kUnsupported names a type that is not known, or parameters that differ by
/// layer; kInvalidArgument names a number that is missing or makes no sense.
[[nodiscard]] Result<RopeScaling> parse_rope_scaling(const Config& config);

}  // namespace redpoll::checkpoint
