#include "engine/model_runner.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <string>
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

/// A row of a batch as a batch of its own. At least one row of logits is wanted of it, as of every batch.
kernels::RaggedBatch batch_of(const kernels::RaggedBatch& all, const kernels::BatchRow& row) {
  kernels::RaggedBatch own;
  own.block_tokens = all.block_tokens;
  const auto first = all.tokens.begin() + row.first_token;
  own.tokens.assign(first, first + row.num_tokens);
  const auto position = all.positions.begin() + row.first_token;
  own.positions.assign(position, position + row.num_tokens);
  own.rows.push_back(row);
  own.rows.front().first_token = 0;
  own.block_ids = all.block_ids;
  own.has_unseen_tokens = all.has_unseen_tokens;
  for (const std::int32_t wanted : all.logit_rows) {
    const int token = wanted - row.first_token;
    if (token >= 0 && token < row.num_tokens) own.logit_rows.push_back(token);
  }
  if (own.logit_rows.empty()) own.logit_rows.push_back(row.num_tokens - 1);
  return own;
}

std::string scheme_of(const kernels::KvStorage& storage) {
  if (storage.packing.bits != 0) return "q" + std::to_string(storage.packing.bits);
  if (storage.keys.dtype() == mx::float16) return "f16";
  return storage.keys.dtype() == mx::bfloat16 ? "bf16" : "f32";
}

bool has_logits(const kernels::RaggedBatch& all, const kernels::BatchRow& row) {
  return std::ranges::any_of(all.logit_rows, [&](std::int32_t wanted) {
    return wanted >= row.first_token && wanted < row.first_token + row.num_tokens;
  });
}

}  // namespace

ModelRunner::ModelRunner(LoadedModel loaded, std::vector<int> num_blocks, int block_tokens, RowsOfAPass rows_of_a_pass)
    : loaded_(std::move(loaded)),
      info_(loaded_.info()),
      kv_(*loaded_.kernels,
          {.layers = info_.layers, .num_blocks = std::move(num_blocks), .block_tokens = block_tokens}),
      rows_of_a_pass_(rows_of_a_pass) {}

models::ModelInfo LoadedModel::info() const {
  models::ModelInfo info = model->info();
  for (std::size_t i = 0; i < kv_packings.size(); ++i) info.layers[i].packing = kv_packings[i];
  for (std::size_t i = 0; i < kv_floats.size(); ++i) info.layers[i].floats = kv_floats[i];
  return info;
}

std::string ModelRunner::kv_scheme() const {
  std::string scheme = "none";
  const std::vector<kernels::KvStorage>& layers = kv_.layers();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (info_.layers[i].kind != cache::CacheKind::kAttention) continue;
    const std::string own = scheme_of(layers[i]);
    if (scheme != "none" && scheme != own) return "mixed";
    scheme = own;
  }
  return scheme;
}

StepOutput ModelRunner::run(const kernels::RaggedBatch& batch) {
  logits_.reset();  // its memory is free for this pass
  finite_tokens_.reset();
  const bool is_one_pass = rows_of_a_pass_ == RowsOfAPass::kAll || batch.rows.size() == 1;
  logits_ = is_one_pass ? run_pass(batch) : run_row_by_row(batch);
  StepOutput output{.logits = {logits_->data<float>(), logits_->size()}, .finite_tokens = {}};
  if (finite_tokens_) output.finite_tokens = {finite_tokens_->data<bool>(), finite_tokens_->size()};
  return output;
}

mx::array ModelRunner::run_pass(const kernels::RaggedBatch& batch) {
  nn::ForwardContext context{.kernels = *loaded_.kernels, .batch = batch, .kv = kv_.layers(), .states = kv_.states()};
  const mx::array logits = row_major_floats(loaded_.model->forward(context));
  CHECK(logits.ndim() == 2 && logits.shape(0) == static_cast<int>(batch.logit_rows.size()) &&
            logits.shape(1) == info().vocab_size,
        "a model returns one row of logits, as long as the vocabulary, for each row asked for");

  // With the caches, so that no graph of writes grows from step to step.
  std::vector<mx::array> pending;
  add_pending(pending, logits);
  for (kernels::KvStorage& layer : kv_.layers()) {
    for (const mx::array* pool : layer.pools()) add_pending(pending, *pool);
  }
  for (const kernels::StateStorage& layer : kv_.states()) {
    add_pending(pending, layer.convolution);
    add_pending(pending, layer.memory);
  }
  finite_tokens_ = std::move(context.finite_tokens);
  if (finite_tokens_) add_pending(pending, *finite_tokens_);
  if (!pending.empty()) mx::eval(std::move(pending));
  for (kernels::KvStorage& layer : kv_.layers()) layer.forget_unpacked();
  return logits;
}

mx::array ModelRunner::run_row_by_row(const kernels::RaggedBatch& batch) {
  std::vector<mx::array> logits;
  std::vector<mx::array> finite_tokens;
  for (const kernels::BatchRow& row : batch.rows) {
    const mx::array own = run_pass(batch_of(batch, row));
    if (has_logits(batch, row)) logits.push_back(own);
    if (finite_tokens_) finite_tokens.push_back(*finite_tokens_);
  }
  mx::array all = mx::concatenate(std::move(logits), 0);
  if (!finite_tokens.empty()) finite_tokens_ = mx::concatenate(std::move(finite_tokens), 0);
  mx::eval(finite_tokens_ ? std::vector{all, *finite_tokens_} : std::vector{all});
  return all;
}

}  // namespace redpoll::engine
