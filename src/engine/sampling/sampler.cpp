#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/finite.h"

namespace redpoll::engine::sampling {
namespace {

std::unexpected<Error> nothing_left() {
  return fail(ErrorCode::kInvalidArgument, "logit_bias and min_tokens rule out every token of the vocabulary");
}

constexpr float kLeast = -std::numeric_limits<float>::infinity();

/// Logits are looked through by lanes, which compilers turn into vectors: a vocabulary takes microseconds, not
/// hundreds.
constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 64 * kLanes;

float largest_of(std::span<const float> values) {
  float lanes[kLanes];
  std::ranges::fill(lanes, kLeast);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  float largest = *std::ranges::max_element(lanes);
  for (; i < values.size(); ++i) largest = std::max(largest, values[i]);
  return largest;
}

/// The first of equals.
Result<TokenId> choose_likeliest(std::span<const float> logits) {
  float best = kLeast;
  std::size_t first = 0;  // of the block that has it
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float largest = largest_of(logits.subspan(begin, std::min(kBlock, logits.size() - begin)));
    if (largest <= best) continue;
    best = largest;
    first = begin;
  }
  if (best == kLeast) return nothing_left();
  return static_cast<TokenId>(std::ranges::find(logits.subspan(first), best) - logits.begin());
}

}  // namespace

Error not_finite_error() {
  return {.code = ErrorCode::kInternal,
          .message = "the model computed logits that are not finite numbers for this request",
          .param = {}};
}

Result<TokenId> Sampler::sample(std::span<const float> logits, const SamplingContext& context) {
  if (!kernels::all_finite(logits)) return std::unexpected(not_finite_error());
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
