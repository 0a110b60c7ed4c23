// Fit: what a model takes of a memory, how long a context that leaves, and how fast it should answer. The memory comes
// from the engine's own plan (memory_budget.h), so that nothing said here differs from what `serve` does; the speed is
// a prediction from what a token reads. Pure arithmetic: the machine need not be this one.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/fit/model_footprint.h"

namespace redpoll::engine {

/// Of the cache, for one sequence.
struct SequenceCost {
  std::size_t bytes_per_token = 0;  // in layers that see all tokens
  std::size_t fixed_bytes = 0;      // of windows, once they are full, and of states
};
[[nodiscard]] SequenceCost sequence_cost(const ModelFootprint& footprint);

/// What a step of one sequence reads for its token.
struct TokenReads {
  std::size_t weight_bytes = 0;  // without experts
  std::size_t expert_bytes = 0;  // of those that the token is sent to
  std::size_t cache_bytes = 0;   // of what the token sees: windows at most, states whole

  [[nodiscard]] std::size_t all() const { return weight_bytes + expert_bytes + cache_bytes; }
};
/// With `num_tokens` before it. Layers that see what others have written read it again; that is not counted.
[[nodiscard]] TokenReads reads_of_token(const ModelFootprint& footprint, int num_tokens);

/// What one sequence should generate where plain reads of memory give so much, in 10^9 bytes a second.
[[nodiscard]] double predicted_tokens_per_s(const TokenReads& reads, double read_gb_per_s);

struct Fit {
  std::size_t budget_bytes = 0;
  int model_context = 0;  // tokens the model was trained for
  int max_context = 0;    // the longest within the budget, as the engine plans it; 0: none
  int context = 0;        // what was asked for; or else the longest, or the model's if there is none
  bool fits = false;      // one sequence of `context`
  int num_sequences = 0;  // of `context` that fit at once; up to max_batch
  SequenceCost sequence;
  std::size_t weight_bytes = 0;
  std::size_t step_bytes = 0;
  std::size_t disk_bytes = 0;          // of what is on its way to the disk tier and back
  std::size_t prompt_cache_bytes = 0;  // out of what sequences leave, at most
  std::size_t cache_bytes = 0;         // of one sequence of `context`, at least
  std::size_t batch_cache_bytes = 0;   // of max_batch such at once, with the windows of a step's tokens
  TokenReads at_start = {};            // of a token that has none before it
  TokenReads at_context = {};          // of the last token of `context`

  /// With one sequence; `fits` if this is within the budget.
  [[nodiscard]] std::size_t total_bytes() const { return weight_bytes + step_bytes + disk_bytes + cache_bytes; }
  [[nodiscard]] std::size_t batch_total_bytes() const { return total_bytes() - cache_bytes + batch_cache_bytes; }
};

/// For an engine of these options, whose context_length and memory_budget_bytes are what is asked. kInvalidArgument for
/// a context longer than the model's; what does not fit is no error.
[[nodiscard]] Result<Fit> find_fit(const ModelFootprint& footprint, const EngineOptions& options);

}  // namespace redpoll::engine
