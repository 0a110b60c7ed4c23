#include "engine/batch.h"

namespace redpoll::engine {
namespace {

/// The logits at a position tell how likely the token after it was.
bool scores_next(const Sequence& sequence, int position) {
  if (!sequence.scores_prompt() || position + 1 >= sequence.num_prompt_tokens()) return false;
  return position + 1 >= static_cast<int>(sequence.active->prompt_scores.size());  // else known from before
}

LogitRows add_row(const Scheduled& scheduled, kernels::RaggedBatch& ragged) {
  const Sequence& sequence = *scheduled.sequence;
  ragged.rows.push_back({.first_token = ragged.num_tokens(),
                         .num_tokens = scheduled.num_tokens,
                         .num_computed = sequence.num_computed(),
                         .first_block = static_cast<int>(ragged.block_ids.size()),
                         .num_blocks = 0,
                         .num_prompt_tokens = sequence.num_prompt_tokens()});
  kernels::BatchRow& row = ragged.rows.back();
  for (int group = 0; group < sequence.cache.num_groups(); ++group) {
    const auto table = sequence.cache.table(group);
    if (sequence.cache.kind(group) == cache::CacheKind::kRecurrent) {
      row.state = table.front();
    } else {
      row.num_blocks = static_cast<int>(table.size());
      ragged.block_ids.insert(ragged.block_ids.end(), table.begin(), table.end());
    }
  }

  LogitRows rows{.first = static_cast<int>(ragged.logit_rows.size())};
  for (int i = 0; i < scheduled.num_tokens; ++i) {
    const int position = sequence.num_computed() + i;
    if (scores_next(sequence, position)) {
      ragged.logit_rows.push_back(ragged.num_tokens());
      ++rows.num_scores;
    } else if (position + 1 == sequence.num_tokens() && sequence.request().max_tokens > 0) {
      ragged.logit_rows.push_back(ragged.num_tokens());
      rows.has_next_token = true;
    }
    ragged.tokens.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
    ragged.positions.push_back(position);
  }
  return rows;
}

}  // namespace

void build_batch(const std::vector<Scheduled>& scheduled, int block_tokens, StepBatch& batch) {
  batch.ragged.clear();
  batch.ragged.block_tokens = block_tokens;
  batch.rows.clear();
  for (const Scheduled& row : scheduled) batch.rows.push_back(add_row(row, batch.ragged));
  batch.ragged.has_unseen_tokens = static_cast<int>(batch.ragged.logit_rows.size()) < batch.ragged.num_tokens();
  if (batch.ragged.logit_rows.empty()) batch.ragged.logit_rows.push_back(batch.ragged.num_tokens() - 1);
}

}  // namespace redpoll::engine
