// GET /fit and `redpoll fit --json`: what a model takes of a machine's memory and how fast it should answer, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace redpoll::api {

/// What a query may say; fields in their order, decoded.
struct FitQuestion {
  std::optional<int> context;  // tokens
};
/// kInvalidArgument for a field that is not known, comes twice or is no number from 1 on.
[[nodiscard]] Result<FitQuestion> parse_fit_question(const std::vector<std::pair<std::string, std::string>>& query);

/// Of one sequence that generates alone.
struct TokenCost {
  std::uint64_t read_bytes = 0;
  std::optional<double> predicted_tokens_per_s;  // null: it does not fit, or memory was not measured
};

/// Predicted, with 75 % of its memory as the budget.
struct OtherMachine {
  std::string name;
  std::uint64_t memory_bytes = 0;
  double read_gb_per_s = 0;
  bool fits = false;               // FitReport::context
  int sequences_at_once = 0;       // of it
  int max_context = 0;             // 0: none
  std::optional<double> at_start;  // tokens a second; null where it does not fit
  std::optional<double> at_context;
};

/// Names are those of the JSON.
struct FitReport {
  std::string model;
  std::string model_type;
  struct {
    std::uint64_t memory_bytes = 0;  // that this process may use
    std::uint64_t budget_bytes = 0;
    std::optional<double> read_gb_per_s;  // null: not measured yet, since requests were running
  } machine;
  bool fits = false;          // one sequence of `context`
  int sequences_at_once = 0;  // of `context`, without any waiting for another's memory; `max_batch` at most
  int context = 0;
  int max_context = 0;  // within the budget; 0: none
  int model_context = 0;
  int max_batch = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_bytes_per_token = 0;  // in layers that see all tokens
  std::uint64_t fixed_bytes = 0;         // of a sequence's windows and states
  std::uint64_t step_bytes = 0;
  std::uint64_t ssd_cache_bytes = 0;     // of memory, for what is on its way to the disk cache and back
  std::uint64_t prompt_cache_bytes = 0;  // at most, out of what sequences leave; 0 where none fits
  struct {
    std::uint64_t cache_bytes = 0;
    std::uint64_t total_bytes = 0;
  } one_sequence, full_batch;  // of `context`
  TokenCost at_start;          // a token that has none before it
  TokenCost at_context;        // the last of `context`
  std::vector<OtherMachine> other_machines;
};

[[nodiscard]] std::string format_fit(const FitReport& report);

}  // namespace redpoll::api
