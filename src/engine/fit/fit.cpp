#include "engine/fit/fit.h"

#include <algorithm>
#include <string>

#include "engine/model_memory.h"

namespace redpoll::engine {
namespace {

std::size_t in_size(int number) { return static_cast<std::size_t>(number); }

/// Of `num_sequences` that never wait for one another, whatever the budget.
std::size_t unbounded_cache_bytes(const ModelFootprint& footprint, const EngineOptions& options) {
  MemoryRequest request = memory_request(footprint, options);
  request.budget_bytes = std::size_t{1} << 60U;
  request.prompt_cache_bytes = 0;
  const auto plan = plan_memory(request);
  CHECK(plan, "a context of at most the model's fits a memory without bounds");
  return cache_bytes(*plan);
}

}  // namespace

SequenceCost sequence_cost(const ModelFootprint& footprint) {
  SequenceCost sequence;
  for (const GroupCost& cost : footprint.groups) {
    if (cost.kind == cache::CacheKind::kRecurrent) {
      sequence.fixed_bytes += cost.bytes_per_block;
    } else if (cost.window > 0) {
      sequence.fixed_bytes +=
          in_size(cache::blocks_spanned(cost.window, footprint.block_tokens)) * cost.bytes_per_block;
    } else {
      sequence.bytes_per_token += cost.bytes_per_block / in_size(footprint.block_tokens);
    }
  }
  return sequence;
}

TokenReads reads_of_token(const ModelFootprint& footprint, int num_tokens) {
  TokenReads reads{.weight_bytes = footprint.weight_bytes_per_token - footprint.expert_bytes_per_token,
                   .expert_bytes = footprint.expert_bytes_per_token};
  for (const GroupCost& cost : footprint.groups) {
    if (cost.kind == cache::CacheKind::kRecurrent) {
      reads.cache_bytes += cost.bytes_per_block;
    } else {
      const int seen = cost.window > 0 ? std::min(cost.window, num_tokens) : num_tokens;
      reads.cache_bytes += in_size(seen) * (cost.bytes_per_block / in_size(footprint.block_tokens));
    }
  }
  return reads;
}

double predicted_tokens_per_s(const TokenReads& reads, double read_gb_per_s) {
  // Shares of the rate of a plain read, measured with `redpoll bench` on two cores with AVX-512 whose plain reads gave
  // 49 GB/s, medians of three runs of 4-bit weights: a dense model of 0.77 GB with no context; the same with 4,096
  // tokens before, by the difference; one of 128 experts, of which 8 see a token, less what its other weights take.
  constexpr double kOfWeights = 0.80;
  constexpr double kOfExperts = 0.74;
  constexpr double kOfCache = 0.63;
  const double seconds = static_cast<double>(reads.weight_bytes) / kOfWeights +
                         static_cast<double>(reads.expert_bytes) / kOfExperts +
                         static_cast<double>(reads.cache_bytes) / kOfCache;
  return read_gb_per_s * 1e9 / seconds;
}

Result<Fit> find_fit(const ModelFootprint& footprint, const EngineOptions& options) {
  const int model_context = footprint.context_length;
  if (options.context_length > model_context) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a context of at most " + std::to_string(model_context) +
                    " tokens, which the model was trained for, got " + std::to_string(options.context_length),
                "context");
  }
  EngineOptions asked = options;
  if (asked.memory_budget_bytes == 0) asked.memory_budget_bytes = default_memory_budget();
  asked.context_length = 0;
  const auto longest = plan_memory(memory_request(footprint, asked));
  Fit fit{.budget_bytes = asked.memory_budget_bytes,
          .model_context = model_context,
          .max_context = longest ? longest->max_context : 0,
          .sequence = sequence_cost(footprint),
          .weight_bytes = footprint.weight_bytes};
  fit.context = fit.max_context > 0 ? fit.max_context : model_context;
  if (options.context_length > 0) fit.context = options.context_length;
  asked.context_length = fit.context;
  const MemoryRequest request = memory_request(footprint, asked);
  const auto plan = plan_memory(request);
  fit.fits = plan.has_value();
  if (plan) {
    fit.num_sequences = sequences_at_once(request, *plan, fit.context);
    fit.prompt_cache_bytes = std::min(request.prompt_cache_bytes, engine::cache_bytes(*plan));
  }
  fit.step_bytes = request.step_bytes;
  fit.disk_bytes = request.disk_bytes;
  fit.cache_bytes = least_cache_bytes(request, fit.context);
  fit.batch_cache_bytes = unbounded_cache_bytes(footprint, asked);
  fit.at_start = reads_of_token(footprint, 0);
  fit.at_context = reads_of_token(footprint, fit.context);
  return fit;
}

}  // namespace redpoll::engine
