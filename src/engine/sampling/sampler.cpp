#include "engine/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace redpoll::engine::sampling {
namespace {

std::unexpected<Error> nothing_left() {
  return fail(ErrorCode::kInvalidArgument, "logit_bias and min_tokens rule out every token of the vocabulary");
}

Result<TokenId> choose_likeliest(std::span<const float> logits) {
  const auto best = std::ranges::max_element(logits);  // the first of equals
  if (best == logits.end() || *best == -std::numeric_limits<float>::infinity()) return nothing_left();
  return static_cast<TokenId>(best - logits.begin());
}

}  // namespace

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000U;  // all ones only in infinities and NaNs
  return std::ranges::none_of(
      values, [](float value) { return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent; });
}

Error not_finite_error() {
  return {.code = ErrorCode::kInternal,
          .message = "the model computed logits that are not finite numbers for this request",
          .param = {}};
}

Result<TokenId> Sampler::sample(std::span<const float> logits, const SamplingContext& context) {
  if (!all_finite(logits)) return std::unexpected(not_finite_error());
  const bool masks_stop_ids = !context.may_stop && !context.stop_ids.empty();
  if (masks_stop_ids || has_processors(context.params)) {
    processed_.assign(logits.begin(), logits.end());
    apply_logits_processors(processed_, context.params, context.history);
    if (masks_stop_ids) mask_tokens(processed_, context.stop_ids);
    logits = processed_;
  }
  return context.params.temperature == 0 ? choose_likeliest(logits) : draw(logits, context);
}

Result<TokenId> Sampler::draw(std::span<const float> logits, const SamplingContext& context) {
  const SamplingParams& params = context.params;
  if (!candidates_.assign(logits)) return nothing_left();
  if (params.top_p < 1) candidates_.keep_top_p(params.top_p);
  if (params.min_p > 0) candidates_.keep_min_p(params.min_p);
  if (params.typical_p < 1) candidates_.keep_typical_p(params.typical_p);
  if (params.xtc_probability > 0 && uniform_draw(context.key, DrawPurpose::kXtc) < params.xtc_probability) {
    immune_.assign(params.xtc_special_tokens.begin(), params.xtc_special_tokens.end());
    immune_.insert(immune_.end(), context.stop_ids.begin(), context.stop_ids.end());
    candidates_.remove_top_choices(params.xtc_threshold, immune_);
  }
  if (params.top_k > 0) candidates_.keep_top_k(static_cast<std::size_t>(params.top_k));
  return candidates_.draw(params.temperature, uniform_draw(context.key, DrawPurpose::kToken));
}

}  // namespace redpoll::engine::sampling
