// Recurrent layers: each row of a batch has a state of its own, which its tokens change one after the other. So nothing
// depends on how a prompt is chunked or on other rows.
//
// A layer's memory is stored (state, value head, key_dim, value_dim): columns, which do not depend on each other, are
// vectors. value_dim is padded to kPadding.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Columns of a memory that one item of work goes over.
constexpr int kColumnsPerItem = 64;

int padded(int size) { return (size + kPadding - 1) / kPadding * kPadding; }

/// A row's inputs before its first token of this step, oldest first: (conv_tokens, channels).
float* inputs_of(const StateStorage& states, const BatchRow& row) {
  const std::int64_t size = std::int64_t{states.convolution.shape(1)} * states.convolution.shape(2);
  return const_cast<float*>(states.convolution.data<float>()) + row.state * size;
}

void clear_if_new(const BatchRow& row, float* state, std::int64_t size) {
  if (row.num_computed == 0) std::fill_n(state, size, 0.0F);
}

/// Token `t` of the row and those before it, the oldest first.
void find_inputs(const float* x, const float* before, int t, int channels, std::vector<const float*>& inputs) {
  const int num_before = static_cast<int>(inputs.size()) - 1;
  for (int j = 0; j <= num_before; ++j) {
    const int token = t - num_before + j;
    inputs[static_cast<std::size_t>(j)] =
        token >= 0 ? x + std::int64_t{token} * channels : before + std::int64_t{num_before + token} * channels;
  }
}

/// Makes the last inputs of the row those that the next step sees.
void keep_inputs(const float* x, int num_tokens, int channels, int num_kept, float* state) {
  const std::int64_t row_floats = channels;
  const int num_old = std::max(num_kept - num_tokens, 0);
  std::memmove(state, state + (num_kept - num_old) * row_floats,
               static_cast<std::size_t>(num_old * row_floats) * sizeof(float));
  const int num_new = num_kept - num_old;
  std::copy_n(x + (num_tokens - num_new) * row_floats, num_new * row_floats, state + num_old * row_floats);
}

/// Queries and keys of all tokens at length 1, queries by the root of key_dim shorter: (tokens, key heads, key_dim).
struct NormalizedKeys {
  HostArray q, k;
};

/// By the root mean square, whose loop is a fast one: |x|^2 = key_dim * mean(x^2).
NormalizedKeys normalize_keys(Context& context, const float* qkv, std::int64_t qkv_stride, int tokens,
                              const DeltaSpec& spec) {
  const int keys = spec.num_key_heads * spec.key_dim;
  NormalizedKeys normalized{.q = make_array({tokens, keys}), .k = make_array({tokens, keys})};
  const float root = std::sqrt(static_cast<float>(spec.key_dim));
  const float eps = 1e-6F / static_cast<float>(spec.key_dim);
  const std::vector<float> query_scale(static_cast<std::size_t>(spec.key_dim), 1 / (root * root));
  const std::vector<float> key_scale(static_cast<std::size_t>(spec.key_dim), 1 / root);
  const auto rms_norm = context.loops.rms_norm;
  context.team.parallel_for(tokens, rows_per_part(2 * std::int64_t{keys}), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* row = qkv + t * qkv_stride;
      for (int at = 0; at < keys; at += spec.key_dim) {
        rms_norm(row + at, query_scale.data(), eps, spec.key_dim, normalized.q.data + t * keys + at);
        rms_norm(row + keys + at, key_scale.data(), eps, spec.key_dim, normalized.k.data + t * keys + at);
      }
    }
  });
  return normalized;
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }
float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

StateStorage CpuKernels::make_state_storage(const StateShape& shape) const {
  StateStorage states{.convolution =
                          make_zeros({shape.num_states, shape.conv_tokens, shape.conv_channels}, mx::float32)};
  if (shape.num_heads > 0) {
    states.memory =
        make_zeros({shape.num_states, shape.num_heads, shape.key_dim, padded(shape.value_dim)}, mx::float32);
  }
  return states;
}

