// Writing K and V into blocks and attending over them: against float64 over the K and V that are stored, and against
// itself under every way of cutting the same work; for every variant and every way of storing.
#include <map>

#include "unit/kernels/attention_fixture.h"

namespace redpoll::kernels {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest,
                         testing::Combine(testing::ValuesIn(cpu::available_variants()),
                                          testing::Values(Storing::kF16, Storing::kF32, Storing::kQ8, Storing::kQ4)),
                         [](const auto& info) {
                           return std::string(cpu::variant_name(std::get<0>(info.param))) + "_" +
                                  storing_name(std::get<1>(info.param));
                         });

TEST_P(AttentionTest, AttendsLikeFloat64AtEveryHeadShapeAndBlockSize) {
  for (const Heads heads : {Heads{9, 3, 64}, {4, 4, 80}, {8, 1, 128}, {2, 1, 6}, {5, 5, 20}, {40, 1, 16}}) {
    for (const int block_tokens : {1, 5, 16, 32}) {
      const TestSequence s = make(70, heads, 3);
      ASSERT_NO_FATAL_FAILURE(expect_exact(s, {33, 1}, block_tokens));
    }
  }
}

TEST_P(AttentionTest, AttendsLikeFloat64WithinAWindow) {
  for (const int window : {1, 2, 17, 32, 69, 70, 200}) {
    SCOPED_TRACE(window);
    for (const int block_tokens : {1, 5, 32}) {
      TestSequence s = make(70, {6, 3, 40}, 11);
      s.spec.window = window;
      ASSERT_NO_FATAL_FAILURE(expect_exact(s, {33, 30, 1}, block_tokens));
    }
  }
}

TEST_P(AttentionTest, AttendsLikeFloat64WithinAWindowOfSeveralParts) {
  for (const int window : {100, 256, 400}) {
    SCOPED_TRACE(window);
    TestSequence s = make(700, {4, 2, 32}, 12);
    s.spec.window = window;
    ASSERT_NO_FATAL_FAILURE(expect_exact(s, {600, 99, 1}, 32));
  }
}

TEST_P(AttentionTest, AttendsLikeFloat64WithCappedScores) {
  TestSequence s = make(300, {4, 2, 32}, 13);
  s.spec.softcap = 2.5F;  // scores deviate by 2
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {290, 1}, 32));
  s.spec.window = 40;
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {290, 1}, 16));
}

TEST_P(AttentionTest, AttendsLikeFloat64WithSinks) {
  TestSequence s = make(700, {4, 2, 32}, 17);
  s.spec.sinks = mx::array({-3.0F, 0.0F, 5.0F, 90.0F}, {4});  // the last takes everything
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {600, 99, 1}, 32));
  s.spec.window = 40;
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {600, 99, 1}, 32));
  const auto whole = attend_in_chunks(*cpu(1), s, {700}, 16);
  for (const int chunk : {1, 33, 257}) EXPECT_EQ(attend_in_chunks(*cpu(4), s, {chunk}, 16), whole) << chunk;
}

TEST_P(AttentionTest, AttendsLikeFloat64OverSeveralParts) {
  const TestSequence s = make(700, {4, 2, 32}, 4);
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {600, 100}, 32));
}

/// Scores spread by 2 here, so that rounding K to halves moves some weights by 1e-3 of themselves, and the largest of V
/// are rounded by as much. Codes are off by up to half a scale: with a range of 6, 0.012 for 8 bits and 0.2 for 4.
TEST_P(AttentionTest, StaysNearUnroundedAttention) {
  const TestSequence s = make(300, {9, 3, 64}, 5);
  const double bound = std::map<Storing, double>{{Storing::kF16, 4e-3},
                                                 {Storing::kF32, sum_bound(storing())},
                                                 {Storing::kQ8, 0.05},
                                                 {Storing::kQ4, 0.8}}[storing()];
  expect_near(floats_from(attend_in_chunks(*cpu(), s, {300}, 32)), exact_attention(s), bound);
}

