#include "nn/attention.h"

#include <mlx/ops.h>

#include <utility>

namespace redpoll::nn {

using kernels::GateActivation;

Attention::Attention(const Scope& scope, AttentionOptions options)
    : options_(std::move(options)),
      q_proj_(options_.has_output_gate ? make_query_part(scope, 0)
                                       : make_projection(scope, "q_proj", 0, options_.num_heads)),
      k_proj_(make_projection(scope, "k_proj", options_.num_heads, options_.num_kv_heads)),
      v_proj_(make_projection(scope, "v_proj", options_.num_heads + options_.num_kv_heads, options_.num_kv_heads)),
      o_proj_(scope[options_.names.output], options_.num_heads * options_.head_dim, options_.hidden_size,
              options_.output_bias),
      q_norm_(make_norm(scope[options_.names.q_norm], options_.num_heads)),
      k_norm_(make_norm(scope[options_.names.k_norm], options_.num_kv_heads)) {
  if (options_.has_output_gate) gate_proj_.emplace(make_query_part(scope, 1));
  if (options_.has_sinks) options_.scores.sinks = scope.vector("sinks", options_.num_heads);
}

Linear Attention::make_query_part(const Scope& scope, int part) const {
  const int dim = options_.head_dim;
  const int rows = options_.num_heads * dim;
  const RowSlice slice{.first = part * dim, .of = 2 * rows, .run = dim, .stride = 2 * dim};
  return Linear::rows(scope["q_proj"], slice, {options_.hidden_size, rows, options_.qkv_bias});
}

Linear Attention::make_projection(const Scope& scope, const char* name, int first_head, int num_heads) const {
  const int dim = options_.head_dim;
  const RowSlice rows{first_head * dim, (options_.num_heads + 2 * options_.num_kv_heads) * dim};
  return Linear::alone_or_fused(scope, name, {"qkv_proj", rows},
                                {options_.hidden_size, num_heads * dim, options_.qkv_bias});
}

std::optional<RMSNorm> Attention::make_norm(const Scope& scope, int num_heads) const {
  if (options_.head_norm == HeadNorm::kNone) return std::nullopt;
  const int size = options_.head_norm == HeadNorm::kEachHead ? options_.head_dim : num_heads * options_.head_dim;
  return RMSNorm(scope, size, options_.norm_eps, options_.norm_weight_offset);
}

/// heads (tokens, heads * head_dim)
mx::array Attention::normalize(const std::optional<RMSNorm>& norm, mx::array heads, ForwardContext& ctx) const {
  if (!norm) return heads;
  if (options_.head_norm == HeadNorm::kAllHeads) return (*norm)(heads, ctx);
  return (*norm)(mx::reshape(heads, {heads.shape(0), -1, options_.head_dim}), ctx);
}

cache::LayerCache Attention::cache() const {
  return {.kind = cache::CacheKind::kAttention,
          .num_kv_heads = options_.num_kv_heads,
          .head_dim = options_.head_dim,
          .window = options_.scores.window,
          .softcap = options_.scores.softcap};
}

mx::array Attention::operator()(const mx::array& x, ForwardContext& ctx) const {
  const int tokens = x.shape(0);
  const std::vector<mx::array> projected = Linear::apply_all({&q_proj_, &k_proj_, &v_proj_}, x, ctx);
  mx::array q = normalize(q_norm_, projected[0], ctx);  // (tokens, num_heads * head_dim), or split by head
  mx::array k = normalize(k_norm_, projected[1], ctx);  // (tokens, num_kv_heads * head_dim)
  const mx::array& v = projected[2];                    // (tokens, num_kv_heads * head_dim)
  if (options_.rope) {
    q = ctx.kernels.rope(q, ctx.batch, *options_.rope);
    k = ctx.kernels.rope(k, ctx.batch, *options_.rope);
  }

  kernels::KvStorage& storage = ctx.kv[static_cast<std::size_t>(options_.layer)];
  ctx.write_kv(storage, k, v);
  mx::array attended = mx::reshape(ctx.kernels.paged_attention(q, storage, ctx.batch, options_.scores),
                                   {tokens, options_.num_heads * options_.head_dim});
  if (gate_proj_) attended = ctx.kernels.gate_multiply((*gate_proj_)(x, ctx), attended, GateActivation::kSigmoid);
  return o_proj_(attended, ctx);
}

}  // namespace redpoll::nn
