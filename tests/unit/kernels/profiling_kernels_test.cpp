// Profiling: the same bits as without, and every operation counted with the work that it cannot do without.
#include "kernels/profiling_kernels.h"

#include <gmock/gmock.h>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

using testing::UnorderedElementsAre;

class ProfilingKernelsTest : public testing::Test {
 protected:
  [[nodiscard]] OperationTotals totals(const OperationKey& key) const { return profile_->operations().at(key); }
  [[nodiscard]] std::vector<std::string> operations_called_once() const {
    std::vector<std::string> names;
    for (const auto& [key, totals] : profile_->operations()) {
      EXPECT_EQ(totals.calls, 1U) << key.first;
      names.push_back(key.first);
    }
    return names;
  }

  std::shared_ptr<KernelProfile> profile_ = std::make_shared<KernelProfile>();
  cpu::CpuKernels plain_{cpu::Variant::kPortable, 1};
  ProfilingKernels measured_{std::make_unique<cpu::CpuKernels>(cpu::Variant::kPortable, 1), profile_,
                             Activations::kFloat32};
};

TEST_F(ProfilingKernelsTest, AMatrixCountsItsWeightsOnceAndItsRowsEach) {
  const auto matrix = quantized_matrix(96, 64, 4, 32, WeightType::kF16);
  const auto plain = plain_.make_matrix(matrix->view);
  const auto measured = measured_.make_matrix(matrix->view);
  EXPECT_EQ(measured->num_bytes(), plain->num_bytes());
  const mx::array x = random_array({5, 64}, 3);
  EXPECT_EQ(bits_of(measured->multiply(x)), bits_of(plain->multiply(x)));
  (void)measured->multiply(rows_of(x, 0, 2));

  const OperationTotals multiplied = totals({"matmul", "64 -> 96 q4"});
  EXPECT_EQ(multiplied.calls, 2U);
  EXPECT_GT(multiplied.time.count(), 0);
  EXPECT_EQ(multiplied.work.bytes, 2.0 * static_cast<double>(plain->num_bytes()) + 7 * (64 + 96) * 4);
  EXPECT_EQ(multiplied.work.float_ops, 2.0 * 7 * 64 * 96);
  EXPECT_EQ(multiplied.work.int8_ops, 0);

  const mx::array ids({3, 95, 0}, {3}, mx::int32);
  EXPECT_EQ(bits_of(measured->gather_rows(ids)), bits_of(plain->gather_rows(ids)));
  EXPECT_DOUBLE_EQ(totals({"gather rows", "64 -> 96 q4"}).work.bytes,
                   3 * (static_cast<double>(plain->num_bytes()) / 96 + 64 * 4));
}

TEST_F(ProfilingKernelsTest, RoundedActivationsAreIntegerWork) {
  const auto profile = std::make_shared<KernelProfile>();
  const ProfilingKernels rounded(std::make_unique<cpu::CpuKernels>(cpu::Variant::kPortable, 1, Activations::kInt8),
                                 profile, Activations::kInt8);
  const auto quantized = quantized_matrix(32, 64, 8, 32, WeightType::kF32);
  const auto small_groups = quantized_matrix(32, 64, 4, 16, WeightType::kF32);
  const auto dense = dense_matrix(32, 64, WeightType::kBF16);
  const mx::array x = random_array({1, 64}, 3);
  (void)rounded.make_matrix(quantized->view)->multiply(x);
  (void)rounded.make_matrix(small_groups->view)->multiply(x);
  (void)rounded.make_matrix(dense->view)->multiply(x);
  EXPECT_EQ(profile->operations().at({"matmul", "64 -> 32 q8"}).work.int8_ops, 2.0 * 64 * 32);
  EXPECT_EQ(profile->operations().at({"matmul", "64 -> 32 q4"}).work.int8_ops, 0) << "groups of 16 take float32";
  EXPECT_EQ(profile->operations().at({"matmul", "64 -> 32 q4"}).work.float_ops, 2.0 * 64 * 32);
  EXPECT_EQ(profile->operations().at({"matmul", "64 -> 32 bf16"}).work.float_ops, 2.0 * 64 * 32);

  const ProfilingKernels halved(std::make_unique<cpu::CpuKernels>(cpu::Variant::kPortable, 1, Activations::kInt16),
                                profile, Activations::kInt16);
  (void)halved.make_matrix(small_groups->view)->multiply(x);
  EXPECT_EQ(profile->operations().at({"matmul", "64 -> 32 q4"}).work.int16_ops, 2.0 * 64 * 32);
}

