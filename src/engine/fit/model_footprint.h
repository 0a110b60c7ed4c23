// ModelFootprint: what a model takes and reads as a kernel set holds it: all that the memory arithmetic needs to know
// of it. Plain values, which any thread may copy.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/memory_budget.h"

namespace redpoll::engine {

struct ModelFootprint {
  std::string model_type;
  std::size_t weight_bytes = 0;
  /// Of these, what is read for a token that is alone in its step; experts that it is not sent to and rows of a table
  /// that is not its own are not.
  std::size_t weight_bytes_per_token = 0;
  std::size_t expert_bytes_per_token = 0;  // of the latter
  std::vector<GroupCost> groups;
  int block_tokens = 0;
  int context_length = 0;  // tokens the model was trained for
  int vocab_size = 0;
  std::size_t activations_per_token = 0;
  /// Of keys and values that a pass keeps as they were before they became codes: see kernels::KvCodes.
  std::size_t unpacked_bytes_per_token = 0;
};

}  // namespace redpoll::engine
