// RMSNorm and the residual stream it reads. A sublayer's output is added to the stream by the norm that comes next, so
// that sum and norm are one pass over memory.
#pragma once

#include <optional>
#include <utility>

#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace redpoll::nn {

/// The running sum of a decoder: `h += sublayer(norm(h))`.
class ResidualStream {
 public:
  explicit ResidualStream(mx::array x) : x_(std::move(x)) {}

  /// At most one addition may be pending; a norm must come between two.
  ResidualStream& operator+=(mx::array delta) {
    CHECK(!delta_, "two additions to the residual stream without a norm between them");
    delta_ = std::move(delta);
    return *this;
  }
  /// The stream with all additions made: (tokens, hidden).
  [[nodiscard]] const mx::array& sum(const ForwardContext& ctx) {
    if (delta_) x_ = ctx.kernels.add(x_, *std::exchange(delta_, std::nullopt));
    return x_;
  }
  /// The stream becomes `factor` times what it is.
  void scale(const ForwardContext& ctx, float factor) { x_ = ctx.kernels.scale(sum(ctx), factor); }
  /// (tokens) bool: NaN, or an infinity, that came up in any layer is still there, since each adds to what was before.
  /// What is pending is left out: nothing of it is in keys, values or states. Keys and values need a look of their own:
  /// see ForwardContext::finite_tokens.
  [[nodiscard]] mx::array finite_tokens(const ForwardContext& ctx) const { return ctx.kernels.finite_rows(x_); }
  /// Keeps only these tokens: before the last norm and the head, those whose logits are wanted.
  void take_rows(const ForwardContext& ctx, const std::vector<std::int32_t>& rows) {
    x_ = ctx.kernels.take_rows(x_, rows);
    if (delta_) delta_ = ctx.kernels.take_rows(*delta_, rows);
  }

 private:
  friend class RMSNorm;
  mx::array x_;                     // (tokens, hidden)
  std::optional<mx::array> delta_;  // (tokens, hidden), not yet added
};

class RMSNorm {
 public:
  /// `weight_offset` is added to the stored weights: Gemma stores them less one.
  RMSNorm(const Scope& scope, int size, float eps, float weight_offset = 0);

  RMSNorm(mx::array weight, float eps) : weight_(std::move(weight)), eps_(eps) {}

  /// x (..., size), normalized over the last axis.
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    return ctx.kernels.rms_norm(x, weight_, eps_);
  }
  /// Adds what is pending to the stream, then normalizes it: (tokens, size).
  [[nodiscard]] mx::array operator()(ResidualStream& h, const ForwardContext& ctx) const {
    if (!h.delta_) return ctx.kernels.rms_norm(h.x_, weight_, eps_);
    auto [sum, normalized] = ctx.kernels.add_rms_norm(h.x_, *std::exchange(h.delta_, std::nullopt), weight_, eps_);
    h.x_ = std::move(sum);
    return normalized;
  }

 private:
  mx::array weight_;  // (size)
  float eps_;
};

/// Mean and variance instead, with a bias.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, int size, float eps)
      : weight_(scope.vector("weight", size)), bias_(scope.vector("bias", size)), eps_(eps) {}

  /// The stream with all additions made, normalized: (tokens, size).
  [[nodiscard]] mx::array operator()(ResidualStream& h, const ForwardContext& ctx) const {
    return ctx.kernels.layer_norm(h.sum(ctx), weight_, bias_, eps_);
  }

 private:
  mx::array weight_, bias_;  // (size)
  float eps_;
};

}  // namespace redpoll::nn
