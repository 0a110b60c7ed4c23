// The prompt cache in the engine, on real architectures with this machine's kernels: what is gone on from gives the
// bits that computing everything gives, whatever layers remember.
#include <mlx/device.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <stdexcept>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "engine/model_memory.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

using test::Collected;
using test::expect_same;
using test::make_prompt;
using test::make_request;
using test::make_scored_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr int kBlockTokens = 8;

class PromptCacheEngineTest : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Engine> start(std::size_t prompt_cache_bytes, int max_batch = 2, int context = 96,
                                       int step_tokens = 13) {
    const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam();
    auto opened = checkpoint::open_checkpoint(folder);
    EXPECT_TRUE(opened) << opened.error().message;
    opened->config.max_position_embeddings = std::max(opened->config.max_position_embeddings, context);
    return start_engine({.max_batch = max_batch,
                         .step_tokens = step_tokens,
                         .block_tokens = kBlockTokens,
                         .context_length = context,
                         .memory_budget_bytes = 64 * kMiB,
                         .prompt_cache_bytes = prompt_cache_bytes},
                        checkpoint_loader(std::move(*opened), {.num_threads = 2}));
  }
};

// Lengths around the edges of blocks and of the goldens' windows of 20.
TEST_P(PromptCacheEngineTest, WarmAnswersHaveTheBitsOfColdOnes) {
  const auto cold = start(0);
  const auto warm = start(4 * kMiB);
  for (const int length : {1, 2, 7, 8, 9, 16, 19, 20, 21, 40}) {
    const std::vector<TokenId> prompt = make_prompt(length, length);
    const Collected first = run(*warm, make_scored_request(prompt, 6));
    ASSERT_NO_FATAL_FAILURE(expect_same(first, run(*cold, make_scored_request(prompt, 6)))) << length;
    const Collected again = run(*warm, make_scored_request(prompt, 6));
    ASSERT_NO_FATAL_FAILURE(expect_same(again, first)) << length;
    EXPECT_EQ(again.finishes[0]->cached_tokens, length - 1);

    std::vector<TokenId> next_turn = prompt;
    for (const TokenId id : first.ids()) next_turn.push_back(id);
    for (const TokenId id : {3, 5, 9}) next_turn.push_back(id);
    const Collected continued = run(*warm, make_scored_request(next_turn, 6));
    ASSERT_NO_FATAL_FAILURE(expect_same(continued, run(*cold, make_scored_request(next_turn, 6)))) << length;
    EXPECT_GE(continued.finishes[0]->cached_tokens, length - 1);
  }
  EXPECT_EQ(cold->stats().blocks_used, 0);
}

TEST_P(PromptCacheEngineTest, ManyGoOnFromOnePromptAtATime) {
  const auto cold = start(0);
  const auto warm = start(4 * kMiB, 3);
  const std::vector<TokenId> shared = make_prompt(30, 5);
  (void)run(*warm, make_scored_request(shared, 2));
  std::vector<Running> together;
  std::vector<Request> requests;
  for (TokenId i = 0; i < 5; ++i) {
    std::vector<TokenId> prompt = shared;
    for (const TokenId id : {i, i + 7, i}) prompt.push_back(id);
    requests.push_back(make_scored_request(prompt, 9));
    together.push_back(submit(*warm, requests.back()));
  }
  for (std::size_t i = 0; i < together.size(); ++i) {
    ASSERT_TRUE(together[i].events->wait_until_done());
    const Collected got = together[i].events->collected();
    ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*cold, requests[i]))) << i;
    EXPECT_GE(got.finishes[0]->cached_tokens, 29);
  }
}

// User case 55: a long turn and a short one after it, with the answer's own tokens in between, or with others as chat
// templates write what they have parsed.
TEST_P(PromptCacheEngineTest, ASecondTurnComputesWhatIsNew) {
  constexpr int kFirstTurn = 8'000;
  constexpr int kContext = 8'192;
  constexpr int kStepTokens = 512;
  const auto warm = start(32 * kMiB, 2, kContext, kStepTokens);
  const auto cold = start(0, 1, kContext, kStepTokens);
  std::mt19937 random(3);
  const auto add_tokens = [&](std::vector<TokenId>& tokens, int count) {
    for (; count > 0; --count) tokens.push_back(static_cast<TokenId>(random() % 64));
  };
  std::vector<TokenId> first_turn;
  add_tokens(first_turn, kFirstTurn);
  const Collected answer = run(*warm, make_scored_request(first_turn, 8));
  ASSERT_EQ(answer.finishes[0]->cached_tokens, 0);
  const std::vector<TokenId> own = answer.ids();
  for (const bool has_own_answer : {true, false}) {
    std::vector<TokenId> second_turn = first_turn;
    if (has_own_answer) second_turn.insert(second_turn.end(), own.begin(), own.end());
    add_tokens(second_turn, 20);
    const Collected next = run(*warm, make_scored_request(second_turn, 8));
    ASSERT_NO_FATAL_FAILURE(expect_same(next, run(*cold, make_scored_request(second_turn, 8)))) << has_own_answer;
    // All that has been computed, or all of the prompt but its last token.
    EXPECT_GE(next.finishes[0]->cached_tokens, has_own_answer ? kFirstTurn + 7 : kFirstTurn - 1);
    EXPECT_GE(next.finishes[0]->cached_tokens, static_cast<int>(second_turn.size()) * 95 / 100);
  }
}

