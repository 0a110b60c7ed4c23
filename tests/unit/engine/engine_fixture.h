// What the engine's tests share: starting one on a scripted model, sending requests, and predicting answers.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/memory_budget.h"
#include "support/event_collector.h"
#include "support/scripted_model.h"

namespace redpoll::test {

/// Greedy, and small enough to read.
inline engine::Request make_request(std::vector<TokenId> prompt, int max_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

/// The same, with logprobs of the two best.
inline engine::Request make_scored_request(std::vector<TokenId> prompt, int max_tokens) {
  engine::Request request = make_request(std::move(prompt), max_tokens);
  request.num_top_logprobs = 2;
  return request;
}

/// The same tokens and logprobs of them and of the second best, to the bit.
inline void expect_same(const Collected& got, const Collected& want) {
  ASSERT_FALSE(got.error) << got.error->message;
  ASSERT_EQ(got.ids(), want.ids());
  for (std::size_t i = 0; i < got.tokens[0].size(); ++i) {
    ASSERT_EQ(got.tokens[0][i].logprob, want.tokens[0][i].logprob);
    ASSERT_EQ(got.tokens[0][i].top[1].logprob, want.tokens[0][i].top[1].logprob);
  }
}

/// first, first + 1, ... within a vocabulary of 64.
inline std::vector<TokenId> make_prompt(int num_tokens, TokenId first) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < num_tokens; ++i) prompt.push_back((first + i * 7) % 64);
  return prompt;
}

/// What a scripted model with hashed tokens answers greedily.
inline std::vector<TokenId> predict(std::vector<TokenId> tokens, int max_tokens, const NextToken& next_token) {
  const std::size_t num_prompt = tokens.size();
  for (int i = 0; i < max_tokens; ++i) tokens.push_back(next_token(tokens));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(num_prompt), tokens.end()};
}

inline std::unique_ptr<engine::Engine> start_engine(const engine::EngineOptions& options, engine::ModelLoader loader,
                                                    const Clock& clock = system_clock()) {
  auto started = engine::Engine::start(options, std::move(loader), clock);
  EXPECT_TRUE(started) << started.error().message;
  return std::move(*started);
}

/// A request on its way, with what it has sent so far.
struct Running {
  engine::RequestId id = 0;
  std::unique_ptr<EventCollector> events;
};

inline Running submit(engine::Engine& engine, engine::Request request, std::size_t capacity = 64) {
  Running running{.id = engine.next_request_id(),
                  .events = std::make_unique<EventCollector>(request.num_choices, capacity)};
  request.id = running.id;
  request.name = "request-" + std::to_string(running.id);
  request.events = running.events->queue();
  const Status status = engine.submit(std::move(request));
  EXPECT_TRUE(status) << status.error().message;
  return running;
}

inline Collected run(engine::Engine& engine, engine::Request request) {
  const Running running = submit(engine, std::move(request));
  EXPECT_TRUE(running.events->wait_until_done());
  return running.events->collected();
}

/// With a budget for exactly this many blocks of the scripted model.
inline engine::EngineOptions with_blocks(int num_blocks, engine::EngineOptions options) {
  const auto num_tokens = static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(options.block_tokens);
  options.memory_budget_bytes =
      num_tokens * scripted_bytes_per_token() +
      engine::step_bytes(
          {.step_tokens = options.step_tokens,
           .max_batch = options.max_batch,
           .context = options.context_length > 0 ? options.context_length : ScriptedModelOptions{}.context_length,
           .vocab_size = 64});
  return options;
}

}  // namespace redpoll::test
