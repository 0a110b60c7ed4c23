#include "engine/model_memory.h"

#include <memory>

#include "cache/kv_cache.h"
#include "kernels/sizing_kernels.h"
#include "models/registry.h"

namespace redpoll::engine {
namespace {

std::vector<GroupCost> costs_of(const models::ModelInfo& info, const kernels::Kernels& kernels, int block_tokens) {
  std::vector<GroupCost> costs;
  for (const cache::CacheGroup& group : cache::make_cache_groups(info.layers)) {
    costs.push_back({.kind = group.kind,
                     .window = group.window,
                     .bytes_per_block = cache::bytes_per_block(kernels, info.layers, group, block_tokens)});
  }
  return costs;
}

}  // namespace

MemoryRequest memory_request(const models::ModelInfo& info, const kernels::Kernels& kernels,
                             const EngineOptions& options) {
  const int context = options.context_length > 0 ? options.context_length : info.context_length;
  return {.budget_bytes = options.memory_budget_bytes,
          .weight_bytes = info.weight_bytes,
          .step_bytes = step_bytes({.step_tokens = options.step_tokens,
                                    .max_batch = options.max_batch,
                                    .context = context,
                                    .vocab_size = info.vocab_size,
                                    .activations_per_token = info.activations_per_token}),
          .disk_bytes = options.ssd_cache ? 2 * options.ssd_cache->max_queued_bytes : 0,  // queued, and as much read
          .groups = costs_of(info, kernels, options.block_tokens),
          .block_tokens = options.block_tokens,
          .model_context = info.context_length,
          .context_length = options.context_length,
          .max_batch = options.max_batch,
          .step_tokens = options.step_tokens,
          .prompt_cache_bytes = options.exact ? 0 : options.prompt_cache_bytes};
}

Result<ModelOutlook> look_at(const checkpoint::Checkpoint& checkpoint, const EngineOptions& options) {
  const kernels::SizingKernels sizing;
  ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model, models::make_model(checkpoint, sizing));
  const models::ModelInfo& info = model->info();
  const std::unique_ptr<kernels::Kernels> kernels = kernels::make_kernels({.num_threads = 1});
  const MemoryRequest request = memory_request(info, *kernels, options);
  ModelOutlook outlook{.model_type = info.model_type,
                       .weight_bytes = info.weight_bytes,
                       .model_context = info.context_length,
                       .plan = {}};
  for (const GroupCost& cost : request.groups) {
    if (cost.kind == cache::CacheKind::kRecurrent) {
      outlook.fixed_bytes += cost.bytes_per_block;
    } else if (cost.window > 0) {
      const int num_blocks = cache::blocks_spanned(cost.window, options.block_tokens);
      outlook.fixed_bytes += static_cast<std::size_t>(num_blocks) * cost.bytes_per_block;
    } else {
      outlook.kv_bytes_per_token += cost.bytes_per_block / static_cast<std::size_t>(options.block_tokens);
    }
  }
  ASSIGN_OR_RETURN(outlook.plan, plan_memory(request));
  return outlook;
}

}  // namespace redpoll::engine
