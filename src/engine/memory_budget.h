// The memory arithmetic: how many cache blocks, and so how long a context, a budget leaves beside the weights.
#pragma once

#include <cstddef>

#include "base/error.h"

namespace redpoll::engine {

struct MemoryRequest {
  std::size_t budget_bytes = 0;  // 0: default_memory_budget()
  std::size_t weight_bytes = 0;
  std::size_t bytes_per_block = 0;
  int block_tokens = 0;
  int model_context = 0;   // tokens the model was trained for
  int context_length = 0;  // tokens asked for; 0: the model's, as memory allows
  int max_batch = 0;
};

struct MemoryPlan {
  std::size_t budget_bytes = 0;
  std::size_t bytes_per_block = 0;
  int num_blocks = 0;   // no more than max_batch sequences of max_context tokens could use
  int max_context = 0;  // tokens of one sequence, prompt and answer
};

/// kInvalidArgument, with the numbers and the flag to change, when not even one sequence fits.
[[nodiscard]] Result<MemoryPlan> plan_memory(MemoryRequest request);

/// 75 % of what this process may use.
[[nodiscard]] std::size_t default_memory_budget();

}  // namespace redpoll::engine
