#include "checkpoint/config.h"

#include <limits>

namespace redpoll::checkpoint {
namespace {

// Far above every published model, far below what overflows an int when two of them are multiplied as int64.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxLayers = 1 << 14;
constexpr std::int64_t kMaxHeads = 1 << 16;
constexpr std::int64_t kMaxAllHeads = 1 << 24;  // of all heads together, or all layers, which models compute as int
constexpr std::int64_t kMaxIntermediate = 1 << 24;
constexpr std::int64_t kMaxExperts = 1 << 14;
constexpr std::int64_t kMaxStateDim = 1 << 12;
constexpr std::int64_t kMaxConvolution = 1 << 10;
constexpr std::int64_t kMaxVocabulary = 1 << 26;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

// Reads fields into a Config and keeps the first error, so that a list of fields reads like a list.
class FieldReader {
 public:
  explicit FieldReader(const json::object& object, std::string path = {}) : json_(object, std::move(path)) {}

  void count(std::string_view name, std::int64_t max, int& out) {
    if (const auto value = take(json_.optional_int(name, 1, max))) out = static_cast<int>(*value);
  }
  void count_from_zero(std::string_view name, std::int64_t max, int& out) {
    if (const auto value = take(json_.optional_int(name, 0, max))) out = static_cast<int>(*value);
  }
  void number(std::string_view name, double min, double max, double& out) {
    if (const auto value = take(json_.optional_double(name, min, max))) out = *value;
  }
  void flag(std::string_view name, bool& out) {
    if (const auto value = take(json_.optional_bool(name))) out = *value;
  }
  void text(std::string_view name, std::string& out) {
    if (auto value = take(json_.optional_string(name))) out = std::move(*value);
  }
  void texts(std::string_view name, std::vector<std::string>& out);
  // nullopt also for -1, which old exporters write for "there is none".
  [[nodiscard]] std::optional<TokenId> token(std::string_view name) {
    const auto value = take(json_.optional_int(name, -1, kMaxVocabulary));
    return value && *value >= 0 ? std::optional(static_cast<TokenId>(*value)) : std::nullopt;
  }
  void tokens(std::string_view name, std::vector<TokenId>& out);
  void optional_flag(std::string_view name, std::optional<bool>& out) {
    if (const auto value = take(json_.optional_bool(name))) out = *value;
  }
  /// An array of whole numbers from 0 to `max`.
  void numbers(std::string_view name, std::int64_t max, std::vector<int>& out);

  void fail_with(std::unexpected<Error> error) {
    if (status_) status_ = std::move(error);
  }
  [[nodiscard]] JsonReader& json() { return json_; }
  [[nodiscard]] Status status() const { return status_; }

 private:
  template <typename T>
  std::optional<T> take(Result<std::optional<T>> result) {
    if (result) return std::move(*result);
    fail_with(std::unexpected(std::move(result).error()));
    return std::nullopt;
  }

