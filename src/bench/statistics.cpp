#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace redpoll::bench {

double percentile(const std::vector<double>& sorted, double fraction) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return {.median = percentile(samples, 0.5), .min = percentile(samples, 0), .max = percentile(samples, 1)};
}

Percentiles percentiles_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return {.p50 = percentile(samples, 0.5),
          .p90 = percentile(samples, 0.9),
          .p99 = percentile(samples, 0.99),
          .max = percentile(samples, 1)};
}

json::object to_json(const Percentiles& percentiles) {
  return {{"p50", percentiles.p50}, {"p90", percentiles.p90}, {"p99", percentiles.p99}, {"max", percentiles.max}};
}

}  // namespace redpoll::bench
