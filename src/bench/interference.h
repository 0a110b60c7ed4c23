// Interference: what a long prompt that comes in does to the streams that generate already.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bench/load.h"
#include "bench/statistics.h"

namespace redpoll::bench {

struct InterferencePrompts {
  std::vector<std::string> streams;  // of those that generate, one each
  std::string intruder;              // the long one
};

/// Times between tokens of the streams, apart by whether the intruder was being computed.
struct InterferenceFigure {
  double prompt_tokens = 0;  // of the intruder, as the server counts them
  double ttft_ms = 0;        // its own
  Percentiles calm_ms;
  Percentiles disturbed_ms;
};

/// Starts one stream for each prompt, sends the intruder when they have a quarter of their tokens on average, and waits
/// for all. `rounds` is how often, into one figure: a prompt of a few steps disturbs few tokens.
[[nodiscard]] Result<InterferenceFigure> measure_interference(const LoadOptions& options,
                                                              const std::vector<InterferencePrompts>& rounds);

[[nodiscard]] std::string to_text(const InterferenceFigure& figure);
[[nodiscard]] json::object to_json(const InterferenceFigure& figure);

namespace internal {
struct Gaps {
  std::vector<double> calm_ms;
  std::vector<double> disturbed_ms;  // those that touch the time from the intruder's sending to its first token
};
/// Leaves out what came before every stream had its first token: then their own prompts disturb.
void sort_gaps(const std::vector<RequestSample>& streams, const RequestSample& intruder, Gaps& gaps);
}  // namespace internal

}  // namespace redpoll::bench
