// The recurrent layers of the reference kernels: stock MLX ops, a row of the batch after the other and a token after
// the other.
#include <mlx/fast.h>
#include <mlx/ops.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/reference.h"

namespace redpoll::kernels {
namespace {

/// Rows [first, + count) of the first axis.
mx::array cut(const mx::array& x, int first, int count) {
  mx::Shape begin(x.ndim(), 0);
  mx::Shape end = x.shape();
  begin[0] = first;
  end[0] = first + count;
  return mx::slice(x, begin, end);
}

/// `all` with its row `index` replaced.
mx::array with_row(const mx::array& all, int index, const mx::array& row) {
  mx::Shape begin(all.ndim(), 0);
  mx::Shape end = all.shape();
  begin[0] = index;
  end[0] = index + 1;
  return mx::slice_update(all, mx::expand_dims(row, 0), begin, end);
}

/// A row's state, which is nothing before its first token.
mx::array state_of(const mx::array& all, const BatchRow& row) {
  const mx::array state = mx::squeeze(cut(all, row.state, 1), 0);
  return row.num_computed == 0 ? mx::zeros_like(state) : state;
}

/// `factor` times x (tokens, heads, dim) over the root of the mean of its squares in each head; to their sum 1e-6 is
/// added.
mx::array normalized(const mx::array& x, double factor) {
  const auto eps = static_cast<float>(1e-6 / x.shape(2));
  return mx::multiply(mx::array(static_cast<float>(factor), x.dtype()), mx::fast::rms_norm(x, {}, eps));
}

/// Of all tokens, or of one without the first axis.
struct DeltaTokens {
  mx::array q, k;         // (tokens, heads, key_dim)
  mx::array v;            // (tokens, heads, value_dim)
  mx::array decay, beta;  // (tokens, heads)

  [[nodiscard]] DeltaTokens at(int token) const {
    const auto pick = [token](const mx::array& x) { return mx::squeeze(cut(x, token, 1), 0); };
    return {pick(q), pick(k), pick(v), pick(decay), pick(beta)};
  }
};

}  // namespace

StateStorage ReferenceKernels::make_state_storage(const StateShape& shape) const {
  StateStorage states{.convolution =
                          mx::zeros({shape.num_states, shape.conv_tokens, shape.conv_channels}, mx::float32)};
  if (shape.num_heads > 0) {
    states.memory = mx::zeros({shape.num_states, shape.num_heads, shape.value_dim, shape.key_dim}, mx::float32);
  }
  return states;
}

mx::array ReferenceKernels::short_convolution(const mx::array& x, const ConvolutionSpec& spec, StateStorage& states,
                                              const RaggedBatch& batch) const {
  const int conv_tokens = spec.weight.shape(0) - 1;
  const int channels = spec.weight.shape(1);
  const mx::array weight = mx::expand_dims(mx::contiguous(mx::transpose(spec.weight)), 2);  // (channels, size, 1)
  std::vector<mx::array> outputs;
  for (const BatchRow& row : batch.rows) {
    const mx::array own = cut(x, row.first_token, row.num_tokens);
    const mx::array seen = mx::concatenate({mx::astype(state_of(states.convolution, row), x.dtype()), own}, 0);
    mx::array sum = mx::squeeze(mx::conv1d(mx::expand_dims(seen, 0), weight, 1, 0, 1, /*groups=*/channels), 0);
    if (spec.bias) sum = mx::add(sum, *spec.bias);
    outputs.push_back(spec.has_silu ? mx::multiply(sum, mx::sigmoid(sum)) : sum);
    const mx::array last = mx::astype(cut(seen, row.num_tokens, conv_tokens), states.convolution.dtype());
    states.convolution = with_row(states.convolution, row.state, last);
  }
  return outputs.size() == 1 ? outputs.front() : mx::concatenate(outputs, 0);
}

mx::array ReferenceKernels::gated_delta(const DeltaInputs& inputs, const DeltaSpec& spec, StateStorage& states,
                                        const RaggedBatch& batch) const {
  const int tokens = inputs.qkv.shape(0);
  const int keys = spec.num_key_heads * spec.key_dim;
  const auto heads_of = [&](int first, int num_heads, int dim) {
    const mx::array part = mx::slice(inputs.qkv, {0, first}, {tokens, first + num_heads * dim});
    return mx::reshape(part, {tokens, num_heads, dim});
  };
  const int shared = spec.num_value_heads / spec.num_key_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(spec.key_dim));
  const mx::array q = mx::repeat(normalized(heads_of(0, spec.num_key_heads, spec.key_dim), scale * scale), shared, 1);
  const mx::array k = mx::repeat(normalized(heads_of(keys, spec.num_key_heads, spec.key_dim), scale), shared, 1);
  const mx::array v = heads_of(2 * keys, spec.num_value_heads, spec.value_dim);
  const mx::array decay = fused_.delta_decay({spec.a_log, inputs.a, spec.dt_bias})[0];
  const DeltaTokens all{q, k, v, decay, mx::sigmoid(inputs.b)};

  std::vector<mx::array> outputs;
  for (const BatchRow& row : batch.rows) {
    mx::array memory = state_of(states.memory, row);
    for (int t = row.first_token; t < row.first_token + row.num_tokens; ++t) {
      const DeltaTokens one = all.at(t);
      const auto step = fused_.delta_step({one.q, one.k, one.v, one.decay, one.beta, memory});
      outputs.push_back(step[0]);
      memory = step[1];
    }
    states.memory = with_row(states.memory, row.state, memory);
  }
  return mx::astype(mx::reshape(mx::stack(outputs), {tokens, -1}), inputs.qkv.dtype());
}

mx::array ReferenceKernels::gate_rows(const mx::array& x, const mx::array& logits) const {
  return mx::multiply(mx::sigmoid(mx::reshape(logits, {-1, 1})), x);
}

}  // namespace redpoll::kernels
