// Reading of rope_scaling and rope_parameters: the shapes that published configs have, old and new.
#include <algorithm>
#include <cmath>

#include "checkpoint/config.h"

namespace redpoll::checkpoint {
namespace {

constexpr double kMaxFactor = 1e6;

Result<double> required_factor(JsonReader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const std::optional<double> value, reader.optional_double(name, 1e-6, kMaxFactor));
  if (value) return *value;
  return fail(ErrorCode::kInvalidArgument, "'" + reader.path_of(name) + "' is missing", reader.path_of(name));
}

Result<RopeScaling> read_llama3(JsonReader& reader) {
  RopeScaling scaling{.type = RopeScaling::Type::kLlama3};
  ASSIGN_OR_RETURN(scaling.factor, required_factor(reader, "factor"));
  ASSIGN_OR_RETURN(const auto low, reader.optional_double("low_freq_factor", 1e-6, kMaxFactor));
  ASSIGN_OR_RETURN(const auto high, reader.optional_double("high_freq_factor", 1e-6, kMaxFactor));
  ASSIGN_OR_RETURN(const auto original,
                   reader.optional_int("original_max_position_embeddings", 1, std::int64_t{1} << 30));
  scaling.low_freq_factor = low.value_or(scaling.low_freq_factor);
  scaling.high_freq_factor = high.value_or(scaling.high_freq_factor);
  scaling.original_max_position_embeddings =
      static_cast<int>(original.value_or(scaling.original_max_position_embeddings));
  if (scaling.low_freq_factor >= scaling.high_freq_factor) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + reader.path_of("high_freq_factor") + "' must be greater than low_freq_factor",
                reader.path_of("high_freq_factor"));
  }
  return scaling;
}

/// What YaRN multiplies queries and keys with, since the softmax is over more tokens.
double yarn_scale(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

Result<RopeScaling> read_yarn(JsonReader& reader, const Config& config) {
  RopeScaling scaling{.type = RopeScaling::Type::kYarn};
  ASSIGN_OR_RETURN(scaling.factor, required_factor(reader, "factor"));
  const std::int64_t most = std::int64_t{1} << 30;
  ASSIGN_OR_RETURN(const auto original, reader.optional_int("original_max_position_embeddings", 1, most));
  ASSIGN_OR_RETURN(const auto fast, reader.optional_double("beta_fast", 1e-6, kMaxFactor));
  ASSIGN_OR_RETURN(const auto slow, reader.optional_double("beta_slow", 1e-6, kMaxFactor));
  ASSIGN_OR_RETURN(const auto mscale, reader.optional_double("mscale", 0, kMaxFactor));
  ASSIGN_OR_RETURN(const auto mscale_all_dim, reader.optional_double("mscale_all_dim", 0, kMaxFactor));
  ASSIGN_OR_RETURN(const auto attention_factor, reader.optional_double("attention_factor", 1e-6, kMaxFactor));
  ASSIGN_OR_RETURN(const auto truncate, reader.optional_bool("truncate"));
  scaling.original_max_position_embeddings =
      static_cast<int>(original.value_or(std::max(config.max_position_embeddings, 1)));
  scaling.beta_fast = fast.value_or(scaling.beta_fast);
  scaling.beta_slow = slow.value_or(scaling.beta_slow);
  scaling.truncate = truncate.value_or(true);
  if (scaling.beta_slow > scaling.beta_fast) {
    return fail(ErrorCode::kInvalidArgument, "'" + reader.path_of("beta_slow") + "' must not be greater than beta_fast",
                reader.path_of("beta_slow"));
  }
  scaling.scale = attention_factor.value_or(yarn_scale(scaling.factor, mscale.value_or(1)) /
                                            yarn_scale(scaling.factor, mscale_all_dim.value_or(0)));
  return scaling;
}

Result<RopeScaling> read_factors(const json::value& value, const std::string& path, const Config& config) {
  RopeScaling scaling{.type = RopeScaling::Type::kFactors};
  const auto expected = static_cast<std::size_t>(config.head_dim * config.partial_rotary_factor) / 2;
  const json::array* array = value.if_array();
  if (array == nullptr || array->size() != expected) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + path + "': expected an array of " + std::to_string(expected) +
                    " numbers, one for each pair of a head that is rotated",
                path);
  }
  for (const json::value& element : *array) {
    const double factor = element.is_number() ? element.to_number<double>() : 0;
    if (!(factor >= 1e-6 && factor <= kMaxFactor)) {
      return fail(ErrorCode::kInvalidArgument, "'" + path + "': expected numbers from 1e-6 to 1e6", path);
    }
    scaling.frequency_factors.push_back(factor);
  }
  return scaling;
}

