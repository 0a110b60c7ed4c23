// GET /v1/models and /v1/models/{id} of the OpenAI API.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace redpoll::api::openai {

struct ModelInfo {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  int context_window = 0;    // tokens
};

[[nodiscard]] std::string format_model(const ModelInfo& model);
[[nodiscard]] std::string format_model_list(std::span<const ModelInfo> models);

}  // namespace redpoll::api::openai
