// ScriptedModel: a model without weights whose next token is a function of the tokens before it. It stores tokens where
// a real model would store K and V, and reads them back from there: if the engine mixes up blocks or positions, or
// copies a block late, the answers are wrong or a step throws.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "models/model.h"

namespace redpoll::test {

using NextToken = std::function<TokenId(std::span<const TokenId> prefix)>;

/// Pseudo-random, but always the same for a prefix; in [0, vocab_size).
[[nodiscard]] NextToken hashed_next_token(int vocab_size, TokenId never = -1);

struct ScriptedModelOptions {
  int vocab_size = 64;
  int context_length = 1024;
  std::vector<int> windows = {0};  // of its layers; the first sees all tokens
  bool has_state = false;          // another layer is recurrent
  NextToken next_token = {};       // empty: hashed_next_token
  /// Called before each forward pass, on the engine thread: may throw, block, or count.
  std::function<void(const kernels::RaggedBatch&)> before_step = {};
  /// Called on every finished row of logits.
  std::function<void(std::span<const TokenId> prefix, std::span<float> logits)> edit_logits = {};
  /// Called on every token that is computed, the last of the prefix: true leaves no number in the place of its K, nor
  /// in the logits of who sees it.
  std::function<bool(std::span<const TokenId> prefix)> spoils = {};
};

/// Logits are 8 for the next token and small numbers that depend on the prefix elsewhere.
class ScriptedModel final : public models::Model {
 public:
  explicit ScriptedModel(ScriptedModelOptions options);
  [[nodiscard]] const models::ModelInfo& info() const override { return info_; }
  [[nodiscard]] models::mx::array forward(nn::ForwardContext& context) override;

 private:
  ScriptedModelOptions options_;
  models::ModelInfo info_;
};

/// Every token equally likely: what sampling does to it can be computed by hand.
class UniformModel final : public models::Model {
 public:
  explicit UniformModel(int vocab_size);
  [[nodiscard]] const models::ModelInfo& info() const override { return info_; }
  [[nodiscard]] models::mx::array forward(nn::ForwardContext& context) override;

 private:
  models::ModelInfo info_;
};

[[nodiscard]] engine::ModelLoader scripted_loader(ScriptedModelOptions options = {});
[[nodiscard]] engine::ModelLoader uniform_loader(int vocab_size);

/// Bytes of one token's K and V in the models above, on stock kernels.
[[nodiscard]] std::size_t scripted_bytes_per_token();

}  // namespace redpoll::test
