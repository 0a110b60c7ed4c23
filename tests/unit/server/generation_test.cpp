#include "server/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <semaphore>
#include <thread>

#include "unit/server/scripted_server.h"
#include "unit/server/tiny_tokenizer.h"

namespace redpoll::server {
namespace {

using ::testing::HasSubstr;

// Everything that a generation gives, as the answer and in the order it came.
struct Outcome {
  api::Answer answer;
  std::vector<GenerationOutput> outputs;
  std::optional<Error> error;
  api::Usage usage;
};

// On the calling thread; `on_output` returns false to end it early.
Result<api::Usage> run_generation(ServedModel& model, PreparedGeneration prepared,
                                  const std::function<bool(const GenerationOutput&)>& on_output) {
  const auto ready = std::make_shared<std::counting_semaphore<>>(0);
  ASSIGN_OR_RETURN(const std::unique_ptr<Generation> generation,
                   Generation::start(model, std::move(prepared), "local", [ready] { ready->release(); }));
  while (!generation->done()) {
    ASSIGN_OR_RETURN(const std::vector<GenerationOutput> outputs, generation->poll());
    if (outputs.empty()) ready->acquire();
    for (const GenerationOutput& output : outputs) {
      if (!on_output(output)) return generation->usage();
    }
  }
  return generation->usage();
}

Outcome run(ServedModel& model, PreparedGeneration prepared) {
  Outcome outcome;
  outcome.answer.choices.resize(prepared.prompts.size() * static_cast<std::size_t>(prepared.options.num_choices));
  auto usage = run_generation(model, std::move(prepared), [&](const GenerationOutput& output) {
    outcome.outputs.push_back(output);
    add_to_answer(outcome.answer, output);
    return true;
  });
  if (usage) {
    outcome.usage = *usage;
  } else {
    outcome.error = usage.error();
  }
  return outcome;
}

PreparedGeneration prepare(const std::string& prompt, int max_tokens = 100) {
  PreparedGeneration prepared;
  prepared.prompts.push_back({scripted_prompt(prompt), {}});
  prepared.sampling.temperature = 0;
  prepared.max_tokens = max_tokens;
  return prepared;
}

int count_ends(const Outcome& outcome, int choice) {
  int ends = 0;
  for (const GenerationOutput& output : outcome.outputs) {
    const auto* end = std::get_if<api::ChoiceEnd>(&output);
    if (end != nullptr && end->choice == choice) ++ends;
  }
  return ends;
}

TEST(GenerationTest, AnswerEndsBeforeTheEndTokenAndDoesNotCountIt) {  // user case 6
  const auto model = scripted_server("White");
  const Outcome outcome = run(*model, prepare("Color of snow?"));
  ASSERT_FALSE(outcome.error) << outcome.error->message;
  EXPECT_EQ(outcome.answer.choices[0].text, "White");
  EXPECT_EQ(outcome.answer.choices[0].reason, api::FinishReason::kStop);
  EXPECT_EQ(outcome.usage.prompt_tokens, 15);  // and the token that begins the answer
  EXPECT_EQ(outcome.usage.completion_tokens, 5);
  EXPECT_EQ(count_ends(outcome, 0), 1);
}

TEST(GenerationTest, MaxTokensEndsWithLength) {
  const auto model = scripted_server("White");
  const Outcome outcome = run(*model, prepare("p", 2));
  EXPECT_EQ(outcome.answer.choices[0].text, "Wh");
  EXPECT_EQ(outcome.answer.choices[0].reason, api::FinishReason::kLength);
}

TEST(GenerationTest, IgnoreEosGoesOnToTheLimit) {
  const auto model = scripted_server("ab");
  PreparedGeneration prepared = prepare("p", 7);
  prepared.options.ignore_eos = true;
  const Outcome outcome = run(*model, std::move(prepared));
  EXPECT_EQ(outcome.usage.completion_tokens, 7);
  EXPECT_EQ(outcome.answer.choices[0].reason, api::FinishReason::kLength);
}

TEST(GenerationTest, StopStringEndsTheRequestInTheEngineToo) {
  const auto model = scripted_server("alpha beta gamma delta and so on for a long time");
  PreparedGeneration prepared = prepare("p");
  prepared.options.stop = {"beta gamma"};
  const Outcome outcome = run(*model, std::move(prepared));
  EXPECT_EQ(outcome.answer.choices[0].text, "alpha ");
  EXPECT_EQ(outcome.answer.choices[0].reason, api::FinishReason::kStop);
  EXPECT_EQ(outcome.usage.completion_tokens, 16);  // the stop string was generated, so it counts
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, TokensAreGivenOnlyWhenAskedFor) {
  const auto model = scripted_server("abc");
  EXPECT_TRUE(run(*model, prepare("p")).answer.choices[0].tokens.empty());
  PreparedGeneration prepared = prepare("p");
  prepared.options.return_token_ids = true;
  auto tokens = run(*model, prepared).answer.choices[0].tokens;
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_EQ(tokens[1].id, 'b');
  EXPECT_FALSE(tokens[1].logprob);
  prepared.options.num_top_logprobs = 2;
  tokens = run(*model, prepared).answer.choices[0].tokens;
  ASSERT_EQ(tokens.size(), 3U);
  ASSERT_TRUE(tokens[1].logprob);
  EXPECT_LE(*tokens[1].logprob, 0);
  ASSERT_EQ(tokens[1].top.size(), 2U);
  EXPECT_EQ(tokens[1].top[0].id, 'b');
  EXPECT_EQ(tokens[1].top[0].bytes, "b");
}

TEST(GenerationTest, EveryChoiceOfEveryPromptEndsOnce) {  // user case 36
  const auto model = scripted_server("answer");
  PreparedGeneration prepared = prepare("one");
  prepared.prompts.push_back({scripted_prompt("two two"), {}});
  prepared.options.num_choices = 2;
  const Outcome outcome = run(*model, std::move(prepared));
  ASSERT_EQ(outcome.answer.choices.size(), 4U);
  for (int choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(outcome.answer.choices[static_cast<std::size_t>(choice)].text, "answer");
    EXPECT_EQ(count_ends(outcome, choice), 1);
  }
  EXPECT_EQ(outcome.usage.prompt_tokens, 12);  // each prompt once
  EXPECT_EQ(outcome.usage.completion_tokens, 24);
}

TEST(GenerationTest, StopStringOfAllChoicesFreesTheEngine) {
  const auto model = scripted_server("abcdefghijklmnopqrstuvwxyz");
  PreparedGeneration prepared = prepare("p");
  prepared.options.num_choices = 3;
  prepared.options.stop = {"cd"};
  const Outcome outcome = run(*model, std::move(prepared));
  for (const api::ChoiceResult& choice : outcome.answer.choices) EXPECT_EQ(choice.text, "ab");
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, UsageCountsTheTokensThatAreReturned) {
  const auto model = scripted_server("alpha beta gamma delta and so on for a long time");
  PreparedGeneration prepared = prepare("p");
  prepared.options.stop = {"beta gamma"};
  prepared.options.return_token_ids = true;
  const Outcome outcome = run(*model, std::move(prepared));
  EXPECT_EQ(outcome.answer.choices[0].text, "alpha ");
  EXPECT_EQ(outcome.usage.completion_tokens, 16);
  ASSERT_EQ(outcome.answer.choices[0].tokens.size(), 16U);
  EXPECT_EQ(outcome.answer.choices[0].tokens.back().id, 'a') << "it completed the stop string";
}

TEST(GenerationTest, AChoiceThatAStopStringEndsIsComputedNoFurther) {
  const auto model = scripted_server(std::string(3000, 'a'));
  PreparedGeneration prepared = prepare("p", 3000);
  prepared.options.num_choices = 2;
  prepared.options.stop = {"b"};
  prepared.options.ignore_eos = true;
  prepared.sampling.temperature = 1;  // a 'b' comes once in a thousand tokens
  prepared.sampling.seed = 1;
  const Outcome outcome = run(*model, std::move(prepared));
  const auto length = [&](std::size_t choice) { return static_cast<int>(outcome.answer.choices[choice].text.size()); };
  ASSERT_GT(std::abs(length(0) - length(1)), 300) << "one ends long before the other";
  EXPECT_TRUE(becomes_idle(*model));
  constexpr int kMostInTheQueue = 64;  // tokens that the engine had sent when it was told
  const auto generated = static_cast<int>(model->engine->stats().generated_tokens_total);
  EXPECT_LE(generated, outcome.usage.completion_tokens + 2 * kMostInTheQueue);
  EXPECT_EQ(model->engine->stats().cancellations, 0U) << "nobody has gone";
}

TEST(GenerationTest, AStopStringLeavesTheTimeInTheQueueWhatItWas) {
  const auto model =
      scripted_server("alpha beta gamma delta", {.step_delay = std::chrono::milliseconds{3}, .max_batch = 1});
  const auto first = Generation::start(*model, prepare("p"), "first", [] {});  // 23 steps
  ASSERT_TRUE(first);
  PreparedGeneration prepared = prepare("p");
  prepared.options.stop = {"beta"};
  const Outcome outcome = run(*model, std::move(prepared));
  const auto& end = std::get<api::ChoiceEnd>(outcome.outputs.back());
  EXPECT_EQ(end.reason, api::FinishReason::kStop);
  EXPECT_GE(end.timings.queue_ms, 40);
  EXPECT_GE(end.timings.prefill_ms, 2.5);
  EXPECT_LT(end.timings.prefill_ms, end.timings.queue_ms) << "the queue is not part of it";
  EXPECT_NEAR(end.timings.ttft_ms, end.timings.queue_ms + end.timings.prefill_ms, 1);
}

TEST(GenerationTest, ARequestThatNeverStartedWasInTheQueueAllTheTime) {
  const auto model =
      scripted_server(std::string(4000, 'a'), {.step_delay = std::chrono::milliseconds{1}, .max_batch = 1});
  const auto running = Generation::start(*model, prepare("p", 4000), "first", [] {});
  const auto waiting = Generation::start(*model, prepare("p"), "second", [] {});
  ASSERT_TRUE(running && waiting);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  EXPECT_GE((*waiting)->timings().queue_ms, 20);
  EXPECT_EQ((*waiting)->timings().ttft_ms, 0);
}

TEST(GenerationTest, EchoComesFirstForEveryChoice) {
  const auto model = scripted_server("!");
  PreparedGeneration prepared = prepare("hello");
  prepared.prompts[0].echo_text = "hello";
  prepared.echo = prepared.continues_prompt = true;
  prepared.options.num_choices = 2;
  const Outcome outcome = run(*model, std::move(prepared));
  EXPECT_EQ(outcome.answer.choices[0].text, "hello!");
  EXPECT_EQ(outcome.answer.choices[1].text, "hello!");
  const auto* first = std::get_if<api::ChoiceDelta>(&outcome.outputs.front());
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->echo);
  EXPECT_EQ(first->text, "hello");
}

TEST(GenerationTest, ScoringAPromptGivesItsTokensAndGeneratesNothing) {
  const auto model = scripted_server("x");
  PreparedGeneration prepared = prepare("hello", 0);
  prepared.prompts[0].echo_text = "hello";
  prepared.prompts[0].echo_begins = {0, 1, 2, 3, 4, 5};  // the last is the start token, which is not in the text
  prepared.echo = prepared.continues_prompt = true;
  prepared.options.num_top_logprobs = 1;
  const Outcome outcome = run(*model, std::move(prepared));
  ASSERT_FALSE(outcome.error) << outcome.error->message;
  const api::ChoiceResult& choice = outcome.answer.choices[0];
  EXPECT_EQ(choice.text, "hello");
  ASSERT_EQ(choice.prompt_tokens.size(), 6U);
  for (std::size_t i = 0; i < choice.prompt_tokens.size(); ++i) EXPECT_EQ(choice.prompt_tokens[i].text_offset, i);
  EXPECT_FALSE(choice.prompt_tokens[0].logprob);
  ASSERT_TRUE(choice.prompt_tokens[1].logprob);
  EXPECT_LE(*choice.prompt_tokens[1].logprob, 0);
  EXPECT_TRUE(choice.tokens.empty());
  EXPECT_EQ(outcome.usage.completion_tokens, 0);
  EXPECT_EQ(choice.reason, api::FinishReason::kLength);
}

TEST(GenerationTest, PromptOverTheContextIsRefusedWithBothNumbers) {  // user case 62
  const auto model = scripted_server("x");
  const auto generation =
      Generation::start(*model, prepare(std::string(static_cast<std::size_t>(model->context.tokens), 'a')), "r", [] {});
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().code, ErrorCode::kContextLengthExceeded);
  EXPECT_THAT(generation.error().message, HasSubstr(std::to_string(model->context.tokens)));
  EXPECT_THAT(generation.error().message, HasSubstr(std::to_string(model->context.tokens + 1)));
}