TEST_F(ProfilingKernelsTest, MatmulsOfOneInputAreCountedTogether) {
  const auto gate = quantized_matrix(96, 64, 4, 32, WeightType::kF16);
  const auto up = dense_matrix(32, 64, WeightType::kF32);
  const mx::array x = random_array({3, 64}, 3);
  const std::vector measured{measured_.make_matrix(gate->view), measured_.make_matrix(up->view)};
  const std::vector plain{plain_.make_matrix(gate->view), plain_.make_matrix(up->view)};
  const std::vector<mx::array> got =
      measured_.multiply_all(x, std::vector<const Matrix*>{measured[0].get(), measured[1].get()});
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(bits_of(got[0]), bits_of(plain[0]->multiply(x)));
  EXPECT_EQ(bits_of(got[1]), bits_of(plain[1]->multiply(x)));
  const OperationTotals& both = totals({"matmuls", "64 -> 96 q4, 64 -> 32 f32"});
  EXPECT_EQ(both.calls, 1U);
  EXPECT_EQ(both.work.float_ops, 2.0 * 3 * 64 * (96 + 32));
}

TEST_F(ProfilingKernelsTest, EveryOperationGivesTheSameBitsAndIsCounted) {
  const mx::array x = random_array({3, 32}, 1);
  const mx::array y = random_array({3, 32}, 2);
  const mx::array weight = random_array({32}, 3);
  EXPECT_EQ(bits_of(measured_.rms_norm(x, weight, 1e-5F)), bits_of(plain_.rms_norm(x, weight, 1e-5F)));
  const ResidualNorm got = measured_.add_rms_norm(x, y, weight, 1e-5F);
  const ResidualNorm want = plain_.add_rms_norm(x, y, weight, 1e-5F);
  EXPECT_EQ(bits_of(got.sum), bits_of(want.sum));
  EXPECT_EQ(bits_of(got.normalized), bits_of(want.normalized));
  EXPECT_EQ(bits_of(measured_.add(x, y)), bits_of(plain_.add(x, y)));
  EXPECT_EQ(bits_of(measured_.add_bias(x, weight)), bits_of(plain_.add_bias(x, weight)));
  EXPECT_EQ(bits_of(measured_.gate_multiply(x, y, GateActivation::kSilu)),
            bits_of(plain_.gate_multiply(x, y, GateActivation::kSilu)));
  EXPECT_EQ(bits_of(measured_.gate_multiply(x, y, GateActivation::kGeluTanh)),
            bits_of(plain_.gate_multiply(x, y, GateActivation::kGeluTanh)));
  EXPECT_EQ(bits_of(measured_.scale(x, 2)), bits_of(plain_.scale(x, 2)));
  EXPECT_EQ(bits_of(measured_.softcap(x, 2)), bits_of(plain_.softcap(x, 2)));
  EXPECT_EQ(bits_of(measured_.take_rows(x, {0, 2})), bits_of(plain_.take_rows(x, {0, 2})));
  EXPECT_EQ(bits_of(measured_.gelu_tanh(x)), bits_of(plain_.gelu_tanh(x)));
  EXPECT_EQ(bits_of(measured_.layer_norm(x, weight, weight, 1e-5F)),
            bits_of(plain_.layer_norm(x, weight, weight, 1e-5F)));
  EXPECT_EQ(bits_of(measured_.take_columns(x, 3, 9)), bits_of(plain_.take_columns(x, 3, 9)));

  const RaggedBatch batch = make_batch({{0, 3}}, 4, 2);
  const RopeSpec spec{
      .head_dim = 16, .dims = 16, .interleaved = false, .inverse_frequencies = std::vector<float>(8, 0.5F)};
  const mx::array heads = random_array({3, 2, 16}, 4);
  EXPECT_EQ(bits_of(measured_.rope(heads, batch, spec)), bits_of(plain_.rope(heads, batch, spec)));
  const KvShape shape{.num_blocks = 2, .block_tokens = 4, .num_kv_heads = 2, .head_dim = 16};
  KvStorage measured_kv = measured_.make_kv_storage(shape);
  KvStorage plain_kv = plain_.make_kv_storage(shape);
  measured_.write_kv(measured_kv, heads, heads, batch);
  plain_.write_kv(plain_kv, heads, heads, batch);
  EXPECT_EQ(bits_of(measured_.paged_attention(heads, measured_kv, batch, AttentionSpec{.scale = 0.25F})),
            bits_of(plain_.paged_attention(heads, plain_kv, batch, AttentionSpec{.scale = 0.25F})));
  measured_.copy_block(measured_kv.pools(), 0, 1);
  plain_.copy_block(plain_kv.pools(), 0, 1);
  EXPECT_EQ(bits_of(measured_kv.keys), bits_of(plain_kv.keys));

  EXPECT_THAT(operations_called_once(),
              UnorderedElementsAre("norm", "add and norm", "add", "add bias", "silu and multiply", "gelu and multiply",
                                   "scale", "softcap", "take rows", "take columns", "gelu", "layer norm", "rope",
                                   "write K and V", "attention", "copy block"));
}

