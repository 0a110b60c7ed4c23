// Every tiny checkpoint of tests/golden/models against the logits that mlx-lm computed from it in float32, for each
// kernel set, and to the bit in its own type, for the exact tier; and on the CPU set the same bits alone, in a batch
// and for any way to cut the prompt.
#include <gmock/gmock.h>
#include <mlx/device.h>
#include <mlx/ops.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <set>

#include "unit/models/golden.h"
#include "unit/models/golden_names.h"

namespace redpoll {
namespace {

namespace fs = std::filesystem;
namespace mx = mlx::core;
using test::FedSequence;
using test::feed;
using test::Golden;
using test::golden_names;
using test::has_narrow_experts;
using test::kGoldens;
using test::load_golden;
using test::make_blocks;
using test::read_tensors;
using test::run_in_chunks;
using test::Runner;
using test::values_of;
using test::widened;  // of tensors

class GoldenTest : public testing::TestWithParam<std::string> {};

// Logits have a standard deviation of about 1.5. On a CPU float32 sums in another order differ by some 1e-5: changing
// the sums of the norms by one rounding moves the worst of mistral_f32 between 1.2e-5 and 2.7e-5.
constexpr float kFloat32Bound = 4e-5F;
// A GPU computes in the checkpoint's own type and float32 products in TF32. A token whose experts change by that is far
// off, in mlx-lm too (up to 2.3), so it is the median token that counts.
constexpr float kGpuBound = 0.25F;

/// How far the worst logit of each token is off, ascending.
std::vector<float> errors_by_token(const std::vector<float>& got, const Golden& golden) {
  const std::size_t vocab = golden.logits.size() / golden.tokens.size();
  std::vector<float> errors(golden.tokens.size());
  for (std::size_t i = 0; i < golden.logits.size(); ++i) {
    errors[i / vocab] = std::max(errors[i / vocab], std::abs(got[i] - golden.logits[i]));
  }
  std::ranges::sort(errors);
  return errors;
}

void expect_logits(const Golden& golden, const kernels::KernelOptions& options, int chunk, float bound) {
  Runner runner(golden.checkpoint, options);
  const auto got = run_in_chunks(runner, {golden.tokens, 0, make_blocks(golden.tokens.size(), 3, 2)}, chunk);
  ASSERT_EQ(got.size(), golden.logits.size());
  const std::vector<float> errors = errors_by_token(got, golden);
  testing::Test::RecordProperty("worst", std::to_string(errors.back() * 1e6F));  // millionths, for docs/models.md
  if (mx::default_device() == mx::Device::cpu) {
    EXPECT_LT(errors.back(), bound);
  } else {
    EXPECT_LT(errors[errors.size() / 2], kGpuBound);
  }
}

TEST_P(GoldenTest, ReferenceKernelsMatchMlxLm) {
  expect_logits(load_golden(GetParam()), {.num_threads = 1, .reference = true}, 33, kFloat32Bound);
}

/// Where mlx-lm's own bits are: in the repository those of a CPU; REDPOLL_TEST_EXACT names a folder of another
/// device's, which make_goldens.py --exact --out has filled there.
std::optional<fs::path> exact_goldens() {
  if (const char* folder = std::getenv("REDPOLL_TEST_EXACT")) return folder;
  if (mx::default_device() == mx::Device::cpu) return kGoldens;
  return std::nullopt;
}

/// All tensors in float32; there must be no others.
checkpoint::Checkpoint widened(const checkpoint::Checkpoint& narrow) {
  checkpoint::Checkpoint wide;
  wide.path = narrow.path;
  wide.config = narrow.config;
  for (const std::string& name : narrow.parameters.names()) {
    const mx::array values = mx::astype(test::array_of(*narrow.parameters.read(name)), mx::float32);
    EXPECT_TRUE(wide.parameters.insert(name, test::tensor_of(values)));
  }
  return wide;
}

void expect_bits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  float worst = 0;
  std::size_t num_different = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i])) ++num_different;
    worst = std::max(worst, std::abs(got[i] - want[i]));
  }
  EXPECT_EQ(num_different, 0U) << "of " << got.size() << ", the worst by " << worst;
}

