#include "checkpoint/quantization.h"

#include <algorithm>
#include <array>

namespace redpoll::checkpoint {
namespace {

constexpr std::string_view kWrapper = "language_model.";

struct ModeFacts {
  std::string_view name;
  int default_group_size;
  int default_bits;
};
constexpr std::array<ModeFacts, 4> kModes = {{
    {"affine", 64, 4},
    {"mxfp4", 32, 4},
    {"mxfp8", 32, 8},
    {"nvfp4", 16, 4},
}};
constexpr std::array<std::int64_t, 6> kAffineBits = {2, 3, 4, 5, 6, 8};
constexpr std::array<std::int64_t, 4> kAffineGroupSizes = {16, 32, 64, 128};

std::unexpected<Error> not_one_of(const JsonReader& reader, std::string_view name, std::string_view choices,
                                  const std::string& got) {
  return fail(ErrorCode::kInvalidArgument,
              "'" + reader.path_of(name) + "': expected one of " + std::string(choices) + ", got " + got,
              reader.path_of(name));
}

Result<QuantizationSpec> read_spec(const json::object& object, const std::string& path) {
  JsonReader reader(object, path);
  ASSIGN_OR_RETURN(const auto mode, reader.optional_string("mode"));
  const std::string mode_name = mode.value_or("affine");
  const auto facts = std::ranges::find(kModes, mode_name, &ModeFacts::name);
  if (facts == kModes.end()) return not_one_of(reader, "mode", "affine, mxfp4, mxfp8, nvfp4", "'" + mode_name + "'");

  ASSIGN_OR_RETURN(const auto bits, reader.optional_int("bits", 1, 32));
  ASSIGN_OR_RETURN(const auto group_size, reader.optional_int("group_size", 1, 1 << 20));
  const std::int64_t bits_value = bits.value_or(facts->default_bits);
  const std::int64_t group_value = group_size.value_or(facts->default_group_size);
  if (mode_name == "affine") {
    if (std::ranges::find(kAffineBits, bits_value) == kAffineBits.end()) {
      return not_one_of(reader, "bits", "2, 3, 4, 5, 6, 8", std::to_string(bits_value));
    }
    if (std::ranges::find(kAffineGroupSizes, group_value) == kAffineGroupSizes.end()) {
      return not_one_of(reader, "group_size", "16, 32, 64, 128", std::to_string(group_value));
    }
    if (group_value * bits_value % 32 != 0) {  // a group would end within a word
      return not_one_of(reader, "bits", "2, 4, 6, 8 in groups of 16", std::to_string(bits_value));
    }
  } else if (bits_value != facts->default_bits) {
    return not_one_of(reader, "bits", std::to_string(facts->default_bits), std::to_string(bits_value));
  } else if (group_value != facts->default_group_size) {
    return not_one_of(reader, "group_size", std::to_string(facts->default_group_size), std::to_string(group_value));
  }
  return QuantizationSpec{static_cast<int>(group_value), static_cast<int>(bits_value), mode_name};
}

bool is_default_field(std::string_view key) { return key == "group_size" || key == "bits" || key == "mode"; }

}  // namespace

Result<QuantizationTable> QuantizationTable::parse(const json::object& config) {
  JsonReader reader(config);
  std::string path = "quantization";
  ASSIGN_OR_RETURN(const json::object* block, reader.optional_object(path));
  if (block == nullptr) {
    path = "quantization_config";
    ASSIGN_OR_RETURN(block, reader.optional_object(path));
  }
  QuantizationTable table;
  if (block == nullptr) return table;

  JsonReader fields(*block, path);
  ASSIGN_OR_RETURN(const auto method, fields.optional_string("quant_method"));
  if (method == "mxfp4") return table;  // gpt-oss's own: what is quantized has names that say so
  if (method) {
    return fail(ErrorCode::kUnsupported,
                "'" + fields.path_of("quant_method") + "': weights quantized by '" + *method +
                    "' are not supported; convert the original model to MLX or GGUF",
                fields.path_of("quant_method"));
  }
  ASSIGN_OR_RETURN(table.default_, read_spec(*block, path));
  for (const auto& [key, value] : *block) {
    const std::string name(key);
    if (is_default_field(name)) continue;
    if (const json::object* object = value.if_object()) {
      ASSIGN_OR_RETURN(table.overrides_[name], read_spec(*object, fields.path_of(name)));
    } else if (const bool* is_quantized = value.if_bool()) {
      table.overrides_[name] = *is_quantized ? table.default_ : std::nullopt;
    } else {
      return fail(
          ErrorCode::kInvalidArgument,
          "'" + fields.path_of(name) + "': expected an object or a boolean, got " + std::string(json_kind_name(value)),
          fields.path_of(name));
    }
  }
  return table;
}

std::optional<QuantizationSpec> QuantizationTable::spec_for(std::string_view module) const {
  auto found = overrides_.find(module);
  if (found == overrides_.end()) {
    found = module.starts_with(kWrapper) ? overrides_.find(module.substr(kWrapper.size()))
                                         : overrides_.find(std::string(kWrapper).append(module));
  }
  return found == overrides_.end() ? default_ : found->second;
}

}  // namespace redpoll::checkpoint