  JsonReader json_;
  Status status_;
};

void FieldReader::texts(std::string_view name, std::vector<std::string>& out) {
  const auto array = json_.optional_array(name);
  if (!array) return fail_with(std::unexpected(array.error()));
  if (*array == nullptr) return;
  for (const json::value& element : **array) {
    if (!element.is_string()) {
      return fail_with(fail(ErrorCode::kInvalidArgument,
                            "'" + json_.path_of(name) + "': expected an array of strings, one element is of type " +
                                std::string(json_kind_name(element)),
                            json_.path_of(name)));
    }
    out.emplace_back(element.get_string());
  }
}

void FieldReader::numbers(std::string_view name, std::int64_t max, std::vector<int>& out) {
  const auto array = json_.optional_array(name);
  if (!array) return fail_with(std::unexpected(array.error()));
  if (*array == nullptr) return;
  for (const json::value& element : **array) {
    if (!element.is_int64() || element.get_int64() < 0 || element.get_int64() > max) {
      return fail_with(fail(ErrorCode::kInvalidArgument,
                            "'" + json_.path_of(name) + "': expected an array of whole numbers from 0 to " +
                                std::to_string(max) + ", got " + dump_json(element),
                            json_.path_of(name)));
    }
    out.push_back(static_cast<int>(element.get_int64()));
  }
}

void FieldReader::tokens(std::string_view name, std::vector<TokenId>& out) {
  const json::value* value = json_.optional_value(name);
  if (value == nullptr) return;
  if (!value->is_array()) {
    if (const auto id = token(name)) out.push_back(*id);
    return;
  }
  for (const json::value& element : value->get_array()) {
    const json::object wrapped{{json::string_view(name.data(), name.size()), element}};
    FieldReader reader(wrapped);
    const auto id = reader.token(name);
    if (!reader.status()) return fail_with(std::unexpected(reader.status().error()));
    if (id) out.push_back(*id);
  }
}

void read_sizes(FieldReader& fields, Config& config) {
  fields.count("hidden_size", kMaxWidth, config.hidden_size);
  fields.count("num_hidden_layers", kMaxLayers, config.num_hidden_layers);
  fields.count("num_attention_heads", kMaxHeads, config.num_attention_heads);
  config.num_key_value_heads = config.num_attention_heads;
  fields.count("num_key_value_heads", kMaxHeads, config.num_key_value_heads);
  fields.count("head_dim", kMaxWidth, config.head_dim);
  fields.count("intermediate_size", kMaxIntermediate, config.intermediate_size);
  fields.count("block_ff_dim", kMaxIntermediate, config.intermediate_size);
  fields.count("vocab_size", kMaxVocabulary, config.vocab_size);
  fields.count("max_position_embeddings", kMaxPositions, config.max_position_embeddings);
  fields.number("norm_epsilon", std::numeric_limits<double>::denorm_min(), 1, config.rms_norm_eps);
  fields.number("norm_eps", std::numeric_limits<double>::denorm_min(), 1, config.rms_norm_eps);
  fields.number("rms_norm_eps", std::numeric_limits<double>::denorm_min(), 1, config.rms_norm_eps);
  fields.text("hidden_act", config.hidden_act);
  fields.text("hidden_activation", config.hidden_act);
}

void read_scores(FieldReader& fields, Config& config) {
  constexpr double kMost = 1e6;
  fields.number("query_pre_attn_scalar", 1e-3, kMost, config.query_pre_attn_scalar);
  fields.number("attn_logit_softcapping", 1e-3, kMost, config.attn_logit_softcapping);
  fields.number("final_logit_softcapping", 1e-3, kMost, config.final_logit_softcapping);
  for (const auto& [name, multiplier] : {std::pair{"attention_multiplier", &config.attention_multiplier},
                                         {"logits_scaling", &config.logits_scaling},
                                         {"embedding_multiplier", &config.embedding_multiplier},
                                         {"residual_multiplier", &config.residual_multiplier}}) {
    fields.number(name, 1e-6, kMost, *multiplier);
  }
}

void read_rope(FieldReader& fields, Config& config) {
  constexpr double kMaxTheta = 1e15;
  fields.number("rope_theta", 1, kMaxTheta, config.rope_theta);
  fields.number("rope_local_base_freq", 1, kMaxTheta, config.rope_local_base_freq);
  fields.flag("rope_traditional", config.rope_traditional);
  fields.number("partial_rotary_factor", 1e-3, 1, config.partial_rotary_factor);
  // transformers 5 moves the rope fields into an object of their own.
  const auto nested = fields.json().optional_object("rope_parameters");
  if (!nested) return fields.fail_with(std::unexpected(nested.error()));
  if (*nested == nullptr) return;
  FieldReader rope(**nested, "rope_parameters");
  rope.number("rope_theta", 1, kMaxTheta, config.rope_theta);
  rope.number("partial_rotary_factor", 1e-3, 1, config.partial_rotary_factor);
  if (!rope.status()) fields.fail_with(std::unexpected(rope.status().error()));
}

void read_switches(FieldReader& fields, Config& config) {
  fields.flag("tie_word_embeddings", config.tie_word_embeddings);
  fields.flag("attention_bias", config.attention_bias);
  fields.flag("use_bias", config.use_bias);
  fields.flag("mlp_bias", config.mlp_bias);
  fields.flag("norm_weights_include_one", config.norm_weights_include_one);
  int window = 0;
  fields.count("sliding_window", kMaxPositions, window);
  if (window > 0) config.sliding_window = window;
  fields.count("sliding_window_pattern", kMaxLayers, config.sliding_window_pattern);
  config.use_sliding_window = config.sliding_window.has_value();
  fields.flag("use_sliding_window", config.use_sliding_window);
  fields.texts("layer_types", config.layer_types);
  fields.numbers("no_rope_layers", 1, config.no_rope_layers);
  fields.count("no_rope_layer_interval", kMaxLayers, config.no_rope_layer_interval);
}

void read_experts(FieldReader& fields, Config& config) {
  fields.count("num_local_experts", kMaxExperts, config.num_experts);
  fields.count("num_experts", kMaxExperts, config.num_experts);
  fields.count("top_k_experts", kMaxExperts, config.num_experts_per_tok);
  fields.count("num_experts_per_tok", kMaxExperts, config.num_experts_per_tok);
  fields.count("moe_intermediate_size", kMaxIntermediate, config.moe_intermediate_size);
  fields.count("shared_expert_intermediate_size", kMaxIntermediate, config.shared_expert_intermediate_size);
  fields.optional_flag("norm_topk_prob", config.norm_topk_prob);
  fields.number("swiglu_limit", 0, 1e6, config.swiglu_limit);
  fields.count("decoder_sparse_step", kMaxLayers, config.decoder_sparse_step);
  fields.numbers("mlp_only_layers", kMaxLayers, config.mlp_only_layers);
}

void read_recurrent(FieldReader& fields, Config& config) {
  fields.count("linear_num_value_heads", kMaxHeads, config.linear_num_value_heads);
  fields.count("linear_num_key_heads", kMaxHeads, config.linear_num_key_heads);
  fields.count("linear_key_head_dim", kMaxStateDim, config.linear_key_head_dim);
  fields.count("linear_value_head_dim", kMaxStateDim, config.linear_value_head_dim);
  fields.count("linear_conv_kernel_dim", kMaxConvolution, config.linear_conv_kernel_dim);
  fields.count("full_attention_interval", kMaxLayers, config.full_attention_interval);
  fields.count("conv_L_cache", kMaxConvolution, config.conv_L_cache);
  fields.flag("conv_bias", config.conv_bias);
  fields.numbers("full_attn_idxs", kMaxLayers, config.full_attn_idxs);
  fields.flag("block_auto_adjust_ff_dim", config.block_auto_adjust_ff_dim);
  fields.number("block_ffn_dim_multiplier", 1e-3, 1e3, config.block_ffn_dim_multiplier);
  fields.count("block_multiple_of", kMaxWidth, config.block_multiple_of);
}

void read_gemma4(FieldReader& fields, Config& config) {
  fields.count("global_head_dim", kMaxWidth, config.global_head_dim);
  fields.count("num_global_key_value_heads", kMaxHeads, config.num_global_key_value_heads);
  fields.flag("attention_k_eq_v", config.attention_k_eq_v);
  fields.count_from_zero("num_kv_shared_layers", kMaxLayers, config.num_kv_shared_layers);
  fields.flag("use_double_wide_mlp", config.use_double_wide_mlp);
  fields.count_from_zero("hidden_size_per_layer_input", kMaxWidth, config.hidden_size_per_layer_input);
  fields.count_from_zero("vocab_size_per_layer_input", kMaxVocabulary, config.vocab_size_per_layer_input);
  fields.flag("enable_moe_block", config.enable_moe_block);
}

/// A model of text and more keeps the fields of its text part apart; what stands beside them holds for it too. The type
/// is the whole's, and so are the tokens that end an answer.
json::object flattened(json::object object) {
  const json::value* nested = object.if_contains("text_config");
  if (nested == nullptr || !nested->is_object()) return object;
  json::object flat = nested->get_object();
  for (const char* name : {"model_type", "eos_token_id", "bos_token_id", "pad_token_id"}) {
    const json::value* whole = object.if_contains(name);
    if (whole != nullptr && !whole->is_null()) flat[name] = *whole;
  }
  for (const auto& [name, value] : object) {
    if (name != "text_config" && !flat.contains(name)) flat[name] = value;
  }
  return flat;
}

/// `each` of something that there is `count` of.
Status check_width(const std::string& name, int each, std::int64_t count, const std::string& things) {
  if (each * count <= kMaxAllHeads) return {};
  return fail(ErrorCode::kInvalidArgument,
              "'" + name + "': " + std::to_string(each) + " for each of " + std::to_string(count) + " " + things +
                  " makes " + std::to_string(each * count) + ", expected at most " + std::to_string(kMaxAllHeads),
              name);
}

Status check_widths(const Config& config) {
  RETURN_IF_ERROR(check_width("head_dim", config.head_dim, config.num_attention_heads, "heads"));
  RETURN_IF_ERROR(check_width("global_head_dim", config.global_head_dim, config.num_attention_heads, "heads"));
  RETURN_IF_ERROR(check_width("linear_key_head_dim", config.linear_key_head_dim, config.linear_num_key_heads, "heads"));
  RETURN_IF_ERROR(
      check_width("linear_value_head_dim", config.linear_value_head_dim, config.linear_num_value_heads, "heads"));
  return check_width("hidden_size_per_layer_input", config.hidden_size_per_layer_input, config.num_hidden_layers,
                     "layers");
}

Status check_heads(Config& config) {
  const auto divides = [](int whole, int part) { return part > 0 && whole % part == 0; };
  if (config.num_attention_heads > 0 && !divides(config.num_attention_heads, config.num_key_value_heads)) {
    return fail(ErrorCode::kInvalidArgument,
                "'num_key_value_heads': " + std::to_string(config.num_key_value_heads) +
                    " does not divide num_attention_heads " + std::to_string(config.num_attention_heads),
                "num_key_value_heads");
  }
  const int global_heads = config.num_global_key_value_heads;
  if (global_heads > 0 && config.num_attention_heads > 0 && !divides(config.num_attention_heads, global_heads)) {
    return fail(ErrorCode::kInvalidArgument,
                "'num_global_key_value_heads': " + std::to_string(global_heads) +
                    " does not divide num_attention_heads " + std::to_string(config.num_attention_heads),
                "num_global_key_value_heads");
  }
  if (config.head_dim > 0 || config.hidden_size == 0 || config.num_attention_heads == 0) return {};
  if (!divides(config.hidden_size, config.num_attention_heads)) {
    return fail(ErrorCode::kInvalidArgument,
                "'num_attention_heads': " + std::to_string(config.num_attention_heads) +
                    " does not divide hidden_size " + std::to_string(config.hidden_size) + " and there is no head_dim",
                "num_attention_heads");
  }
  config.head_dim = config.hidden_size / config.num_attention_heads;
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text) {
  ASSIGN_OR_RETURN(json::value value, parse_json(text));
  if (!value.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "expected an object, got " + std::string(json_kind_name(value)));
  }
  return config_from_json(std::move(value.get_object()));
}

Result<Config> config_from_json(json::object object) {
  Config config;
  config.raw = flattened(std::move(object));
  FieldReader fields(config.raw);
  fields.text("model_type", config.model_type);
  fields.texts("architectures", config.architectures);
  read_sizes(fields, config);
  read_rope(fields, config);
  read_scores(fields, config);
  read_switches(fields, config);
  read_experts(fields, config);
  read_recurrent(fields, config);
  read_gemma4(fields, config);
  fields.tokens("eos_token_id", config.eos_token_ids);
  config.bos_token_id = fields.token("bos_token_id");
  config.pad_token_id = fields.token("pad_token_id");
  RETURN_IF_ERROR(fields.status());
  if (config.model_type.empty()) {
    return fail(ErrorCode::kInvalidArgument, "'model_type' is missing", "model_type");
  }
  RETURN_IF_ERROR(check_heads(config));
  RETURN_IF_ERROR(check_widths(config));
  return config;
}

Result<std::vector<TokenId>> parse_token_ids(const json::object& object, std::string_view name) {
  FieldReader fields(object);
  std::vector<TokenId> ids;
  fields.tokens(name, ids);
  RETURN_IF_ERROR(fields.status());
  return ids;
}

Status require_decoder_fields(const Config& config) {
  const auto missing = [&](const std::string& name) {
    return fail(ErrorCode::kInvalidArgument,
                "config.json: '" + name + "' is missing, which a model_type '" + config.model_type + "' needs", name);
  };
  if (config.hidden_size == 0) return missing("hidden_size");
  if (config.num_hidden_layers == 0) return missing("num_hidden_layers");
  if (config.num_attention_heads == 0) return missing("num_attention_heads");
  if (config.intermediate_size == 0 && config.num_experts == 0) return missing("intermediate_size");
  if (config.vocab_size == 0) return missing("vocab_size");
  if (config.rms_norm_eps == 0) return missing("rms_norm_eps");
  return {};
}

}  // namespace redpoll::checkpoint
