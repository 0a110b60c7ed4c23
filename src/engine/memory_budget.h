// The memory arithmetic: how many cache blocks of each group, and so how long a context, a budget leaves beside the
// weights and what a step takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/cache_groups.h"

namespace redpoll::engine {

/// The largest step.
struct StepShape {
  int step_tokens = 0;
  int max_batch = 0;
  int context = 0;  // tokens of a sequence at most
  int vocab_size = 0;
  std::size_t activations_per_token = 0;
  std::size_t unpacked_bytes_per_token = 0;  // see ModelFootprint
};

/// An estimate of what it takes beside weights and cache: activations of all tokens, in blocks of up to twice their
/// size (see kernels/cpu/buffer.cpp), as many rows of logits as may be asked for at once, a quarter more, in float32,
/// and what is seen unpacked in one pass, which in the exact tier is of one sequence and of a chunk at most.
[[nodiscard]] std::size_t step_bytes(const StepShape& step);

/// What the layers of one cache group take.
struct GroupCost {
  cache::CacheKind kind = cache::CacheKind::kAttention;
  int window = 0;  // see cache::CacheGroup
  std::size_t bytes_per_block = 0;
};

struct MemoryRequest {
  std::size_t budget_bytes = 0;  // 0: default_memory_budget()
  std::size_t weight_bytes = 0;
  std::size_t step_bytes = 0;
  std::size_t disk_bytes = 0;  // on their way to the disk tier and back
  std::vector<GroupCost> groups;
  int block_tokens = 0;
  int model_context = 0;   // tokens the model was trained for
  int context_length = 0;  // tokens asked for; 0: the model's, as memory allows
  int max_batch = 0;
  int step_tokens = 0;
  std::size_t prompt_cache_bytes = 0;
};

struct MemoryPlan {
  std::size_t budget_bytes = 0;
  std::size_t step_bytes = 0;
  std::vector<GroupCost> groups;
  std::vector<int> num_blocks;  // by group; no more than max_batch sequences of max_context tokens and the prompt cache
                                // could use
  int max_context = 0;          // tokens of one sequence, prompt and answer
};

/// Windows and states come first, for as many sequences as get them out of half of what is left for the cache, since
/// nothing runs without, and for snapshots of the prompt cache out of half of what that may take; then blocks for all
/// tokens, for as long a context as is wanted or fits. kInvalidArgument, with
/// the numbers and the flag to change, when not even one sequence fits.
[[nodiscard]] Result<MemoryPlan> plan_memory(MemoryRequest request);

/// What a sequence of `context` tokens takes of the cache at least: that which must fit for plan_memory not to fail.
[[nodiscard]] std::size_t least_cache_bytes(const MemoryRequest& request, int context);
/// How many sequences of `context` tokens the plan, which is for them, holds without any waiting for another's blocks;
/// max_batch at most.
[[nodiscard]] int sequences_at_once(const MemoryRequest& request, const MemoryPlan& plan, int context);
/// All blocks of a plan.
[[nodiscard]] std::size_t cache_bytes(const MemoryPlan& plan);

/// The exact tier takes a chunk of a prompt whole or not at all: kInvalidArgument if a window has no room for one.
[[nodiscard]] Status check_whole_chunks(const MemoryPlan& plan, int block_tokens);

/// Something to warn of: a budget above what this process may use. 0 stands for the default.
[[nodiscard]] std::optional<std::string> budget_warning(std::size_t budget_bytes, std::size_t available_bytes);

/// 75 % of a machine's memory.
[[nodiscard]] std::size_t budget_of(std::size_t memory_bytes);
/// That of what this process may use.
[[nodiscard]] std::size_t default_memory_budget();

}  // namespace redpoll::engine
