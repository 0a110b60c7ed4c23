// HostView: the elements of an array, for kernels that read plain memory.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <span>

namespace redpoll::kernels::cpu {

namespace mx = mlx::core;

/// Row-major float32 elements of an array; holds what keeps them alive. Free for the results of our own kernels, also
/// when they were reshaped since: a pending reshape of an available array is looked through, because evaluating one
/// takes MLX 11 us. Anything else is evaluated, converted and copied as needed.
class HostView {
 public:
  explicit HostView(const mx::array& x);

  [[nodiscard]] const float* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(array_.size()); }

 private:
  mx::array array_;
  const float* data_;
};

/// The same for int32.
class HostIds {
 public:
  explicit HostIds(const mx::array& ids);

  [[nodiscard]] std::span<const std::int32_t> ids() const { return {array_.data<std::int32_t>(), array_.size()}; }

 private:
  mx::array array_;
};

}  // namespace redpoll::kernels::cpu
