// What a step has computed that is no number is kept nowhere: not in the prompt cache, not on disk, not by who waits
// for it. Each time a token is spoilt once; who asks again must get the answer.
#include <atomic>
#include <thread>

#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

using test::Gate;
using test::hashed_next_token;
using test::predict;
using test::with_blocks;

/// The first time that the token at this position is computed.
std::function<bool(std::span<const TokenId>)> spoils_once(int position) {
  const auto is_done = std::make_shared<bool>(false);
  return [=](std::span<const TokenId> prefix) {
    return static_cast<int>(prefix.size()) == position + 1 && !std::exchange(*is_done, true);
  };
}

void expect_right(Engine& engine, const std::vector<TokenId>& prompt) {
  const Collected got = run(engine, make_request(prompt, 6));
  ASSERT_FALSE(got.error) << got.error->message;
  EXPECT_EQ(got.ids(), predict(prompt, 6, hashed_next_token(64)));
}

void expect_failed(const Collected& got) {
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, ErrorCode::kInternal);
  EXPECT_EQ(got.error->message, "the model computed numbers that are not finite for this request");
}

/// With a disk tier, and steps of 13 tokens. With a layer that has a state, or without.
class SpoiltNumbersTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Engine> start(test::ScriptedModelOptions script) const {
    script.has_state = GetParam();
    return start_engine(options_with(folder_.path(), kMiB), scripted_with_identity(script));
  }

  TemporaryFolder folder_;
};

TEST_P(SpoiltNumbersTest, FailTheRequestInTheirStep) {
  const std::vector<TokenId> prompt = make_prompt(60, 1);
  const auto engine = start({.spoils = spoils_once(15)});
  expect_failed(run(*engine, make_request(prompt, 6)));
  EXPECT_EQ(engine->stats().steps, 2U) << "tokens 0 to 12, then 13 to 25";
  EXPECT_EQ(engine->stats().failed_steps, 0U);
  EXPECT_EQ(engine->stats().prompt_cache.entries, 0);
  expect_right(*engine, prompt);
}

TEST_P(SpoiltNumbersTest, AreNotKeptForWantOfAnAnswer) {
  for (const int length : {14, 20, 60}) {
    for (const int position : {0, 12, length - 1}) {  // of 14 the last one has a step of its own
      const std::vector<TokenId> prompt = make_prompt(length, length + position);
      const auto engine = start({.spoils = spoils_once(position)});
      expect_failed(run(*engine, make_request(prompt, 0)));
      ASSERT_NO_FATAL_FAILURE(expect_right(*engine, prompt)) << length << " " << position;
    }
  }
}

TEST_P(SpoiltNumbersTest, AreNotWrittenToDisk) {
  std::vector<TokenId> prompt = make_prompt(100, 5);
  Request request = make_request(prompt, 6);
  request.num_stable_tokens = 32;  // where a cache that cannot go back leaves a snapshot, which is written after a step
  {
    const auto engine = start({.spoils = spoils_once(20)});
    expect_failed(run(*engine, request));
  }
  EXPECT_TRUE(files_in(folder_.path()).empty());
  const auto again = start({.spoils = [](auto) { return false; }});
  expect_right(*again, prompt);
}

TEST_P(SpoiltNumbersTest, AreNotTakenOverByThoseWhoWait) {
  Gate gate;
  std::vector<TokenId> prompt = make_prompt(60, 1);
  const auto engine = start({.before_step = [&](const auto&) { gate.wait(); }, .spoils = spoils_once(30)});
  const Running leader = submit(*engine, make_request(prompt, 6));
  ASSERT_TRUE(gate.wait_for_arrival());
  std::vector<Running> followers;
  for (TokenId i = 0; i < 3; ++i) {
    std::vector<TokenId> own = std::vector(prompt.begin(), prompt.begin() + 50);
    own.push_back(i);
    followers.push_back(submit(*engine, make_request(own, 6)));
  }
  gate.open();
  ASSERT_TRUE(leader.events->wait_until_done());
  expect_failed(leader.events->collected());
  for (TokenId i = 0; i < 3; ++i) {
    const Running& follower = followers[static_cast<std::size_t>(i)];
    ASSERT_TRUE(follower.events->wait_until_done());
    const Collected got = follower.events->collected();
    ASSERT_FALSE(got.error) << got.error->message;
    std::vector<TokenId> own = std::vector(prompt.begin(), prompt.begin() + 50);
    own.push_back(i);
    EXPECT_EQ(got.ids(), predict(own, 6, hashed_next_token(64)));
  }
  expect_right(*engine, prompt);
}

