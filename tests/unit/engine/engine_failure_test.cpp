// What ends requests early: cancellation in every state, steps that throw, logits that are not numbers, shutdown.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

using namespace std::chrono_literals;
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
using test::with_blocks;

void expect_cancelled(const Running& running) {
  ASSERT_TRUE(running.events->wait_until_done());
  for (const auto& finish : running.events->collected().finishes) {
    ASSERT_TRUE(finish);
    EXPECT_EQ(finish->reason, FinishReason::kCancelled);
  }
}

TEST(EngineCancelTest, EndsARequestThatWaits) {
  Gate gate;
  const auto engine =
      start_engine({.max_batch = 1}, scripted_loader({.before_step = [&](const auto&) { gate.wait(); }}));
  const Running first = submit(*engine, make_request({1}, 3));
  ASSERT_TRUE(gate.wait_for_arrival());
  const Running second = submit(*engine, make_request({2}, 3));
  engine->cancel(second.id);
  engine->cancel(second.id);
  gate.open();
  expect_cancelled(second);
  EXPECT_EQ(second.events->collected().ids().size(), 0U);
  ASSERT_TRUE(first.events->wait_until_done());
  EXPECT_EQ(first.events->collected().ids(), predict({1}, 3, hashed_next_token(64)));
  EXPECT_EQ(engine->stats().cancellations, 1U);
}

TEST(EngineCancelTest, EndsARequestInTheMiddleOfItsPrompt) {
  Gate gate;
  const auto engine = start_engine({.max_batch = 1, .step_tokens = 8},
                                   scripted_loader({.before_step = [&](const auto&) { gate.wait(); }}));
  const Running running = submit(*engine, make_request(make_prompt(100, 1), 3));
  ASSERT_TRUE(gate.wait_for_arrival());
  engine->cancel(running.id);
  gate.open();
  expect_cancelled(running);
  EXPECT_EQ(engine->stats().blocks_used, 0);
  EXPECT_EQ(engine->stats().steps, 1U);
}

TEST(EngineCancelTest, EndsAllChoicesWhileTheyAreGenerated) {
  const auto engine = start_engine({.max_batch = 2}, scripted_loader());
  Request request = make_request({1}, 900);
  request.num_choices = 3;
  const Running running = submit(*engine, request, 8);
  ASSERT_TRUE(running.events->wait_for_tokens(2));
  engine->cancel(running.id);
  expect_cancelled(running);
  EXPECT_EQ(engine->stats().blocks_used, 0);
  EXPECT_EQ(engine->stats().cancellations, 1U);
}

TEST(EngineCancelTest, EndsARequestThatWasPreempted) {
  std::atomic<bool> is_preempted = false;
  std::atomic<bool> has_begun = false;
  Gate begin;  // until both are there: the younger is a token behind, and has taken its last block when there is none
  Gate gate;
  const auto engine =
      start_engine(with_blocks(10, {.max_batch = 2, .step_tokens = 16, .block_tokens = 4, .context_length = 40}),
                   scripted_loader({.before_step = [&](const kernels::RaggedBatch& batch) {
                     if (!has_begun.exchange(true)) begin.wait();
                     if (batch.rows.size() == 1 && batch.positions.front() > 8) {
                       is_preempted = true;  // the older one goes on alone
                       gate.wait();
                     }
                   }}));
  const Running older = submit(*engine, make_request(make_prompt(4, 1), 36));
  ASSERT_TRUE(begin.wait_for_arrival());
  const Running younger = submit(*engine, make_request(make_prompt(4, 2), 36));
  begin.open();
  ASSERT_TRUE(gate.wait_for_arrival());
  EXPECT_TRUE(is_preempted);
  EXPECT_EQ(engine->stats().preemptions, 1U);
  engine->cancel(younger.id);
  gate.open();
  expect_cancelled(younger);
  ASSERT_TRUE(older.events->wait_until_done());
  EXPECT_EQ(older.events->collected().ids(), predict(make_prompt(4, 1), 36, hashed_next_token(64)));
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineCancelTest, TwentyStreamsFreeAllBlocksAtOnce) {
  const auto engine = start_engine({.max_batch = 8, .block_tokens = 4}, scripted_loader());
  std::vector<Running> running;
  for (int i = 0; i < 20; ++i) running.push_back(submit(*engine, make_request(make_prompt(10 + i, i), 900), 4));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_for_tokens(1));
  const auto started = std::chrono::steady_clock::now();
  for (const Running& request : running) engine->cancel(request.id);
  for (const Running& request : running) expect_cancelled(request);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 1s);
  EXPECT_EQ(engine->stats().blocks_used, 0);
  EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
  EXPECT_EQ(run(*engine, make_request({1}, 5)).ids(), predict({1}, 5, hashed_next_token(64)));
}

