#include "engine/model_memory.h"

#include <mlx/device.h>

#include <memory>
#include <utility>

#include "cache/kv_cache.h"
#include "engine/fit/fit.h"
#include "engine/kv_floats.h"
#include "kernels/sizing_kernels.h"
#include "models/registry.h"
#include "nn/kv_packing.h"

namespace redpoll::engine {
namespace {

std::size_t unpacked_bytes_per_token(const std::vector<cache::LayerCache>& layers) {
  std::size_t bytes = 0;
  for (const cache::LayerCache& layer : layers) {
    if (layer.packing.bits == 0 || layer.packing.codes != kernels::KvCodes::kMlx) continue;
    const kernels::KvFloats floats = layer.floats.value_or(kernels::KvFloats{});
    const std::size_t of_both = kernels::mlx_type(floats.keys).size() + kernels::mlx_type(floats.values).size();
    bytes += static_cast<std::size_t>(layer.num_kv_heads) * static_cast<std::size_t>(layer.head_dim) * of_both;
  }
  return bytes;
}

}  // namespace

std::vector<GroupCost> group_costs(const models::ModelInfo& info, const kernels::Kernels& kernels, int block_tokens) {
  std::vector<GroupCost> costs;
  for (const cache::CacheGroup& group : cache::make_cache_groups(info.layers)) {
    costs.push_back({.kind = group.kind,
                     .window = group.window,
                     .bytes_per_block = cache::bytes_per_block(kernels, info.layers, group, block_tokens)});
  }
  return costs;
}

ModelFootprint footprint_of(const models::ModelInfo& info, std::vector<GroupCost> groups, int block_tokens) {
  return {.model_type = info.model_type,
          .weight_bytes = info.weight_bytes,
          .weight_bytes_per_token = info.weight_bytes_per_token.all,
          .expert_bytes_per_token = info.weight_bytes_per_token.experts,
          .groups = std::move(groups),
          .block_tokens = block_tokens,
          .context_length = info.context_length,
          .vocab_size = info.vocab_size,
          .activations_per_token = info.activations_per_token,
          .unpacked_bytes_per_token = unpacked_bytes_per_token(info.layers)};
}

MemoryRequest memory_request(const ModelFootprint& footprint, const EngineOptions& options) {
  CHECK(footprint.block_tokens == options.block_tokens, "a footprint is of blocks as the engine has them");
  const int context = options.context_length > 0 ? options.context_length : footprint.context_length;
  return {.budget_bytes = options.memory_budget_bytes,
          .weight_bytes = footprint.weight_bytes,
          .step_bytes = step_bytes({.step_tokens = options.step_tokens,
                                    .max_batch = options.max_batch,
                                    .context = context,
                                    .vocab_size = footprint.vocab_size,
                                    .activations_per_token = footprint.activations_per_token,
                                    .unpacked_bytes_per_token = footprint.unpacked_bytes_per_token}),
          .disk_bytes = options.ssd_cache ? memory_bytes(*options.ssd_cache) : 0,
          .groups = footprint.groups,
          .block_tokens = options.block_tokens,
          .model_context = footprint.context_length,
          .context_length = options.context_length,
          .max_batch = options.max_batch,
          .step_tokens = options.step_tokens,
          .prompt_cache_bytes = options.exact ? 0 : options.prompt_cache_bytes};
}

Result<ModelFootprint> footprint_of(const checkpoint::Checkpoint& checkpoint, const kernels::KernelOptions& options,
                                    int block_tokens) {
  RETURN_IF_ERROR(kernels::check_options(options, models::mx::default_device() == models::mx::Device::cpu));
  const std::unique_ptr<kernels::Kernels> kernels = kernels::make_kernels(options);
  const kernels::SizingKernels sizing(*kernels);
  ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model, models::make_model(checkpoint, sizing));
  models::ModelInfo info = model->info();
  ASSIGN_OR_RETURN(const auto packings, nn::kv_packings(options, info.layers, checkpoint));
  for (std::size_t i = 0; i < packings.size(); ++i) info.layers[i].packing = packings[i];
  const auto floats = kv_floats(*model, sizing);
  for (std::size_t i = 0; i < floats.size(); ++i) info.layers[i].floats = floats[i];
  return footprint_of(info, group_costs(info, *kernels, block_tokens), block_tokens);
}

Result<ModelOutlook> look_at(const checkpoint::Checkpoint& checkpoint, const kernels::KernelOptions& kernels,
                             const EngineOptions& options) {
  ASSIGN_OR_RETURN(const ModelFootprint footprint, footprint_of(checkpoint, kernels, options.block_tokens));
  const SequenceCost cost = sequence_cost(footprint);
  ModelOutlook outlook{.model_type = footprint.model_type,
                       .weight_bytes = footprint.weight_bytes,
                       .kv_bytes_per_token = cost.bytes_per_token,
                       .fixed_bytes = cost.fixed_bytes,
                       .model_context = footprint.context_length,
                       .plan = {}};
  ASSIGN_OR_RETURN(outlook.plan, plan_memory(memory_request(footprint, options)));
  if (options.exact) RETURN_IF_ERROR(check_whole_chunks(outlook.plan, options.block_tokens));
  return outlook;
}

}  // namespace redpoll::engine
