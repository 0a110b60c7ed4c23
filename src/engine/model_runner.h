// ModelRunner: the model, its cache memory, and the one place where a forward pass happens. Knows batches, not
// sequences.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "models/model.h"

namespace redpoll::engine {

/// Rows of a batch that are computed at a time.
enum class RowsOfAPass { kAll, kOne };

/// Made, used and destroyed on the engine thread.
class ModelRunner {
 public:
  /// `num_blocks` for each cache group of the model's layers.
  ModelRunner(LoadedModel loaded, std::vector<int> num_blocks, int block_tokens, RowsOfAPass rows_of_a_pass);

  /// One forward pass, or one for each row, waited for. Returns the logits of batch.logit_rows, (num_logit_rows,
  /// vocab_size) row-major, valid until the next call. Throws what MLX throws; the cache is then undefined until
  /// reset_cache.
  [[nodiscard]] std::span<const float> run(const kernels::RaggedBatch& batch);
  /// Before the pass that needs it.
  void copy_block(cache::BlockCopy copy) { kv_.copy_block(copy); }
  void reset_cache() { kv_.reset(); }
  [[nodiscard]] cache::KvCache& kv() { return kv_; }

  [[nodiscard]] const models::ModelInfo& info() const { return info_; }
  /// What the layers' keys and values are stored as: a type such as "f16", codes of "q8" or "q4", "mixed" where layers
  /// differ, "none" where there are no keys and values.
  [[nodiscard]] std::string kv_scheme() const;

 private:
  /// One forward pass, waited for: (num_logit_rows, vocab_size).
  [[nodiscard]] models::mx::array run_pass(const kernels::RaggedBatch& batch);
  [[nodiscard]] models::mx::array run_row_by_row(const kernels::RaggedBatch& batch);

  LoadedModel loaded_;
  models::ModelInfo info_;
  cache::KvCache kv_;
  RowsOfAPass rows_of_a_pass_;
  std::optional<models::mx::array> logits_;
};

}  // namespace redpoll::engine
