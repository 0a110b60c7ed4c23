#include "engine/model_runner.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <utility>
#include <vector>

namespace redpoll::engine {

namespace mx = mlx::core;

std::vector<cache::CacheGroup> cache_groups_of(const models::ModelInfo& info) {
  const cache::LayerCache layer{
      .kind = cache::CacheKind::kFullAttention, .num_kv_heads = info.num_kv_heads, .head_dim = info.head_dim};
  return cache::make_cache_groups(std::vector(static_cast<std::size_t>(info.num_layers), layer));
}

ModelRunner::ModelRunner(LoadedModel loaded, int num_blocks, int block_tokens)
    : loaded_(std::move(loaded)),
      kv_(*loaded_.kernels,
          {.groups = cache_groups_of(loaded_.model->info()), .num_blocks = num_blocks, .block_tokens = block_tokens}) {}

std::span<const float> ModelRunner::run(const kernels::RaggedBatch& batch) {
  logits_.reset();  // its memory is free for this pass
  nn::ForwardContext context{.kernels = *loaded_.kernels, .batch = batch, .kv = kv_.layers()};
  const mx::array logits = mx::contiguous(mx::astype(loaded_.model->forward(context), mx::float32));
  CHECK(logits.ndim() == 2 && logits.shape(0) == static_cast<int>(batch.logit_rows.size()) &&
            logits.shape(1) == info().vocab_size,
        "a model returns one row of logits, as long as the vocabulary, for each row asked for");

  // With the caches, so that no graph of writes grows from step to step.
  std::vector<mx::array> outputs{logits};
  for (const kernels::KvStorage& layer : kv_.layers()) {
    outputs.push_back(layer.keys);
    outputs.push_back(layer.values);
  }
  mx::eval(std::move(outputs));
  logits_ = logits;
  return {logits_->data<float>(), logits_->size()};
}

}  // namespace redpoll::engine
