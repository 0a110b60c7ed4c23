// The attention of Gemma 4: values are normalized, may be the keys, and may be another layer's, as K may.
#pragma once

#include <mlx/ops.h>

#include <optional>
#include <utility>

#include "cache/cache_groups.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace redpoll::models {

namespace mx = mlx::core;

/// How one layer differs from others.
struct Gemma4Shape {
  int layer = 0;
  int kv_layer = 0;  // whose K and V it reads
  int head_dim = 0;
  int num_kv_heads = 0;
  int window = 0;
  int intermediate_size = 0;
  bool k_is_v = false;
  kernels::RopeSpec rope = {};
};

struct Gemma4Attention {
  Gemma4Shape shape;
  int num_heads;
  nn::Linear q_proj, o_proj;
  nn::RMSNorm q_norm;
  std::optional<nn::Linear> k_proj, v_proj;  // none where another layer's are read
  std::optional<nn::RMSNorm> k_norm, v_norm;

  Gemma4Attention(const nn::Scope& scope, const checkpoint::Config& config, Gemma4Shape own)
      : shape(std::move(own)),
        num_heads(config.num_attention_heads),
        q_proj(scope["q_proj"], config.hidden_size, num_heads * shape.head_dim),
        o_proj(scope["o_proj"], num_heads * shape.head_dim, config.hidden_size),
        q_norm(scope["q_norm"], shape.head_dim, static_cast<float>(config.rms_norm_eps)) {
    if (shape.kv_layer != shape.layer) {
      for (const char* unused : {"k_proj", "v_proj", "k_norm", "v_norm"}) scope[unused].ignore();
      return;
    }
    const auto eps = static_cast<float>(config.rms_norm_eps);
    k_proj.emplace(scope["k_proj"], config.hidden_size, shape.num_kv_heads * shape.head_dim);
    if (!shape.k_is_v) v_proj.emplace(scope["v_proj"], config.hidden_size, shape.num_kv_heads * shape.head_dim);
    k_norm.emplace(scope["k_norm"], shape.head_dim, eps);
    mx::array ones = mx::ones_like(scope["k_norm"].vector("weight", shape.head_dim));
    ones.eval();
    v_norm.emplace(std::move(ones), eps);
  }

  [[nodiscard]] mx::array operator()(const mx::array& x, nn::ForwardContext& ctx) const {
    const int tokens = x.shape(0);
    const auto heads = [&](const mx::array& flat) { return mx::reshape(flat, {tokens, -1, shape.head_dim}); };
    kernels::KvStorage& storage = ctx.kv[static_cast<std::size_t>(shape.kv_layer)];
    if (k_proj) {
      const mx::array k = heads((*k_proj)(x, ctx));
      const mx::array v = v_proj ? heads((*v_proj)(x, ctx)) : k;
      ctx.write_kv(storage, ctx.kernels.rope((*k_norm)(k, ctx), ctx.batch, shape.rope), (*v_norm)(v, ctx));
    }
    const mx::array q = ctx.kernels.rope(q_norm(heads(q_proj(x, ctx)), ctx), ctx.batch, shape.rope);
    const mx::array attended = ctx.kernels.paged_attention(q, storage, ctx.batch, {.scale = 1, .window = shape.window});
    return o_proj(mx::reshape(attended, {tokens, num_heads * shape.head_dim}), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const {
    if (!k_proj) return {.kind = cache::CacheKind::kNone};
    return {.num_kv_heads = shape.num_kv_heads, .head_dim = shape.head_dim, .window = shape.window};
  }
};

}  // namespace redpoll::models
