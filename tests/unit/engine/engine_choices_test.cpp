// Several choices of one request: they share the computed prompt and nothing else that anybody could notice.
#include <map>
#include <stdexcept>

#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

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

TEST(EngineChoicesTest, ChoicesDifferByTheirDrawsOnly) {
  const auto engine = start_engine({.max_batch = 3}, scripted_loader());
  Request request = make_request(make_prompt(6, 2), 12);
  request.num_choices = 5;
  const auto greedy = run(*engine, request);
  for (std::size_t choice = 0; choice < 5; ++choice) {
    EXPECT_EQ(greedy.ids(choice), predict(request.prompt, 12, hashed_next_token(64)));
    EXPECT_EQ(greedy.finishes[choice]->choice, static_cast<int>(choice));
  }
  request.sampling.temperature = 5;
  request.sampling.seed = 1;
  const auto drawn = run(*engine, request);
  const auto again = run(*engine, request);
  EXPECT_NE(drawn.ids(0), drawn.ids(1));
  for (std::size_t choice = 0; choice < 5; ++choice) EXPECT_EQ(drawn.ids(choice), again.ids(choice));
}

/// A scripted model and how many tokens it has computed, by position.
struct CountingModel {
  std::map<int, int> computed;
  int num_tokens = 0;
  ModelLoader loader(std::vector<int> windows = {0}, bool has_state = false) {
    return scripted_loader({.windows = std::move(windows),
                            .has_state = has_state,
                            .before_step = [this](const kernels::RaggedBatch& batch) {
                              num_tokens += batch.num_tokens();
                              for (const int position : batch.positions) ++computed[position];
                            }});
  }
};

TEST(EngineChoicesTest, FourChoicesComputeALongPromptOnce) {
  for (const int max_batch : {8, 3, 1}) {
    CountingModel model;
    const auto engine = start_engine({.max_batch = max_batch, .step_tokens = 64, .block_tokens = 32}, model.loader());
    Request request = make_request(make_prompt(500, 2), 6);
    request.num_choices = 4;
    request.sampling.temperature = 5;
    request.sampling.seed = 3;
    const auto together = run(*engine, request);
    EXPECT_EQ(model.computed[0], 1);
    EXPECT_EQ(model.computed[498], 1);
    EXPECT_EQ(model.computed[499], 4) << "each chooses its first token from the last of the prompt";
    EXPECT_EQ(model.num_tokens, 499 + 4 + 4 * 5);
    EXPECT_EQ(engine->stats().prompt_tokens_total, 500U);
    EXPECT_EQ(engine->stats().generated_tokens_total, 24U);
    EXPECT_EQ(engine->stats().blocks_used, 0);

    // With other numbers of choices there is other company, and the answers are the same.
    request.num_choices = 3;
    const auto fewer = run(*engine, request);
    for (std::size_t choice = 0; choice < 3; ++choice) EXPECT_EQ(fewer.ids(choice), together.ids(choice));
    for (std::size_t choice = 0; choice < 4; ++choice) EXPECT_EQ(together.finishes[choice]->prompt_tokens, 500);
  }
}

TEST(EngineChoicesTest, ChoicesTakeOverWindowsAtTheMomentThePromptEnds) {
  CountingModel model;
  const auto engine = start_engine({.max_batch = 4, .step_tokens = 64, .block_tokens = 4}, model.loader({0, 6}));
  Request request = make_request(make_prompt(101, 2), 20);
  request.num_choices = 6;
  request.sampling.temperature = 5;
  request.sampling.seed = 3;
  const auto got = run(*engine, request);
  EXPECT_EQ(model.computed[0], 2) << "for four together, and for two that came too late for what these had left behind";
  request.num_choices = 1;
  EXPECT_EQ(got.ids(0), run(*engine, request).ids(0));
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineChoicesTest, ChoicesTakeOverAStateAtTheMomentThePromptEnds) {
  CountingModel model;
  const auto engine = start_engine({.max_batch = 4, .step_tokens = 64, .block_tokens = 4}, model.loader({0}, true));
  Request request = make_request(make_prompt(101, 2), 20);
  request.num_choices = 4;
  request.sampling.temperature = 5;
  request.sampling.seed = 3;
  const auto got = run(*engine, request);
  EXPECT_EQ(model.computed[0], 1);
  EXPECT_EQ(model.computed[99], 1);
  request.num_choices = 1;
  EXPECT_EQ(got.ids(0), run(*engine, request).ids(0));
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineChoicesTest, ChoicesOfAPromptThatIsOnlyReadComputeItOnce) {
  CountingModel model;
  const auto engine = start_engine({.step_tokens = 64}, model.loader());
  Request request = make_request(make_prompt(100, 2), 0);
  request.num_choices = 3;
  request.prompt_logprobs = true;
  const auto got = run(*engine, request);
  EXPECT_EQ(model.num_tokens, 99 + 3);
  EXPECT_EQ(got.prompt->tokens.size(), 100U);
  for (const auto& finish : got.finishes) EXPECT_EQ(finish->reason, FinishReason::kLength);
}

