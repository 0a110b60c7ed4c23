// DecoderModel: what every decoder-only family shares: embedding, a stack of layers, a last norm, a head. A family
// supplies the layer, a type with `void operator()(nn::ResidualStream&, nn::ForwardContext&) const` and
// `cache::LayerCache cache() const`, and a function that makes one from its scope and index.
#pragma once

#include <mlx/ops.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/model.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace redpoll::models {

struct DecoderOptions {
  float embed_scale = 1;         // of the embedded tokens
  float norm_weight_offset = 0;  // of the last norm
  float logit_divisor = 1;
  float logit_softcap = 0;  // 0: none
  std::string_view norm_name = "norm";
  /// Called with the embedded tokens, scaled, before the layers: may set what these get beside the stream.
  std::function<void(const mx::array& embedded, nn::ForwardContext& ctx)> prepare = {};
};

/// For configs without max_position_embeddings: what transformers assumes for a Llama.
inline constexpr int kDefaultContext = 2048;

template <typename Layer, typename Norm = nn::RMSNorm>
class DecoderModel final : public Model {
 public:
  template <typename MakeLayer>
  DecoderModel(const nn::Scope& root, const checkpoint::Config& config, MakeLayer make_layer,
               const DecoderOptions& options = {})
      : info_(describe(config)),
        options_(options),
        embed_tokens_(root["model"]["embed_tokens"], config.vocab_size, config.hidden_size,
                      config.tie_word_embeddings ? nn::TableUse::kRowsAndHead : nn::TableUse::kRows),
        norm_(make_norm(root["model"][options.norm_name], config, options)) {
    const nn::Scope layers = root["model"]["layers"];
    layers_.reserve(static_cast<std::size_t>(config.num_hidden_layers));
    for (int i = 0; i < config.num_hidden_layers; ++i) {
      layers_.push_back(make_layer(layers[i], i));
      info_.layers.push_back(layers_.back().cache());
    }
    if (!config.tie_word_embeddings) {
      lm_head_.emplace(root["lm_head"], config.hidden_size, config.vocab_size);
    } else {
      root["lm_head"].ignore();  // some exporters write the tied table twice
    }
    info_.weight_bytes = root.loaded_bytes();
    info_.weight_bytes_per_token = root.bytes_per_token();
  }

  [[nodiscard]] const ModelInfo& info() const override { return info_; }

  [[nodiscard]] mx::array forward(nn::ForwardContext& ctx) override {
    const mx::array embedded = scaled(embed_tokens_(ctx.batch), options_.embed_scale, ctx);  // (tokens, hidden)
    if (options_.prepare) options_.prepare(embedded, ctx);
    nn::ResidualStream h(embedded);
    for (const Layer& layer : layers_) layer(h, ctx);
    if (ctx.batch.has_unseen_tokens) ctx.note_finite(h.finite_tokens(ctx));
    h.take_rows(ctx, ctx.batch.logit_rows);  // (num_logit_rows, hidden)
    const mx::array x = norm_(h, ctx);
    mx::array logits = lm_head_ ? (*lm_head_)(x, ctx) : embed_tokens_.as_linear(x);
    if (options_.logit_divisor != 1) logits = ctx.kernels.divide(logits, options_.logit_divisor);
    if (options_.logit_softcap > 0) logits = ctx.kernels.softcap(logits, options_.logit_softcap);
    return mx::astype(logits, mx::float32);  // a GPU computes in the checkpoint's type; no-op on a CPU
  }

 private:
  static Norm make_norm(const nn::Scope& scope, const checkpoint::Config& config, const DecoderOptions& options) {
    const auto eps = static_cast<float>(config.rms_norm_eps);
    if constexpr (std::is_same_v<Norm, nn::RMSNorm>) {
      return {scope, config.hidden_size, eps, options.norm_weight_offset};
    } else {
      return {scope, config.hidden_size, eps};
    }
  }

  static mx::array scaled(mx::array x, float factor, const nn::ForwardContext& ctx) {
    return factor == 1 ? std::move(x) : ctx.kernels.scale(x, factor);
  }

  static ModelInfo describe(const checkpoint::Config& config) {
    return {.model_type = config.model_type,
            .vocab_size = config.vocab_size,
            .layers = {},
            .context_length = config.max_position_embeddings > 0 ? config.max_position_embeddings : kDefaultContext,
            .activations_per_token = activations_per_token(config)};
  }

  /// The residual stream before and after its sum and its norm, and what is larger: gate, up and their product, or q, k
  /// and v with their rotations and what was attended, each with the copy that the next product reads (on a CPU, with
  /// the sums of its groups: a sixteenth at most).
  static std::size_t activations_per_token(const checkpoint::Config& config) {
    const auto size = [](int number) { return static_cast<std::size_t>(number); };
    const auto copy_of = [](std::size_t number) { return number + number / 16; };
    const auto mlp_of = [&](int width) { return 3 * size(width) + copy_of(size(width)); };
    // Experts have a row for each token that they see, and their rows of what comes in and goes out are copies too.
    const std::size_t experts = size(config.num_experts_per_tok) *
                                (mlp_of(config.moe_intermediate_size) + 2 * copy_of(size(config.hidden_size)));
    const int mlp_width = config.intermediate_size * (config.use_double_wide_mlp ? 2 : 1);
    // Beside the MLP where there are both.
    const std::size_t mlp = mlp_of(mlp_width) + experts;
    const int head_dim = std::max(config.head_dim, config.global_head_dim);
    const std::size_t queries = size(config.num_attention_heads) * size(head_dim);
    const std::size_t keys = size(config.num_key_value_heads) * size(head_dim);
    // Of a gated delta rule: what it projects, once more after the convolution, its keys at their length, and its sums.
    const std::size_t delta_keys = size(config.linear_num_key_heads) * size(config.linear_key_head_dim);
    const std::size_t delta_values = size(config.linear_num_value_heads) * size(config.linear_value_head_dim);
    const std::size_t delta = 6 * delta_keys + 6 * delta_values + copy_of(delta_values);
    const std::size_t attention = 4 * queries + 3 * keys + copy_of(queries);
    const std::size_t layer_inputs = 3 * size(config.num_hidden_layers) * size(config.hidden_size_per_layer_input);
    return 3 * size(config.hidden_size) + layer_inputs + std::max({mlp, attention, delta});
  }

  ModelInfo info_;
  DecoderOptions options_;
  nn::Embedding embed_tokens_;
  std::vector<Layer> layers_;
  Norm norm_;
  std::optional<nn::Linear> lm_head_;
};

}  // namespace redpoll::models
