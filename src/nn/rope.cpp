#include "nn/rope.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace redpoll::nn {
namespace {

namespace mx = mlx::core;

// Frequencies are computed with MLX's own float32 operations, in mlx-lm's order: the same formula in double differs in
// the last bit of every fourth one, which changes tokens later. Periods are theta^(2i/d), frequencies their inverse.

mx::array scalar(double value) { return mx::array(static_cast<float>(value)); }

// What mx.fast.rope does with a base: exp(-i * log(base) / (d / 2)).
mx::array default_frequencies(int half, double theta) {
  const mx::array steps = mx::arange(0.0, -half, -1.0, mx::float32);
  return mx::exp(steps * scalar(std::log(static_cast<float>(theta)) / static_cast<float>(half)));
}

mx::array periods(int dims, double theta) {
  return mx::power(scalar(theta), mx::arange(0.0, dims, 2.0, mx::float32) / scalar(dims));
}

// Llama 3.1: wavelengths beyond the original context are stretched by `factor`, short ones kept, those between blended
// (meta-llama/llama-models, apply_scaling).
mx::array llama3_periods(const mx::array& plain, const checkpoint::RopeScaling& scaling) {
  const double context = scaling.original_max_position_embeddings;
  const double low_wavelength = context / scaling.low_freq_factor;
  const double high_wavelength = context / scaling.high_freq_factor;
  const mx::array wavelengths = scalar(2 * std::numbers::pi) * plain;
  const mx::array stretched = mx::where(wavelengths > scalar(low_wavelength), plain * scalar(scaling.factor), plain);
  const mx::array between =
      mx::logical_and(wavelengths > scalar(high_wavelength), wavelengths < scalar(low_wavelength));
  const mx::array smooth = (scalar(context) / wavelengths - scalar(scaling.low_freq_factor)) /
                           scalar(scaling.high_freq_factor - scaling.low_freq_factor);
  const mx::array blended = plain / ((scalar(1) - smooth) / scalar(scaling.factor) + smooth);
  return mx::where(between, blended, stretched);
}

// YaRN's "NTK by parts": dimensions that rotate often within the original context are kept, those that rotate less than
// once are stretched, and a ramp goes between.
mx::array yarn_periods(int dims, double theta, const checkpoint::RopeScaling& scaling) {
  const auto dimension_of = [&](double rotations) {
    return dims * std::log(scaling.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dimension_of(scaling.beta_fast);
  double high = dimension_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1.0);
  if (low == high) high += 0.001;
  const mx::array ramp =
      mx::clip((mx::arange(0.0, dims / 2, 1.0, mx::float32) - scalar(low)) / scalar(high - low), scalar(0), scalar(1));
  const mx::array kept = scalar(1) - ramp;
  const mx::array plain = mx::power(scalar(theta), mx::arange(0.0, dims, 2.0, mx::float32) / scalar(dims));
  const mx::array stretched = scalar(scaling.factor) * plain;
  return (stretched * plain) / (stretched * kept + plain * (scalar(1) - kept));
}

std::vector<float> values_of(const mx::array& x) {
  mx::array computed = mx::contiguous(x);
  mx::eval(computed);
  return {computed.data<float>(), computed.data<float>() + computed.size()};
}

/// A head_dim of its own: layers of a config may differ.
kernels::RopeSpec rope_of_base(const checkpoint::Config& config, int dims, double base, double position_scale = 1) {
  // mlx-lm scales the positions; scaling the frequencies instead rounds the same product.
  const mx::array frequencies = default_frequencies(dims / 2, base) * scalar(position_scale);
  return {.head_dim = config.head_dim,
          .dims = dims,
          .interleaved = config.rope_traditional,
          .inverse_frequencies = values_of(frequencies),
          .base = static_cast<float>(base),
          .position_scale = static_cast<float>(position_scale)};
}

kernels::RopeSpec rope_of_periods(const checkpoint::Config& config, const mx::array& all) {
  return {.head_dim = config.head_dim,
          .dims = 2 * static_cast<int>(all.size()),
          .interleaved = config.rope_traditional,
          .inverse_frequencies = values_of(mx::reciprocal(all)),
          .periods = values_of(all)};
}

kernels::RopeSpec scaled_rope(const checkpoint::Config& config, int dims, const checkpoint::RopeScaling& scaling) {
  const double theta = config.rope_theta;
  using Type = checkpoint::RopeScaling::Type;
  switch (scaling.type) {
    case Type::kDefault: break;
    case Type::kLinear: return rope_of_base(config, dims, theta, 1 / scaling.factor);
    case Type::kLlama3: return rope_of_periods(config, llama3_periods(periods(dims, theta), scaling));
    case Type::kYarn: return rope_of_periods(config, yarn_periods(dims, theta, scaling));
    case Type::kFactors: {
      std::vector<float> factors(scaling.frequency_factors.begin(), scaling.frequency_factors.end());
      return rope_of_periods(config, mx::array(factors.data(), {dims / 2}, mx::float32) * periods(dims, theta));
    }
  }
  return rope_of_base(config, dims, theta);
}

}  // namespace

Result<kernels::RopeSpec> make_rope(const checkpoint::Config& config, PartialRotation partial) {
  if (config.partial_rotary_factor != 1 && partial == PartialRotation::kRefused) {
    return fail(ErrorCode::kUnsupported,
                "the model's config: 'partial_rotary_factor' other than 1 is not supported for model_type '" +
                    config.model_type + "'",
                "partial_rotary_factor");
  }
  ASSIGN_OR_RETURN(const checkpoint::RopeScaling scaling, checkpoint::parse_rope_scaling(config));
  const int dims = static_cast<int>(config.head_dim * config.partial_rotary_factor);
  if (dims % 2 != 0 || dims == 0) {
    return fail(ErrorCode::kUnsupported,
                "the model's config: " + std::to_string(dims) + " of head_dim " + std::to_string(config.head_dim) +
                    " cannot be rotated in pairs",
                "head_dim");
  }
  kernels::RopeSpec spec = scaled_rope(config, dims, scaling);
  spec.scale = static_cast<float>(scaling.scale);
  return spec;
}

kernels::RopeSpec make_rope_of_base(const checkpoint::Config& config, double base) {
  return rope_of_base(config, config.head_dim, base);
}

Result<kernels::RopeSpec> make_rope_of_layers(const checkpoint::Config& config, std::string_view layer_type,
                                              int head_dim) {
  const bool is_full = layer_type == "full_attention";
  double theta = is_full ? 1e6 : 1e4;
  double share = is_full ? 0.25 : 1;
  double factor = 1;
  std::string type = is_full ? "proportional" : "default";
  JsonReader whole(config.raw);
  ASSIGN_OR_RETURN(const json::object* all, whole.optional_object("rope_parameters"));
  if (all != nullptr) {
    JsonReader by_layer(*all, "rope_parameters");
    ASSIGN_OR_RETURN(const json::object* own, by_layer.optional_object(layer_type));
    if (own == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "'" + by_layer.path_of(layer_type) + "' is missing",
                  by_layer.path_of(layer_type));
    }
    JsonReader fields(*own, by_layer.path_of(layer_type));
    ASSIGN_OR_RETURN(const auto own_theta, fields.optional_double("rope_theta", 1, 1e15));
    ASSIGN_OR_RETURN(const auto own_share, fields.optional_double("partial_rotary_factor", 1e-3, 1));
    ASSIGN_OR_RETURN(const auto own_factor, fields.optional_double("factor", 1e-6, 1e6));
    ASSIGN_OR_RETURN(const auto own_type, fields.optional_string("rope_type"));
    theta = own_theta.value_or(1e4);
    share = own_share.value_or(1);
    factor = own_factor.value_or(1);
    type = own_type.value_or("default");
    if (type != "default" && type != "proportional") {
      return fail(ErrorCode::kUnsupported,
                  "'" + fields.path_of("rope_type") + "': rope type '" + type + "' is not supported for model_type '" +
                      config.model_type + "'; known are default and proportional",
                  fields.path_of("rope_type"));
    }
  }
  checkpoint::Config of_layer = config;
  of_layer.head_dim = head_dim;
  if (type == "default") return rope_of_base(of_layer, head_dim, theta);
  const int rotated = static_cast<int>(head_dim * share);
  const mx::array exponents = mx::arange(0.0, rotated, 2.0, mx::float32) / scalar(head_dim);
  const mx::array turning = scalar(factor) * mx::power(scalar(theta), exponents);
  const mx::array still = mx::full({(head_dim - rotated) / 2}, std::numeric_limits<float>::infinity());
  return rope_of_periods(of_layer, mx::concatenate({turning, still}));
}

}  // namespace redpoll::nn
