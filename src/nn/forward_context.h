// ForwardContext: what one forward pass hands down through the blocks of a model. Lives for one step.
#pragma once

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
  /// Set by the model if batch.has_unseen_tokens: (tokens) bool, whether what it has computed of each is finite.
  std::optional<kernels::mx::array> finite_tokens = {};
};

}  // namespace redpoll::nn
