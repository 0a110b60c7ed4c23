// What is packed of K and V, and the reference kernels' attention over it; all else that packed K and V have in common
// with others is in attention_test.cpp.
#include <gmock/gmock.h>

#include "unit/kernels/attention_fixture.h"

namespace redpoll::kernels {
namespace {

class PackedAttentionTest : public testing::TestWithParam<Storing> {};
INSTANTIATE_TEST_SUITE_P(Bits, PackedAttentionTest, testing::Values(Storing::kQ8, Storing::kQ4),
                         [](const auto& info) { return storing_name(info.param); });

TEST_P(PackedAttentionTest, TheReferenceAttendsLikeFloat64OverWhatIsStored) {
  const ReferenceKernels reference;
  for (const Heads heads : {Heads{9, 3, 64}, {4, 4, 80}, {8, 1, 128}, {2, 2, 256}, {2, 1, 6}}) {
    TestSequence s(70, heads, 3, GetParam());
    ASSERT_NO_FATAL_FAILURE(expect_attention(reference, s, {33, 36, 1}, 16));
    s.spec.window = 20;
    s.spec.softcap = 2.5F;
    ASSERT_NO_FATAL_FAILURE(expect_attention(reference, s, {33, 36, 1}, 16));
  }
}

TEST_P(PackedAttentionTest, TheReferenceCopiesABlock) {
  const ReferenceKernels reference;
  const TestSequence s(8, {2, 2, 12}, 33, GetParam());
  KvStorage storage = reference.make_kv_storage({6, 8, 2, 12, s.packing});
  RaggedBatch batch = make_batch({{0, 8}}, 8, 1);
  reference.write_kv(storage, s.k, s.v, batch);
  const auto expected = bits_of(reference.paged_attention(s.q, storage, batch, s.spec));
  reference.copy_block(storage.pools(), 0, 5);
  reference.write_kv(storage, mx::zeros({8, 2, 12}), mx::zeros({8, 2, 12}), batch);
  batch.block_ids = {5};
  EXPECT_EQ(bits_of(reference.paged_attention(s.q, storage, batch, s.spec)), expected);
}

TEST_P(PackedAttentionTest, AttendsLikeFloat64WithWideHeadsAndOtherGroups) {
  for (const cpu::Variant variant : cpu::available_variants()) {
    const cpu::CpuKernels kernels(variant, 2);
    for (const auto& [dim, group_size] : {std::pair(256, 64),
                                          {512, 64},
                                          {576, 64},
                                          {96, 32},
                                          {128, 128},
                                          {256, 256},
                                          {64, 32},
                                          {160, 32},
                                          {80, 80},
                                          {100, 100}}) {
      SCOPED_TRACE(std::string(cpu::variant_name(variant)) + ", groups of " + std::to_string(group_size));
      TestSequence s(70, {2, 1, dim}, 40, GetParam());
      s.packing.group_size = group_size;
      ASSERT_TRUE(check_packing(s.packing, dim));
      ASSERT_NO_FATAL_FAILURE(expect_attention(kernels, s, {50, 19, 1}, 16));
    }
  }
}

/// The bytes of a block, of all its arrays.
std::vector<std::uint8_t> bytes_of(KvStorage& storage) {
  std::vector<std::uint8_t> bytes;
  for (mx::array* pool : storage.pools()) {
    pool->eval();
    const auto* first = reinterpret_cast<const std::uint8_t*>(pool->data<std::byte>());
    bytes.insert(bytes.end(), first, first + pool->nbytes());
  }
  return bytes;
}

TEST_P(PackedAttentionTest, EveryVariantPacksTheSameBytes) {
  for (const Heads heads : {Heads{1, 2, 64}, {1, 2, 80}, {1, 1, 6}}) {
    const TestSequence s(40, heads, 50, GetParam());
    const auto written_by = [&](cpu::Variant variant) {
      const cpu::CpuKernels kernels(variant, 2);
      KvStorage storage = kernels.make_kv_storage({2, 32, heads.kv, heads.dim, s.packing});
      kernels.write_kv(storage, s.k, s.v, make_batch({{0, 40}}, 32, 2));
      EXPECT_EQ(storage.bytes_per_block() * 2, bytes_of(storage).size());
      return bytes_of(storage);
    };
    for (const cpu::Variant variant : cpu::available_variants()) {
      EXPECT_EQ(written_by(variant), written_by(cpu::Variant::kPortable)) << cpu::variant_name(variant);
    }
  }
}

// By hand: the group's range is -1 to 2, so with 15 steps the scale would be 0.2, which lies between the halves
// 0.199951171875 and 0.2000732421875; with 255 it would be 0.0117647..., between 0.01176452636 and 0.01177215576.
TEST(PackingTest, AGroupIsStoredAsItsHalvesSay) {
  std::vector<float> x(16, 0.0F);
  x[3] = -1;
  x[9] = 2;
  x[10] = 0.7F;
  for (const auto& [bits, scale] : {std::pair(4, 0.2000732421875F), {8, 0.01177215576171875F}}) {
    const cpu::CpuKernels kernels(cpu::Variant::kPortable, 1);
    KvStorage storage = kernels.make_kv_storage({1, 1, 1, 16, {.bits = bits, .group_size = 16}});
    const mx::array kv = array_of(x, {1, 1, 16});
    kernels.write_kv(storage, kv, kv, make_batch({{0, 1}}, 1, 1));
    const std::vector<float> affines = floats_of(storage.value_affines);  // (1, 1, 1, 2, 16 places)
    EXPECT_EQ(affines[0], scale);
    EXPECT_EQ(affines[16], -1.0F);
    // One token gets its own value, whatever the query: 1.7 of the range are 8.497 steps of 4 bits, 144.4 of 8.
    const auto out = floats_of(kernels.paged_attention(kv, storage, make_batch({{0, 1}}, 1, 1), {.scale = 1}));
    EXPECT_NEAR(out[10], (bits == 4 ? 8 : 144) * scale - 1, 1e-6);
    EXPECT_NEAR(out[3], -1, 1e-6);
    EXPECT_NEAR(out[9], (bits == 4 ? 15 : 255) * scale - 1, 1e-6);
  }
}

TEST_P(PackedAttentionTest, WhatIsNoNumberStaysNone) {
  for (const cpu::Variant variant : cpu::available_variants()) {
    const cpu::CpuKernels kernels(variant, 1);
    for (const int poisoned : {0, 5, 19}) {
      TestSequence s(20, {1, 1, 16}, 60, GetParam());
      std::vector<float> values = floats_of(s.v);
      values[static_cast<std::size_t>(poisoned) * 16 + 7] = NAN;
      s.v = array_of(values, s.v.shape());
      const auto out = floats_from(attend_in_chunks(kernels, s, {20}, 8));
      for (int t = 0; t < 20; ++t) {
        EXPECT_EQ(std::isnan(out[static_cast<std::size_t>(t) * 16]), t >= poisoned) << "token " << t;
      }
    }
  }
}

TEST(PackingTest, RefusesWhatCannotBePacked) {
  EXPECT_TRUE(check_packing({.bits = 8, .group_size = 64}, 128));
  EXPECT_TRUE(check_packing({.bits = 4, .group_size = 80}, 80));
  EXPECT_TRUE(check_packing({.bits = 8, .group_size = 33}, 33));
  const auto message = [](const KvPacking& packing, int head_dim) {
    const Status status = check_packing(packing, head_dim);
    return status ? std::string("fine") : status.error().message;
  };
  EXPECT_EQ(message({.bits = 5, .group_size = 64}, 128), "expected bits of 4 or 8, got 5");
  for (const int group_size : {0, -64, 16, 48, 96}) {
    EXPECT_EQ(message({.bits = 8, .group_size = group_size}, 128),
              "expected a group_size of at most 1024 that is a multiple of 32 and divides the heads, or is all of one, "
              "got " +
                  std::to_string(group_size) + "; the layer's heads are of 128");
  }
  EXPECT_THAT(message({.bits = 8, .group_size = 2048}, 2048), testing::HasSubstr("got 2048"));
  EXPECT_THAT(message({.bits = 4, .group_size = 33}, 33), testing::HasSubstr("expected heads of an even size"));

  for (const int group_size : {32, 64, 128}) {
    EXPECT_EQ(message({.bits = 4, .group_size = group_size, .codes = KvCodes::kMlx}, 256), "fine");
  }
  for (const int group_size : {16, 96, 128}) {
    EXPECT_EQ(message({.bits = 8, .group_size = group_size, .codes = KvCodes::kMlx}, 96),
              "expected a group_size of 32, 64 or 128 that divides the heads, which MLX can pack (--exact wants to), "
              "got " +
                  std::to_string(group_size) + "; the layer's heads are of 96");
  }
  EXPECT_EQ(message({.bits = 6, .group_size = 32, .codes = KvCodes::kMlx}, 64), "expected bits of 4 or 8, got 6");
}

/// A sequence whose keys and values are what MLX's codes stand for, but for its first `num_unpacked` tokens.
TestSequence as_mlx_stores(TestSequence s, int num_unpacked) {
  for (mx::array* x : {&s.k, &s.v}) {
    const std::vector<mx::array> parts = mx::quantize(*x, s.packing.group_size, s.packing.bits);
    const mx::array numbers = mx::dequantize(parts[0], parts[1], parts[2], s.packing.group_size, s.packing.bits);
    *x = mx::concatenate({rows_of(*x, 0, num_unpacked), rows_of(numbers, num_unpacked, s.length)}, 0);
  }
  return s;
}

TEST_P(PackedAttentionTest, TheExactTierPacksWhatAStepLeavesBehind) {
  const ReferenceKernels exact(true);
  for (const Heads heads : {Heads{4, 2, 64}, {2, 2, 128}, {6, 1, 96}}) {
    TestSequence s(70, heads, 3, GetParam());
    s.packing.codes = KvCodes::kMlx;
    for (const bool has_sinks : {false, true}) {
      if (has_sinks) s.spec.sinks = random_array({heads.query}, 9);
      // The first 33 tokens see each other as they were; who comes later sees what was packed of them.
      const std::vector<float> got = floats_from(attend_in_chunks(exact, s, {33, 36, 1}, 16));
      const auto first = static_cast<std::ptrdiff_t>(33) * heads.query * heads.dim;
      const std::vector<double> unpacked = exact_attention(as_mlx_stores(s, 33));
      const std::vector<double> packed = exact_attention(as_mlx_stores(s, 0));
      ASSERT_NO_FATAL_FAILURE(
          expect_near({got.begin(), got.begin() + first}, {unpacked.begin(), unpacked.begin() + first}, 2e-5));
      ASSERT_NO_FATAL_FAILURE(
          expect_near({got.begin() + first, got.end()}, {packed.begin() + first, packed.end()}, 2e-5));
    }
  }
}

/// One row begins, the other goes on; the next step's writes leave nothing of what the first saw unpacked.
TEST_P(PackedAttentionTest, RowsOfTheExactTierSeeTheirOwnTokensUnpackedInABatch) {
  const ReferenceKernels exact(true);
  TestSequence s(24, {4, 2, 64}, 5, GetParam());
  s.packing.codes = KvCodes::kMlx;
  const auto alone = attend_in_chunks(exact, s, {16, 8}, 8);

  KvStorage storage = exact.make_kv_storage({8, 8, 2, 64, s.packing});
  const auto step = [&](const std::vector<RowLengths>& lengths, const std::vector<int>& blocks) {
    RaggedBatch batch = make_batch(lengths, 8, 8);
    batch.block_ids.assign(blocks.begin(), blocks.end());
    const auto tokens_of = [&](const mx::array& x) {
      std::vector<mx::array> rows;
      for (const RowLengths& row : lengths) rows.push_back(rows_of(x, row.computed, row.computed + row.tokens));
      return mx::concatenate(rows, 0);
    };
    exact.write_kv(storage, tokens_of(s.k), tokens_of(s.v), batch);
    return bits_of(exact.paged_attention(tokens_of(s.q), storage, batch, s.spec));
  };
  const std::ptrdiff_t row = 4 * 64;
  (void)step({{0, 16}}, {0, 1});
  const auto both = step({{16, 8}, {0, 16}}, {0, 1, 2, 3, 4});
  EXPECT_EQ(std::vector(both.begin(), both.begin() + 8 * row), std::vector(alone.begin() + 16 * row, alone.end()));
  EXPECT_EQ(std::vector(both.begin() + 8 * row, both.end()), std::vector(alone.begin(), alone.begin() + 16 * row));
  exact.copy_block(storage.pools(), 3, 6);
  EXPECT_EQ(step({{16, 8}}, {6, 4, 7}), std::vector(alone.begin() + 16 * row, alone.end()));
  EXPECT_FALSE(storage.unpacked_keys);
}

}  // namespace
}  // namespace redpoll::kernels
