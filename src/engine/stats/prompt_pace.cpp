#include "engine/stats/prompt_pace.h"

namespace redpoll::engine {
namespace {

constexpr double kAssumedTokensPerSecond = 250;
/// Of prompts, in a step. Fewer take about as long as one: the time goes into reading the weights.
constexpr int kLeastTokens = 32;
/// Of these the last half counts at least.
constexpr double kRememberedTokens = 4096;

}  // namespace

void PromptPace::add(const StepRecord& step) {
  if (step.prompt_tokens < kLeastTokens) return;
  tokens_ += step.prompt_tokens + step.generated_tokens;
  seconds_ += milliseconds_between(step.started_at, step.ended_at) / 1'000;
  if (tokens_ <= kRememberedTokens) return;
  tokens_ /= 2;
  seconds_ /= 2;
}

std::chrono::nanoseconds PromptPace::time_for(int num_tokens) const {
  const double seconds_per_token = seconds_ > 0 ? seconds_ / tokens_ : 1 / kAssumedTokensPerSecond;
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(num_tokens * seconds_per_token));
}

}  // namespace redpoll::engine