// Phi-3: a factor for each frequency, and a scale that grows with the stretch of the context. Short prompts get the
// long factors too, as in mlx-lm: whether a prompt is long must not change what its beginning means.
Result<RopeScaling> read_longrope(JsonReader& reader, const Config& config) {
  const json::value* factors = reader.optional_value("long_factor");
  if (factors == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "'" + reader.path_of("long_factor") + "' is missing",
                reader.path_of("long_factor"));
  }
  ASSIGN_OR_RETURN(RopeScaling scaling, read_factors(*factors, reader.path_of("long_factor"), config));
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  JsonReader whole(config.raw);
  ASSIGN_OR_RETURN(const auto own, reader.optional_int(kOriginal, 2, kMost));
  ASSIGN_OR_RETURN(const auto general, whole.optional_int(kOriginal, 2, kMost));
  const auto original = static_cast<double>(own.value_or(general.value_or(4096)));
  const double stretch = config.max_position_embeddings / original;
  ASSIGN_OR_RETURN(const auto scale, reader.optional_double("long_mscale", 1e-6, kMaxFactor));
  scaling.scale = scale.value_or(stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original)));
  return scaling;
}

// The type's name, under its new or its old key. Empty: an object that names none.
Result<std::string> read_type(JsonReader& reader) {
  ASSIGN_OR_RETURN(const auto rope_type, reader.optional_string("rope_type"));
  if (rope_type) return *rope_type;
  ASSIGN_OR_RETURN(const auto type, reader.optional_string("type"));
  return type.value_or("");
}

Result<RopeScaling> read_scaling(const json::object& object, const std::string& path, const Config& config) {
  JsonReader reader(object, path);
  for (const auto& [key, value] : object) {
    if (value.is_object()) {
      return fail(ErrorCode::kUnsupported,
                  "'" + path + "': parameters by layer type ('" + std::string(key) + "') are not supported", path);
    }
  }
  ASSIGN_OR_RETURN(const std::string type, read_type(reader));
  if (type == "default") return RopeScaling{};
  if (type.empty()) {
    if (!object.contains("factor")) return RopeScaling{};  // rope_parameters that hold a rope_theta only
    return fail(ErrorCode::kInvalidArgument, "'" + reader.path_of("rope_type") + "' is missing",
                reader.path_of("rope_type"));
  }
  if (type == "linear") {
    RopeScaling scaling{.type = RopeScaling::Type::kLinear};
    ASSIGN_OR_RETURN(scaling.factor, required_factor(reader, "factor"));
    return scaling;
  }
  if (type == "llama3") return read_llama3(reader);
  if (type == "yarn") return read_yarn(reader, config);
  if (type == "longrope" || type == "su") return read_longrope(reader, config);
  return fail(ErrorCode::kUnsupported,
              "'" + reader.path_of("rope_type") + "': rope type '" + type + "' is not supported for model_type '" +
                  config.model_type + "'; known are default, linear, llama3, longrope and yarn",
              reader.path_of("rope_type"));
}

}  // namespace

Result<RopeScaling> parse_rope_scaling(const Config& config) {
  JsonReader reader(config.raw);
  if (const json::value* factors = reader.optional_value("rope_freq_factors"))
    return read_factors(*factors, "rope_freq_factors", config);
  ASSIGN_OR_RETURN(const json::object* parameters, reader.optional_object("rope_parameters"));
  ASSIGN_OR_RETURN(const json::object* scaling, reader.optional_object("rope_scaling"));
  if (parameters != nullptr) return read_scaling(*parameters, "rope_parameters", config);
  if (scaling != nullptr) return read_scaling(*scaling, "rope_scaling", config);
  return RopeScaling{};
}

}  // namespace redpoll::checkpoint
