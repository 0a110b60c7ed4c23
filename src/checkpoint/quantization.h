// Quantization of a checkpoint's modules, as MLX writes it into config.json: a default and exceptions by module name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace redpoll::checkpoint {

struct QuantizationSpec {
  int group_size = 64;
  int bits = 4;
  std::string mode = "affine";  // affine, mxfp4, mxfp8, nvfp4

  friend bool operator==(const QuantizationSpec&, const QuantizationSpec&) = default;
};

/// A value. Module names are weights' names without ".weight": "model.layers.0.self_attn.q_proj".
class QuantizationTable {
 public:
  /// Reads `quantization`, or `quantization_config` of the same shape, of a config.json; neither is an empty table.
  /// kUnsupported for the schemes of other libraries (gptq, awq, bitsandbytes, fp8 ...); kInvalidArgument, naming the
  /// field, for sizes that MLX does not have; groups of 16, which GGUF's Q6_K has, are taken too.
  [[nodiscard]] static Result<QuantizationTable> parse(const json::object& config);

  /// How the module would be quantized if it is: nullopt if the table is empty or excludes it. That it is quantized
  /// shows in the tensors: "<module>.scales" stands beside "<module>.weight". A module may be named with or without
  /// the prefix "language_model.", here and in the file.
  [[nodiscard]] std::optional<QuantizationSpec> spec_for(std::string_view module) const;

  [[nodiscard]] bool empty() const { return !default_ && overrides_.empty(); }
  /// What modules without an exception of their own have; nullopt if the table is empty.
  [[nodiscard]] const std::optional<QuantizationSpec>& default_spec() const { return default_; }

 private:
  std::optional<QuantizationSpec> default_;
  std::map<std::string, std::optional<QuantizationSpec>, std::less<>> overrides_;  // nullopt: left dense
};

}  // namespace redpoll::checkpoint
