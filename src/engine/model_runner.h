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

/// What a step has computed; valid until the next.
struct StepOutput {
  std::span<const float> logits;        // of batch.logit_rows: (num_logit_rows, vocab_size) row-major
  std::span<const bool> finite_tokens;  // (tokens); empty: nobody has looked
};

/// Made, used and destroyed on the engine thread.
class ModelRunner {
 public:
  /// `num_blocks` for each cache group of the model's layers.
  ModelRunner(LoadedModel loaded, std::vector<int> num_blocks, int block_tokens, RowsOfAPass rows_of_a_pass);

  /// One forward pass, or one for each row, waited for. Says of batches with unseen tokens which are finite. Throws
  /// what MLX throws; the cache is then undefined until reset_cache.
  [[nodiscard]] StepOutput run(const kernels::RaggedBatch& batch);
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
  std::optional<models::mx::array> finite_tokens_;
};

}  // namespace redpoll::engine
