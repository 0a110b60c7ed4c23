// Load: clients that ask a server over HTTP, each one request after the other, and note when every token came. Works
// with any server that has OpenAI's /v1/completions.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/client.h"

namespace redpoll::bench {

struct LoadOptions {
  http::Url url;
  std::string model;  // as requests name it; empty: the first that the server lists
  int streams = 8;    // clients at once
  int max_tokens = 64;
  std::chrono::milliseconds patience{600'000};  // for a server that says nothing
  std::function<void()> on_token = nullptr;     // called for every token as it comes, on any thread
};

/// One request as its client saw it.
struct RequestSample {
  std::chrono::steady_clock::time_point sent_at = {};
  std::vector<std::chrono::steady_clock::time_point> tokens_at = {};  // when each event with text or tokens came

  double ttft_ms = 0;                     // from sending to the first token
  std::vector<double> between_tokens_ms;  // from one event with text or tokens to the next
  double total_ms = 0;                    // from sending to the end of the stream
  int prompt_tokens = 0;                  // this and the next two as the server counts them
  int cached_tokens = 0;
  int completion_tokens = 0;
};

struct LoadResult {
  std::vector<RequestSample> samples;  // in the order of the prompts
  double wall_ms = 0;                  // from the first request sent to the last answer read
};

/// Sends every prompt once. The first request that fails ends it: figures of a server that refuses some requests would
/// flatter it.
[[nodiscard]] Result<LoadResult> run_load(const LoadOptions& options, const std::vector<std::string>& prompts);

/// The first id of /v1/models.
[[nodiscard]] Result<std::string> first_model(const LoadOptions& options);

namespace internal {
/// What a client has made of a stream so far.
struct StreamState {
  RequestSample sample;
  bool done = false;
};
/// Takes the data of one server-sent event.
[[nodiscard]] Status take_event(StreamState& state, const std::string& data, std::chrono::steady_clock::time_point now);
}  // namespace internal

}  // namespace redpoll::bench
