// GGUF metadata to the fields of config.json.
#include <algorithm>
#include <charconv>
#include <map>

#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/names.h"
#include "checkpoint/gguf/repack.h"

namespace redpoll::checkpoint {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

// The double that prints like the float does: metadata keeps 1e-5 as 9.99999974e-06.
double as_written(double stored) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(stored)).ptr;
  double value = stored;
  std::from_chars(buffer, end, value);
  return value;
}

// Copies metadata of one architecture into a config and keeps the first error.
class ConfigWriter {
 public:
  ConfigWriter(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {}

  enum class Need { kRequired, kOptional };

  void count(std::string_view key, std::string_view field, Need need) {
    const auto value = file_.integer(full(key), 0, kMaxCount);
    put(value, key, field, need, [](std::int64_t number) { return json::value(number); });
  }
  void real(std::string_view key, std::string_view field, Need need) {
    const auto value = file_.real(full(key));
    put(value, key, field, need, [](double number) { return json::value(as_written(number)); });
  }
  void set(std::string_view field, json::value value) { config_[field] = std::move(value); }
  void fail_with(std::unexpected<Error> error) {
    if (status_) status_ = std::move(error);
  }

  [[nodiscard]] std::string full(std::string_view key) const { return prefix_ + "." + std::string(key); }
  [[nodiscard]] const GgufFile& file() const { return file_; }
  [[nodiscard]] const json::object& config() const { return config_; }
  [[nodiscard]] Result<json::object> finish() && {
    if (!status_) return std::unexpected(status_.error());
    return std::move(config_);
  }

 private:
  template <typename Value, typename Convert>
  void put(const Result<std::optional<Value>>& value, std::string_view key, std::string_view field, Need need,
           Convert convert) {
    if (!value) return fail_with(std::unexpected(value.error()));
    if (*value) {
      config_[field] = convert(**value);
    } else if (need == Need::kRequired) {
      fail_with(fail(ErrorCode::kCorruptFile, file_.name() + ": metadata '" + full(key) + "' is missing", full(key)));
    }
  }

  const GgufFile& file_;
  std::string prefix_;
  json::object config_;
  Status status_;
};

using Need = ConfigWriter::Need;

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::int64_t field(const json::object& config, std::string_view name) {
  const json::value* value = config.if_contains(name);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

void write_sizes(ConfigWriter& writer) {
  writer.count("embedding_length", "hidden_size", Need::kRequired);
  writer.count("block_count", "num_hidden_layers", Need::kRequired);
  writer.count("feed_forward_length", "intermediate_size", Need::kRequired);
  writer.count("attention.head_count", "num_attention_heads", Need::kRequired);
  writer.count("attention.head_count_kv", "num_key_value_heads", Need::kOptional);
  writer.count("attention.key_length", "head_dim", Need::kOptional);
  writer.count("context_length", "max_position_embeddings", Need::kRequired);
  writer.count("attention.sliding_window", "sliding_window", Need::kOptional);
  writer.real("attention.layer_norm_rms_epsilon", "rms_norm_eps", Need::kRequired);
  const GgufTensor* embedding = find_tensor(writer.file(), "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return writer.fail_with(
        fail(ErrorCode::kCorruptFile, writer.file().name() + ": expected a matrix 'token_embd.weight'"));
  }
  writer.set("vocab_size", embedding->shape[0]);
}

// Shapes of attention that these architectures do not have: better refused than computed wrongly.
void check_attention(ConfigWriter& writer) {
  const std::int64_t heads = field(writer.config(), "num_attention_heads");
  const std::int64_t own = field(writer.config(), "head_dim");
  const std::int64_t head_dim = own > 0 ? own : heads > 0 ? field(writer.config(), "hidden_size") / heads : 0;
  for (const std::string_view key : {"attention.value_length", "rope.dimension_count"}) {
    const auto value = writer.file().integer(writer.full(key), 0, kMaxCount);
    if (!value) return writer.fail_with(std::unexpected(value.error()));
    if (*value && **value != head_dim) {
      return writer.fail_with(fail(ErrorCode::kUnsupported,
                                   writer.file().name() + ": '" + writer.full(key) + "' is " + std::to_string(**value) +
                                       "; other than the head size " + std::to_string(head_dim) + " is not supported"));
    }
  }
  const auto experts = writer.file().integer(writer.full("expert_count"), 0, kMaxCount);
  if (!experts) return writer.fail_with(std::unexpected(experts.error()));
  if (experts->value_or(0) > 0) {
    writer.fail_with(fail(ErrorCode::kUnsupported, writer.file().name() + ": mixture-of-experts models ('" +
                                                       writer.full("expert_count") + "') are not supported"));
  }
}

// llama3 scaling: the converter writes what each frequency is divided by. Factors of 1 throughout change nothing.
void write_rope_factors(ConfigWriter& writer) {
  const GgufTensor* tensor = find_tensor(writer.file(), kRopeFactorsTensor);
  if (tensor == nullptr) return;
  if (tensor->type != static_cast<std::uint32_t>(GgufType::kF32) || tensor->shape.size() != 1) {
    return writer.fail_with(
        fail(ErrorCode::kCorruptFile,
             writer.file().name() + ": '" + std::string(kRopeFactorsTensor) + "' must be a vector of F32"));
  }
  json::array factors;
  bool is_identity = true;
  for (std::size_t i = 0; i < tensor->bytes.size(); i += sizeof(float)) {
    float factor = 0;
    std::copy_n(tensor->bytes.data() + i, sizeof factor, reinterpret_cast<std::byte*>(&factor));
    is_identity = is_identity && factor == 1;
    factors.emplace_back(static_cast<double>(factor));
  }
  if (!is_identity) writer.set("rope_freq_factors", std::move(factors));
}

void add_yarn_fields(ConfigWriter& writer, json::object& scaling) {
  const auto original = writer.file().integer(writer.full("rope.scaling.original_context_length"), 1, kMaxCount);
  if (!original) return writer.fail_with(std::unexpected(original.error()));
  if (*original) scaling["original_max_position_embeddings"] = **original;
  for (const auto& [key, name] :
       {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"}, {"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
    const auto number = writer.file().real(writer.full(key));
    if (!number) return writer.fail_with(std::unexpected(number.error()));
    if (*number) scaling[name] = as_written(**number);
  }
}

void write_rope(ConfigWriter& writer) {
  writer.real("rope.freq_base", "rope_theta", Need::kOptional);
  writer.set("rope_traditional", false);  // rows are put back into the order of halves
  const auto type = writer.file().text(writer.full("rope.scaling.type"));
  const auto factor = writer.file().real(writer.full("rope.scaling.factor"));
  const auto old_factor = writer.file().real(writer.full("rope.scale_linear"));
  if (!type) return writer.fail_with(std::unexpected(type.error()));
  if (!factor) return writer.fail_with(std::unexpected(factor.error()));
  if (!old_factor) return writer.fail_with(std::unexpected(old_factor.error()));
  const std::string name(type->value_or(*old_factor && **old_factor != 1 ? "linear" : "none"));
  if (name != "none") {
    json::object scaling{{"rope_type", json::string(name)}};
    if (*factor) scaling["factor"] = as_written(**factor);
    if (!*factor && *old_factor) scaling["factor"] = as_written(**old_factor);
    if (name == "yarn") add_yarn_fields(writer, scaling);
    writer.set("rope_scaling", std::move(scaling));
  }
  write_rope_factors(writer);
  if (writer.config().contains("rope_scaling") && writer.config().contains("rope_freq_factors")) {
    writer.fail_with(fail(ErrorCode::kUnsupported, writer.file().name() + ": both '" +
                                                       writer.full("rope.scaling.type") + "' and '" +
                                                       std::string(kRopeFactorsTensor) + "' are set"));
  }
}

// MLX's block: the most common shape as default, the others by module.
void write_quantization(ConfigWriter& writer) {
  std::map<AffineShape, int> tensors_by_shape;
  for (const GgufTensor& tensor : writer.file().tensors()) ++tensors_by_shape[affine_shape(tensor.type)];
  tensors_by_shape.erase(AffineShape{});
  if (tensors_by_shape.empty()) return;
  const AffineShape common =
      std::ranges::max_element(tensors_by_shape, {}, [](const auto& pair) { return pair.second; })->first;
  const auto spec = [](AffineShape shape) {
    return json::object{{"group_size", shape.group_size}, {"bits", shape.bits}};
  };
  json::object block = spec(common);
  for (const GgufTensor& tensor : writer.file().tensors()) {
    const AffineShape shape = affine_shape(tensor.type);
    const auto name = hugging_face_name(tensor.name);
    if (name && shape.bits != 0 && shape != common) block[name->module] = spec(shape);
  }
  writer.set("quantization", std::move(block));
}

}  // namespace

Result<json::object> read_gguf_config(const GgufFile& file) {
  ASSIGN_OR_RETURN(const auto name, file.text("general.architecture"));
  if (!name) {
    return fail(ErrorCode::kCorruptFile, file.name() + ": metadata 'general.architecture' is missing",
                "general.architecture");
  }
  const GgufArchitecture* architecture = find_gguf_architecture(*name);
  if (architecture == nullptr) {
    return fail(ErrorCode::kUnsupported,
                file.name() + ": the architecture '" + std::string(*name) + "' is not supported; known are " +
                    known_gguf_architectures(),
                "general.architecture");
  }
  ConfigWriter writer(file, architecture->name);
  writer.set("model_type", json::string(architecture->model_type));
  writer.set("architectures", json::array{json::string(architecture->class_name)});
  write_sizes(writer);
  check_attention(writer);
  write_rope(writer);
  write_quantization(writer);
  writer.set("hidden_act", "silu");
  writer.set("tie_word_embeddings", find_tensor(file, "output.weight") == nullptr);
  writer.set("attention_bias", find_tensor(file, "blk.0.attn_q.bias") != nullptr);
  writer.set("mlp_bias", find_tensor(file, "blk.0.ffn_gate.bias") != nullptr);
  return std::move(writer).finish();
}

}  // namespace redpoll::checkpoint
