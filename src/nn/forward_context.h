// ForwardContext: what one forward pass hands down through the blocks of a model. Lives for one step.
#pragma once

#include <mlx/ops.h>

#include <optional>
#include <vector>

#include "kernels/kernels.h"

namespace redpoll::nn {

struct ForwardContext {
  const kernels::Kernels& kernels;
  const kernels::RaggedBatch& batch;
  std::vector<kernels::KvStorage>& kv;         // one per layer
  std::vector<kernels::StateStorage>& states;  // one per layer
  std::optional<kernels::mx::array> layer_inputs =
      {};  // (tokens, layers * size): what each layer gets beside the stream
  /// If batch.has_unseen_tokens: (tokens) bool, whether what was looked at of each is finite. That is its residual
  /// stream, which shows states too, and what write_kv was given. These the stream does not always show: its own query
  /// may give an infinite key no weight, or cap its score, and where halves or codes are stored an infinity becomes
  /// their greatest number. Finite keys so large that the score of a later query overflows are not found.
  std::optional<kernels::mx::array> finite_tokens = {};

  /// `rows` (tokens) bool: whether something else of each token is finite.
  void note_finite(const kernels::mx::array& rows) {
    finite_tokens = finite_tokens ? kernels::mx::logical_and(*finite_tokens, rows) : rows;
  }
  /// Kernels::write_kv, and a look at k and v.
  void write_kv(kernels::KvStorage& storage, const kernels::mx::array& k, const kernels::mx::array& v) {
    kernels.write_kv(storage, k, v, batch);
    if (!batch.has_unseen_tokens) return;
    for (const kernels::mx::array* heads : {&k, &v}) {
      note_finite(kernels.finite_rows(kernels::mx::reshape(*heads, {heads->shape(0), -1})));
    }
  }
};

}  // namespace redpoll::nn
