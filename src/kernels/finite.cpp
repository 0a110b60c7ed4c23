#include "kernels/finite.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace redpoll::kernels {
namespace {

constexpr std::size_t kLanes = 16;  // which compilers turn into vectors

}  // namespace

bool all_finite(std::span<const float> values) {
  float lanes[kLanes] = {};  // 0 * x is NaN of what is not finite, and so is every sum with it
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += 0 * values[i + j];
  }
  for (; i < values.size(); ++i) lanes[0] += 0 * values[i];
  return std::ranges::none_of(lanes, [](float lane) { return std::isnan(lane); });
}

}  // namespace redpoll::kernels