TEST_F(ProfilingKernelsTest, ExpertsGiveTheSameBitsAndAreCounted) {
  const auto one = dense_matrix(8, 8, WeightType::kF32);
  const Routing routing = measured_.route(random_array({3, 2}, 5), {.top_k = 1});
  const auto run = [&](const Kernels& kernels) {
    const auto experts = kernels.make_experts({one->view, one->view});
    return bits_of(
        kernels.run_experts(random_array({3, 8}, 6), routing, {.gate = experts, .up = experts, .down = experts}));
  };
  EXPECT_EQ(run(measured_), run(plain_));
  EXPECT_THAT(operations_called_once(), UnorderedElementsAre("route", "experts"));
}

TEST_F(ProfilingKernelsTest, RecurrentLayersGiveTheSameBitsAndAreCounted) {
  RaggedBatch batch = make_batch({{0, 3}}, 4, 2);
  batch.rows[0].state = 0;
  const auto recur = [&](const Kernels& kernels) {
    StateStorage states = kernels.make_state_storage(
        {.num_states = 2, .conv_tokens = 1, .conv_channels = 8, .num_heads = 1, .key_dim = 2, .value_dim = 4});
    const mx::array qkv = kernels.short_convolution(random_array({3, 8}, 7),
                                                    {.weight = random_array({2, 8}, 8), .bias = {}}, states, batch);
    const mx::array gates = random_array({3, 1}, 9);
    const DeltaSpec delta{.num_key_heads = 1,
                          .num_value_heads = 1,
                          .key_dim = 2,
                          .value_dim = 4,
                          .a_log = mx::ones({1}),
                          .dt_bias = mx::ones({1})};
    const mx::array y = kernels.gated_delta({.qkv = qkv, .a = gates, .b = gates}, delta, states, batch);
    kernels.copy_block(states.pools(), 0, 1);
    return std::pair(bits_of(kernels.gate_rows(y, gates)), bits_of(states.memory));
  };
  EXPECT_EQ(recur(measured_), recur(plain_));
  EXPECT_THAT(operations_called_once(), UnorderedElementsAre("convolution", "gated delta", "gate rows", "copy block"));
}

