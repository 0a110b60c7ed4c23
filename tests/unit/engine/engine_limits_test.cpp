// What the engine does not take: prompts that do not fit, a full queue, options out of range, models that do not load.
#include "engine/engine.h"

#include <stdexcept>

#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

using test::make_prompt;
using test::make_request;
using test::run;
using test::Running;
using test::scripted_loader;
using test::start_engine;
using test::submit;

TEST(EngineLimitsTest, WritesNoMoreThanTheContextHolds) {
  const auto engine = start_engine({.context_length = 32}, scripted_loader());
  const auto got = run(*engine, make_request(make_prompt(20, 1), 1000));
  EXPECT_EQ(got.ids().size(), 12U);
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kLength);
}

TEST(EngineLimitsTest, RefusesAPromptLongerThanTheContextWithBothNumbers) {
  const auto engine = start_engine({.context_length = 32}, scripted_loader());
  Request request = make_request(make_prompt(33, 1), 1);
  request.events = std::make_shared<EventQueue>(nullptr);
  Status status = engine->submit(request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kContextLengthExceeded);
  EXPECT_EQ(status.error().message,
            "this model's context is 32 tokens, but the prompt has 33; shorten it or raise --context-length");
  request.prompt.pop_back();
  status = engine->submit(request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "this model's context is 32 tokens, but the prompt has 32, which leaves no room for an answer; shorten it "
            "or raise --context-length");
}

TEST(EngineLimitsTest, AdvisesMoreMemoryWhereThatIsWhatLowersTheContext) {
  const auto engine = start_engine(test::with_blocks(4, {.max_batch = 1, .block_tokens = 8}), scripted_loader());
  const int context = engine->stats().context.tokens;
  ASSERT_LT(context, engine->stats().context.model_tokens);
  Request request = make_request(make_prompt(context + 1, 1), 1);
  request.events = std::make_shared<EventQueue>(nullptr);
  const Status status = engine->submit(request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the context that fits into this server's memory budget is " +
                                        std::to_string(context) + " tokens, but the prompt has " +
                                        std::to_string(context + 1) + "; shorten it or raise --memory-budget");
}

TEST(EngineLimitsTest, DoesNotAdviseAContextThatTheModelLacks) {
  const auto engine = start_engine({}, scripted_loader({.context_length = 100}));
  Request request = make_request(make_prompt(200, 1), 1);
  request.events = std::make_shared<EventQueue>(nullptr);
  EXPECT_EQ(engine->submit(request).error().message,
            "this model's context is 100 tokens, but the prompt has 200; shorten it");
}

TEST(EngineLimitsTest, RefusesWhatNoModelCouldAnswer) {
  const auto engine = start_engine({}, scripted_loader());
  Request request = make_request({}, 1);
  request.events = std::make_shared<EventQueue>(nullptr);
  EXPECT_EQ(engine->submit(request).error().message, "expected a prompt of at least one token");
  for (const TokenId bad : {-1, 64}) {
    request.prompt = {1, bad};
    const Status status = engine->submit(request);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().message, "expected token ids from 0 to 63, got " + std::to_string(bad));
  }
  request.prompt = {1};
  request.num_choices = 0;
  EXPECT_EQ(engine->submit(request).error().message, "expected at least one choice");
  EXPECT_EQ(engine->stats().requests.size(), 0U);
}

TEST(EngineLimitsTest, RefusesMoreRequestsThanTheQueueHoldsUntilOneEnds) {
  test::Gate gate;
  const auto engine = start_engine({.max_batch = 1, .max_queue = 2},
                                   scripted_loader({.before_step = [&](const auto&) { gate.wait(); }}));
  std::vector<Running> running;
  for (int i = 0; i < 3; ++i) running.push_back(submit(*engine, make_request({i}, 1)));
  Request request = make_request({9}, 1);
  request.id = engine->next_request_id();
  request.events = std::make_shared<EventQueue>(nullptr);
  const Status status = engine->submit(request);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kQueueFull);
  EXPECT_EQ(status.error().message,
            "the queue is full: 3 requests are unfinished, and this server takes 1 at a time with 2 more waiting; try "
            "again later");
  gate.open();
  ASSERT_TRUE(running[0].events->wait_until_done());
  EXPECT_TRUE(engine->submit(request)) << "whoever has seen an end finds the place free";
}

TEST(EngineLimitsTest, ReportsWhyAModelWasNotLoaded) {
  const auto refused = Engine::start({}, []() -> Result<LoadedModel> { return fail(ErrorCode::kCorruptFile, "bad"); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruptFile);
  EXPECT_EQ(refused.error().message, "bad");
  const auto threw = Engine::start({}, []() -> Result<LoadedModel> { throw std::runtime_error("no memory"); });
  ASSERT_FALSE(threw);
  EXPECT_EQ(threw.error().code, ErrorCode::kInternal);
  EXPECT_EQ(threw.error().message, "the model could not be loaded: no memory");
  const auto too_big = Engine::start({.memory_budget_bytes = 64}, scripted_loader());
  ASSERT_FALSE(too_big);
  EXPECT_EQ(too_big.error().param, "memory-budget");
}

TEST(EngineLimitsTest, RefusesOptionsOutOfRange) {
  const auto message = [](const EngineOptions& options) {
    const auto engine = Engine::start(options, scripted_loader());
    EXPECT_FALSE(engine);
    return engine ? "" : engine.error().param + ": " + engine.error().message;
  };
  EXPECT_EQ(message({.max_batch = 0}), "max-batch: expected --max-batch of at least 1, got 0");
  EXPECT_EQ(message({.max_queue = -1}), "max-queue: expected --max-queue of at least 0, got -1");
  EXPECT_EQ(message({.block_tokens = 0}), "block-tokens: expected --block-tokens of at least 1, got 0");
  EXPECT_EQ(message({.context_length = -1}), "context-length: expected --context-length of at least 0, got -1");
  EXPECT_EQ(message({.max_batch = 8, .step_tokens = 7}),
            "step-tokens: expected --step-tokens of at least 8, one for each sequence of a full batch, got 7");
  EXPECT_EQ(message({.context_length = 2000}),
            "context-length: expected --context-length of at most 1024, which the model was trained for, got 2000");
}

}  // namespace
}  // namespace redpoll::engine
