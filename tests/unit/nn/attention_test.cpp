// What attention says of keys and values that are not finite.
#include "nn/attention.h"

#include <gmock/gmock.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/finite.h"
#include "unit/models/batches.h"

namespace redpoll::nn {
namespace {

constexpr int kDim = 8;

/// One head as wide as the model. Queries are (-1, 0, ...) whatever they are of, values and what comes out what goes
/// in.
class SpoiltAttentionTest : public testing::TestWithParam<bool> {
 protected:
  SpoiltAttentionTest() {
    checkpoint_.config.model_type = "llama";
    for (const char* name : {"v_proj", "o_proj"}) {
      for (std::size_t i = 0; i < kDim; ++i) weight_of(name)[i * kDim + i] = 1;
    }
    for (const char* name : {"q_proj", "k_proj"}) (void)weight_of(name);  // zeros
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) add(std::string(name) + ".bias", {kDim});
    tensors_["q_proj.bias"][0] = -1;
  }

  std::vector<float>& weight_of(const std::string& name) {
    const std::string weight = name + ".weight";
    return tensors_.contains(weight) ? tensors_[weight] : add(weight, {kDim, kDim});
  }

  struct Attended {
    std::vector<bool> finite_outputs;
    std::vector<bool> finite_tokens;  // as the context has it
  };
  /// Of two tokens, all zeros but for a 2 at the front of the second.
  Attended attend() {
    for (const auto& [name, values] : tensors_) {
      const auto memory = checkpoint::allocate_bytes(values.size() * sizeof(float));
      std::ranges::copy(std::as_bytes(std::span(values)), memory.bytes.begin());
      EXPECT_TRUE(checkpoint_.parameters.insert(
          name, checkpoint::Tensor{checkpoint::DType::kF32, shapes_[name], memory.bytes, memory.storage}));
    }
    const auto kernels = kernels::make_kernels({.num_threads = 1, .reference = GetParam()});
    Parameters parameters(checkpoint_, *kernels);
    const Attention attention(
        parameters.root(),
        {.hidden_size = kDim, .num_heads = 1, .num_kv_heads = 1, .head_dim = kDim, .qkv_bias = Bias::kRequired});
    EXPECT_TRUE(parameters.finish());
    cache::KvCache cache = test::make_cache(*kernels, {attention.cache()}, 1);
    kernels::RaggedBatch batch;
    test::FedSequence sequence{{0, 1}, 0, {0}};
    test::feed(batch, sequence, 2);
    batch.has_unseen_tokens = true;
    ForwardContext context{*kernels, batch, cache.layers(), cache.states()};
    std::vector<float> x(2 * kDim);
    x[kDim] = 2;
    mx::array y = mx::contiguous(attention(mx::array(x.data(), {2, kDim}), context));
    y.eval();
    Attended attended;
    for (std::size_t i = 0; i < 2; ++i) {
      attended.finite_outputs.push_back(
          kernels::all_finite(std::span(y.data<float>(), y.size()).subspan(i * kDim, kDim)));
    }
    if (context.finite_tokens) {
      context.finite_tokens->eval();
      const bool* finite = context.finite_tokens->data<bool>();
      attended.finite_tokens.assign(finite, finite + context.finite_tokens->size());
    }
    return attended;
  }

 private:
  std::vector<float>& add(const std::string& name, std::vector<std::int64_t> shape) {
    shapes_[name] = std::move(shape);
    std::size_t size = 1;
    for (const std::int64_t length : shapes_[name]) size *= static_cast<std::size_t>(length);
    return tensors_[name] = std::vector<float>(size);
  }

  checkpoint::Checkpoint checkpoint_;
  std::map<std::string, std::vector<float>> tensors_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

/// The second token's own query gives its key, which is infinite, no weight: a later one's may give it all.
TEST_P(SpoiltAttentionTest, AKeyIsFoundThatItsOwnQueryDoesNotSee) {
  weight_of("k_proj")[0] = 3e38F;
  const Attended attended = attend();
  EXPECT_THAT(attended.finite_outputs, testing::Each(true)) << "else this test is of something else";
  EXPECT_THAT(attended.finite_tokens, testing::ElementsAre(true, false));
}

/// Which halves would store as 65,504.
TEST_P(SpoiltAttentionTest, AValueIsFoundThoughItIsStoredFinite) {
  weight_of("v_proj")[0] = 3e38F;
  EXPECT_THAT(attend().finite_tokens, testing::ElementsAre(true, false));
}

TEST_P(SpoiltAttentionTest, FiniteKeysAreFoundFinite) {
  weight_of("k_proj")[0] = 3;
  const Attended attended = attend();
  EXPECT_THAT(attended.finite_outputs, testing::Each(true));
  EXPECT_THAT(attended.finite_tokens, testing::Each(true));
}

INSTANTIATE_TEST_SUITE_P(Kernels, SpoiltAttentionTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "reference" : "usual"; });

}  // namespace
}  // namespace redpoll::nn
