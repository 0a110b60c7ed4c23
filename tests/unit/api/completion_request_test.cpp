#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/completions.h"
#include "unit/api/bad_input.h"

namespace redpoll::api::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RequestLimits kLimits{.max_choices = 8, .max_prompts = 4, .vocab_size = 100};
using Ids = std::vector<TokenId>;

Result<CompletionRequest> parse(const json::value& body) { return parse_completion_request(body, kLimits); }

CompletionRequest parsed(const std::string& text) {
  auto request = parse(body_of(text));
  EXPECT_TRUE(request.has_value()) << text << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : CompletionRequest{};
}

TEST(CompletionRequest, APromptIsATextOrTokenIdsOrAListOfEither) {
  EXPECT_THAT(parsed(R"({"prompt":"a"})").prompts, ElementsAre(CompletionPrompt("a")));
  EXPECT_THAT(parsed(R"({"prompt":[1,2]})").prompts, ElementsAre(CompletionPrompt(Ids{1, 2})));
  EXPECT_THAT(parsed(R"({"prompt":["a",""]})").prompts, ElementsAre(CompletionPrompt("a"), CompletionPrompt("")));
  EXPECT_THAT(parsed(R"({"prompt":[[1],[99,0]]})").prompts,
              ElementsAre(CompletionPrompt(Ids{1}), CompletionPrompt(Ids{99, 0})));
  EXPECT_THAT(parsed(R"({"prompt":["a",[3]]})").prompts, ElementsAre(CompletionPrompt("a"), CompletionPrompt(Ids{3})));
}

TEST(CompletionRequest, LeavesMaxTokensToTheDefaultsWhenAbsent) {
  const CompletionRequest request = parsed(R"({"prompt":"a"})");
  EXPECT_FALSE(request.options.max_tokens.has_value());
  EXPECT_FALSE(request.options.num_top_logprobs.has_value());
  EXPECT_FALSE(request.echo);
  EXPECT_THAT(request.warnings, IsEmpty());
}

TEST(CompletionRequest, ReadsItsOwnFields) {
  const CompletionRequest request = parsed(
      R"({"model":"m","prompt":"a","max_tokens":0,"echo":true,"logprobs":5,"n":2,"best_of":2,"suffix":"","user":"u",
          "temperature":0,"stop":"x","stream":true,"stream_options":{"include_usage":true},"top_logprobs":3})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.options.max_tokens, 0);
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.options.num_top_logprobs, 5);
  EXPECT_EQ(request.options.num_choices, 2);
  EXPECT_EQ(request.options.sampling.temperature, 0.0F);
  EXPECT_TRUE(request.options.include_usage);
  EXPECT_THAT(request.warnings, ElementsAre("top_logprobs"));
}

TEST(CompletionRequest, AScoringRequestWithOneTokenToGenerateAlwaysGeneratesIt) {
  EXPECT_EQ(parsed(R"({"prompt":[1],"echo":true,"logprobs":1,"max_tokens":1})").options.min_tokens, 1);
  EXPECT_EQ(parsed(R"({"prompt":[1],"echo":true,"logprobs":1,"max_tokens":0})").options.min_tokens, 0);
  EXPECT_EQ(parsed(R"({"prompt":[1],"echo":true,"max_tokens":1})").options.min_tokens, 0);
  EXPECT_EQ(parsed(R"({"prompt":[1],"logprobs":1,"max_tokens":1})").options.min_tokens, 0);
}

TEST(CompletionRequest, SaysWhatIsWrongWithAPrompt) {
  for (const BadInput& row : std::initializer_list<BadInput>{
           {R"({})", "'prompt' is required", "prompt"},
           {R"({"prompt":null})", "'prompt' is required", "prompt"},
           {R"({"prompt":5})", "'prompt': expected a string or an array, got number", "prompt"},
           {R"({"prompt":[]})", "'prompt': expected at least one prompt", "prompt"},
           {R"({"prompt":[[]]})", "'prompt[0]': expected at least one token id", "prompt[0]"},
           {R"({"prompt":["a",5]})", "'prompt[1]': expected a string or an array of token ids, got number",
            "prompt[1]"},
           {R"({"prompt":[1,"a"]})", "'prompt[1]': expected a token id from 0 to 99, got string", "prompt[1]"},
           {R"({"prompt":[1,100]})", "'prompt[1]': expected a token id from 0 to 99, got 100", "prompt[1]"},
           {R"({"prompt":[-1]})", "'prompt[0]': expected a token id from 0 to 99, got -1", "prompt[0]"},
           {R"({"prompt":[1.5]})", "'prompt[0]': expected a token id from 0 to 99, got 1.5", "prompt[0]"},
           {R"({"prompt":[[1],[2,18446744073709551615]]})",
            "'prompt[1][1]': expected a token id from 0 to 99, got 18446744073709551615", "prompt[1][1]"},
           {R"({"prompt":["a","b","c","d","e"]})", "'prompt': expected at most 4 prompts, got 5", "prompt"},
           {R"("a")", "expected a JSON object as the request, got string", ""}}) {
    expect_refused(row, parse);
  }
}

TEST(CompletionRequest, WithoutAVocabularyOnlyTheTypeLimitsTokenIds) {
  const auto request = parse_completion_request(body_of(R"({"prompt":[2147483647]})"), RequestLimits{});
  ASSERT_TRUE(request.has_value());
  const auto refused = parse_completion_request(body_of(R"({"prompt":[2147483648]})"), RequestLimits{});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "'prompt[0]': expected a token id of at least 0, got 2147483648");
}

TEST(CompletionRequest, RefusesWhatItCannotHonour) {
  for (const BadInput& row : std::initializer_list<BadInput>{
           {R"({"prompt":"a","suffix":"z"})", "'suffix' is not supported yet by this server", "suffix",
            ErrorCode::kUnsupported},
           {R"({"prompt":"a","n":2,"best_of":3})",
            "'best_of': only the value of 'n' is supported by this server, which is 2, got 3", "best_of",
            ErrorCode::kUnsupported},
           {R"({"prompt":"a","guided_json":{}})", "'guided_json' is not supported yet by this server", "guided_json",
            ErrorCode::kUnsupported},
           {R"({"prompt":"a","adapter":"x"})", "'adapter' is not supported yet by this server", "adapter",
            ErrorCode::kUnsupported},
           {R"({"prompt":"a","logprobs":21})", "'logprobs': expected a whole number from 0 to 20, got 21", "logprobs"},
           {R"({"prompt":"a","logprobs":true})", "'logprobs': expected a whole number, got boolean true", "logprobs"},
           {R"({"prompt":"a","max_tokens":-1})", "'max_tokens': expected a whole number from 0 to 2147483647, got -1",
            "max_tokens"},
           {R"({"prompt":"a","echo":"yes"})", R"('echo': expected a boolean, got string "yes")", "echo"},
           {R"({"prompt":"a","max_tokens":1,"min_tokens":2})",
            "'min_tokens': expected at most max_tokens, which is 1, got 2", "min_tokens"}}) {
    expect_refused(row, parse);
  }
}

}  // namespace
}  // namespace redpoll::api::openai
