// What a model loader reports about a checkpoint that does not fit: everything at once, by name.
#include "nn/parameters.h"

#include <gmock/gmock.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <chrono>

#include "nn/linear.h"

namespace redpoll::nn {
namespace {

using checkpoint::DType;
using testing::HasSubstr;

class ParametersTest : public testing::Test {
 protected:
  ParametersTest() {
    checkpoint_.path = "some-model";
    checkpoint_.config.model_type = "llama";
  }

  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    const auto size = checkpoint::array_bytes(dtype, shape);
    ASSERT_TRUE(size);
    const auto memory = checkpoint::allocate_bytes(*size);
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
    ASSERT_TRUE(
        checkpoint_.parameters.insert(name, checkpoint::Tensor{dtype, std::move(shape), memory.bytes, memory.storage}));
  }
  void quantize(std::string_view table) {
    auto parsed = parse_json(table);
    ASSERT_TRUE(parsed);
    auto made = checkpoint::QuantizationTable::parse(parsed->as_object());
    ASSERT_TRUE(made) << made.error().message;
    checkpoint_.quantization = *made;
  }
  /// The message of loading one (64, 32) Linear at "proj", or "" if it loads.
  std::string load_linear(Bias bias = Bias::kNone) {
    Parameters parameters(checkpoint_, *kernels_);
    const Linear linear(parameters.root()["proj"], 32, 64, bias);
    const Status status = parameters.finish();
    return status ? "" : status.error().message;
  }

  checkpoint::Checkpoint checkpoint_;
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_kernels({.num_threads = 1});
};

TEST_F(ParametersTest, LoadsWhatIsThere) {
  add("proj.weight", DType::kF16, {64, 32});
  add("proj.bias", DType::kF32, {64});
  EXPECT_EQ(load_linear(Bias::kRequired), "");
}

TEST_F(ParametersTest, LoadsExpertsThatAreStackedOrApart) {
  add("stacked.up_proj.weight", DType::kF16, {3, 64, 32});
  for (const char* expert : {"0", "1", "2"}) {
    add(std::string("experts.") + expert + ".up_proj.weight", DType::kF16, {64, 32});
  }
  Parameters parameters(checkpoint_, *kernels_);
  const auto stacked = parameters.root()["stacked"]["up_proj"].stacked_experts(3, 64, 32);
  const auto apart = parameters.root()["experts"].experts("up_proj", 3, 64, 32);
  ASSERT_TRUE(parameters.finish()) << parameters.finish().error().message;
  EXPECT_EQ(stacked->num_experts(), 3);
  EXPECT_EQ(apart->num_bytes(), stacked->num_bytes());
  EXPECT_EQ(parameters.loaded_bytes(), 2 * stacked->num_bytes());
}

TEST_F(ParametersTest, SaysWhatIsWrongWithExperts) {
  add("stacked.up_proj.weight", DType::kF16, {2, 64, 32});
  add("experts.0.up_proj.weight", DType::kF16, {64, 32});
  add("experts.1.up_proj.weight", DType::kF32, {64, 32});
  add("experts.0.down_proj.weight", DType::kF32, {64, 32});
  Parameters parameters(checkpoint_, *kernels_);
  EXPECT_EQ(parameters.root()["stacked"]["up_proj"].stacked_experts(3, 64, 32), nullptr);
  EXPECT_EQ(parameters.root()["experts"].experts("up_proj", 2, 64, 32), nullptr);
  EXPECT_EQ(parameters.root()["experts"].experts("down_proj", 2, 64, 32), nullptr);
  EXPECT_EQ(parameters.finish().error().message,
            "some-model does not hold the tensors that model_type 'llama' needs: stacked.up_proj.weight has shape (2, "
            "64, 32), "
            "expected (3, 64, 32); experts.1.up_proj.weight is stored unlike those of the other experts; "
            "experts.1.down_proj.weight is missing");
}

TEST_F(ParametersTest, AMatrixWithoutRowsIsAnError) {
  add("proj.weight", DType::kF16, {0, 32});
  Parameters parameters(checkpoint_, *kernels_);
  EXPECT_EQ(parameters.root()["proj"].matrix(0, 32), nullptr);
  EXPECT_EQ(parameters.root()["many"].stacked_experts(1 << 14, 1 << 24, 32), nullptr);
  EXPECT_THAT(parameters.finish().error().message,
              HasSubstr("proj.weight should have shape (0, 32) by the config, which is none; many.weight should have "
                        "shape (16384, 16777216, 32) by the config, which is none"));
}

TEST_F(ParametersTest, ListsEveryProblemAtOnce) {
  add("proj.weight", DType::kF16, {32, 64});
  EXPECT_EQ(load_linear(Bias::kRequired),
            "some-model does not hold the tensors that model_type 'llama' needs: proj.weight has shape (32, 64), "
            "expected (64, 32); "
            "proj.bias is missing");
}

TEST_F(ParametersTest, NamesTensorsThatNoLayerRead) {
  add("proj.weight", DType::kF16, {64, 32});
  add("proj.bias", DType::kF16, {64});
  add("extra.weight", DType::kF16, {1});
  EXPECT_EQ(load_linear(), "some-model holds tensors that model_type 'llama' does not have: extra.weight, proj.bias");
}

TEST_F(ParametersTest, ShortensALongList) {
  add("proj.weight", DType::kF16, {64, 32});
  for (int i = 0; i < 20; ++i) add("other." + std::to_string(i), DType::kF16, {1});
  EXPECT_THAT(load_linear(), HasSubstr("and 12 more"));
}

TEST_F(ParametersTest, IgnoredTensorsAreNotUnread) {
  add("proj.weight", DType::kF16, {64, 32});
  add("rotary.inv_freq", DType::kF32, {8});
  Parameters parameters(checkpoint_, *kernels_);
  const Linear linear(parameters.root()["proj"], 32, 64);
  parameters.root()["rotary"].ignore();
  EXPECT_TRUE(parameters.finish());
}

// Each layer ignores something: a hostile file may claim 16,384 layers and hold a million tensors.
TEST_F(ParametersTest, IgnoringLooksAtNothingElse) {
  for (int i = 0; i < 50'000; ++i) add("other." + std::to_string(i), DType::kU8, {1});
  Parameters parameters(checkpoint_, *kernels_);
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 16'384; ++i) parameters.root()["layers"][i]["rotary"].ignore();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(3));
}

TEST_F(ParametersTest, RefusesAnIntegerWeight) {
  add("proj.weight", DType::kI32, {64, 32});
  EXPECT_THAT(load_linear(), HasSubstr("proj.weight has type I32, expected F32, F16 or BF16"));
}

TEST_F(ParametersTest, LoadsAQuantizedWeight) {
  quantize(R"({"quantization": {"group_size": 32, "bits": 4}})");
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kF16, {64, 1});
  add("proj.biases", DType::kF16, {64, 1});
  EXPECT_EQ(load_linear(), "");
}

TEST_F(ParametersTest, TakesRowsOfAFusedWeight) {
  quantize(R"({"quantization": {"group_size": 32, "bits": 4}})");
  constexpr std::size_t kRows = 96;
  const auto words = checkpoint::allocate_bytes(kRows * 16);
  const auto scales = checkpoint::allocate_bytes(kRows * 4);
  const auto biases = checkpoint::allocate_bytes(kRows * 4);
  std::fill(words.bytes.begin(), words.bytes.end(), std::byte{0x11});
  for (std::size_t row = 0; row < kRows; ++row) {
    reinterpret_cast<float*>(scales.bytes.data())[row] = 1.0F;
    reinterpret_cast<float*>(biases.bytes.data())[row] = static_cast<float>(row);
  }
  const auto insert = [&](const char* name, DType dtype, std::int64_t columns, const checkpoint::OwnedBytes& memory) {
    ASSERT_TRUE(
        checkpoint_.parameters.insert(name, checkpoint::Tensor{dtype, {kRows, columns}, memory.bytes, memory.storage}));
  };
  insert("fused.weight", DType::kU32, 4, words);
  insert("fused.scales", DType::kF32, 1, scales);
  insert("fused.biases", DType::kF32, 1, biases);
  Parameters parameters(checkpoint_, *kernels_);
  const auto last = parameters.root()["fused"].matrix(32, 32, {.first = 64, .of = kRows});
  EXPECT_EQ(parameters.root()["fused"].matrix(32, 32, {.first = 0, .of = 64}), nullptr);
  EXPECT_THAT(parameters.finish().error().message, HasSubstr("fused.scales has shape (96, 1), expected (64, 1)"));
  ASSERT_NE(last, nullptr);
  mx::array row = mx::contiguous(last->gather_rows(mx::array({3}, mx::int32)));
  mx::eval(row);
  EXPECT_EQ(row.data<float>()[0], 1.0F + 67.0F);  // row 64 + 3 of the file
}

TEST_F(ParametersTest, RefusesScalesThatTheConfigDoesNotExplain) {
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kF16, {64, 1});
  add("proj.biases", DType::kF16, {64, 1});
  EXPECT_THAT(load_linear(), HasSubstr("proj has scales, but the config does not say how it is quantized"));
}