TEST(EngineChoicesTest, ChoicesAnswerAlikeWhenBlocksAreShort) {
  Request request = make_request(make_prompt(21, 2), 19);
  request.num_choices = 4;
  request.sampling.temperature = 5;
  request.sampling.seed = 3;
  const auto with_room = run(*start_engine({.block_tokens = 4}, scripted_loader()), request);
  const auto engine = start_engine(
      with_blocks(14, {.max_batch = 4, .step_tokens = 16, .block_tokens = 4, .context_length = 40}), scripted_loader());
  const Running other = submit(*engine, make_request(make_prompt(9, 1), 20));
  const auto got = run(*engine, request);
  for (std::size_t choice = 0; choice < 4; ++choice) EXPECT_EQ(got.ids(choice), with_room.ids(choice));
  ASSERT_TRUE(other.events->wait_until_done());
  EXPECT_EQ(other.events->collected().ids(), predict(make_prompt(9, 1), 20, hashed_next_token(64)));
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineChoicesTest, ChoicesThatShareAPromptSurviveAFailedStep) {
  Request request = make_request(test::make_prompt(21, 2), 12);
  request.num_choices = 4;
  request.sampling.temperature = 5;
  request.sampling.seed = 3;
  const auto want = run(*start_engine({}, scripted_loader()), request);
  for (int failing = 0; failing < 10; ++failing) {
    int step = 0;
    const auto engine = start_engine({.max_batch = 3, .step_tokens = 8, .block_tokens = 4},
                                     scripted_loader({.before_step = [&](const kernels::RaggedBatch& batch) {
                                       if (batch.rows.size() > 1 && step++ == failing) throw std::runtime_error("once");
                                     }}));
    const auto got = run(*engine, request);
    for (std::size_t choice = 0; choice < 4; ++choice) EXPECT_EQ(got.ids(choice), want.ids(choice)) << failing;
    EXPECT_EQ(engine->stats().failed_steps, 1U);
    EXPECT_EQ(engine->stats().blocks_used, 0);
  }
}

TEST(EngineChoicesTest, EndsOneChoiceAndLeavesItsSiblings) {
  const auto engine = start_engine({.max_batch = 2}, scripted_loader());
  Request request = make_request(make_prompt(40, 1), 60);
  request.num_choices = 3;
  const Running running = submit(*engine, request, 8);  // too little room to run ahead of us
  ASSERT_TRUE(running.events->wait_for_tokens(2));
  engine->cancel(running.id, 0);
  engine->cancel(running.id, 0);
  engine->cancel(running.id, 7);  // there is none
  ASSERT_TRUE(running.events->wait_until_done());
  const auto& got = running.events->collected();
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kCancelled);
  EXPECT_LT(got.ids(0).size(), 30U);
  EXPECT_EQ(got.finishes[0]->completion_tokens, static_cast<int>(got.ids(0).size()));
  for (const std::size_t other : {1U, 2U}) {
    EXPECT_EQ(got.finishes[other]->reason, FinishReason::kLength);
    EXPECT_EQ(got.ids(other), predict(request.prompt, 60, hashed_next_token(64)));
  }
  EXPECT_EQ(engine->stats().cancellations, 0U) << "the request was not";
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST(EngineChoicesTest, WhoeverIsLeftScoresThePrompt) {
  Gate gate;
  const auto engine = start_engine({.max_batch = 2, .step_tokens = 8},
                                   scripted_loader({.before_step = [&](const auto&) { gate.wait(); }}));
  Request request = make_request(make_prompt(100, 1), 5);
  request.prompt_logprobs = true;
  request.num_choices = 2;
  const Running running = submit(*engine, request);
  ASSERT_TRUE(gate.wait_for_arrival());
  engine->cancel(running.id, 0);
  gate.open();
  ASSERT_TRUE(running.events->wait_until_done());
  const auto& got = running.events->collected();
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kCancelled);
  EXPECT_EQ(got.ids(1), predict(request.prompt, 5, hashed_next_token(64)));
  ASSERT_TRUE(got.prompt);
  const auto alone = run(*engine, request);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(got.prompt->tokens[i].logprob, alone.prompt->tokens[i].logprob);
}

}  // namespace
}  // namespace redpoll::engine
