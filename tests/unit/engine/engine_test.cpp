// The engine through its commands and events: answers, logprobs, and what its books say.
#include "engine/engine.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "support/fake_clock.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

using namespace std::chrono_literals;
using test::Collected;
using test::EventCollector;
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
using testing::ElementsAre;
using testing::IsEmpty;

TEST(EngineTest, AnswersWithWhatTheModelSays) {
  const auto engine = start_engine({}, scripted_loader());
  const auto prompt = make_prompt(5, 3);
  const auto got = run(*engine, make_request(prompt, 20));
  EXPECT_EQ(got.ids(), predict(prompt, 20, hashed_next_token(64)));
  ASSERT_TRUE(got.finishes[0]);
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kLength);
  EXPECT_EQ(got.finishes[0]->prompt_tokens, 5);
  EXPECT_EQ(got.finishes[0]->completion_tokens, 20);
  EXPECT_FALSE(got.error);
}

TEST(EngineTest, GivesTheSameAnswerAloneAndAmongSixteen) {
  const auto engine = start_engine({.max_batch = 5, .step_tokens = 24, .block_tokens = 4}, scripted_loader());
  std::vector<Request> requests;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(make_request(make_prompt(1 + i * 11, i), 1 + (i * 13) % 37));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.0F : 1.5F;
    requests.back().sampling.seed = 100 + static_cast<std::uint64_t>(i);
    requests.back().sampling.frequency_penalty = i % 3 == 0 ? 0.5F : 0.0F;
    requests.back().sampling.dry_multiplier = i % 5 == 0 ? 0.8F : 0.0F;
    requests.back().num_top_logprobs = 3;
  }
  std::vector<Collected> alone;
  for (const Request& request : requests) alone.push_back(run(*engine, request));

  std::vector<Running> together;
  for (const Request& request : requests) together.push_back(submit(*engine, request));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i].events->wait_until_done());
    const Collected& got = together[i].events->collected();
    EXPECT_EQ(got.ids(), alone[i].ids()) << i;
    EXPECT_EQ(got.ids().size(), static_cast<std::size_t>(requests[i].max_tokens));
    for (std::size_t t = 0; t < got.ids().size(); ++t) {
      EXPECT_EQ(got.tokens[0][t].logprob, alone[i].tokens[0][t].logprob);
    }
  }
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineTest, GivesTheSameAnswerWhenBlocksAreShort) {
  const auto prompt_of = [](int i) { return make_prompt(20 + i, i); };
  // Ten blocks of four tokens hold one request of 24 + 16 tokens and little more.
  const auto engine = start_engine(
      with_blocks(10, {.max_batch = 4, .step_tokens = 16, .block_tokens = 4, .context_length = 40}), scripted_loader());
  EXPECT_EQ(engine->stats().blocks_total, 10);
  std::vector<Running> running;
  for (int i = 0; i < 5; ++i) running.push_back(submit(*engine, make_request(make_prompt(3 + i, i), 30)));
  for (int i = 0; i < 5; ++i) running.push_back(submit(*engine, make_request(prompt_of(i), 16 - i)));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    const auto want = i < 5 ? predict(make_prompt(3 + i, i), 30, hashed_next_token(64))
                            : predict(prompt_of(i - 5), 16 - (i - 5), hashed_next_token(64));
    EXPECT_EQ(running[static_cast<std::size_t>(i)].events->collected().ids(), want) << "no token lost or sent twice";
  }
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineTest, GivesTheSameAnswerWhereLayersHaveWindows) {
  // The model checks that each layer still has what its window sees. Ten blocks of each group: windows of nine tokens
  // for two or three sequences, and one whole request.
  EngineOptions options{.max_batch = 4, .step_tokens = 16, .block_tokens = 4, .context_length = 40};
  options = with_blocks(3 * 10, options);
  const auto engine = start_engine(options, scripted_loader({.windows = {0, 9, 1}}));
  ASSERT_EQ(engine->stats().kv_groups.size(), 3U);
  std::vector<Running> running;
  for (int i = 0; i < 8; ++i)
    running.push_back(submit(*engine, make_request(make_prompt(4 * i + 1, i), 40 - 4 * i - 1)));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    const Collected& got = running[static_cast<std::size_t>(i)].events->collected();
    ASSERT_FALSE(got.error) << got.error->message;
    EXPECT_EQ(got.ids(), predict(make_prompt(4 * i + 1, i), 40 - 4 * i - 1, hashed_next_token(64)));
  }
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineTest, GivesTheSameAnswerWhereALayerHasAState) {
  // The model checks that each row's state is of its own tokens, all of them and no others.
  const EngineOptions options{.max_batch = 3, .step_tokens = 16, .block_tokens = 4, .context_length = 40};
  const auto engine = start_engine(with_blocks(11, options), scripted_loader({.has_state = true}));
  std::vector<Running> running;
  for (int i = 0; i < 9; ++i) {
    Request request = make_request(make_prompt(4 * i + 1, i), 40 - 4 * i - 1);
    request.num_choices = i % 3 + 1;
    running.push_back(submit(*engine, request));
  }
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(running[static_cast<std::size_t>(i)].events->wait_until_done());
    const Collected& got = running[static_cast<std::size_t>(i)].events->collected();
    ASSERT_FALSE(got.error) << got.error->message;
    for (std::size_t choice = 0; choice < static_cast<std::size_t>(i % 3 + 1); ++choice) {
      EXPECT_EQ(got.ids(choice), predict(make_prompt(4 * i + 1, i), 40 - 4 * i - 1, hashed_next_token(64)));
    }
  }
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineTest, AWindowKeepsNoMoreBlocksThanItStandsIn) {
  std::ptrdiff_t most_kept = 0;
  const auto count = [&](const kernels::RaggedBatch& batch) {
    const kernels::BatchRow& row = batch.rows.front();
    if (row.num_tokens > 1) return;
    most_kept =
        std::max(most_kept, std::ranges::count_if(batch.block_table(row, 1), [](int block) { return block >= 0; }));
  };
  const auto engine = start_engine({.max_batch = 1, .step_tokens = 64, .block_tokens = 4},
                                   scripted_loader({.windows = {0, 9}, .before_step = count}));
  EXPECT_EQ(run(*engine, make_request(make_prompt(200, 1), 100)).ids().size(), 100U);
  EXPECT_EQ(most_kept, 3);
}