TEST_P(PromptCacheEngineTest, RoomIsMadeForWhoRuns) {
  const auto cold = start(0, 1);
  const auto warm = start(64 * 1024, 2);  // far less than all of these take
  std::vector<Running> running;
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(make_scored_request(make_prompt(60 + i, i), 8));
    running.push_back(submit(*warm, requests.back()));
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    ASSERT_TRUE(running[i].events->wait_until_done());
    ASSERT_NO_FATAL_FAILURE(expect_same(running[i].events->collected(), run(*cold, requests[i]))) << i;
  }
  const EngineStats stats = warm->stats();
  EXPECT_GT(stats.prompt_cache.entries, 0);
  EXPECT_LE(stats.prompt_cache.bytes, stats.prompt_cache.max_bytes);
  EXPECT_EQ(stats.kv_bytes_used, stats.prompt_cache.bytes);  // all else has been given back
}

INSTANTIATE_TEST_SUITE_P(Models, PromptCacheEngineTest,
                         testing::Values("llama_interleaved_linear_rope_4bit", "gemma3_text_windows_4bit",
                                         "gemma4_shared_4bit", "qwen3_5_4bit", "lfm2_4bit", "gpt_oss_mxfp4"),
                         [](const auto& info) { return info.param; });

TEST(PromptCacheFailureTest, NobodyGoesOnFromWhatHasFailed) {
  constexpr TokenId kPoison = 13;
  test::ScriptedModelOptions script;
  script.edit_logits = [](std::span<const TokenId> prefix, std::span<float> logits) {
    if (prefix.back() == kPoison) logits[0] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto engine =
      start_engine({.max_batch = 1, .block_tokens = 4, .context_length = 64, .prompt_cache_bytes = kMiB},
                   test::scripted_loader(script));
  const Request poisoned = make_request({1, 2, 3, 4, 5, kPoison}, 3);
  ASSERT_TRUE(run(*engine, poisoned).error);
  EXPECT_EQ(engine->stats().prompt_cache.entries, 0);
  EXPECT_EQ(engine->stats().blocks_used, 0);
  const Collected good = run(*engine, make_request({1, 2, 3, 4, 5, 6}, 3));
  EXPECT_EQ(good.finishes[0]->cached_tokens, 0);
  EXPECT_EQ(run(*engine, make_request({1, 2, 3, 4, 5, 6}, 3)).finishes[0]->cached_tokens, 5);
}

TEST(PromptCacheFailureTest, AStepThatThrowsEmptiesTheCache) {
  int steps_left = -1;
  test::ScriptedModelOptions script;
  script.before_step = [&](const kernels::RaggedBatch&) {
    if (steps_left >= 0 && steps_left-- == 0) throw std::runtime_error("out of luck");
  };
  const auto engine =
      start_engine({.max_batch = 1, .block_tokens = 4, .context_length = 64, .prompt_cache_bytes = kMiB},
                   test::scripted_loader(script));
  const Request request = make_request({1, 2, 3, 4, 5, 6, 7, 8, 9}, 2);
  const Collected first = run(*engine, request);
  EXPECT_EQ(run(*engine, request).finishes[0]->cached_tokens, 8);
  steps_left = 0;
  (void)run(*engine, make_request({9, 9}, 1));
  const Collected after = run(*engine, request);
  EXPECT_EQ(after.finishes[0]->cached_tokens, 0);
  EXPECT_EQ(after.ids(), first.ids());
}

TEST(PromptCacheFailureTest, ScoresOfAPromptAreComputed) {
  const auto engine = start_engine(
      {.max_batch = 1, .block_tokens = 4, .context_length = 64, .prompt_cache_bytes = kMiB}, test::scripted_loader({}));
  Request request = make_request({1, 2, 3, 4, 5, 6, 7, 8, 9}, 2);
  request.prompt_logprobs = true;
  request.num_top_logprobs = 0;
  (void)run(*engine, request);
  const Collected again = run(*engine, request);
  EXPECT_EQ(again.finishes[0]->cached_tokens, 0);
}

}  // namespace
}  // namespace redpoll::engine