/// Logits of the prompt's last token and of each of the answer's but the last, as mlx-lm generates: the prompt in
/// chunks, its last token on its own, then each that was chosen.
std::vector<float> generate_exactly(Runner& runner, const std::vector<TokenId>& prompt,
                                    const std::vector<TokenId>& answer, int chunk) {
  const int num_prompt_tokens = static_cast<int>(prompt.size());
  FedSequence sequence{.tokens = prompt, .blocks = {}, .num_prompt_tokens = num_prompt_tokens};
  sequence.tokens.insert(sequence.tokens.end(), answer.begin(), answer.end() - 1);
  sequence.blocks = make_blocks(sequence.tokens.size(), 0, 1);
  std::vector<float> logits;
  while (sequence.num_computed < static_cast<int>(sequence.tokens.size())) {
    kernels::RaggedBatch batch;
    const int prompt_left = num_prompt_tokens - 1 - sequence.num_computed;
    feed(batch, sequence, prompt_left > 0 ? std::min(prompt_left, chunk) : 1);
    const auto of_step = runner.run(batch);
    if (sequence.num_computed >= num_prompt_tokens) logits.insert(logits.end(), of_step.begin(), of_step.end());
  }
  return logits;
}

TEST_P(GoldenTest, ExactKernelsGiveTheBitsOfMlxLm) {
  const std::optional<fs::path> folder = exact_goldens();
  if (!folder) GTEST_SKIP() << "the files were made on a CPU; REDPOLL_TEST_EXACT can name others";
  Golden golden = load_golden(GetParam());
  const checkpoint::ParameterMap exact = read_tensors(*folder / GetParam() / "exact.safetensors");
  if (has_narrow_experts(golden.checkpoint)) golden.checkpoint = widened(golden.checkpoint);
  Runner at_once(golden.checkpoint, {.exact = true});
  const FedSequence prompt{.tokens = golden.tokens, .blocks = make_blocks(golden.tokens.size(), 3, 2)};
  expect_bits(run_in_chunks(at_once, prompt, 1000), widened(*exact.read("logits")));

  const auto expect_answer = [&](const std::string& answer, const std::string& logits, int chunk) {
    const auto ids = values_of<TokenId>(*exact.read(answer));
    Runner runner(golden.checkpoint, {.exact = true});
    expect_bits(generate_exactly(runner, golden.tokens, ids, chunk), widened(*exact.read(logits)));
  };
  expect_answer("answer", "answer_logits", kernels::kExactPromptChunk);
  expect_answer("chunked_answer", "chunked_logits", 16);  // the ring of a window is reached through several
}

/// The variants of which make_kv_goldens.py says what mlx-optiq computes with packed keys and values.
class PackedGoldenTest : public testing::TestWithParam<std::tuple<std::string, kernels::KvQuantization>> {};

constexpr kernels::KvQuantization kPackings[] = {kernels::KvQuantization::k8, kernels::KvQuantization::k4,
                                                 kernels::KvQuantization::kConfig};

std::string packing_name(kernels::KvQuantization kv) {
  if (kv == kernels::KvQuantization::kConfig) return "config";
  return kv == kernels::KvQuantization::k8 ? "8" : "4";
}

std::vector<std::string> packed_golden_names() {
  std::vector<std::string> names = golden_names();
  std::erase_if(names, [](const std::string& name) { return !fs::exists(kGoldens / name / "kv_config.json"); });
  return names;
}

