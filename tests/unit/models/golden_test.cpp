// Every tiny checkpoint of tests/golden/models against the logits that mlx-lm computed from it in float32, for each
// kernel set; and on the CPU set the same bits alone, in a batch and for any way to cut the prompt.
#include <gmock/gmock.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "models/registry.h"
#include "unit/models/batches.h"

namespace redpoll {
namespace {

namespace fs = std::filesystem;
namespace mx = mlx::core;
using test::FedSequence;
using test::feed;
using test::make_blocks;

const fs::path kGoldens = fs::path(REDPOLL_TEST_DATA) / "golden" / "models";

struct Golden {
  checkpoint::Checkpoint checkpoint;
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // (tokens, vocab)
};

template <typename T>
std::vector<T> values_of(const checkpoint::Tensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

Golden load_golden(const std::string& name) {
  auto opened = checkpoint::open_checkpoint(kGoldens / name);
  EXPECT_TRUE(opened) << opened.error().message;
  const auto file = MappedFile::open(kGoldens / name / "expected.safetensors");
  EXPECT_TRUE(file) << file.error().message;
  checkpoint::ParameterMap expected;
  const Status read = checkpoint::read_safetensors((*file)->bytes(), *file, name, expected);
  EXPECT_TRUE(read) << read.error().message;
  return {std::move(*opened), values_of<TokenId>(*expected.read("tokens")), values_of<float>(*expected.read("logits"))};
}

/// A model with a cache of its own; `run` gives the logits of every token of the batch.
class Runner {
 public:
  Runner(const checkpoint::Checkpoint& checkpoint, const kernels::KernelOptions& options)
      : kernels_(kernels::make_kernels(options)) {
    auto made = models::make_model(checkpoint, *kernels_);
    EXPECT_TRUE(made) << made.error().message;
    model_ = std::move(*made);
    cache_.emplace(test::make_cache(*kernels_, model_->info().layers, 64));
  }

  std::vector<float> run(const kernels::RaggedBatch& batch) {
    nn::ForwardContext context{*kernels_, batch, cache_->layers(), cache_->states()};
    mx::array logits = mx::contiguous(model_->forward(context));
    mx::eval(logits);
    return {logits.data<float>(), logits.data<float>() + logits.size()};
  }

 private:
  std::unique_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<models::Model> model_;
  std::optional<cache::KvCache> cache_;
};

std::vector<float> run_in_chunks(Runner& runner, FedSequence sequence, int chunk) {
  std::vector<float> logits;
  while (sequence.num_computed < static_cast<int>(sequence.tokens.size())) {
    kernels::RaggedBatch batch;
    const int left = static_cast<int>(sequence.tokens.size()) - sequence.num_computed;
    feed(batch, sequence, std::min(chunk, left));
    const auto part = runner.run(batch);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    if (entry.is_directory() && fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

// Logits have a standard deviation of about 1.5. On a CPU float32 sums in another order differ by some 1e-5: changing
// the sums of the norms by one rounding moves the worst of mistral_f32 between 1.2e-5 and 2.7e-5. A GPU computes in the
// checkpoint's own type (bfloat16: up to 0.10 off, measured on an H200) and float32 products in TF32.
float bound_of_float32() { return mx::default_device() == mx::Device::cpu ? 4e-5F : 0.15F; }

void expect_logits(const Golden& golden, const kernels::KernelOptions& options, int chunk, float bound) {
  Runner runner(golden.checkpoint, options);
  const auto got = run_in_chunks(runner, {golden.tokens, 0, make_blocks(golden.tokens.size(), 3, 2)}, chunk);
  ASSERT_EQ(got.size(), golden.logits.size());
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - golden.logits[i]));
  EXPECT_LT(worst, bound);
}

TEST_P(GoldenTest, ReferenceKernelsMatchMlxLm) {
  expect_logits(load_golden(GetParam()), {.num_threads = 1, .reference = true}, 33, bound_of_float32());
}

TEST_P(GoldenTest, FastKernelsMatchMlxLm) {
  expect_logits(load_golden(GetParam()),
                {.num_threads = 2, .activations = kernels::Activations::kFloat32, .kv_type = kernels::KvType::kF32},
                1000, bound_of_float32());
}

// Activations of 4-bit weights rounded to int16: the worst logit is 0.0027 off.
TEST_P(GoldenTest, FastKernelsStayNearMlxLmWithRoundedActivations) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "a GPU rounds none";
  expect_logits(load_golden(GetParam()),
                {.num_threads = 2, .activations = kernels::Activations::kInt16, .kv_type = kernels::KvType::kF32}, 1000,
                5e-3F);
}

// Keys and values rounded to 11 bits: the worst logit is 0.017 off, of mistral_f32; random weights make sharper
// attention than trained ones.
TEST_P(GoldenTest, FastKernelsStayNearMlxLmWithKeysAndValuesInHalfPrecision) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "a GPU stores them as it computes them";
  expect_logits(load_golden(GetParam()), {.num_threads = 2, .kv_type = kernels::KvType::kF16}, 1000, 0.03F);
}

TEST_P(GoldenTest, FastKernelsGiveTheSameBitsForEveryChunking) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "equal bits are promised on CPUs only";
  const Golden golden = load_golden(GetParam());
  Runner runner(golden.checkpoint, {.num_threads = 2});
  const FedSequence sequence{golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)};
  const auto whole = run_in_chunks(runner, sequence, 1000);
  for (const int chunk : {1, 7, 8, 9, 32}) EXPECT_EQ(run_in_chunks(runner, sequence, chunk), whole) << chunk;
}