TEST_P(SpoiltNumbersTest, AreNotKeptFromWhoIsCancelled) {
  std::atomic<int> step = 0;
  Gate gate;
  const std::vector<TokenId> prompt = make_prompt(60, 1);
  const auto engine = start({.before_step =
                                 [&](const auto&) {
                                   if (++step == 2) gate.wait();
                                 },
                             .spoils = spoils_once(20)});
  const Running running = submit(*engine, make_request(prompt, 6));
  ASSERT_TRUE(gate.wait_for_arrival());
  engine->cancel(running.id);  // is seen after the second step, which spoils
  gate.open();
  ASSERT_TRUE(running.events->wait_until_done());
  ASSERT_NO_FATAL_FAILURE(expect_right(*engine, prompt));
}

/// The younger would lose its blocks in the middle of its prompt to the older, which generates, and another one waits
/// for it.
TEST_P(SpoiltNumbersTest, AreNotKeptFromWhoWouldBeSetBack) {
  Gate gate;
  const std::vector<TokenId> prompt = make_prompt(26, 2);
  EngineOptions options = with_blocks(10, {.max_batch = 2, .step_tokens = 3, .block_tokens = 4, .context_length = 40});
  options.prompt_cache_bytes = kMiB;
  const auto spoils = [&, once = spoils_once(20)](std::span<const TokenId> prefix) {
    return prefix.front() == prompt.front() && once(prefix);
  };
  const auto engine = start_engine(
      options, scripted_with_identity({.before_step = [&](const auto&) { gate.wait(); }, .spoils = spoils}));
  const Running older = submit(*engine, make_request(make_prompt(4, 1), 36));
  ASSERT_TRUE(gate.wait_for_arrival());
  const Running younger = submit(*engine, make_request(prompt, 6));
  const Running same = submit(*engine, make_request(prompt, 6));
  gate.open();
  for (const Running* running : {&older, &younger, &same}) ASSERT_TRUE(running->events->wait_until_done());
  EXPECT_EQ(older.events->collected().ids(), predict(make_prompt(4, 1), 36, hashed_next_token(64)));
  expect_failed(younger.events->collected());
  ASSERT_FALSE(same.events->collected().error) << same.events->collected().error->message;
  EXPECT_EQ(same.events->collected().ids(), predict(prompt, 6, hashed_next_token(64)));
  ASSERT_NO_FATAL_FAILURE(expect_right(*engine, prompt));
}

/// Whose rows are computed one by one.
TEST_P(SpoiltNumbersTest, FailTheirRequestAloneInTheExactTier) {
  Gate gate;
  const auto is_first = [](std::span<const TokenId> prefix) { return prefix.front() == 1; };
  const auto engine = start_engine(
      {.max_batch = 3, .step_tokens = 2 * kernels::kExactPromptChunk + 3, .exact = true, .context_length = 128},
      test::scripted_loader(
          {.has_state = GetParam(),
           .before_step = [&](const auto&) { gate.wait(); },
           .spoils = [=, once = spoils_once(20)](auto prefix) { return is_first(prefix) && once(prefix); }}));
  // Nobody wants logits: only whoever looks at all tokens sees it.
  const Running good = submit(*engine, make_request(make_prompt(60, 2), 6));
  ASSERT_TRUE(gate.wait_for_arrival());
  const Running bad = submit(*engine, make_request(make_prompt(60, 1), 0));
  const Running other = submit(*engine, make_request(make_prompt(60, 3), 0));
  gate.open();
  for (const Running* running : {&good, &bad, &other}) ASSERT_TRUE(running->events->wait_until_done());
  expect_failed(bad.events->collected());
  EXPECT_FALSE(other.events->collected().error);
  EXPECT_EQ(good.events->collected().ids(), predict(make_prompt(60, 2), 6, hashed_next_token(64)));
}

INSTANTIATE_TEST_SUITE_P(Layers, SpoiltNumbersTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "state" : "attention"; });

}  // namespace
}  // namespace redpoll::engine
