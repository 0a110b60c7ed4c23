#include "engine/kv_floats.h"

#include "cache/kv_cache.h"

namespace redpoll::engine {

std::vector<std::optional<kernels::KvFloats>> kv_floats(models::Model& model, const kernels::Kernels& kernels) {
  if (!kernels.keeps_types()) return {};
  const std::vector<cache::LayerCache>& layers = model.info().layers;
  const std::size_t num_groups = cache::make_cache_groups(layers).size();
  cache::KvCache cache(kernels, {.layers = layers, .num_blocks = std::vector(num_groups, 1), .block_tokens = 1});
  kernels::RaggedBatch batch;
  batch.block_tokens = 1;
  batch.tokens = {0};
  batch.positions = {0};
  batch.rows = {{.num_tokens = 1, .num_blocks = 1, .num_prompt_tokens = 1, .state = 0}};
  batch.block_ids.assign(num_groups, 0);
  batch.logit_rows = {0};
  nn::ForwardContext context{.kernels = kernels, .batch = batch, .kv = cache.layers(), .states = cache.states()};
  (void)model.forward(context);
  std::vector<std::optional<kernels::KvFloats>> floats(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind == cache::CacheKind::kAttention) floats[i] = cache.layers()[i].floats();
  }
  return floats;
}

}  // namespace redpoll::engine
