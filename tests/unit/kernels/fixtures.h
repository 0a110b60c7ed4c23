// What kernel tests share: random data, matrices in checkpoint form with their exact values, batches of rows with
// shuffled block tables, and a parametrised fixture that runs a test once for each variant this machine has.
#pragma once

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/reference.h"

namespace redpoll::kernels {

/// Runs once per variant: cpu(n) makes that variant's kernels with n threads.
class CpuVariantTest : public testing::TestWithParam<cpu::Variant> {
 protected:
  [[nodiscard]] static std::unique_ptr<Kernels> cpu(int num_threads = 2) {
    return std::make_unique<cpu::CpuKernels>(GetParam(), num_threads);
  }
};

inline std::string variant_test_name(const testing::TestParamInfo<cpu::Variant>& info) {
  return std::string(cpu::variant_name(info.param));
}

#define INSTANTIATE_FOR_EVERY_VARIANT(suite) \
  INSTANTIATE_TEST_SUITE_P(Cpu, suite, testing::ValuesIn(cpu::available_variants()), variant_test_name)

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float deviation = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

inline mx::array array_of(const std::vector<float>& values, mx::Shape shape) {
  return mx::array(values.data(), std::move(shape), mx::float32);
}

inline mx::array random_array(mx::Shape shape, unsigned seed, float deviation = 1.0F) {
  std::size_t count = 1;
  for (const auto dim : shape) count *= static_cast<std::size_t>(dim);
  return array_of(random_floats(count, seed, deviation), std::move(shape));
}

inline std::vector<float> floats_of(const mx::array& x) {
  mx::array flat = mx::contiguous(mx::astype(x, mx::float32));
  flat.eval();
  return {flat.data<float>(), flat.data<float>() + flat.size()};
}

/// Bit patterns, so that equality also tells -0 from 0 and compares NaN.
inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}
inline std::vector<std::uint32_t> bits_of(const mx::array& x) { return bits_of(floats_of(x)); }

/// Rows [first, last) of a 2-D or 3-D array.
inline mx::array rows_of(const mx::array& x, int first, int last) {
  mx::Shape start(x.shape().size(), 0);
  mx::Shape stop = x.shape();
  start[0] = first;
  stop[0] = last;
  return mx::contiguous(mx::slice(x, start, stop));
}

inline void expect_near(const mx::array& actual, const mx::array& expected, float absolute, float relative) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const std::vector<float> a = floats_of(actual);
  const std::vector<float> e = floats_of(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], e[i], absolute + relative * std::abs(e[i])) << "element " << i;
  }
}

inline mx::Dtype dtype_of(WeightType type) {
  if (type == WeightType::kF16) return mx::float16;
  return type == WeightType::kBF16 ? mx::bfloat16 : mx::float32;
}

/// A matrix as a checkpoint holds it, and the values that it stands for. The view does not own the bytes.
struct TestMatrix {
  std::vector<std::byte> weight;
  std::vector<std::byte> scales;
  std::vector<std::byte> biases;
  std::vector<double> values;      // (out, in)
  std::vector<double> magnitudes;  // of the terms that make each value: what rounding errors are relative to
  MatrixWeights view;
};

/// Rounds `values` to `type`: stores the bytes in `bytes` and what they mean in `values`.
inline void round_to(WeightType type, std::vector<float>& values, std::vector<std::byte>& bytes) {
  mx::array rounded = mx::astype(array_of(values, {static_cast<int>(values.size())}), dtype_of(type));
  rounded.eval();
  bytes.resize(rounded.nbytes());
  std::memcpy(bytes.data(), rounded.data<std::byte>(), bytes.size());
  values = floats_of(rounded);
}

