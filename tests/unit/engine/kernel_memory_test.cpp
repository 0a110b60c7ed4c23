// Kernels that keep something from call to call are right after memory was short in the middle of one. Here, because
// this test program has the allocator that fails on demand.
#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <new>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::kernels {
namespace {

RaggedBatch prompt_of(int num_tokens) {
  RaggedBatch batch;
  batch.tokens.resize(static_cast<std::size_t>(num_tokens));
  batch.positions.resize(batch.tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 100);
  batch.rows = {{.num_tokens = num_tokens, .num_computed = 100}};
  return batch;
}

TEST(KernelMemoryTest, RotatesRightlyAfterMemoryWasShort) {
  const RopeSpec spec{.head_dim = 4, .dims = 4, .inverse_frequencies = {1.0F, 0.1F}};
  const RaggedBatch small = prompt_of(1);
  const RaggedBatch large = prompt_of(5'000);
  const mx::array x = mx::ones({5'000, 8});
  const mx::array first = mx::ones({1, 8});
  mx::eval(x, first);
  const auto rotated = [&](const Kernels& kernels) {
    const mx::array out = kernels.rope(x, large, spec);
    return std::vector<float>(out.data<float>(), out.data<float>() + out.size());
  };
  const std::vector<float> expected = rotated(*make_kernels({.num_threads = 2}));
  int num_failures = 0;
  for (bool has_failed = true; has_failed; num_failures += has_failed ? 1 : 0) {
    const auto kernels = make_kernels({.num_threads = 2});
    static_cast<void>(kernels->rope(first, small, spec));  // what a large batch's angles take the place of
    test::allocations().until_failure = num_failures + 1;
    try {
      has_failed = false;
      static_cast<void>(kernels->rope(x, large, spec));
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    test::allocations().until_failure = 0;
    EXPECT_EQ(rotated(*kernels), expected) << "after allocation " << num_failures + 1 << " has failed";
  }
  EXPECT_GT(num_failures, 1);
}

}  // namespace
}  // namespace redpoll::kernels
