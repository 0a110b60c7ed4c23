// StepBatch: the scheduled sequences' tokens as the flat arrays that a forward pass reads, and which rows of its logits
// belong to whom. Knows no device.
#pragma once

#include <vector>

#include "engine/scheduler.h"
#include "kernels/ragged_batch.h"

namespace redpoll::engine {

/// The rows of the logits that are for one scheduled sequence: those that score its prompt, then the one from which
/// its next token is chosen.
struct LogitRows {
  int first = 0;
  int num_scores = 0;
  bool has_next_token = false;
};

/// Reused from step to step to keep its memory.
struct StepBatch {
  kernels::RaggedBatch ragged;
  std::vector<LogitRows> rows;  // one per scheduled sequence
};

/// Fills `batch`. Logits are asked for only where they are needed, but always for one row: models need not cope with
/// none.
void build_batch(const std::vector<Scheduled>& scheduled, int block_tokens, StepBatch& batch);

}  // namespace redpoll::engine
