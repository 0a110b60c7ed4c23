// GatedDeltaNet: the recurrent layer of Qwen3.5: a short convolution, then the gated delta rule, then a norm that is
// gated. Follows mlx_lm/models/qwen3_5.py.
#pragma once

#include "cache/cache_groups.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace redpoll::nn {

struct GatedDeltaOptions {
  int layer = 0;  // whose states to use
  int hidden_size = 0;
  int num_key_heads = 0;
  int num_value_heads = 0;
  int key_dim = 0;  // of a head
  int value_dim = 0;
  int convolution_size = 0;  // tokens that it sees
  float norm_eps = 0;
};

class GatedDeltaNet {
 public:
  GatedDeltaNet(const Scope& scope, const GatedDeltaOptions& options);

  /// x (tokens, hidden) -> (tokens, hidden). Replaces the states of this layer.
  [[nodiscard]] mx::array operator()(const mx::array& x, ForwardContext& ctx) const;

  [[nodiscard]] cache::LayerCache cache() const;

 private:
  [[nodiscard]] int num_channels() const;

  GatedDeltaOptions options_;
  Linear in_proj_qkv_, in_proj_z_, in_proj_a_, in_proj_b_, out_proj_;
  kernels::ConvolutionSpec convolution_;
  kernels::DeltaSpec delta_;
  RMSNorm norm_;
};

}  // namespace redpoll::nn