TEST(EngineTest, StopsAtAStopIdWithoutDeliveringIt) {
  const auto prompt = make_prompt(4, 1);
  const auto free = predict(prompt, 10, hashed_next_token(64));
  Request request = make_request(prompt, 10);
  request.stop_ids = {free[3]};
  const auto until = static_cast<std::size_t>(std::ranges::find(free, free[3]) - free.begin());
  const auto engine = start_engine({}, scripted_loader());
  const auto got = run(*engine, request);
  EXPECT_EQ(got.ids(), std::vector<TokenId>(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(until)));
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kStop);
  EXPECT_EQ(got.finishes[0]->completion_tokens, static_cast<int>(until));
}

TEST(EngineTest, DoesNotStopBeforeTheLeastNumberOfTokens) {
  const auto always_stop = [](std::span<const TokenId>) { return TokenId{7}; };
  const auto engine = start_engine({}, scripted_loader({.next_token = always_stop}));
  Request request = make_request({1, 2}, 10);
  request.stop_ids = {7};
  request.min_tokens = 4;
  const auto got = run(*engine, request);
  EXPECT_EQ(got.ids().size(), 4U);
  EXPECT_EQ(std::ranges::count(got.ids(), 7), 0);
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kStop);
  request.stop_ids = {};  // what ignore_eos means here
  request.min_tokens = 0;
  EXPECT_EQ(run(*engine, request).ids(), std::vector<TokenId>(10, 7));
}

