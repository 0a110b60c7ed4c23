// Rotary frequencies of a config: default, linear and llama3 scaling.
#pragma once

#include "base/error.h"
#include "checkpoint/config.h"
#include "kernels/kernels.h"

namespace redpoll::nn {

/// The rotation of each head of a config. kUnsupported names a rope type that is not known.
[[nodiscard]] Result<kernels::RopeSpec> make_rope(const checkpoint::Config& config);

}  // namespace redpoll::nn