TEST_P(AttentionTest, SaturatesValuesUnlessTheyAreFloat32) {
  const Heads heads{1, 1, 16};
  TestSequence s = make(3, heads, 6);
  s.v = mx::full({3, 1, 16}, -1e6F);
  const float stored = storing() == Storing::kF32 ? -1e6F : -65504.0F;
  for (const float value : floats_from(attend_in_chunks(*cpu(), s, {3}, 8))) ASSERT_NEAR(value, stored, 0.1F);
}

TEST(ReferenceAttentionTest, AttendsLikeFloat64) {
  const ReferenceKernels reference;
  for (const Heads heads : {Heads{9, 3, 64}, {4, 4, 80}, {8, 1, 128}}) {
    const TestSequence s(70, heads, 3);
    ASSERT_NO_FATAL_FAILURE(expect_attention(reference, s, {33, 36, 1}, 16));
  }
}

TEST(ReferenceAttentionTest, AttendsLikeFloat64WithinAWindowAndWithCappedScores) {
  const ReferenceKernels reference;
  for (const int window : {0, 1, 20, 40, 100}) {
    for (const float softcap : {0.0F, 2.5F}) {
      SCOPED_TRACE("window " + std::to_string(window) + ", softcap " + std::to_string(softcap));
      TestSequence s(70, {6, 3, 40}, 14);
      s.spec.window = window;
      s.spec.softcap = softcap;
      ASSERT_NO_FATAL_FAILURE(expect_attention(reference, s, {33, 30, 1}, 16));
    }
  }
}

TEST(ReferenceAttentionTest, AttendsLikeFloat64WithSinks) {
  const ReferenceKernels reference;
  for (const auto& [window, softcap] : {std::pair(0, 0.0F), {20, 0.0F}, {20, 2.5F}}) {
    TestSequence s(70, {4, 2, 32}, 18);
    s.spec.window = window;
    s.spec.softcap = softcap;
    s.spec.sinks = mx::array({-3.0F, 0.0F, 5.0F, 90.0F}, {4});
    ASSERT_NO_FATAL_FAILURE(expect_attention(reference, s, {33, 36, 1}, 16));
  }
}

/// Blocks that the window has left behind may be another sequence's by now, whatever that wrote, or no block at all in
/// the table, which is the second of two.
RaggedBatch in_second_group(RaggedBatch batch, int num_left_behind) {
  const auto length = batch.block_ids.size();
  std::fill_n(batch.block_ids.begin(), num_left_behind, -1);
  batch.block_ids.insert(batch.block_ids.begin(), length, -1);
  return batch;
}

std::vector<std::uint32_t> attend_with_spoiled_past(const Kernels& kernels, const TestSequence& s, int chunk,
                                                    int block_tokens) {
  const int num_blocks = s.length / block_tokens + 5;
  KvStorage storage = kernels.make_kv_storage({num_blocks, block_tokens, s.heads.kv, s.heads.dim, s.packing});
  storage.group = 1;
  std::vector<std::uint32_t> out;
  for (int done = 0; done < s.length; done += chunk) {
    const int num_left_behind = std::max(0, done + 1 - s.spec.window) / block_tokens;
    if (const int past = num_left_behind * block_tokens; past > 0) {
      const mx::array nothing = mx::full({past, s.heads.kv, s.heads.dim}, NAN);
      kernels.write_kv(storage, nothing, nothing,
                       in_second_group(make_batch({{0, past}}, block_tokens, num_blocks), 0));
    }
    const int count = std::min(chunk, s.length - done);
    const RaggedBatch batch = in_second_group(make_batch({{done, count}}, block_tokens, num_blocks), num_left_behind);
    kernels.write_kv(storage, rows_of(s.k, done, done + count), rows_of(s.v, done, done + count), batch);
    const auto bits = bits_of(kernels.paged_attention(rows_of(s.q, done, done + count), storage, batch, s.spec));
    out.insert(out.end(), bits.begin(), bits.end());
  }
  return out;
}

