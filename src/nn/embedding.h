// Embedding: rows of a table by token id, and the same table as the output head where a model ties the two.
#pragma once

#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace redpoll::nn {

enum class TableUse { kRows, kRowsAndHead };

class Embedding {
 public:
  Embedding(const Scope& scope, int vocab_size, int hidden_size, TableUse use)
      : table_(scope.matrix(vocab_size, hidden_size)) {
    if (use == TableUse::kRows && table_) scope.count_looked_up(table_->num_bytes(), vocab_size);
  }

  /// The batch's tokens -> (tokens, hidden_size)
  [[nodiscard]] mx::array operator()(const kernels::RaggedBatch& batch) const {
    return table_->gather_rows(mx::array(batch.tokens.data(), {batch.num_tokens()}, mx::int32));
  }
  /// x (tokens, hidden_size) -> logits (tokens, vocab_size)
  [[nodiscard]] mx::array as_linear(const mx::array& x) const { return table_->multiply(x); }

 private:
  std::shared_ptr<const kernels::Matrix> table_;  // (vocab_size, hidden_size)
};

}  // namespace redpoll::nn
