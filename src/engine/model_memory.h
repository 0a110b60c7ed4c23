// What a model needs of an engine's memory: its footprint, the request that plan_memory answers, and the same for a
// checkpoint that is only looked at.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/fit/model_footprint.h"
#include "engine/memory_budget.h"
#include "kernels/kernel_options.h"

namespace redpoll::models {
struct ModelInfo;
}

namespace redpoll::engine {

/// Of the model's cache groups, as these kernels hold them, in blocks of so many tokens.
[[nodiscard]] std::vector<GroupCost> group_costs(const models::ModelInfo& info, const kernels::Kernels& kernels,
                                                 int block_tokens);
[[nodiscard]] ModelFootprint footprint_of(const models::ModelInfo& info, std::vector<GroupCost> groups,
                                          int block_tokens);

/// The footprint must be of blocks of `options.block_tokens`.
[[nodiscard]] MemoryRequest memory_request(const ModelFootprint& footprint, const EngineOptions& options);

/// What would become of a checkpoint here.
struct ModelOutlook {
  std::string model_type;
  std::size_t weight_bytes = 0;
  std::size_t kv_bytes_per_token = 0;  // in layers that see all tokens
  std::size_t fixed_bytes = 0;         // of a sequence's windows and states
  int model_context = 0;
  MemoryPlan plan;
};

/// What the model of a checkpoint takes on kernels of these options, without loading it; fails as look_at does, but for
/// memory. Its keys and values are as `options.kv_quantization` has them.
[[nodiscard]] Result<ModelFootprint> footprint_of(const checkpoint::Checkpoint& checkpoint,
                                                  const kernels::KernelOptions& options, int block_tokens);

/// Builds the model without its weights. Fails as loading it would: for a family, a field or a format that is not
/// known, tensors that are missing or too many, keys and values that cannot be packed, or too little memory.
[[nodiscard]] Result<ModelOutlook> look_at(const checkpoint::Checkpoint& checkpoint,
                                           const kernels::KernelOptions& kernels, const EngineOptions& options);

}  // namespace redpoll::engine
