// Arbitrary bytes as the body of every route that reads JSON. Whatever comes, a parser answers with a request whose
// parts are in range or with an error that can be sent.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/errors.h"
#include "api/native.h"
#include "api/openai/chat.h"
#include "api/openai/completions.h"
#include "base/json.h"

namespace {

using namespace redpoll;

constexpr api::RequestLimits kLimits{.max_choices = 8, .max_prompts = 16, .vocab_size = 1000};

void check_error(const Error& error) {
  CHECK(!error.message.empty(), "an error says something");
  CHECK(api::http_status(error.code) == 400, "a bad body is the client's fault");
  CHECK(parse_json(api::openai_error_body(error)).has_value(), "an error body is JSON");
}

void check_options(const api::GenerationOptions& options) {
  CHECK(options.num_choices >= 1 && options.num_choices <= kLimits.max_choices, "n is in range");
  CHECK(!options.max_tokens || options.min_tokens <= *options.max_tokens, "min_tokens is in range");
  CHECK(options.stop.size() <= 16, "stop strings are few");
  for (const std::string& stop : options.stop) CHECK(!stop.empty(), "no stop string is empty");
  for (const auto& [id, bias] : options.sampling.logit_bias) {
    CHECK(id >= 0 && id < kLimits.vocab_size && bias >= -100 && bias <= 100, "biases are in range");
  }
}

template <typename T>
void check(const Result<T>& result) {
  if (!result) return check_error(result.error());
  for (const char c : api::format_warnings(result->warnings)) CHECK(c >= ' ' && c < 0x7F, "a header stays one line");
  if constexpr (requires { result->options; }) check_options(result->options);
  if constexpr (requires { result->conversation; }) {
    CHECK(!result->conversation.messages.empty(), "there is a message");
    for (const json::value& message : result->conversation.messages) {
      CHECK(message.at("role").is_string() && message.at("content").is_string(), "templates can rely on both");
    }
    CHECK(parse_json(dump_json(result->conversation.messages), {.max_depth = 200}).has_value(),
          "messages are JSON again");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<json::value> body =
      parse_json({reinterpret_cast<const char*>(data), size}, {.duplicate_keys = DuplicateKeys::kRefuse});
  if (!body) {
    check_error(body.error());
    return 0;
  }
  check(api::openai::parse_chat_request(*body, kLimits));
  check(api::openai::parse_completion_request(*body, kLimits));
  check(api::parse_tokenize_request(*body));
  check(api::parse_detokenize_request(*body, kLimits));
  check(api::parse_template_request(*body));
  return 0;
}