TEST(EngineTest, ReadsAPromptWithoutAnsweringIt) {
  const auto engine = start_engine({.context_length = 32}, scripted_loader());
  const auto got = run(*engine, make_request(make_prompt(32, 1), 0));
  EXPECT_THAT(got.ids(), IsEmpty());
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kLength);
  EXPECT_EQ(got.finishes[0]->completion_tokens, 0);
}

TEST(EngineTest, DrawsAnewWithoutASeed) {
  const auto engine = start_engine({}, test::uniform_loader(1000));
  Request request = make_request({1}, 20);
  request.sampling.temperature = 1;
  EXPECT_NE(run(*engine, request).ids(), run(*engine, request).ids());
  request.sampling.seed = 4;
  EXPECT_EQ(run(*engine, request).ids(), run(*engine, request).ids());
}

TEST(EngineTest, StartsWhatIsUrgentFirst) {
  test::Gate gate;
  std::vector<TokenId> order;
  const auto engine =
      start_engine({.max_batch = 1}, scripted_loader({.before_step = [&](const kernels::RaggedBatch& batch) {
                     order.push_back(batch.tokens.front());
                     gate.wait();
                   }}));
  std::vector<Running> running;
  running.push_back(submit(*engine, make_request({60}, 1)));
  ASSERT_TRUE(gate.wait_for_arrival());
  for (const TokenId first : {10, 11, 12}) {
    Request request = make_request({first}, 1);
    request.priority = first == 11 ? 5 : 0;
    running.push_back(submit(*engine, std::move(request)));
  }
  gate.open();
  for (const Running& request : running) ASSERT_TRUE(request.events->wait_until_done());
  EXPECT_THAT(order, ElementsAre(60, 11, 10, 12));
}

TEST(EngineTest, LogprobsAreTheModelsWhateverTheTemperature) {
  const auto engine = start_engine({}, scripted_loader());
  Request request = make_request(make_prompt(4, 1), 1);
  request.num_top_logprobs = 20;
  const auto cold = run(*engine, request).tokens[0][0];
  request.sampling.temperature = 2;
  request.sampling.logit_bias = {{5, 100.0F}};
  const auto warm = run(*engine, request).tokens[0][0];
  ASSERT_EQ(cold.top.size(), 20U);
  EXPECT_EQ(warm.id, 5);
  EXPECT_LT(warm.logprob, -4);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(cold.top[i].id, warm.top[i].id);
    EXPECT_EQ(cold.top[i].logprob, warm.top[i].logprob);
    EXPECT_LE(cold.top[i].logprob, i == 0 ? 0 : cold.top[i - 1].logprob);
  }
  EXPECT_EQ(cold.logprob, cold.top[0].logprob);
}

TEST(EngineTest, ScoresAPromptAlikeInOneStepAndInMany) {
  std::vector<PromptEvent> events;
  for (const int step_tokens : {512, 8}) {
    const auto engine = start_engine({.step_tokens = step_tokens}, scripted_loader());
    Request request = make_request(make_prompt(150, 5), 2);
    request.num_top_logprobs = 2;
    request.prompt_logprobs = true;
    request.num_choices = 2;
    const auto got = run(*engine, request);
    ASSERT_TRUE(got.prompt);
    EXPECT_TRUE(got.prompt_came_first);
    events.push_back(*got.prompt);
    EXPECT_EQ(got.ids(1), predict(request.prompt, 2, hashed_next_token(64)));
  }
  ASSERT_EQ(events[0].tokens.size(), 150U);
  ASSERT_EQ(events[1].tokens.size(), 150U);
  const auto prompt = make_prompt(150, 5);
  EXPECT_THAT(events[0].tokens[0].top, IsEmpty());
  for (std::size_t i = 0; i < 150; ++i) {
    EXPECT_EQ(events[0].tokens[i].id, prompt[i]);
    EXPECT_EQ(events[0].tokens[i].logprob, events[1].tokens[i].logprob);
    if (i == 0) continue;
    ASSERT_EQ(events[0].tokens[i].top.size(), 2U);
    EXPECT_EQ(events[0].tokens[i].top[0].id, hashed_next_token(64)(std::span(prompt).first(i)));
    EXPECT_LT(events[0].tokens[i].logprob, 0);
  }
}