TEST_P(AttentionTest, GivesTheSameBitsForAWindowHoweverAPromptIsChunkedAndWithoutItsPast) {
  for (const int window : {3, 40, 300}) {
    TestSequence s = make(600, {4, 2, 32}, 15);
    s.spec.window = window;
    const auto whole = attend_in_chunks(*cpu(1), s, {600}, 16);
    for (const int chunk : {1, 7, 64, 257}) {
      ASSERT_EQ(attend_with_spoiled_past(*cpu(2), s, chunk, 16), whole) << "window " << window << ", chunks " << chunk;
    }
  }
}

TEST(ReferenceAttentionTest, NeedsNothingThatTheWindowHasLeftBehind) {
  const ReferenceKernels reference;
  TestSequence s(70, {2, 1, 32}, 16);
  s.spec.window = 20;
  expect_near(floats_from(attend_with_spoiled_past(reference, s, 9, 8)), exact_attention(s), sum_bound(s.storing));
}

TEST_P(AttentionTest, GivesTheSameBitsHoweverAPromptIsChunked) {
  const TestSequence s = make(64, {9, 3, 64}, 9);
  for (const int block_tokens : {16, 32}) {
    const auto whole = attend_in_chunks(*cpu(1), s, {64}, block_tokens);
    for (const int threads : {1, 2, 4}) {
      for (const int chunk : {1, 7, 31, 32, 33, 64}) {
        ASSERT_EQ(attend_in_chunks(*cpu(threads), s, {chunk}, block_tokens), whole)
            << "chunks of " << chunk << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(AttentionTest, GivesTheSameBitsWhetherPartsOfALongContextRunApartOrInTurn) {
  const TestSequence s = make(1100, {4, 2, 32}, 10);
  const auto whole = attend_in_chunks(*cpu(1), s, {1100}, 32);
  EXPECT_EQ(attend_in_chunks(*cpu(4), s, {1, 250, 9, 3, 500, 1}, 32), whole);
  EXPECT_EQ(attend_in_chunks(*cpu(2), s, {777, 2}, 32), whole);
}

/// Rows of different lengths in one batch, as a step of the engine has them.
TEST_P(AttentionTest, GivesARowTheSameBitsAloneAndInABatch) {
  constexpr int kBlockTokens = 16;
  constexpr int kNumBlocks = 64;
  const Heads heads{9, 3, 64};
  const std::vector<RowLengths> lengths{{0, 40}, {47, 1}, {300, 5}, {16, 16}, {15, 1}};
  std::vector<TestSequence> sequences;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back(make(lengths[i].computed + lengths[i].tokens, heads, static_cast<unsigned>(20 + 3 * i)));
  }
  const auto kernels = cpu();
  KvStorage storage = kernels->make_kv_storage({kNumBlocks, kBlockTokens, heads.kv, heads.dim, sequences[0].packing});
  const RaggedBatch batch = make_batch(lengths, kBlockTokens, kNumBlocks);
  std::vector<mx::array> q;
  std::vector<mx::array> k;
  std::vector<mx::array> v;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const TestSequence& s = sequences[i];
    if (const int computed = lengths[i].computed; computed > 0) {
      RaggedBatch earlier = batch;
      earlier.tokens.assign(static_cast<std::size_t>(computed), 0);
      BatchRow row = batch.rows[i];
      row.first_token = row.num_computed = 0;
      row.num_tokens = computed;
      earlier.rows = {row};
      kernels->write_kv(storage, rows_of(s.k, 0, computed), rows_of(s.v, 0, computed), earlier);
    }
    q.push_back(rows_of(s.q, lengths[i].computed, s.length));
    k.push_back(rows_of(s.k, lengths[i].computed, s.length));
    v.push_back(rows_of(s.v, lengths[i].computed, s.length));
  }
  kernels->write_kv(storage, mx::concatenate(k, 0), mx::concatenate(v, 0), batch);
  const mx::array together = kernels->paged_attention(mx::concatenate(q, 0), storage, batch, sequences[0].spec);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    const auto alone = attend_in_chunks(*kernels, sequences[i], {sequences[i].length}, kBlockTokens);
    const auto count = static_cast<std::ptrdiff_t>(row.num_tokens) * heads.query * heads.dim;
    EXPECT_EQ(bits_of(rows_of(together, row.first_token, row.first_token + row.num_tokens)),
              std::vector<std::uint32_t>(alone.end() - count, alone.end()))
        << "row " << i;
  }
}

TEST_P(AttentionTest, IgnoresWhatABlockHoldsBeyondTheTokensOfItsRow) {
  const Heads heads{2, 1, 16};
  const TestSequence s = make(5, heads, 30);
  const auto kernels = cpu();
  const RaggedBatch batch = make_batch({{0, 5}}, 8, 1);
  const auto attend = [&](float left_over) {
    KvStorage storage = kernels->make_kv_storage({1, 8, heads.kv, heads.dim, s.packing});
    const RaggedBatch full = make_batch({{0, 8}}, 8, 1);
    kernels->write_kv(storage, mx::full({8, 1, 16}, left_over), mx::full({8, 1, 16}, left_over), full);
    kernels->write_kv(storage, s.k, s.v, batch);
    return bits_of(kernels->paged_attention(s.q, storage, batch, s.spec));
  };
  EXPECT_EQ(attend(NAN), attend(0.0F));
  EXPECT_EQ(attend(INFINITY), attend(0.0F));
}

TEST_P(AttentionTest, KeepsScoresOfAnySizeFinite) {
  const Heads heads{1, 1, 8};
  TestSequence s = make(40, heads, 31);
  s.q = mx::multiply(s.q, mx::array(1e4F));
  ASSERT_NO_FATAL_FAILURE(expect_exact(s, {40}, 16));
}

TEST_P(AttentionTest, CopiesABlock) {
  const Heads heads{2, 2, 12};
  const TestSequence s = make(8, heads, 33);
  const auto kernels = cpu();
  KvStorage storage = kernels->make_kv_storage({6, 8, heads.kv, heads.dim, s.packing});
  RaggedBatch batch = make_batch({{0, 8}}, 8, 1);
  kernels->write_kv(storage, s.k, s.v, batch);
  const auto expected = bits_of(kernels->paged_attention(s.q, storage, batch, s.spec));
  kernels->copy_block(storage.pools(), 0, 5);
  kernels->write_kv(storage, mx::zeros({8, 2, 12}), mx::zeros({8, 2, 12}), batch);
  batch.block_ids = {5};
  EXPECT_EQ(bits_of(kernels->paged_attention(s.q, storage, batch, s.spec)), expected);
}

TEST(ReferenceAttentionTest, CopiesABlockAndKeepsTheOthers) {
  const ReferenceKernels reference;
  KvStorage storage = reference.make_kv_storage({3, 2, 1, 2});
  const RaggedBatch batch = make_batch({{0, 2}}, 2, 1);
  const mx::array k = random_array({2, 1, 2}, 1);
  reference.write_kv(storage, k, k, batch);
  reference.copy_block(storage.pools(), 0, 2);
  EXPECT_EQ(bits_of(rows_of(storage.keys, 2, 3)), bits_of(k));
  EXPECT_EQ(bits_of(rows_of(storage.values, 0, 1)), bits_of(k));
  EXPECT_EQ(bits_of(rows_of(storage.values, 1, 2)), bits_of(mx::zeros({4})));
}

}  // namespace
}  // namespace redpoll::kernels
