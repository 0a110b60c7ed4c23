#include "bench/load.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "http/event_reader.h"

namespace redpoll::bench {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// "error.message" of a body, or its beginning.
std::string reason_in(const std::string& body) {
  constexpr std::size_t kShown = 200;
  const auto value = parse_json(body);
  const json::object* object = value ? value->if_object() : nullptr;
  const json::value* error = object != nullptr ? object->if_contains("error") : nullptr;
  const json::value* message =
      error != nullptr && error->is_object() ? error->get_object().if_contains("message") : nullptr;
  if (message != nullptr && message->is_string()) return std::string(message->get_string());
  return body.substr(0, kShown);
}

std::unexpected<Error> refused(const std::string& target, int status, const std::string& body) {
  return fail(ErrorCode::kUnavailable, target + " answered " + std::to_string(status) + ": " + reason_in(body));
}

// Whether a choice of a chunk brings something: tokens where the server tells them, else text.
bool brings_token(const json::object& choice) {
  if (const json::value* ids = choice.if_contains("token_ids"); ids != nullptr && ids->is_array()) {
    return !ids->get_array().empty();
  }
  const json::value* text = choice.if_contains("text");
  return text != nullptr && text->is_string() && !text->get_string().empty();
}

Status take_usage(RequestSample& sample, const json::object& usage) {
  constexpr std::int64_t kMost = 1'000'000'000;
  JsonReader reader(usage, "usage");
  ASSIGN_OR_RETURN(const auto prompt, reader.optional_int("prompt_tokens", 0, kMost));
  ASSIGN_OR_RETURN(const auto completion, reader.optional_int("completion_tokens", 0, kMost));
  ASSIGN_OR_RETURN(const json::object* details, reader.optional_object("prompt_tokens_details"));
  sample.prompt_tokens = static_cast<int>(prompt.value_or(0));
  sample.completion_tokens = static_cast<int>(completion.value_or(0));
  if (details == nullptr) return {};
  JsonReader details_reader(*details, "usage.prompt_tokens_details");
  ASSIGN_OR_RETURN(const auto cached, details_reader.optional_int("cached_tokens", 0, kMost));
  sample.cached_tokens = static_cast<int>(cached.value_or(0));
  return {};
}

std::string request_body(const LoadOptions& options, const std::string& prompt) {
  return dump_json(json::object{{"model", options.model},
                                {"prompt", prompt},
                                {"max_tokens", options.max_tokens},
                                {"temperature", 0},
                                {"ignore_eos", true},
                                {"stream", true},
                                {"stream_options", {{"include_usage", true}}},
                                {"return_token_ids", true}});
}

Result<RequestSample> complete(http::Client& client, const LoadOptions& options, const std::string& prompt) {
  const http::ClientRequest request = {.method = "POST",
                                       .target = "/v1/completions",
                                       .headers = {{"Content-Type", "application/json"}},
                                       .body = request_body(options, prompt)};
  internal::StreamState state;
  http::EventReader reader;
  Status status;
  state.sample.sent_at = system_clock().now();
  ASSIGN_OR_RETURN(const http::ClientResponse response, client.exchange(request, [&](std::string_view bytes) {
    const TimePoint now = system_clock().now();
    const std::size_t num_before = state.sample.tokens_at.size();
    for (const std::string& data : reader.feed(bytes)) {
      if (status) status = internal::take_event(state, data, now);
    }
    if (!options.on_token) return;
    for (std::size_t i = num_before; i < state.sample.tokens_at.size(); ++i) options.on_token();
  }));
  state.sample.total_ms = milliseconds_between(state.sample.sent_at, system_clock().now());
  if (response.status != 200) return refused(request.target, response.status, response.body);
  RETURN_IF_ERROR(status);
  if (!state.done) return fail(ErrorCode::kIo, "a stream ended without [DONE]");
  const auto num_events = static_cast<int>(state.sample.tokens_at.size());
  if (num_events == 0) return fail(ErrorCode::kInternal, "a stream brought no token");
  // A server that sends no usage: most send one event a token.
  if (state.sample.completion_tokens == 0) state.sample.completion_tokens = num_events;
  return state.sample;
}

// The clients of one load and what they share.
class Crowd {
 public:
  Crowd(const LoadOptions& options, const std::vector<std::string>& prompts)
      : options_(options), prompts_(prompts), samples_(prompts.size()) {}

