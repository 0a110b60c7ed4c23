// FusedOperations: the expressions that mlx-lm compiles, each into one kernel where that is possible. On a GPU a fused
// kernel rounds otherwise than its parts, so the exact tier needs them as mlx-lm has them; on a CPU they are what they
// stand for.
#pragma once

#include <mlx/array.h>

#include <functional>
#include <vector>

namespace redpoll::kernels {

namespace mx = mlx::core;

/// Made, used and destroyed on the engine thread, as MLX keeps what it has compiled by thread.
struct FusedOperations {
  using Operation = std::function<std::vector<mx::array>(const std::vector<mx::array>&)>;
  FusedOperations();

  Operation gelu;                   // {x}
  Operation gelu_multiply;          // {gate, up}: GateActivation::kFusedGeluTanh
  Operation silu_multiply;          // likewise kSilu
  Operation precise_silu_multiply;  // kPreciseSilu
  Operation clamped_silu_multiply;  // kClampedSilu
  Operation delta_decay;            // {a_log, a, dt_bias}: see DeltaSpec
  /// One token: {q, k (heads, key_dim), v (heads, value_dim), decay, beta (heads), memory (heads, value_dim, key_dim)}
  /// -> {y (heads, value_dim), memory}.
  Operation delta_step;
};

}  // namespace redpoll::kernels
