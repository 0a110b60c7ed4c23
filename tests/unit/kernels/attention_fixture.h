// What the tests of attention share: sequences, what becomes of them when K and V are stored, attention in float64, and
// a way to feed a sequence in chunks.
#pragma once

#include <cmath>
#include <span>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {

struct Heads {
  int query = 9;
  int kv = 3;
  int dim = 64;
};

inline float scale_of(const Heads& heads) { return 1.0F / std::sqrt(static_cast<float>(heads.dim)); }

/// What K and V become when they are stored.
enum class Storing { kF16, kF32, kQ8, kQ4 };

inline std::string storing_name(Storing storing) {
  static constexpr const char* kNames[] = {"f16", "f32", "q8", "q4"};
  return kNames[static_cast<int>(storing)];
}

inline KvType type_of(Storing storing) { return storing == Storing::kF32 ? KvType::kF32 : KvType::kF16; }

inline KvPacking packing_of(Storing storing, int head_dim) {
  if (storing == Storing::kF16 || storing == Storing::kF32) return {};
  return {.bits = storing == Storing::kQ8 ? 8 : 4, .group_size = usual_kv_group(head_dim)};
}

/// Whole sequences as a test sees them: q (length, query heads, dim), k and v (length, kv heads, dim).
struct TestSequence {
  int length;
  Heads heads;
  Storing storing;
  KvPacking packing;
  AttentionSpec spec;
  mx::array q, k, v;

  TestSequence(int tokens, Heads h, unsigned seed, Storing stored = Storing::kF32)
      : length(tokens),
        heads(h),
        storing(stored),
        packing(packing_of(stored, h.dim)),
        spec{.scale = scale_of(h)},
        q(random_array({tokens, h.query, h.dim}, seed, 2.0F)),
        k(random_array({tokens, h.kv, h.dim}, seed + 1)),
        v(random_array({tokens, h.kv, h.dim}, seed + 2)) {}
};

/// All finite halves, ascending.
inline const std::vector<float>& all_halves() {
  static const std::vector<float> kHalves = [] {
    std::vector<float> halves =
        floats_of(mx::view(mx::astype(mx::arange(0, 1 << 16, mx::int32), mx::uint16), mx::float16));
    std::erase_if(halves, [](float x) { return !std::isfinite(x); });
    std::ranges::sort(halves);
    return halves;
  }();
  return kHalves;
}

/// What the codes of a group stand for, straight from KvPacking.
inline void store_group(std::span<float> group, int highest_code) {
  const std::vector<float>& halves = all_halves();
  for (float& x : group) x = std::clamp(x, halves.front(), halves.back());
  const auto [least, most] = std::ranges::minmax(group);
  const float bias = *std::prev(std::ranges::upper_bound(halves, least));
  const float scale = *std::ranges::lower_bound(halves, (most - bias) / static_cast<float>(highest_code));
  for (float& x : group) {
    const float code = scale == 0 ? 0 : std::nearbyint((x - bias) * (1 / scale));
    x = scale * std::min(code, static_cast<float>(highest_code)) + bias;
  }
}

/// The sequence whose K and V are what is stored of this one's.
inline TestSequence as_stored(TestSequence s) {
  for (mx::array* x : {&s.k, &s.v}) {
    if (s.storing == Storing::kF16) *x = mx::astype(mx::astype(*x, mx::float16), mx::float32);
    if (s.packing.bits == 0) continue;
    std::vector<float> values = floats_of(*x);
    const auto size = static_cast<std::size_t>(s.packing.group_size);
    for (std::size_t i = 0; i < values.size(); i += size) {
      store_group(std::span(values).subspan(i, size), s.packing.highest_code());
    }
    *x = array_of(values, x->shape());
  }
  return s;
}

