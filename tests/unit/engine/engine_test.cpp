// The engine through its commands and events: answers, limits, cancellation, and what its books say.
#include "engine/engine.h"

#include <thread>

#include "support/fake_clock.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

using namespace std::chrono_literals;
using test::budget_for_blocks;
using test::hashed_next_token;
using test::make_prompt;
using test::make_request;
using test::predict;
using test::run;
using test::scripted_loader;
using test::start_engine;
using test::submit;
using testing::ElementsAre;

TEST(EngineTest, AnswersWithWhatTheModelSays) {
  const auto engine = start_engine({}, scripted_loader());
  const auto prompt = make_prompt(5, 3);
  const auto got = run(*engine, make_request(prompt, 20));
  EXPECT_EQ(got.ids(), predict(prompt, 20, hashed_next_token(64)));
  ASSERT_TRUE(got.finishes[0]);
  EXPECT_EQ(got.finishes[0]->reason, FinishReason::kLength);
  EXPECT_EQ(got.finishes[0]->prompt_tokens, 5);
  EXPECT_EQ(got.finishes[0]->completion_tokens, 20);
}

}  // namespace
}  // namespace redpoll::engine
