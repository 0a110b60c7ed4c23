// Rotary frequencies of a config: default, linear and llama3 scaling.
#pragma once

#include "base/error.h"
#include "checkpoint/config.h"
#include "kernels/kernels.h"

namespace redpoll::nn {

/// The rotation of each head of a config. kUnsupported names a rope type that is not known.
[[nodiscard]] Result<kernels::RopeSpec> make_rope(const checkpoint::Config& config);

/// The same with another base and no scaling, where a config's layers differ. The config is one that make_rope takes.
[[nodiscard]] kernels::RopeSpec make_rope_of_base(const checkpoint::Config& config, double base);

}  // namespace redpoll::nn
