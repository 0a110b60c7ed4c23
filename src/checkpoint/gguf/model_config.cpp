// GGUF metadata to the fields of config.json.
#include <algorithm>
#include <map>

#include "checkpoint/gguf/config_writer.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/names.h"
#include "checkpoint/gguf/repack.h"

namespace redpoll::checkpoint {
namespace {

using Need = ConfigWriter::Need;

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
  const GgufTensor* embedding = writer.tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return writer.fail_with(
        fail(ErrorCode::kCorruptFile, writer.file().name() + ": expected a matrix 'token_embd.weight'"));
  }
  writer.set("vocab_size", embedding->shape[0]);
}

// Shapes that an architecture does not have: better refused than computed wrongly.
void check_shapes(ConfigWriter& writer, const GgufArchitecture& architecture) {
  const std::int64_t heads = writer.written("num_attention_heads");
  const std::int64_t own = writer.written("head_dim");
  const std::int64_t head_dim = own > 0 ? own : heads > 0 ? writer.written("hidden_size") / heads : 0;
  for (const std::string_view key : {"attention.value_length", "rope.dimension_count"}) {
    if (key == "rope.dimension_count" && architecture.rotates_parts) continue;
    const auto value = writer.integer(key);
    if (value && *value != head_dim) {
      writer.fail_with(fail(ErrorCode::kUnsupported, writer.file().name() + ": '" + writer.full(key) + "' is " +
                                                         std::to_string(*value) + "; other than the head size " +
                                                         std::to_string(head_dim) + " is not supported"));
    }
  }
  if (!writer.config().contains("num_experts") && writer.integer("expert_count").value_or(0) > 0) {
    writer.fail_with(fail(ErrorCode::kUnsupported, writer.file().name() + ": mixture-of-experts models ('" +
                                                       writer.full("expert_count") + "') are not supported"));
  }
}

// llama3 scaling: the converter writes what each frequency is divided by. Factors of 1 throughout change nothing.
void write_rope_factors(ConfigWriter& writer) {
  auto factors = writer.floats(kRopeFactorsTensor);
  if (factors && !std::ranges::all_of(*factors, [](const json::value& factor) { return factor.get_double() == 1; })) {
    writer.set("rope_freq_factors", std::move(*factors));
  }
}

void add_yarn_fields(ConfigWriter& writer, json::object& scaling) {
  if (const auto original = writer.integer("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = *original;
  }
  for (const auto& [key, name] :
       {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"}, {"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
    if (const auto number = writer.number(key)) scaling[name] = *number;
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
void write_quantization(ConfigWriter& writer, const GgufArchitecture& architecture) {
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
    const auto name = hugging_face_name(tensor.name, architecture);
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
  writer.set("hidden_act", "silu");
  write_sizes(writer);
  write_rope(writer);
  if (architecture->write_own != nullptr) architecture->write_own(writer);
  check_shapes(writer, *architecture);
  write_quantization(writer, *architecture);
  writer.set("tie_word_embeddings", writer.tensor("output.weight") == nullptr);
  writer.set("attention_bias", writer.tensor("blk.0.attn_q.bias") != nullptr);
  writer.set("mlp_bias", writer.tensor("blk.0.ffn_gate.bias") != nullptr);
  return std::move(writer).finish();
}

}  // namespace redpoll::checkpoint