TEST_F(ParametersTest, RefusesGroupsThatDoNotDivideTheInputs) {
  quantize(R"({"quantization": {"group_size": 64, "bits": 4}})");
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kF16, {64, 1});
  add("proj.biases", DType::kF16, {64, 1});
  EXPECT_THAT(load_linear(), HasSubstr("proj has 32 inputs, which groups of 64 do not divide"));
}

TEST_F(ParametersTest, RefusesAWeightPackedForOtherBits) {
  quantize(R"({"quantization": {"group_size": 32, "bits": 8}})");
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kF16, {64, 1});
  add("proj.biases", DType::kF16, {64, 1});
  EXPECT_THAT(load_linear(), HasSubstr("proj.weight has shape (64, 4), expected (64, 8)"));
}

TEST_F(ParametersTest, SmallFloatsHaveScalesOfABlockAndNoBiases) {
  quantize(R"({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}})");
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kU8, {64, 1});
  EXPECT_EQ(load_linear(), "");
}

TEST_F(ParametersTest, RefusesScalesOfSmallFloatsThatAreNoBytes) {
  quantize(R"({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}})");
  add("proj.weight", DType::kU32, {64, 4});
  add("proj.scales", DType::kF16, {64, 1});
  EXPECT_THAT(load_linear(), HasSubstr("proj.scales is of 'mxfp4' and must be U8"));
}

TEST_F(ParametersTest, FindsTheTextModelUnderLanguageModel) {
  add("language_model.model.embed_tokens.weight", DType::kF16, {2, 2});
  add("language_model.proj.weight", DType::kF16, {64, 32});
  Parameters parameters(checkpoint_, *kernels_);
  EXPECT_TRUE(parameters.root()["proj"].has("weight"));
}

}  // namespace
}  // namespace redpoll::nn
