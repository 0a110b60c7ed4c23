// From what a request, the flags and the model's author say to the one SamplingParams that the engine runs.
#pragma once

#include "api/generation.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "engine/sampling_params.h"
#include "server/options.h"
#include "text/tokenizer.h"

namespace redpoll::server {

/// Each value comes from the first that has one: request, flag, generation_config.json, default (temperature 0.7, the
/// rest off). `do_sample: false` in generation_config.json counts as temperature 0. A value there that no sampler
/// could use is skipped. Fails only if a DRY sequence breaker cannot be tokenized.
[[nodiscard]] Result<engine::SamplingParams> resolve_sampling(const api::SamplingOverrides& request,
                                                              const SamplingDefaults& flags,
                                                              const checkpoint::GenerationDefaults& model,
                                                              const text::Tokenizer& tokenizer);

}  // namespace redpoll::server