TEST(EngineCancelTest, IgnoresUnknownAndFinishedRequests) {
  const auto engine = start_engine({}, scripted_loader());
  engine->cancel(77);
  const Running running = submit(*engine, make_request({1}, 2));
  ASSERT_TRUE(running.events->wait_until_done());
  engine->cancel(running.id);
  EXPECT_EQ(run(*engine, make_request({2}, 2)).ids().size(), 2U);
  EXPECT_EQ(engine->stats().cancellations, 0U);
}

/// Throws whenever this token is fed.
test::ScriptedModelOptions throws_on(TokenId culprit) {
  return {.before_step = [culprit](const kernels::RaggedBatch& batch) {
    if (std::ranges::count(batch.tokens, culprit) > 0) throw std::runtime_error("bad token");
  }};
}

TEST(EngineFailureTest, AStepThatThrowsFailsItsOwnRequestOnly) {
  Gate gate;
  std::atomic<bool> is_first = true;
  test::ScriptedModelOptions model = throws_on(63);
  model.next_token = hashed_next_token(64, 63);
  model.before_step = [&, thrower = model.before_step](const kernels::RaggedBatch& batch) {
    if (is_first.exchange(false)) gate.wait();  // until all have come
    thrower(batch);
  };
  const auto engine = start_engine({.max_batch = 8, .step_tokens = 16, .block_tokens = 4}, scripted_loader(model));
  std::vector<Running> running;
  for (int i = 0; i < 7; ++i) {
    auto prompt = make_prompt(1, i);
    for (int j = 0; j < 5 * i; ++j) prompt.push_back((i + j) % 60);
    if (i == 3) prompt.back() = 63;
    running.push_back(submit(*engine, make_request(prompt, 20)));
    if (i == 0) {
      ASSERT_TRUE(gate.wait_for_arrival());
    }
  }
  gate.open();
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    const auto& got = running[static_cast<std::size_t>(i)].events->collected();
    if (i == 3) {
      ASSERT_TRUE(got.error);
      EXPECT_EQ(got.error->code, ErrorCode::kInternal);
      EXPECT_EQ(got.error->message, "the step failed: bad token");
      EXPECT_FALSE(got.finishes[0]);
      continue;
    }
    EXPECT_FALSE(got.error);
    auto prompt = make_prompt(1, i);
    for (int j = 0; j < 5 * i; ++j) prompt.push_back((i + j) % 60);
    EXPECT_EQ(got.ids(), predict(prompt, 20, hashed_next_token(64, 63))) << "no token lost or sent twice";
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.state, EngineState::kReady);
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_GE(stats.failed_steps, 2U);
  EXPECT_EQ(run(*engine, make_request({1}, 5)).ids(), predict({1}, 5, hashed_next_token(64, 63)));
}

TEST(EngineFailureTest, AFailureThatGoesAwayCostsNobodyAnything) {
  Gate gate;  // the first step waits until all four are there
  std::atomic<int> step = 0;
  const auto engine = start_engine({.max_batch = 4}, scripted_loader({.before_step = [&](const auto& batch) {
                                     gate.wait();
                                     if (batch.rows.size() > 1 && ++step == 3) throw std::runtime_error("once");
                                   }}));
  std::vector<Running> running;
  for (int i = 0; i < 4; ++i) running.push_back(submit(*engine, make_request({i, 1}, 30)));
  gate.open();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    EXPECT_EQ(running[static_cast<std::size_t>(i)].events->collected().ids(),
              predict({i, 1}, 30, hashed_next_token(64)));
  }
  EXPECT_EQ(engine->stats().failed_steps, 1U);
  EXPECT_EQ(engine->stats().preemptions, 0U);
}

TEST(EngineFailureTest, ThreeFailedStepsInARowEndTheEngine) {
  const auto engine = start_engine({}, scripted_loader(throws_on(63)));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(*engine, make_request({63}, 5)).error->code, ErrorCode::kInternal);
  EXPECT_EQ(run(*engine, make_request({1}, 1)).ids().size(), 1U) << "a good one in between starts the count again";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(*engine, make_request({63}, 5)).error->code, ErrorCode::kInternal);

  const std::string reason = "the engine has stopped because 3 steps in a row failed, the last one with: bad token";
  EngineStats stats = engine->stats();
  for (int i = 0; i < 1000 && stats.state == EngineState::kReady; ++i) {
    std::this_thread::sleep_for(1ms);
    stats = engine->stats();
  }
  EXPECT_EQ(stats.state, EngineState::kFailed);
  EXPECT_EQ(stats.reason, reason);
  Request request = make_request({1}, 1);
  request.events = std::make_shared<EventQueue>(nullptr);
  const Status status = engine->submit(request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(status.error().message, reason);
}

