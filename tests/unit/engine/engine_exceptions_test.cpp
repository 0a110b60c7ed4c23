// What is thrown on the engine thread: whatever it is and wherever it comes from, the engine goes on or says that it
// does not, and every client learns how its request ended.
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "unit/engine/engine_fixture.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::engine {
namespace {

using namespace std::chrono_literals;
using test::Collected;
using test::Gate;
using test::hashed_next_token;
using test::make_prompt;
using test::make_request;
using test::predict;
using test::run;
using test::Running;
using test::scripted_loader;
using test::start_engine;
using test::submit;

TEST(EngineExceptionTest, WhatIsNoStandardExceptionFailsItsRequestToo) {
  std::atomic<bool> throws = true;
  const auto engine = start_engine({}, scripted_loader({.before_step = [&](const auto&) {
                                     if (throws.exchange(false)) throw 42;
                                   }}));
  const auto got = run(*engine, make_request({1}, 5));
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->message, "the step failed: an exception of an unknown kind");
  EXPECT_EQ(run(*engine, make_request({1}, 5)).ids(), predict({1}, 5, hashed_next_token(64)));
  const auto failed = Engine::start({}, []() -> Result<LoadedModel> { throw 42; });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the model could not be loaded: an exception of an unknown kind");
}

/// Polls a queue whose consumer may not have been called.
std::vector<GenerationEvent> take_all(EventQueue& queue, const std::atomic<bool>& is_called) {
  std::vector<GenerationEvent> events;
  for (int i = 0; i < 5000; ++i) {
    if (is_called) {
      for (GenerationEvent& event : queue.take()) events.push_back(std::move(event));
      if (!events.empty() && std::holds_alternative<FinishEvent>(events.back())) return events;
    }
    std::this_thread::sleep_for(1ms);
  }
  return events;
}

TEST(EngineExceptionTest, AConsumerThatCannotBeCalledIsCalledAgain) {
  const auto engine = start_engine({}, scripted_loader());
  std::atomic<int> num_calls = 0;
  std::atomic<bool> is_called = false;
  Request request = make_request({1}, 3);
  request.id = engine->next_request_id();
  request.events = std::make_shared<EventQueue>([&] {
    if (++num_calls <= 5) throw std::bad_alloc();  // more often than there are steps
    is_called = true;
  });
  ASSERT_TRUE(engine->submit(request));
  const auto events = take_all(*request.events, is_called);
  ASSERT_EQ(events.size(), 5U) << "start, three tokens, end";
  EXPECT_GE(num_calls, 6);
  EXPECT_EQ(engine->stats().failed_steps, 0U);
}

TEST(EngineExceptionTest, AConsumerThatCanNeverBeCalledHarmsNobody) {
  auto engine = start_engine({}, scripted_loader());
  Request request = make_request({1}, 3);
  request.id = engine->next_request_id();
  request.events = std::make_shared<EventQueue>([] { throw std::runtime_error("never"); });
  ASSERT_TRUE(engine->submit(request));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(*engine, make_request({2}, 5)).ids().size(), 5U);
  EXPECT_EQ(request.events->take().size(), 5U);
  engine.reset();  // does not wait for ever
}

TEST(EngineExceptionTest, ARequestIsCancelledWithoutMemory) {
  Gate gate;
  const auto engine = start_engine({}, scripted_loader({.before_step = [&](const auto&) { gate.wait(); }}));
  const Running running = submit(*engine, make_request({1}, 1000));
  ASSERT_TRUE(gate.wait_for_arrival());
  test::Allocations& here = test::allocations();
  here.until_failure = 1;
  const std::size_t count_before = here.count;
  engine->cancel(running.id);
  const std::size_t num_allocations = here.count - count_before;
  here.until_failure = 0;
  EXPECT_EQ(num_allocations, 0U);
  gate.open();
  ASSERT_TRUE(running.events->wait_until_done());
  const auto& finish = running.events->collected().finishes[0];
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(engine->stats().cancellations, 1U);
}

