// What a model needs of an engine's memory: the request that plan_memory answers, and the same for a checkpoint that is
// only looked at.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/memory_budget.h"

namespace redpoll::models {
struct ModelInfo;
}

namespace redpoll::engine {

[[nodiscard]] MemoryRequest memory_request(const models::ModelInfo& info, const kernels::Kernels& kernels,
                                           const EngineOptions& options);

/// What would become of a checkpoint here.
struct ModelOutlook {
  std::string model_type;
  std::size_t weight_bytes = 0;
  std::size_t kv_bytes_per_token = 0;  // in layers that see all tokens
  std::size_t fixed_bytes = 0;         // of a sequence's windows and states
  int model_context = 0;
  MemoryPlan plan;
};

/// Builds the model without its weights. Fails as loading it would: for a family, a field or a format that is not
/// known, tensors that are missing or too many, or too little memory.
[[nodiscard]] Result<ModelOutlook> look_at(const checkpoint::Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace redpoll::engine
