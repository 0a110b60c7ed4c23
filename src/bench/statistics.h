// What a benchmark reduces its samples to. Without samples every figure is NaN, which prints as "-" and as null.
#pragma once

#include <vector>

#include "base/json.h"

namespace redpoll::bench {

/// Of a few repetitions.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> samples);

/// Of many samples.
struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
[[nodiscard]] Percentiles percentiles_of(std::vector<double> samples);
[[nodiscard]] json::object to_json(const Percentiles& percentiles);

/// The value below which `fraction` (0 to 1) of the samples lie; between two of them on the straight line, as NumPy's
/// default does. `sorted` ascends.
[[nodiscard]] double percentile(const std::vector<double>& sorted, double fraction);

}  // namespace redpoll::bench
