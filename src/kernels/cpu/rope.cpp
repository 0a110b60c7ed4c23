// Rotary embeddings. Angles are float32 products of position and inverse frequency, as in the reference; their cosines
// and sines are computed once per batch.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// One head whose pairs are neighbours.
void rotate_interleaved(const float* x, const float* cos, const float* sin, int half, float* out) {
  for (std::ptrdiff_t i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    out[2 * i] = a * cos[i] - b * sin[i];
    out[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

}  // namespace

const RopeTable& CpuKernels::rope_table(const RaggedBatch& batch, const RopeSpec& spec) const {
  auto found = std::ranges::find_if(rope_tables_, [&](const RopeTable& table) {
    return table.scale == spec.scale && table.inverse_frequencies == spec.inverse_frequencies;
  });
  if (found == rope_tables_.end()) {
    rope_tables_.push_back({spec.inverse_frequencies, spec.scale, {}, {}});
    found = rope_tables_.end() - 1;
  }
  RopeTable& table = *found;
  if (table.positions == batch.positions) return table;
  const std::size_t half = spec.inverse_frequencies.size();
  table.positions.clear();  // until it is filled it serves none, should memory be short
  table.cos_sin.resize(batch.positions.size() * 2 * half);
  const auto tokens = static_cast<std::int64_t>(batch.positions.size());
  constexpr std::int64_t kTokensPerPart = 16;
  context_->team.parallel_for(tokens, kTokensPerPart, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      float* row = table.cos_sin.data() + t * 2 * half;
      for (std::size_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(batch.positions[t]) * table.inverse_frequencies[i];
        row[i] = std::cos(angle) * table.scale;
        row[half + i] = std::sin(angle) * table.scale;
      }
    }
  });
  table.positions = batch.positions;
  return table;
}

mx::array CpuKernels::rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const {
  const HostView input(x);
  const RopeTable& table = rope_table(batch, spec);
  const std::int64_t tokens = batch.num_tokens();
  const std::int64_t head_dim = spec.head_dim;
  const std::int64_t dim = input.size() / tokens;
  const int half = spec.dims / 2;
  const auto rotate = spec.interleaved ? rotate_interleaved : context_->loops.rotate;
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(tokens, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* cos = table.cos_sin.data() + t * 2 * half;
      for (std::int64_t at = t * dim; at < (t + 1) * dim; at += head_dim) {
        rotate(input.data() + at, cos, cos + half, half, out.data + at);
        std::copy(input.data() + at + spec.dims, input.data() + at + head_dim, out.data + at + spec.dims);
      }
    }
  });
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
