#include "engine/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/available_memory.h"

namespace redpoll::engine {
namespace {

std::string in_mib(std::size_t bytes) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1U << 20U));
  return text;
}

std::unexpected<Error> does_not_fit(const MemoryRequest& request, int context) {
  const auto blocks = static_cast<std::size_t>((context + request.block_tokens - 1) / request.block_tokens);
  const std::size_t cache_bytes = blocks * request.bytes_per_block;
  return fail(ErrorCode::kInvalidArgument,
              "the model does not fit: weights take " + in_mib(request.weight_bytes) + " and a cache of " +
                  std::to_string(context) + " tokens " + in_mib(cache_bytes) + ", together " +
                  in_mib(request.weight_bytes + cache_bytes) + ", but the memory budget is " +
                  in_mib(request.budget_bytes) + "; raise --memory-budget or serve a smaller model",
              "memory-budget");
}

}  // namespace

std::size_t default_memory_budget() { return available_memory_bytes() / 4 * 3; }

Result<MemoryPlan> plan_memory(MemoryRequest request) {
  if (request.budget_bytes == 0) request.budget_bytes = default_memory_budget();
  if (request.context_length > request.model_context) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --context-length of at most " + std::to_string(request.model_context) +
                    ", which the model was trained for, got " + std::to_string(request.context_length),
                "context-length");
  }
  const bool is_asked_for = request.context_length > 0;
  const int wanted = is_asked_for ? request.context_length : request.model_context;
  const int least = is_asked_for ? wanted : std::min(wanted, request.block_tokens);

  if (request.weight_bytes > request.budget_bytes) return does_not_fit(request, least);
  const std::size_t affordable =
      (request.budget_bytes - request.weight_bytes) / std::max<std::size_t>(request.bytes_per_block, 1);
  const auto block_tokens = static_cast<std::size_t>(request.block_tokens);
  if (affordable * block_tokens < static_cast<std::size_t>(least)) return does_not_fit(request, least);

  const auto context = std::min(static_cast<std::size_t>(wanted), affordable * block_tokens);
  const std::size_t useful = (context + block_tokens - 1) / block_tokens * static_cast<std::size_t>(request.max_batch);
  return MemoryPlan{
      .budget_bytes = request.budget_bytes,
      .bytes_per_block = request.bytes_per_block,
      .num_blocks = static_cast<int>(std::min({useful, affordable, std::size_t{INT32_MAX} / block_tokens})),
      .max_context = static_cast<int>(context)};
}

}  // namespace redpoll::engine
