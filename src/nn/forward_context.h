// ForwardContext: what one forward pass hands down through the blocks of a model. Lives for one step.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace redpoll::nn {

struct ForwardContext {
  const kernels::Kernels& kernels;
  const kernels::RaggedBatch& batch;
  std::vector<kernels::KvStorage>& kv;         // one per layer
  std::vector<kernels::StateStorage>& states;  // one per layer
};

}  // namespace redpoll::nn