TEST(EngineTest, ScoresAPromptOfOneTokenAndAnswersNothing) {
  const auto engine = start_engine({}, scripted_loader());
  Request request = make_request({5}, 0);
  request.prompt_logprobs = true;
  const auto got = run(*engine, request);
  ASSERT_TRUE(got.prompt);
  ASSERT_EQ(got.prompt->tokens.size(), 1U);
  EXPECT_EQ(got.prompt->tokens[0].id, 5);
  EXPECT_TRUE(got.finishes[0]);
}

TEST(EngineTest, ScoresAPromptOnceThoughItIsPreempted) {
  const auto engine = start_engine(
      with_blocks(16, {.max_batch = 2, .step_tokens = 8, .block_tokens = 4, .context_length = 64}), scripted_loader());
  Request scored = make_request(make_prompt(30, 5), 4);
  scored.prompt_logprobs = true;
  const auto alone = run(*engine, scored);
  const Running older = submit(*engine, make_request(make_prompt(8, 1), 50));
  const Running younger = submit(*engine, scored);
  ASSERT_TRUE(younger.events->wait_until_done());
  ASSERT_TRUE(older.events->wait_until_done());
  const Collected& got = younger.events->collected();
  ASSERT_TRUE(got.prompt);
  ASSERT_EQ(got.prompt->tokens.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(got.prompt->tokens[i].logprob, alone.prompt->tokens[i].logprob);
  EXPECT_EQ(got.ids(), alone.ids());
}

TEST(EngineTest, AStalledConsumerStallsOnlyItself) {
  const auto engine = start_engine({.max_batch = 1}, scripted_loader());
  const auto slow_queue = std::make_shared<EventQueue>(nullptr, 3);
  Request slow = make_request({1}, 10);
  slow.id = engine->next_request_id();
  slow.events = slow_queue;
  ASSERT_TRUE(engine->submit(slow));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run(*engine, make_request({2, i}, 10)).ids(), predict({2, i}, 10, hashed_next_token(64)));
  }
  std::vector<TokenId> ids;
  bool finished = false;
  for (int i = 0; i < 10'000 && !finished; ++i) {
    const auto events = slow_queue->take();
    EXPECT_LE(events.size(), 4U) << "three tokens and the end";
    for (const auto& event : events) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) ids.push_back(token->id);
      finished |= std::holds_alternative<FinishEvent>(event);
    }
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(ids, predict({1}, 10, hashed_next_token(64)));
}

TEST(EngineTest, MeasuresTimeByItsClock) {
  test::FakeClock clock;
  const auto engine = start_engine({.max_batch = 1, .step_tokens = 4},
                                   scripted_loader({.before_step = [&](const auto&) { clock.advance(100ms); }}), clock);
  const auto got = run(*engine, make_request(make_prompt(8, 1), 5));  // two steps for the prompt, four more
  const Timings& timings = got.finishes[0]->timings;
  EXPECT_DOUBLE_EQ(timings.queue_ms, 0);
  EXPECT_DOUBLE_EQ(timings.prefill_ms, 200);
  EXPECT_DOUBLE_EQ(timings.ttft_ms, 200);
  EXPECT_DOUBLE_EQ(timings.decode_ms, 400);
  const EngineStats stats = engine->stats();
  EXPECT_DOUBLE_EQ(stats.step_ms_p50, 100);
  EXPECT_DOUBLE_EQ(stats.tokens_per_s, 5 / 0.6);
  EXPECT_DOUBLE_EQ(stats.prefill_tokens_per_s, 8 / 0.6);
  EXPECT_EQ(stats.steps, 6U);
  EXPECT_EQ(stats.prompt_tokens_total, 8U);
  EXPECT_EQ(stats.generated_tokens_total, 5U);
}

