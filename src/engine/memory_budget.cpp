#include "engine/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/available_memory.h"
#include "engine/scheduler.h"

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
              "the model does not fit: weights take " + in_mib(request.weight_bytes) +
                  ", the activations and logits of a step " + in_mib(request.step_bytes) + " and a cache of " +
                  std::to_string(context) + " tokens " + in_mib(cache_bytes) + ", together " +
                  in_mib(request.weight_bytes + request.step_bytes + cache_bytes) + ", but the memory budget is " +
                  in_mib(request.budget_bytes) +
                  "; raise --memory-budget, lower --step-tokens or --max-batch, or serve a smaller model",
              "memory-budget");
}

}  // namespace

std::size_t step_bytes(const StepShape& step) {
  const auto sequences = static_cast<std::size_t>(step.max_batch);
  const std::size_t tokens =
      std::min(static_cast<std::size_t>(step.step_tokens), sequences * static_cast<std::size_t>(step.context));
  const std::size_t logit_rows = std::min(tokens, sequences * std::size_t{kMaxScoredTokensPerStep});
  const std::size_t logits = logit_rows * static_cast<std::size_t>(step.vocab_size);
  return (2 * tokens * step.activations_per_token + logits + logits / 4) * sizeof(float);
}

std::optional<std::string> budget_warning(std::size_t budget_bytes, std::size_t available_bytes) {
  if (budget_bytes <= available_bytes) return std::nullopt;
  return "the memory budget of " + in_mib(budget_bytes) + " is more than the " + in_mib(available_bytes) +
         " that this process may use; lower --memory-budget, or it may be ended for want of memory";
}

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

  const std::size_t without_cache = request.weight_bytes + request.step_bytes;
  if (without_cache > request.budget_bytes) return does_not_fit(request, least);
  const std::size_t affordable =
      (request.budget_bytes - without_cache) / std::max<std::size_t>(request.bytes_per_block, 1);
  const auto block_tokens = static_cast<std::size_t>(request.block_tokens);
  if (affordable * block_tokens < static_cast<std::size_t>(least)) return does_not_fit(request, least);

  const auto context = std::min(static_cast<std::size_t>(wanted), affordable * block_tokens);
  const std::size_t useful = (context + block_tokens - 1) / block_tokens * static_cast<std::size_t>(request.max_batch);
  return MemoryPlan{
      .budget_bytes = request.budget_bytes,
      .step_bytes = request.step_bytes,
      .bytes_per_block = request.bytes_per_block,
      .num_blocks = static_cast<int>(std::min({useful, affordable, std::size_t{INT32_MAX} / block_tokens})),
      .max_context = static_cast<int>(context)};
}

}  // namespace redpoll::engine
