#include "engine/model_runner.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <utility>
#include <vector>

namespace redpoll::engine {

namespace mx = mlx::core;

namespace {

/// What eager kernels return is there already; passing it through MLX would cost some microseconds for nothing.
mx::array row_major_floats(const mx::array& x) {
  if (x.is_available() && x.dtype() == mx::float32 && x.flags().row_contiguous) return x;
  return mx::contiguous(mx::astype(x, mx::float32));
}

void add_pending(std::vector<mx::array>& pending, const mx::array& x) {
  if (!x.is_available()) pending.push_back(x);
}

}  // namespace

ModelRunner::ModelRunner(LoadedModel loaded, std::vector<int> num_blocks, int block_tokens)
    : loaded_(std::move(loaded)),
      kv_(*loaded_.kernels,
          {.layers = loaded_.model->info().layers, .num_blocks = std::move(num_blocks), .block_tokens = block_tokens}) {
}

std::span<const float> ModelRunner::run(const kernels::RaggedBatch& batch) {
  logits_.reset();  // its memory is free for this pass
  nn::ForwardContext context{.kernels = *loaded_.kernels, .batch = batch, .kv = kv_.layers(), .states = kv_.states()};
  const mx::array logits = row_major_floats(loaded_.model->forward(context));
  CHECK(logits.ndim() == 2 && logits.shape(0) == static_cast<int>(batch.logit_rows.size()) &&
            logits.shape(1) == info().vocab_size,
        "a model returns one row of logits, as long as the vocabulary, for each row asked for");

  // With the caches, so that no graph of writes grows from step to step.
  std::vector<mx::array> pending;
  add_pending(pending, logits);
  for (const kernels::KvStorage& layer : kv_.layers()) {
    add_pending(pending, layer.keys);
    add_pending(pending, layer.values);
  }
  for (const kernels::StateStorage& layer : kv_.states()) {
    add_pending(pending, layer.convolution);
    add_pending(pending, layer.memory);
  }
  if (!pending.empty()) mx::eval(std::move(pending));
  logits_ = logits;
  return {logits_->data<float>(), logits_->size()};
}

}  // namespace redpoll::engine