TEST_P(GoldenTest, FastKernelsGiveTheSameBitsInABatch) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "equal bits are promised on CPUs only";
  const Golden golden = load_golden(GetParam());
  Runner runner(golden.checkpoint, {.num_threads = 2});
  const auto alone = run_in_chunks(runner, {golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)}, 1000);

  std::vector<TokenId> reversed(golden.tokens.rbegin(), golden.tokens.rend());
  FedSequence other{reversed, 0, make_blocks(reversed.size(), 1, 2)};
  FedSequence same{golden.tokens, 0, make_blocks(golden.tokens.size(), 2, 2), 1};
  kernels::RaggedBatch batch;
  feed(batch, other, 5);
  feed(batch, same, static_cast<int>(same.tokens.size()));
  const auto both = runner.run(batch);
  const std::size_t vocab = golden.logits.size() / golden.tokens.size();
  EXPECT_EQ(std::vector<float>(both.begin() + static_cast<std::ptrdiff_t>(5 * vocab), both.end()), alone);
}

/// The text model as a part of one of text and more: its tensors under `prefix`, beside others.
checkpoint::Checkpoint wrapped(const Golden& golden, const std::string& prefix) {
  checkpoint::Checkpoint whole;
  whole.path = golden.checkpoint.path;
  whole.quantization = golden.checkpoint.quantization;
  for (const std::string& name : golden.checkpoint.parameters.names()) {
    const bool in_model = prefix.starts_with("model.") && name.starts_with("model.");
    const std::string stored = prefix + (in_model ? name.substr(6) : name);
    EXPECT_TRUE(whole.parameters.insert(stored, *golden.checkpoint.parameters.read(name)));
  }
  const std::string any = golden.checkpoint.parameters.names().front();
  for (const char* other : {"vision_tower.patches.weight", "multi_modal_projector.weight", "model.visual.weight"}) {
    EXPECT_TRUE(whole.parameters.insert(other, *golden.checkpoint.parameters.read(any)));
  }
  json::object config{
      {"model_type", "gemma3"}, {"text_config", golden.checkpoint.config.raw}, {"vision_config", json::object()}};
  whole.config = *checkpoint::config_from_json(std::move(config));
  return whole;
}

TEST(WrappedModelTest, TheTextPartOfAModelOfTextAndMoreIsTheSame) {
  const Golden golden = load_golden("gemma3_text_windows_4bit");
  const FedSequence sequence{golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)};
  const kernels::KernelOptions options{.num_threads = 1};
  Runner alone(golden.checkpoint, options);
  const auto expected = run_in_chunks(alone, sequence, 1000);
  for (const char* prefix : {"language_model.", "model.language_model."}) {
    const checkpoint::Checkpoint whole = wrapped(golden, prefix);
    EXPECT_EQ(whole.config.model_type, "gemma3");
    Runner part(whole, options);
    EXPECT_EQ(run_in_chunks(part, sequence, 1000), expected) << prefix;
  }
}

/// `values` as a tensor of float32.
checkpoint::Tensor tensor_of(std::vector<float> values, std::vector<std::int64_t> shape) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return checkpoint::make_tensor(checkpoint::DType::kF32, std::move(shape), std::as_bytes(std::span(*kept)), kept);
}

std::vector<float> floats_of(const checkpoint::Tensor& tensor) {
  std::vector<float> values;
  for (const std::uint16_t half : values_of<std::uint16_t>(tensor)) {  // bfloat16
    values.push_back(std::bit_cast<float>(std::uint32_t{half} << 16U));
  }
  return values;
}

/// As its authors publish Qwen3.5: other names, norms whose weights lack one, convolutions (channels, 1, size).
checkpoint::Checkpoint as_published(const checkpoint::Checkpoint& mlx) {
  checkpoint::Checkpoint whole;
  whole.path = mlx.path;
  whole.config = mlx.config;
  for (const std::string& name : mlx.parameters.names()) {
    constexpr std::string_view kMlxPrefix = "language_model.model.";
    const bool in_model = name.starts_with(kMlxPrefix);
    const std::string stored = in_model ? "model.language_model." + name.substr(kMlxPrefix.size())
                                        : name.substr(std::strlen("language_model."));
    checkpoint::Tensor tensor = *mlx.parameters.read(name);
    if (name.ends_with("conv1d.weight")) {
      tensor.shape = {tensor.shape[0], 1, tensor.shape[1]};
    } else if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) {
      std::vector<float> values = floats_of(tensor);
      for (float& value : values) value -= 1;
      tensor = tensor_of(values, tensor.shape);
    }
    EXPECT_TRUE(whole.parameters.insert(stored, std::move(tensor)));
  }
  EXPECT_TRUE(whole.parameters.insert("mtp.norm.weight", tensor_of({1, 2}, {2})));
  return whole;
}

TEST(PublishedLayoutTest, Qwen35OfItsAuthorsIsTheSame) {
  const Golden golden = load_golden("qwen3_5_moe_bf16");
  const checkpoint::Checkpoint published = as_published(golden.checkpoint);
  const kernels::KernelOptions options{.num_threads = 1, .kv_type = kernels::KvType::kF32};
  Runner runner(published, options);
  const auto got = run_in_chunks(runner, {golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)}, 1000);
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - golden.logits[i]));
  EXPECT_LT(worst, bound_of_float32());
}

TEST(FamiliesTest, EachHasAGoldenOrIsAnotherName) {
  std::set<std::string> golden_types;
  for (const std::string& name : golden_names()) golden_types.insert(load_golden(name).checkpoint.config.model_type);
  for (const models::Family& family : models::families()) {
    const std::string oracle(family.oracle);
    if (oracle.starts_with("as ")) {
      EXPECT_TRUE(golden_types.contains(oracle.substr(3))) << family.model_type;
    } else {
      EXPECT_TRUE(golden_types.contains(std::string(family.model_type))) << family.model_type;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace redpoll