TEST(EngineTest, StatsAnswerWhileAStepRuns) {
  test::Gate gate;
  std::atomic<bool> is_blocking = false;
  const auto engine = start_engine({.max_batch = 1, .step_tokens = 16, .block_tokens = 4},
                                   scripted_loader({.before_step = [&](const kernels::RaggedBatch& batch) {
                                     if (is_blocking && batch.positions.front() > 0) gate.wait();
                                   }}));
  is_blocking = true;
  Request request = make_request(make_prompt(40, 1), 5);
  request.num_choices = 1;
  const Running running = submit(*engine, request);
  ASSERT_TRUE(gate.wait_for_arrival());
  const Running waiting = submit(*engine, make_request(make_prompt(7, 1), 5));
  const auto started = std::chrono::steady_clock::now();
  const EngineStats stats = engine->stats();
  EXPECT_LT(std::chrono::steady_clock::now() - started, 50ms);
  EXPECT_EQ(stats.state, EngineState::kReady);
  EXPECT_EQ(stats.running, 1);
  EXPECT_EQ(stats.waiting, 1);
  ASSERT_EQ(stats.requests.size(), 2U);
  EXPECT_EQ(stats.requests[0].name, "request-1");
  EXPECT_EQ(stats.requests[0].state, "prefill");
  EXPECT_EQ(stats.requests[0].prompt_tokens, 40);
  EXPECT_EQ(stats.requests[0].computed_tokens, 16);
  EXPECT_EQ(stats.requests[1].name, "request-2");
  EXPECT_EQ(stats.requests[1].state, "waiting");
  EXPECT_EQ(stats.requests[1].prompt_tokens, 7);
  EXPECT_EQ(stats.block_tokens, 4);
  EXPECT_EQ(stats.blocks_used, 8) << "those of the step that runs, too";
  EXPECT_EQ(stats.kv_bytes_used, 32 * test::scripted_bytes_per_token());
  EXPECT_EQ(stats.vocab_size, 64);
  EXPECT_EQ(stats.context.tokens, 1024);
  gate.open();
  EXPECT_TRUE(running.events->wait_until_done());
  EXPECT_TRUE(waiting.events->wait_until_done());
}

TEST(EngineTest, ARequestIsNeverMissingFromTheStats) {
  test::Gate gate;
  const auto engine =
      start_engine({.max_batch = 1, .step_tokens = 16, .block_tokens = 4},
                   scripted_loader({.before_step = [&](const kernels::RaggedBatch& /*batch*/) { gate.wait(); }}));
  const Running running = submit(*engine, make_request(make_prompt(40, 1), 5));
  // Until the gate opens its first step cannot end; before that, the engine thread takes the command at any moment.
  const auto look = [&] {
    const EngineStats stats = engine->stats();
    ASSERT_EQ(stats.running + stats.waiting, 1);
    ASSERT_EQ(stats.requests.size(), 1U);
    ASSERT_EQ(stats.requests[0].name, "request-1");
  };
  for (int i = 0; i < 1000; ++i) look();
  ASSERT_TRUE(gate.wait_for_arrival());
  look();
  EXPECT_EQ(engine->stats().running, 1) << "its first step is on its way";
  EXPECT_EQ(engine->stats().requests[0].state, "prefill");
  gate.open();
  EXPECT_TRUE(running.events->wait_until_done());
}

TEST(EngineTest, TakesNoProcessorTimeWhenIdle) {
  const auto engine = start_engine({}, scripted_loader());
  (void)run(*engine, make_request({1}, 3));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1);
}

}  // namespace
}  // namespace redpoll::engine