mx::array CpuKernels::short_convolution(const mx::array& x, const ConvolutionSpec& spec, StateStorage& states,
                                        const RaggedBatch& batch) const {
  const HostView input(x);
  const HostView weight(spec.weight);
  const std::optional<HostView> bias = spec.bias ? std::optional<HostView>(*spec.bias) : std::nullopt;
  const int channels = states.convolution.shape(2);
  const int num_kept = states.convolution.shape(1);
  HostArray out = make_array(x.shape());
  for (const BatchRow& row : batch.rows) {
    float* before = inputs_of(states, row);
    clear_if_new(row, before, std::int64_t{num_kept} * channels);
    const float* own = input.data() + std::int64_t{row.first_token} * channels;
    float* results = out.data + std::int64_t{row.first_token} * channels;
    context_->team.parallel_for(row.num_tokens, rows_per_part(channels), [&](std::int64_t begin, std::int64_t end) {
      std::vector<const float*> inputs(static_cast<std::size_t>(num_kept) + 1);
      for (std::int64_t t = begin; t < end; ++t) {
        find_inputs(own, before, static_cast<int>(t), channels, inputs);
        context_->loops.convolve({.inputs = inputs.data(),
                                  .num_inputs = num_kept + 1,
                                  .channels = channels,
                                  .weight = weight.data(),
                                  .bias = bias ? bias->data() : nullptr,
                                  .has_silu = spec.has_silu},
                                 results + t * channels);
      }
    });
    keep_inputs(own, row.num_tokens, channels, num_kept, before);
  }
  return std::move(out.array);
}

mx::array CpuKernels::gated_delta(const DeltaInputs& inputs, const DeltaSpec& spec, StateStorage& states,
                                  const RaggedBatch& batch) const {
  const HostView qkv(inputs.qkv);
  const HostView a(inputs.a);
  const HostView b(inputs.b);
  const HostView a_log(spec.a_log);
  const HostView dt_bias(spec.dt_bias);
  const int tokens = batch.num_tokens();
  const int heads = spec.num_value_heads;
  const std::int64_t keys = std::int64_t{spec.num_key_heads} * spec.key_dim;
  const std::int64_t values = std::int64_t{heads} * spec.value_dim;
  const std::int64_t qkv_stride = 2 * keys + values;
  const NormalizedKeys normalized = normalize_keys(*context_, qkv.data(), qkv_stride, tokens, spec);
  HostArray decay = make_array({tokens, heads});
  HostArray beta = make_array({tokens, heads});
  for (std::int64_t i = 0; i < std::int64_t{tokens} * heads; ++i) {
    const std::int64_t head = i % heads;
    decay.data[i] = std::exp(-std::exp(a_log.data()[head]) * softplus(a.data()[i] + dt_bias.data()[head]));
    beta.data[i] = sigmoid(b.data()[i]);
  }

  const std::int64_t columns = states.memory.shape(3);
  const std::int64_t memory_size = spec.key_dim * columns;  // of a head
  auto* memories = const_cast<float*>(states.memory.data<float>());
  for (const BatchRow& row : batch.rows) {
    clear_if_new(row, memories + row.state * heads * memory_size, heads * memory_size);
  }
  HostArray out = make_array({tokens, static_cast<int>(values)});
  const int items_of_head = (spec.value_dim + kColumnsPerItem - 1) / kColumnsPerItem;
  const std::int64_t items_of_row = std::int64_t{heads} * items_of_head;
  const auto num_rows = static_cast<std::int64_t>(batch.rows.size());
  context_->team.parallel_for(num_rows * items_of_row, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const BatchRow& row = batch.rows[static_cast<std::size_t>(item / items_of_row)];
      const std::int64_t head = item % items_of_row / items_of_head;
      const std::int64_t key_head = head * spec.num_key_heads / heads;
      const int column = static_cast<int>(item % items_of_head) * kColumnsPerItem;
      const std::int64_t first = row.first_token;
      context_->loops.gated_delta({.q = normalized.q.data + first * keys + key_head * spec.key_dim,
                                   .k = normalized.k.data + first * keys + key_head * spec.key_dim,
                                   .key_stride = keys,
                                   .v = qkv.data() + first * qkv_stride + 2 * keys + head * spec.value_dim + column,
                                   .value_stride = qkv_stride,
                                   .decay = decay.data + first * heads + head,
                                   .beta = beta.data + first * heads + head,
                                   .head_stride = heads,
                                   .num_tokens = row.num_tokens,
                                   .key_dim = spec.key_dim,
                                   .num_columns = std::min(kColumnsPerItem, spec.value_dim - column),
                                   .memory = memories + (row.state * heads + head) * memory_size + column,
                                   .memory_stride = columns,
                                   .out = out.data + first * values + head * spec.value_dim + column,
                                   .out_stride = values});
    }
  });
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
