#include "server/sampling.h"

#include <optional>
#include <string>
#include <vector>

namespace redpoll::server {
namespace {

constexpr float kDefaultTemperature = 0.7F;

// A number of generation_config.json as a float, unless it is out of the range that samplers know.
std::optional<float> in_range(const std::optional<double>& value, double min, double max) {
  if (!value || !(*value >= min && *value <= max)) return std::nullopt;
  return static_cast<float>(*value);
}

std::optional<float> to_float(const std::optional<double>& value) {
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

std::optional<float> model_temperature(const checkpoint::GenerationDefaults& model) {
  if (model.do_sample == false) return 0.0F;
  return in_range(model.temperature, 0, 100);
}

template <typename T>
T first_of(const std::optional<T>& request, const std::optional<T>& fallback, T otherwise) {
  return request ? *request : fallback.value_or(otherwise);
}

Result<std::vector<std::vector<TokenId>>> tokenize_breakers(const api::SamplingOverrides& request,
                                                            const text::Tokenizer& tokenizer) {
  // Where text starts afresh, so that a repeated list marker or quotation mark is not a repetition.
  static const std::vector<std::string> kDefaultBreakers = {"\n", ":", "\"", "*"};
  std::vector<std::vector<TokenId>> out;
  for (const std::string& breaker : request.dry_sequence_breakers.value_or(kDefaultBreakers)) {
    ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode(breaker));
    if (!ids.empty()) out.push_back(std::move(ids));
  }
  return out;
}

}  // namespace

Result<engine::SamplingParams> resolve_sampling(const api::SamplingOverrides& request, const SamplingDefaults& flags,
                                                const checkpoint::GenerationDefaults& model,
                                                const text::Tokenizer& tokenizer) {
  engine::SamplingParams params;
  const auto flag_temperature = to_float(flags.temperature);
  params.temperature = first_of(request.temperature, flag_temperature ? flag_temperature : model_temperature(model),
                                kDefaultTemperature);
  const auto flag_top_p = to_float(flags.top_p);
  params.top_p = first_of(request.top_p, flag_top_p ? flag_top_p : in_range(model.top_p, 0, 1), params.top_p);
  const auto model_top_k = model.top_k && *model.top_k >= 0 ? model.top_k : std::nullopt;
  params.top_k = first_of(request.top_k, model_top_k, params.top_k);
  params.min_p = first_of(request.min_p, in_range(model.min_p, 0, 1), params.min_p);
  params.typical_p = first_of(request.typical_p, in_range(model.typical_p, 0, 1), params.typical_p);
  params.repetition_penalty =
      first_of(request.repetition_penalty, in_range(model.repetition_penalty, 0.01, 100), params.repetition_penalty);

  params.xtc_probability = request.xtc_probability.value_or(params.xtc_probability);
  params.xtc_threshold = request.xtc_threshold.value_or(params.xtc_threshold);
  params.repetition_context_size = request.repetition_context_size.value_or(params.repetition_context_size);
  params.presence_penalty = request.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = request.frequency_penalty.value_or(params.frequency_penalty);
  params.dry_multiplier = request.dry_multiplier.value_or(params.dry_multiplier);
  params.dry_base = request.dry_base.value_or(params.dry_base);
  params.dry_allowed_length = request.dry_allowed_length.value_or(params.dry_allowed_length);
  params.logit_bias = request.logit_bias;
  params.seed = request.seed;
  if (params.xtc_probability > 0) {
    ASSIGN_OR_RETURN(params.xtc_special_tokens, tokenizer.encode("\n"));
  }
  if (params.dry_multiplier > 0) {
    ASSIGN_OR_RETURN(params.dry_sequence_breakers, tokenize_breakers(request, tokenizer));
  }
  return params;
}

}  // namespace redpoll::server
