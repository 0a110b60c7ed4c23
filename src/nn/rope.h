// Rotary frequencies of a config: default, linear, llama3 and longrope scaling.
#pragma once

#include "base/error.h"
#include "checkpoint/config.h"
#include "kernels/kernels.h"

namespace redpoll::nn {

/// Whether a family rotates a part of each head if its config has a partial_rotary_factor.
enum class PartialRotation { kRefused, kAllowed };

/// The rotation of each head of a config. kUnsupported names a rope type that is not known, or a partial rotary factor
/// that the family does not have.
[[nodiscard]] Result<kernels::RopeSpec> make_rope(const checkpoint::Config& config,
                                                  PartialRotation partial = PartialRotation::kRefused);

/// The same with another base and no scaling, where a config's layers differ. The config is one that make_rope takes.
[[nodiscard]] kernels::RopeSpec make_rope_of_base(const checkpoint::Config& config, double base);

/// The rotation of one kind of layers, where rope_parameters has an object for each (Gemma 4): of type default, or
/// proportional, which rotates the first partial_rotary_factor of a head as if all of it were.
[[nodiscard]] Result<kernels::RopeSpec> make_rope_of_layers(const checkpoint::Config& config,
                                                            std::string_view layer_type, int head_dim);

}  // namespace redpoll::nn
