// What every family's model says of tokens of which something is computed that is not finite.
#include <gmock/gmock.h>
#include <mlx/device.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unit/models/golden.h"
#include "unit/models/golden_names.h"

namespace redpoll {
namespace {

namespace mx = mlx::core;
using test::FedSequence;
using test::feed;
using test::Golden;
using test::has_narrow_experts;
using test::load_golden;
using test::make_blocks;
using test::Runner;

class FiniteTokensTest : public testing::TestWithParam<std::string> {};

/// With the token's row of the embedding all NaN, whatever numbers or scales it is stored as.
checkpoint::Checkpoint without_numbers(const checkpoint::Checkpoint& good, TokenId token) {
  checkpoint::Checkpoint bad = good;
  bad.parameters = {};
  const bool has_scales = std::ranges::any_of(
      good.parameters.names(), [](const std::string& name) { return name.ends_with("embed_tokens.scales"); });
  for (const std::string& name : good.parameters.names()) {
    checkpoint::Tensor tensor = *good.parameters.read(name);
    if (name.ends_with(has_scales ? "embed_tokens.scales" : "embed_tokens.weight")) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes.begin(), tensor.bytes.end());
      const std::size_t row = bytes->size() / static_cast<std::size_t>(tensor.shape.front());
      std::fill_n(bytes->begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(token)), row,
                  std::byte{0xFF});
      tensor = checkpoint::make_tensor(tensor.dtype, tensor.shape, *bytes, bytes);
    }
    EXPECT_TRUE(bad.parameters.insert(name, tensor));
  }
  return bad;
}

TEST_P(FiniteTokensTest, SaysOfWhichTokensNothingFiniteIsComputed) {
  const Golden golden = load_golden(GetParam());
  std::size_t first = 0;  // of its kind, the last such one
  for (std::size_t i = 0; i < golden.tokens.size(); ++i) {
    if (std::ranges::find(golden.tokens, golden.tokens[i]) == golden.tokens.begin() + static_cast<std::ptrdiff_t>(i))
      first = i;
  }
  ASSERT_GT(first, 0U);
  const TokenId bad = golden.tokens[first];
  for (const bool reference : {false, true}) {
    if (reference && has_narrow_experts(golden.checkpoint)) continue;
    const auto finite_tokens = [&](const checkpoint::Checkpoint& checkpoint) {
      Runner runner(checkpoint, {.num_threads = 1, .reference = reference});
      kernels::RaggedBatch batch;
      FedSequence sequence{golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)};
      feed(batch, sequence, static_cast<int>(golden.tokens.size()));
      return runner.finite_tokens(batch);
    };
    EXPECT_THAT(finite_tokens(golden.checkpoint), testing::Each(true));
    std::vector<bool> got = finite_tokens(without_numbers(golden.checkpoint, bad));
    EXPECT_FALSE(got[first]);
    if (reference || mx::default_device() != mx::Device::cpu) continue;  // multiply what is not seen by zero, a NaN too
    got.resize(first);
    EXPECT_THAT(got, testing::Each(true)) << "tokens that do not see it";
  }
}

/// Names of what makes keys, values or states in the last layer that has its own: of floats, or scales of codes.
std::vector<std::string> last_cache_weights(const checkpoint::Checkpoint& checkpoint) {
  constexpr std::string_view kParts[] = {"k_proj.", "v_proj.", "qkv_proj.", "conv.", "conv1d.", "in_proj", "A_log"};
  std::map<int, std::vector<std::string>> by_layer;
  for (const std::string& name : checkpoint.parameters.names()) {
    const std::size_t layer = name.find("layers.");
    const bool is_one = std::ranges::any_of(kParts, [&](std::string_view part) { return name.contains(part); });
    const checkpoint::DType type = checkpoint.parameters.read(name)->dtype;
    const bool is_code =
        type == checkpoint::DType::kU32 || (type == checkpoint::DType::kU8 && !name.ends_with("scales"));
    if (is_one && !is_code && layer != std::string::npos) by_layer[std::stoi(name.substr(layer + 7))].push_back(name);
  }
  return by_layer.rbegin()->second;
}

/// With nothing but NaN in the tensor.
checkpoint::Checkpoint spoilt(const checkpoint::Checkpoint& good, const std::string& which) {
  checkpoint::Checkpoint bad = good;
  bad.parameters = {};
  for (const std::string& name : good.parameters.names()) {
    checkpoint::Tensor tensor = *good.parameters.read(name);
    if (name == which) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes.size(), std::byte{0xFF});
      tensor = checkpoint::make_tensor(tensor.dtype, tensor.shape, *bytes, bytes);
    }
    EXPECT_TRUE(bad.parameters.insert(name, tensor));
  }
  return bad;
}

/// Where no layer comes after it whose keys and values would show it.
TEST_P(FiniteTokensTest, SaysOfWhatComesUpInTheLastLayerThatItIsNotFinite) {
  const Golden golden = load_golden(GetParam());
  const std::vector<std::string> weights = last_cache_weights(golden.checkpoint);
  ASSERT_GE(weights.size(), 1U);
  for (const std::string& weight : weights) {
    for (const auto& [reference, kv] : {std::pair(false, kernels::KvQuantization::kOff),
                                        {false, kernels::KvQuantization::k8},
                                        {true, kernels::KvQuantization::kOff}}) {
      if (reference && has_narrow_experts(golden.checkpoint)) continue;
      Runner runner(spoilt(golden.checkpoint, weight),
                    {.num_threads = 1, .reference = reference, .kv_quantization = kv});
      kernels::RaggedBatch batch;
      FedSequence sequence{golden.tokens, 0, make_blocks(golden.tokens.size(), 0, 1)};
      feed(batch, sequence, static_cast<int>(golden.tokens.size()));
      EXPECT_THAT(runner.finite_tokens(batch), testing::Each(false)) << weight << (reference ? ", reference" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FiniteTokensTest, testing::ValuesIn(test::golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace redpoll