TEST(EngineFailureTest, AnEngineThatEndsTellsAllWhoWait) {
  Gate gate;
  const auto engine = start_engine({.max_batch = 1}, scripted_loader({.before_step = [&](const auto&) {
                                     gate.wait();
                                     throw std::runtime_error("broken");
                                   }}));
  std::vector<Running> running;
  for (int i = 0; i < 6; ++i) running.push_back(submit(*engine, make_request({i}, 5)));
  gate.open();
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    const auto& error = running[static_cast<std::size_t>(i)].events->collected().error;
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, i < 3 ? ErrorCode::kInternal : ErrorCode::kUnavailable);
    EXPECT_EQ(error->message,
              i < 3 ? "the step failed: broken"
                    : "the engine has stopped because 3 steps in a row failed, the last one with: broken");
  }
}

TEST(EngineFailureTest, LogitsThatAreNotNumbersFailTheirRequestOnly) {
  const auto spoil = [](std::span<const TokenId> prefix, std::span<float> logits) {
    if (prefix.front() == 63 && prefix.size() > 4) logits[7] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto engine = start_engine({.max_batch = 4}, scripted_loader({.edit_logits = spoil}));
  Request bad = make_request({63, 1}, 10);
  bad.num_choices = 2;
  const Running spoiled = submit(*engine, bad);
  const Running good = submit(*engine, make_request({1}, 10));
  ASSERT_TRUE(spoiled.events->wait_until_done());
  ASSERT_TRUE(good.events->wait_until_done());
  const auto& got = spoiled.events->collected();
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, ErrorCode::kInternal);
  EXPECT_EQ(got.error->message, "the model computed logits that are not finite numbers for this request");
  EXPECT_EQ(got.ids(0).size(), 3U);
  EXPECT_EQ(good.events->collected().ids(), predict({1}, 10, hashed_next_token(64)));
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);

  Request scored = make_request({63, 1, 2, 3, 4, 5, 6}, 0);
  scored.prompt_logprobs = true;
  EXPECT_EQ(run(*engine, scored).error->code, ErrorCode::kInternal);
}

TEST(EngineShutdownTest, EndsWhatRunsAndWhatWaits) {
  std::vector<Running> running;
  {
    const auto engine = start_engine({.max_batch = 2}, scripted_loader());
    for (int i = 0; i < 6; ++i) running.push_back(submit(*engine, make_request({i}, 900), 4));
    ASSERT_TRUE(running[0].events->wait_for_tokens(1));
  }
  for (const Running& request : running) expect_cancelled(request);
  (void)running[0].events->queue()->take();  // a queue may outlive its engine
}

/// Fifteen requests one after the other, every third cancelled on the way.
void be_a_client(Engine& engine, int client) {
  for (int i = 0; i < 15; ++i) {
    const auto prompt = make_prompt(1 + (client * 15 + i) % 40, client);
    const Running running = submit(engine, make_request(prompt, 25), 4);
    const bool is_cancelled = i % 3 == 0;
    if (is_cancelled) {
      EXPECT_TRUE(running.events->wait_for_tokens(3));
      engine.cancel(running.id);
    }
    EXPECT_TRUE(running.events->wait_until_done());
    if (!is_cancelled) {
      EXPECT_EQ(running.events->collected().ids(), predict(prompt, 25, hashed_next_token(64)));
    }
  }
}

TEST(EngineThreadTest, ManyClientsComeAndGoAtOnce) {
  const auto engine =
      start_engine({.max_batch = 4, .max_queue = 100, .step_tokens = 16, .block_tokens = 4}, scripted_loader());
  std::atomic<bool> is_over = false;
  std::thread watcher([&] {
    while (!is_over) {
      (void)engine->stats();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) clients.emplace_back([&, c] { be_a_client(*engine, c); });
  for (std::thread& client : clients) client.join();
  is_over = true;
  watcher.join();
  EXPECT_EQ(engine->stats().blocks_used, 0);
  EXPECT_EQ(engine->stats().requests.size(), 0U);
}

}  // namespace
}  // namespace redpoll::engine
