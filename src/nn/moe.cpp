#include "nn/moe.h"

#include <mlx/ops.h>

namespace redpoll::nn {

SparseMoe::SparseMoe(const Scope& scope, const MoeOptions& options)
    : gate_(scope[options.router], options.hidden_size, options.num_experts, options.bias), routing_(options.routing) {
  experts_.activation = options.activation;
  const Scope experts = scope["experts"];
  const std::size_t before = scope.loaded_bytes();
  if (experts.has("gate_up_proj") || experts.has("gate_up_proj_blocks")) {
    load_fused(experts, options);
  } else {
    load_each(scope, options);
  }
  scope.count_experts(scope.loaded_bytes() - before, options.routing.top_k, options.num_experts);
}

void SparseMoe::load_fused(const Scope& scope, const MoeOptions& options) {
  const int hidden = options.hidden_size;
  const int inner = options.intermediate_size;
  const bool interleaved = options.fused_order == FusedOrder::kInterleaved;
  const auto gate_up = [&](int first) {
    const RowSlice rows = interleaved ? RowSlice{.first = first, .of = 2 * inner, .run = 1, .stride = 2}
                                      : RowSlice{.first = first * inner, .of = 2 * inner};
    return scope.fused_experts("gate_up_proj", options.num_experts, rows, {inner, hidden});
  };
  experts_.gate = gate_up(0);
  experts_.up = gate_up(1);
  experts_.down = scope.fused_experts("down_proj", options.num_experts, {.first = 0, .of = hidden}, {hidden, inner});
  if (options.bias == Bias::kNone) return;
  const mx::array biases = scope.table("gate_up_proj_bias", options.num_experts, 2 * inner);
  const auto part = [&](int first) {
    const int begin = interleaved ? first : first * inner;
    const int step = interleaved ? 2 : 1;
    mx::array values = mx::contiguous(
        mx::slice(biases, {0, begin}, {options.num_experts, interleaved ? 2 * inner : begin + inner}, {1, step}));
    values.eval();
    return values;
  };
  experts_.gate_bias = part(0);
  experts_.up_bias = part(1);
  experts_.down_bias = scope.table("down_proj_bias", options.num_experts, hidden);
}

void SparseMoe::load_each(const Scope& scope, const MoeOptions& options) {
  const auto load = [&](std::string_view name, int out_features, int in_features) {
    const Scope stacked = scope[options.stacked][name];
    return stacked.has("weight") ? stacked.stacked_experts(options.num_experts, out_features, in_features)
                                 : scope["experts"].experts(name, options.num_experts, out_features, in_features);
  };
  experts_.gate = load("gate_proj", options.intermediate_size, options.hidden_size);
  experts_.up = load("up_proj", options.intermediate_size, options.hidden_size);
  experts_.down = load("down_proj", options.hidden_size, options.intermediate_size);
  if (options.bias == Bias::kNone) return;
  const auto load_bias = [&](std::string_view name, int size) {
    return scope[options.stacked][name].table("bias", options.num_experts, size);
  };
  experts_.gate_bias = load_bias("gate_proj", options.intermediate_size);
  experts_.up_bias = load_bias("up_proj", options.intermediate_size);
  experts_.down_bias = load_bias("down_proj", options.hidden_size);
}

}  // namespace redpoll::nn
