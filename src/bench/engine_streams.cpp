#include "bench/engine_streams.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace redpoll::bench {

EngineStreams::~EngineStreams() { stop(); }

Status EngineStreams::start(std::vector<TokenId> prompt, int max_tokens) {
  Stream stream;
  stream.id = engine_.next_request_id();
  stream.events = std::make_shared<engine::EventQueue>([bell = bell_] {
    {
      const std::scoped_lock lock(bell->mutex);
      bell->is_rung = true;
    }
    bell->rung.notify_one();
  });
  engine::Request request;
  request.id = stream.id;
  request.name = "bench-" + std::to_string(stream.id);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  request.events = stream.events;
  RETURN_IF_ERROR(engine_.submit(std::move(request)));
  streams_.push_back(std::move(stream));
  return {};
}

void EngineStreams::take(Stream& stream) {
  for (const engine::GenerationEvent& event : stream.events->take()) {
    if (std::holds_alternative<engine::TokenEvent>(event)) ++stream.num_tokens;
    if (std::holds_alternative<engine::FinishEvent>(event)) stream.ended = true;
    if (const auto* error = std::get_if<engine::ErrorEvent>(&event)) {
      stream.ended = true;
      stream.status = std::unexpected(error->error);
    }
  }
}

void EngineStreams::wait() {
  {
    std::unique_lock lock(bell_->mutex);
    bell_->rung.wait(lock, [&] { return bell_->is_rung; });
    bell_->is_rung = false;
  }
  for (Stream& stream : streams_) take(stream);
}

Status EngineStreams::wait_for(int num_tokens_each) {
  for (;;) {
    bool is_there = true;
    for (const Stream& stream : streams_) {
      if (stream.num_tokens >= num_tokens_each) continue;
      RETURN_IF_ERROR(stream.status);
      if (stream.ended) {
        return fail(ErrorCode::kInternal, "a stream ended after " + std::to_string(stream.num_tokens) + " of " +
                                              std::to_string(num_tokens_each) + " tokens");
      }
      is_there = false;
    }
    if (is_there) return {};
    wait();
  }
}

std::vector<int> EngineStreams::num_tokens() const {
  std::vector<int> counts;
  for (const Stream& stream : streams_) counts.push_back(stream.num_tokens);
  return counts;
}

void EngineStreams::stop() {
  for (const Stream& stream : streams_) {
    if (!stream.ended) engine_.cancel(stream.id);
  }
  while (std::ranges::any_of(streams_, [](const Stream& stream) { return !stream.ended; })) wait();
  streams_.clear();
}

}  // namespace redpoll::bench