TEST_F(ProfilingKernelsTest, AttentionIsNamedByItsHeadsHoweverQueriesLie) {
  const RaggedBatch batch = make_batch({{0, 3}}, 4, 2);
  const KvStorage kv =
      measured_.make_kv_storage({.num_blocks = 2, .block_tokens = 4, .num_kv_heads = 2, .head_dim = 16});
  (void)measured_.paged_attention(random_array({3, 6 * 16}, 4), kv, batch, AttentionSpec{.scale = 0.25F});
  (void)measured_.paged_attention(random_array({3, 6, 16}, 4), kv, batch, AttentionSpec{.scale = 0.25F});
  EXPECT_EQ(totals({"attention", "6 x 16"}).calls, 2U);
}

TEST_F(ProfilingKernelsTest, AttentionReadsEachContextOnceAndComputesWhatEachTokenSees) {
  // One row decodes at position 9, one computes tokens 2 to 4 of its prompt.
  const RaggedBatch batch = make_batch({{9, 1}, {2, 3}}, 4, 8);
  const KvStorage kv = plain_.make_kv_storage({.num_blocks = 8, .block_tokens = 4, .num_kv_heads = 2, .head_dim = 16});
  const double kv_bytes_per_token = static_cast<double>(kv.keys.nbytes() + kv.values.nbytes()) / 8 / 4;
  const Work work = attention_work({4, 6, 16}, kv, batch);
  EXPECT_EQ(work.bytes, (10 + 5) * kv_bytes_per_token + 2.0 * 4 * 6 * 16 * 4);
  EXPECT_EQ(work.float_ops, (10 + 3 + 4 + 5) * 4.0 * 6 * 16);
  // Of the last three tokens each, or four, of which the second row's first has but three.
  const Work windowed = attention_work({4, 6, 16}, kv, batch, 3);
  EXPECT_EQ(windowed.bytes, (3 + 5) * kv_bytes_per_token + 2.0 * 4 * 6 * 16 * 4);
  EXPECT_EQ(windowed.float_ops, (3 + 3 + 3 + 3) * 4.0 * 6 * 16);
  EXPECT_EQ(attention_work({4, 6, 16}, kv, batch, 4).float_ops, (4 + 3 + 4 + 4) * 4.0 * 6 * 16);
  const Work flat = attention_work({4, 6 * 16}, kv, batch);
  EXPECT_EQ(flat.bytes, work.bytes);
  EXPECT_EQ(flat.float_ops, work.float_ops);
}

TEST(KernelProfileTest, ClearsTotalsAndMergesTables) {
  KernelProfile profile;
  profile.add({"a", "1"}, {.bytes = 10, .float_ops = 20, .int16_ops = 25, .int8_ops = 30}, std::chrono::nanoseconds(5));
  OperationTable table = profile.operations();
  profile.clear();
  EXPECT_EQ(profile.operations().at({"a", "1"}).calls, 0U);
  profile.add({"a", "1"}, {.bytes = 1, .float_ops = 2, .int16_ops = 4, .int8_ops = 3}, std::chrono::nanoseconds(7));
  profile.add({"b", ""}, {}, std::chrono::nanoseconds(1));
  merge_operations(table, profile.operations());
  const OperationTotals& a = table.at({"a", "1"});
  EXPECT_EQ(a.calls, 2U);
  EXPECT_EQ(a.time.count(), 12);
  EXPECT_EQ(a.work.bytes, 11);
  EXPECT_EQ(a.work.float_ops, 22);
  EXPECT_EQ(a.work.int16_ops, 29);
  EXPECT_EQ(a.work.int8_ops, 33);
  EXPECT_EQ(table.at({"b", ""}).calls, 1U);
}

TEST(MakeKernelsTest, MeasuresWhenThereIsAProfile) {
  const auto profile = std::make_shared<KernelProfile>();
  const auto kernels = make_kernels({.num_threads = 1, .profile = profile});
  (void)kernels->gate_multiply(random_array({2, 4}, 1), random_array({2, 4}, 2), GateActivation::kSilu);
  EXPECT_EQ(profile->operations().size(), 1U);
}

}  // namespace
}  // namespace redpoll::kernels
