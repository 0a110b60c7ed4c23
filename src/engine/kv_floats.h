// What a model's keys and values are computed in, where its kernels keep that: known from building the graph of a step
// of one token, which nobody evaluates. So the cache has its types, and its size, before anything is computed.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "models/model.h"

namespace redpoll::engine {

/// Of each layer; empty if the kernels decide by themselves.
[[nodiscard]] std::vector<std::optional<kernels::KvFloats>> kv_floats(models::Model& model,
                                                                      const kernels::Kernels& kernels);

}  // namespace redpoll::engine