/// A clock that lets the n-th allocation of its thread fail, counted from the end of a forward pass to the next one:
/// the engine asks for the time around each.
class FailingClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override {
    if (is_engine_thread_ && is_armed_) {
      is_armed_ = false;
      test::allocations().until_failure = num_allocations_;
    }
    return std::chrono::steady_clock::now();
  }
  void after_passes(int num_passes, int num_allocations) {
    num_passes_ = num_passes;
    num_allocations_ = num_allocations;
  }
  /// On the engine thread, before each forward pass: MLX's own allocations are left alone.
  void before_pass() {
    is_engine_thread_ = true;
    if (num_allocations_ > 0 && num_passes_ < 0) has_fired_ = has_fired_ || test::allocations().until_failure == 0;
    test::allocations().until_failure = 0;
    if (num_passes_-- == 0) is_armed_ = true;
  }
  [[nodiscard]] bool has_fired() const { return has_fired_; }

 private:
  static inline thread_local bool is_engine_thread_ = false;
  mutable bool is_armed_ = false;
  int num_passes_ = 0;
  int num_allocations_ = 0;
  bool has_fired_ = false;
};

/// Each request ends as it should or with an error; nothing is lost, sent twice or left hanging.
void expect_ended_well(const Running& running, const std::vector<TokenId>& want) {
  ASSERT_TRUE(running.events->wait_until_done(5s)) << "a client that nobody told";
  const Collected& got = running.events->collected();
  for (const auto& tokens : got.tokens) {
    ASSERT_LE(tokens.size(), want.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) ASSERT_EQ(tokens[i].id, want[i]) << "a token lost or sent twice";
    if (!got.error) {
      ASSERT_EQ(tokens.size(), want.size());
    }
  }
}

/// Passes before memory runs out, and the prompt cache.
class EngineMemoryTest : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(EngineMemoryTest, EveryClientIsToldWhereverMemoryRunsOut) {
  const auto [num_passes, prompt_cache_bytes] = GetParam();
  const bool keeps_prompts = prompt_cache_bytes > 0;  // and snapshots of states
  int num_fired = 0;
  for (int num_allocations = 1; num_allocations <= 60; ++num_allocations) {
    SCOPED_TRACE(num_allocations);
    FailingClock clock;
    clock.after_passes(num_passes, num_allocations);
    Gate gate;
    auto engine = start_engine({.max_batch = 3,
                                .step_tokens = 16,
                                .block_tokens = 4,
                                .context_length = 64,
                                .prompt_cache_bytes = prompt_cache_bytes},
                               scripted_loader({.has_state = keeps_prompts,
                                                .before_step =
                                                    [&](const auto&) {
                                                      gate.wait();
                                                      clock.before_pass();
                                                    }}),
                               clock);
    std::vector<Running> running;
    std::vector<std::vector<TokenId>> want;
    for (int i = 0; i < 5; ++i) {  // the first starts, the others are admitted when memory has run out
      Request request = make_request(make_prompt(5 + i, keeps_prompts ? 0 : i), 6);
      request.num_choices = 1 + i % 2;
      request.num_top_logprobs = i;
      request.sampling.presence_penalty = i == 3 ? 1e-6F : 0;
      want.push_back(predict(request.prompt, 6, hashed_next_token(64)));
      running.push_back(submit(*engine, request));
      if (i == 0) {
        ASSERT_TRUE(gate.wait_for_arrival());
      }
    }
    gate.open();
    for (std::size_t i = 0; i < running.size(); ++i) ASSERT_NO_FATAL_FAILURE(expect_ended_well(running[i], want[i]));
    EXPECT_EQ(engine->stats().state, EngineState::kReady);
    Collected next = run(*engine, make_request({1}, 5));
    if (next.error) next = run(*engine, make_request({1}, 5));  // the failure had been waiting for it
    EXPECT_EQ(next.ids(), predict({1}, 5, hashed_next_token(64)));
    EXPECT_EQ(engine->stats().kv_bytes_used, engine->stats().prompt_cache.bytes);
    EXPECT_THAT(engine->stats().requests, testing::IsEmpty());
    num_fired += clock.has_fired() ? 1 : 0;
    engine.reset();
  }
  EXPECT_GT(num_fired, 20) << "the test has lost its subject";
}

INSTANTIATE_TEST_SUITE_P(Passes, EngineMemoryTest,
                         testing::Combine(testing::Values(0, 1, 3, 6, 9), testing::Values(0U, 1U << 20U)));

}  // namespace
}  // namespace redpoll::engine