inline std::shared_ptr<TestMatrix> quantized_matrix(int out, int in, int bits, int group_size, WeightType type,
                                                    unsigned seed = 1) {
  auto m = std::make_shared<TestMatrix>();
  std::mt19937 generator(seed);
  const auto rows = static_cast<std::size_t>(out);
  const auto words_per_row = static_cast<std::size_t>(in * bits / 32);
  const auto groups_per_row = static_cast<std::size_t>(in / group_size);
  const std::size_t num_words = rows * words_per_row;
  std::vector<std::uint32_t> words(num_words);
  for (std::uint32_t& word : words) word = generator();
  m->weight.resize(num_words * 4);
  std::memcpy(m->weight.data(), words.data(), m->weight.size());
  const std::size_t num_groups = rows * groups_per_row;
  const float step = 4.0F / static_cast<float>(1 << bits);
  std::vector<float> scales = random_floats(num_groups, seed + 1, step);
  std::vector<float> biases = random_floats(num_groups, seed + 2, 0.1F);
  // As in checkpoints, values lie on both sides of zero.
  for (std::size_t i = 0; i < num_groups; ++i) biases[i] -= scales[i] * static_cast<float>(1 << (bits - 1));
  round_to(type, scales, m->scales);
  round_to(type, biases, m->biases);
  for (std::size_t row = 0; row < rows; ++row) {
    for (int k = 0; k < in; ++k) {
      const std::size_t group = row * groups_per_row + static_cast<std::size_t>(k / group_size);
      std::uint32_t q = 0;
      for (int b = 0; b < bits; ++b) {
        const int bit = k * bits + b;
        const std::uint32_t word = words[row * words_per_row + static_cast<std::size_t>(bit / 32)];
        q |= (word >> (bit % 32) & 1U) << b;
      }
      m->values.push_back(double{scales[group]} * q + double{biases[group]});
      m->magnitudes.push_back(std::abs(double{scales[group]} * q) + std::abs(double{biases[group]}));
    }
  }
  m->view = {.out_features = out,
             .in_features = in,
             .type = type,
             .bits = bits,
             .group_size = group_size,
             .weight = m->weight,
             .scales = m->scales,
             .biases = m->biases,
             .storage = nullptr};
  return m;
}

inline std::shared_ptr<TestMatrix> dense_matrix(int out, int in, WeightType type, unsigned seed = 1) {
  auto m = std::make_shared<TestMatrix>();
  std::vector<float> values = random_floats(static_cast<std::size_t>(out) * static_cast<std::size_t>(in), seed);
  round_to(type, values, m->weight);
  m->values.assign(values.begin(), values.end());
  for (const double value : values) m->magnitudes.push_back(std::abs(value));
  m->view = {.out_features = out,
             .in_features = in,
             .type = type,
             .weight = m->weight,
             .scales = {},
             .biases = {},
             .storage = nullptr};
  return m;
}

/// The products of a row must have the same bits for any number of rows and threads; make_kernels(threads) makes a set.
template <typename MakeKernels>
void expect_same_bits_in_any_company(const TestMatrix& m, const MakeKernels& make_kernels) {
  constexpr int kMostRows = 300;
  const mx::array x = random_array({kMostRows, m.view.in_features}, 5);
  const auto alone = make_kernels(1)->make_matrix(m.view);
  std::vector<std::uint32_t> expected;
  for (int row = 0; row < kMostRows; ++row) {
    const auto bits = bits_of(alone->multiply(rows_of(x, row, row + 1)));
    expected.insert(expected.end(), bits.begin(), bits.end());
  }
  for (const int threads : {1, 2, 4}) {
    const auto kernels = make_kernels(threads);
    const auto matrix = kernels->make_matrix(m.view);
    for (const int rows : {1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  11,  12,  13,  16,  17,
                           19, 20, 21, 22, 23, 24, 25, 33, 128, 132, 133, 134, 137, 142, kMostRows}) {
      const auto count = static_cast<std::ptrdiff_t>(rows) * m.view.out_features;
      const std::vector<std::uint32_t> wanted(expected.end() - count, expected.end());
      ASSERT_EQ(bits_of(matrix->multiply(rows_of(x, kMostRows - rows, kMostRows))), wanted)
          << rows << " rows, " << threads << " threads, bits " << m.view.bits;
    }
  }
}

/// One row of a batch: tokens that are computed already and tokens of this step.
struct RowLengths {
  int computed = 0;
  int tokens = 0;
};

/// A batch of rows whose blocks are dealt from a shuffled pool of `num_blocks`.
inline RaggedBatch make_batch(const std::vector<RowLengths>& lengths, int block_tokens, int num_blocks,
                              unsigned seed = 7) {
  std::vector<std::int32_t> pool(static_cast<std::size_t>(num_blocks));
  std::iota(pool.begin(), pool.end(), 0);
  std::ranges::shuffle(pool, std::mt19937(seed));
  RaggedBatch batch;
  batch.block_tokens = block_tokens;
  for (const RowLengths& row : lengths) {
    const int blocks = (row.computed + row.tokens + block_tokens - 1) / block_tokens;
    batch.rows.push_back(
        {batch.num_tokens(), row.tokens, row.computed, static_cast<int>(batch.block_ids.size()), blocks});
    for (int i = 0; i < row.tokens; ++i) {
      batch.tokens.push_back(0);
      batch.positions.push_back(row.computed + i);
    }
    for (int i = 0; i < blocks; ++i) {
      batch.block_ids.push_back(pool.at(batch.block_ids.size()));
    }
  }
  return batch;
}

}  // namespace redpoll::kernels