TEST_P(PackedGoldenTest, ExactKernelsGiveTheBitsOfMlxOptiq) {
  const std::optional<fs::path> folder = exact_goldens();
  if (!folder) GTEST_SKIP() << "the files were made on a CPU; REDPOLL_TEST_EXACT can name others";
  const auto& [name, kv] = GetParam();
  const Golden golden = load_golden(name);
  const checkpoint::ParameterMap exact =
      read_tensors(*folder / name / ("exact_kv_" + packing_name(kv) + ".safetensors"));
  const auto expect_answer = [&](const std::string& kind, std::size_t num_prompt_tokens, int chunk) {
    SCOPED_TRACE(kind);
    Runner runner(golden.checkpoint, {.exact = true, .kv_quantization = kv});
    const std::vector<TokenId> prompt(golden.tokens.begin(),
                                      golden.tokens.begin() + static_cast<std::ptrdiff_t>(num_prompt_tokens));
    const auto ids = values_of<TokenId>(*exact.read(kind + "answer"));
    const std::string logits = kind.empty() ? "answer_logits" : kind + "logits";
    expect_bits(generate_exactly(runner, prompt, ids, chunk), widened(*exact.read(logits)));
  };
  expect_answer("", golden.tokens.size(), kernels::kExactPromptChunk);
  expect_answer("chunked_", golden.tokens.size(), 16);
  expect_answer("short_", 1, kernels::kExactPromptChunk);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedGoldenTest,
                         testing::Combine(testing::ValuesIn(packed_golden_names()), testing::ValuesIn(kPackings)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + packing_name(std::get<1>(info.param));
                         });

TEST(ExactTierTest, ExpertsThatMlxDoesNotMultiplyAreRefusedByName) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "a GPU multiplies them";
  const Golden golden = load_golden("gemma4_experts_bf16");
  const auto kernels = kernels::make_kernels({.exact = true});
  const auto model = models::make_model(golden.checkpoint, *kernels);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message,
              testing::HasSubstr("dense experts of a type that MLX does not multiply on a CPU (--exact wants to)"));
}

TEST_P(GoldenTest, FastKernelsMatchMlxLm) {
  expect_logits(load_golden(GetParam()),
                {.num_threads = 2, .activations = kernels::Activations::kFloat32, .kv_type = kernels::KvType::kF32},
                1000, kFloat32Bound);
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

// A token whose experts change by rounding is far off, so it is the median token that counts: with codes of 8 bits its
// worst logit is up to 0.06 off, with 4 bits up to 1.1 (random weights make sharper attention than trained ones).
TEST_P(GoldenTest, PackedKeysAndValuesKeepLogitsNear) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "a GPU computes in narrower types";
  const Golden golden = load_golden(GetParam());
  for (const auto& [kv, bound] : {std::pair(kernels::KvQuantization::k8, 0.1F), {kernels::KvQuantization::k4, 1.5F}}) {
    for (const bool reference : {false, true}) {
      Runner runner(golden.checkpoint, {.num_threads = 2, .reference = reference, .kv_quantization = kv});
      const auto got = run_in_chunks(runner, {golden.tokens, 0, make_blocks(golden.tokens.size(), 3, 2)}, 33);
      const std::vector<float> errors = errors_by_token(got, golden);
      EXPECT_LT(errors[errors.size() / 2], bound);
    }
  }
}

constexpr kernels::KvQuantization kEveryKv[] = {kernels::KvQuantization::kOff, kernels::KvQuantization::k8,
                                                kernels::KvQuantization::k4};

TEST_P(GoldenTest, FastKernelsGiveTheSameBitsForEveryChunking) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "equal bits are promised on CPUs only";
  const Golden golden = load_golden(GetParam());
  for (const kernels::KvQuantization kv : kEveryKv) {
    Runner runner(golden.checkpoint, {.num_threads = 2, .kv_quantization = kv});
    const FedSequence sequence{golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)};
    const auto whole = run_in_chunks(runner, sequence, 1000);
    for (const int chunk : {1, 7, 8, 9, 32}) EXPECT_EQ(run_in_chunks(runner, sequence, chunk), whole) << chunk;
  }
}

void expect_same_bits_in_a_batch(const Golden& golden, kernels::KvQuantization kv) {
  Runner runner(golden.checkpoint, {.num_threads = 2, .kv_quantization = kv});
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

TEST_P(GoldenTest, FastKernelsGiveTheSameBitsInABatch) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "equal bits are promised on CPUs only";
  const Golden golden = load_golden(GetParam());
  for (const kernels::KvQuantization kv : kEveryKv) expect_same_bits_in_a_batch(golden, kv);
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
