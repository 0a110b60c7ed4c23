#include "nn/attention.h"

#include <mlx/ops.h>

#include <cmath>

namespace redpoll::nn {

Attention::Attention(const Scope& scope, AttentionOptions options)
    : options_(std::move(options)),
      q_proj_(scope["q_proj"], options_.hidden_size, options_.num_heads * options_.head_dim, options_.qkv_bias),
      k_proj_(scope["k_proj"], options_.hidden_size, options_.num_kv_heads * options_.head_dim, options_.qkv_bias),
      v_proj_(scope["v_proj"], options_.hidden_size, options_.num_kv_heads * options_.head_dim, options_.qkv_bias),
      o_proj_(scope["o_proj"], options_.num_heads * options_.head_dim, options_.hidden_size, options_.output_bias) {
  if (options_.head_norm_eps) {
    q_norm_.emplace(scope["q_norm"], options_.head_dim, *options_.head_norm_eps);
    k_norm_.emplace(scope["k_norm"], options_.head_dim, *options_.head_norm_eps);
  }
}

mx::array Attention::operator()(const mx::array& x, ForwardContext& ctx) const {
  const int tokens = x.shape(0);
  const std::vector<mx::array> projected = Linear::apply_all({&q_proj_, &k_proj_, &v_proj_}, x, ctx);
  mx::array q = projected[0];         // (tokens, num_heads * head_dim)
  mx::array k = projected[1];         // (tokens, num_kv_heads * head_dim)
  const mx::array& v = projected[2];  // (tokens, num_kv_heads * head_dim)
  if (q_norm_) {
    q = (*q_norm_)(mx::reshape(q, {tokens, options_.num_heads, options_.head_dim}), ctx);
    k = (*k_norm_)(mx::reshape(k, {tokens, options_.num_kv_heads, options_.head_dim}), ctx);
  }
  q = ctx.kernels.rope(q, ctx.batch, options_.rope);
  k = ctx.kernels.rope(k, ctx.batch, options_.rope);

  kernels::KvStorage& storage = ctx.kv[static_cast<std::size_t>(options_.layer)];
  ctx.kernels.write_kv(storage, k, v, ctx.batch);
  const float scale = 1.0F / std::sqrt(static_cast<float>(options_.head_dim));
  const mx::array attended = ctx.kernels.paged_attention(q, storage, ctx.batch, scale);
  return o_proj_(mx::reshape(attended, {tokens, options_.num_heads * options_.head_dim}), ctx);
}

}  // namespace redpoll::nn
