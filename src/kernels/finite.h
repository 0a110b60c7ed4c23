// Whether numbers are finite: neither NaN nor infinite.
#pragma once

#include <span>

namespace redpoll::kernels {

[[nodiscard]] bool all_finite(std::span<const float> values);

}  // namespace redpoll::kernels