TEST(GenerationTest, OnePromptThatIsRefusedLeavesNoneRunning) {
  const auto model = scripted_server(std::string(200, 'a'));
  PreparedGeneration prepared = prepare("fine", 200);
  prepared.prompts.push_back({{}, {}});  // the engine refuses empty prompts
  ASSERT_FALSE(Generation::start(*model, std::move(prepared), "r", [] {}));
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, StepThatThrowsFailsTheRequestAfterWhatCameBefore) {   // user case 43
  const auto model = scripted_server("abcdef", {.throw_at_position = 5});  // of prompt and answer together
  const Outcome outcome = run(*model, prepare("p"));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, ErrorCode::kInternal);
  EXPECT_EQ(outcome.answer.choices[0].text.substr(0, 2), "ab");
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, DroppingAGenerationEndsItInTheEngine) {
  const auto model = scripted_server(std::string(4000, 'a'), {.step_delay = std::chrono::milliseconds{1}});
  auto generation = Generation::start(*model, prepare("p", 4000), "r", [] {});
  ASSERT_TRUE(generation) << generation.error().message;
  EXPECT_TRUE(eventually([&] { return model->engine->stats().running == 1; }));
  generation->reset();
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, ConsumerThatStopsEarlyEndsTheGeneration) {
  const auto model = scripted_server(std::string(4000, 'a'), {.step_delay = std::chrono::milliseconds{1}});
  int deltas = 0;
  const auto usage = run_generation(*model, prepare("p", 4000), [&](const GenerationOutput&) { return ++deltas < 3; });
  ASSERT_TRUE(usage);
  EXPECT_LT(usage->completion_tokens, 1000);
  EXPECT_TRUE(becomes_idle(*model));
}

TEST(GenerationTest, TimingsOfAnUnfinishedAnswerAreThoseSoFar) {
  const auto model = scripted_server(std::string(4000, 'a'), {.step_delay = std::chrono::milliseconds{2}});
  const auto generation = Generation::start(*model, prepare("p", 4000), "r", [] {});
  ASSERT_TRUE(generation) << generation.error().message;
  EXPECT_EQ((*generation)->timings().ttft_ms, 0);
  ASSERT_TRUE(eventually([&] { return !(*generation)->poll().value().empty(); }));
  (*generation)->cancel();
  EXPECT_GE((*generation)->timings().ttft_ms, 1.5);
}

TEST(GenerationTest, TimingsAddUp) {
  const auto model = scripted_server("abcdef", {.step_delay = std::chrono::milliseconds{2}});
  const Outcome outcome = run(*model, prepare("p"));
  const auto& end = std::get<api::ChoiceEnd>(outcome.outputs.back());
  EXPECT_GE(end.timings.prefill_ms, 1.5);
  EXPECT_GE(end.timings.decode_ms, 5);
  EXPECT_NEAR(end.timings.ttft_ms, end.timings.queue_ms + end.timings.prefill_ms, 1);
}

}  // namespace
}  // namespace redpoll::server