/// Softmax attention in float64, straight from the definition.
inline std::vector<double> exact_attention(const TestSequence& s) {
  const auto dim = static_cast<std::size_t>(s.heads.dim);
  const auto num_query = static_cast<std::size_t>(s.heads.query);
  const auto num_kv = static_cast<std::size_t>(s.heads.kv);
  const std::vector<float> q = floats_of(s.q);
  const std::vector<float> k = floats_of(s.k);
  const std::vector<float> v = floats_of(s.v);
  std::vector<double> out(q.size());
  for (std::size_t t = 0; t < static_cast<std::size_t>(s.length); ++t) {
    for (std::size_t h = 0; h < num_query; ++h) {
      const std::size_t kv_head = h / (num_query / num_kv);
      std::vector<double> weights(t + 1);
      for (std::size_t j = 0; j <= t; ++j) {
        for (std::size_t d = 0; d < dim; ++d) {
          weights[j] += double{q[(t * num_query + h) * dim + d]} * double{k[(j * num_kv + kv_head) * dim + d]};
        }
        weights[j] *= double{s.spec.scale};
        if (s.spec.softcap > 0) weights[j] = s.spec.softcap * std::tanh(weights[j] / s.spec.softcap);
        if (s.spec.window > 0 && t - j >= static_cast<std::size_t>(s.spec.window)) weights[j] = -INFINITY;
      }
      const double sink = s.spec.sinks ? double{floats_of(*s.spec.sinks)[h]} : -INFINITY;
      const double largest = std::max(std::ranges::max(weights), sink);
      double total = std::exp(sink - largest);
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (std::size_t j = 0; j <= t; ++j) {
        for (std::size_t d = 0; d < dim; ++d) {
          out[(t * num_query + h) * dim + d] += weights[j] / total * double{v[(j * num_kv + kv_head) * dim + d]};
        }
      }
    }
  }
  return out;
}

/// Feeds a sequence in chunks of the given lengths, the last one repeated, and returns the bits of all outputs.
inline std::vector<std::uint32_t> attend_in_chunks(const Kernels& kernels, const TestSequence& s,
                                                   const std::vector<int>& chunks, int block_tokens) {
  const int num_blocks = s.length / block_tokens + 5;
  KvStorage storage = kernels.make_kv_storage({num_blocks, block_tokens, s.heads.kv, s.heads.dim, s.packing});
  std::vector<std::uint32_t> out;
  std::size_t chunk = 0;
  for (int done = 0; done < s.length;) {
    const int count = std::min(chunks[std::min(chunk++, chunks.size() - 1)], s.length - done);
    const RaggedBatch batch = make_batch({{done, count}}, block_tokens, num_blocks);
    kernels.write_kv(storage, rows_of(s.k, done, done + count), rows_of(s.v, done, done + count), batch);
    const auto bits = bits_of(kernels.paged_attention(rows_of(s.q, done, done + count), storage, batch, s.spec));
    out.insert(out.end(), bits.begin(), bits.end());
    done += count;
  }
  return out;
}

inline std::vector<float> floats_from(const std::vector<std::uint32_t>& bits) {
  std::vector<float> values(bits.size());
  std::memcpy(values.data(), bits.data(), bits.size() * sizeof(float));
  return values;
}

/// Values are standard normal, so an absolute error of 3e-6 is about 50 float32 roundings. What codes sum up to is
/// larger than what is left of it beside the biases.
inline double sum_bound(Storing storing) { return packing_of(storing, 64).bits == 0 ? 3e-6 : 2e-5; }

inline void expect_near(const std::vector<float>& actual, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << "element " << i;
}

inline void expect_attention(const Kernels& kernels, const TestSequence& s, const std::vector<int>& chunks,
                             int block_tokens) {
  SCOPED_TRACE("head_dim " + std::to_string(s.heads.dim) + ", blocks of " + std::to_string(block_tokens));
  expect_near(floats_from(attend_in_chunks(kernels, s, chunks, block_tokens)), exact_attention(as_stored(s)),
              sum_bound(s.storing));
}

/// For every variant and way of storing.
class AttentionTest : public testing::TestWithParam<std::tuple<cpu::Variant, Storing>> {
 protected:
  [[nodiscard]] static Storing storing() { return std::get<1>(GetParam()); }
  [[nodiscard]] static std::unique_ptr<Kernels> cpu(int num_threads = 2) {
    return std::make_unique<cpu::CpuKernels>(std::get<0>(GetParam()), num_threads, Activations::kFloat32,
                                             type_of(storing()));
  }
  [[nodiscard]] static TestSequence make(int tokens, Heads heads, unsigned seed) {
    return {tokens, heads, seed, storing()};
  }
  static void expect_exact(const TestSequence& s, const std::vector<int>& chunks, int block_tokens) {
    expect_attention(*cpu(), s, chunks, block_tokens);
  }
};

}  // namespace redpoll::kernels