  Result<LoadResult> run();

 private:
  void ask();
  Status ask_until_none_is_left();

  const LoadOptions& options_;
  const std::vector<std::string>& prompts_;
  std::vector<RequestSample> samples_;  // each written by the thread that took its index
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::optional<Error> first_error_;
};

Status Crowd::ask_until_none_is_left() {
  ASSIGN_OR_RETURN(const std::unique_ptr<http::Client> client, http::Client::connect(options_.url, options_.patience));
  for (std::size_t index = next_++; index < prompts_.size(); index = next_++) {
    ASSIGN_OR_RETURN(samples_[index], complete(*client, options_, prompts_[index]));
  }
  return {};
}

void Crowd::ask() {
  Status status = ask_until_none_is_left();
  if (status) return;
  next_ = prompts_.size();  // the others stop after what they are at
  const std::scoped_lock lock(mutex_);
  if (!first_error_) first_error_ = std::move(status).error();
}

Result<LoadResult> Crowd::run() {
  const TimePoint started_at = system_clock().now();
  std::vector<std::thread> clients;
  for (int i = 0; i < options_.streams; ++i) clients.emplace_back([this] { ask(); });
  for (std::thread& client : clients) client.join();
  const double wall_ms = milliseconds_between(started_at, system_clock().now());
  if (first_error_) return std::unexpected(*first_error_);
  return LoadResult{.samples = std::move(samples_), .wall_ms = wall_ms};
}

}  // namespace

namespace internal {

Status take_event(StreamState& state, const std::string& data, TimePoint now) {
  if (data == "[DONE]") {
    state.done = true;
    return {};
  }
  ASSIGN_OR_RETURN(const json::value value, parse_json(data));
  const json::object* chunk = value.if_object();
  if (chunk == nullptr) return fail(ErrorCode::kInternal, "expected an object as an event, got " + data);
  if (chunk->contains("error")) return fail(ErrorCode::kUnavailable, "a stream failed: " + reason_in(data));
  const json::value* usage = chunk->if_contains("usage");
  if (usage != nullptr && usage->is_object()) RETURN_IF_ERROR(take_usage(state.sample, usage->get_object()));

  const json::value* choices = chunk->if_contains("choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return {};
  const json::object* choice = choices->get_array().front().if_object();
  if (choice == nullptr || !brings_token(*choice)) return {};
  RequestSample& sample = state.sample;
  if (sample.tokens_at.empty()) {
    sample.ttft_ms = milliseconds_between(sample.sent_at, now);
  } else {
    sample.between_tokens_ms.push_back(milliseconds_between(sample.tokens_at.back(), now));
  }
  sample.tokens_at.push_back(now);
  return {};
}

}  // namespace internal

Result<LoadResult> run_load(const LoadOptions& options, const std::vector<std::string>& prompts) {
  return Crowd(options, prompts).run();
}

Result<std::string> first_model(const LoadOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<http::Client> client, http::Client::connect(options.url, options.patience));
  const std::string target = "/v1/models";
  ASSIGN_OR_RETURN(const http::ClientResponse response, client->exchange({.target = target}));
  if (response.status != 200) return refused(target, response.status, response.body);
  const auto body = parse_json(response.body);
  const json::object* object = body ? body->if_object() : nullptr;
  const json::value* data = object != nullptr ? object->if_contains("data") : nullptr;
  if (data != nullptr && data->is_array() && !data->get_array().empty()) {
    const json::object* model = data->get_array().front().if_object();
    const json::value* id = model != nullptr ? model->if_contains("id") : nullptr;
    if (id != nullptr && id->is_string()) return std::string(id->get_string());
  }
  return fail(ErrorCode::kModelNotFound, target + " lists no model");
}

}  // namespace redpoll::bench
