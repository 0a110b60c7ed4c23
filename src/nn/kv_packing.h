// How --kv-quant becomes the packing of each layer's keys and values.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "cache/cache_groups.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernel_options.h"

namespace redpoll::nn {

/// One for each of `layers`, without bits where nothing is packed. kInvalidArgument, with the layer and, of
/// kv_config.json, the field, for what the layer cannot be packed to by kernels of these options; what read_kv_config
/// fails with.
[[nodiscard]] Result<std::vector<kernels::KvPacking>> kv_packings(const kernels::KernelOptions& options,
                                                                  std::span<const cache::LayerCache> layers,
                                                                  const checkpoint::Checkpoint& checkpoint);

}  // namespace redpoll::nn
