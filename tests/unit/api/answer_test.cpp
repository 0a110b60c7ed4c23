// The JSON of whole answers and of streams, for chat and completions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "api/openai/chat.h"
#include "api/openai/completions.h"
#include "base/utf8.h"
#include "unit/api/bad_input.h"

namespace redpoll::api::openai {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const AnswerHead kHead{.id = "x1", .created = 1700000000, .model = "sm\"ol", .system_fingerprint = "redpoll-0.1.0"};
constexpr std::string_view kHeadJson = R"("created":1700000000,"model":"sm\"ol","system_fingerprint":"redpoll-0.1.0",)";
constexpr std::string_view kUsageJson =
    R"("usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},)"
    R"("completion_tokens_details":{"reasoning_tokens":0}})";
constexpr std::string_view kTimingsJson =
    R"("timings":{"queue_ms":1.5,"prefill_ms":12.0,"decode_ms":8.0,"ttft_ms":13.5,"prefill_tps":500.0,)"
    R"("decode_tps":500.0,"cached_tokens":4})";
const Usage kUsage{.prompt_tokens = 10, .completion_tokens = 5, .cached_tokens = 4, .reasoning_tokens = 0};
const Timings kTimings{.queue_ms = 1.5, .prefill_ms = 12, .decode_ms = 8, .ttft_ms = 13.5};

TokenInfo token(TokenId id, std::string bytes, float logprob, std::vector<TokenAlternative> top = {}) {
  return {.id = id, .bytes = std::move(bytes), .logprob = logprob, .top = std::move(top)};
}

// That begins after so many characters of its choice's text.
TokenInfo at(std::size_t text_offset, TokenInfo info) {
  info.text_offset = text_offset;
  return info;
}

std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

Answer one_choice(ChoiceResult result) {
  return {.choices = {std::move(result)}, .prompt_token_ids = {}, .usage = kUsage, .timings = kTimings};
}

TEST(ChatAnswer, HasTheShapeOfAChatCompletion) {
  const Answer answer =
      one_choice({.text = "Paris.\n", .prompt_tokens = {}, .tokens = {}, .reason = FinishReason::kStop});
  EXPECT_EQ(format_chat_answer(kHead, {}, answer),
            join({R"({"id":"chatcmpl-x1","object":"chat.completion",)", kHeadJson,
                  R"("choices":[{"index":0,"message":{"role":"assistant","content":"Paris.\n"},"logprobs":null,)",
                  R"("finish_reason":"stop"}],)", kUsageJson, ",", kTimingsJson, "}"}));
}

const ToolCall kFirstCall{.index = 0, .id = "call_1", .name = "f", .arguments = R"({"a":"b"})"};
const ToolCall kSecondCall{.index = 1, .id = "call_2", .name = "g", .arguments = "{}"};

TEST(ChatAnswer, ToolCallsHaveTheShapeOfTheChatApi) {
  Answer answer = one_choice({.text = "",
                              .tool_calls = {kFirstCall, kSecondCall},
                              .prompt_tokens = {},
                              .tokens = {},
                              .reason = FinishReason::kToolCalls});
  json::value choice = body_of(format_chat_answer(kHead, {}, answer)).at("choices").at(0);
  EXPECT_EQ(dump_json(choice.at("message")),
            R"({"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}},)"
            R"({"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]})");
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  answer.choices[0].text = "So:";
  choice = body_of(format_chat_answer(kHead, {}, answer)).at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("content"), "So:");
}

TEST(ChatStreamCalls, EachCallIsWholeInOneDelta) {
  ChatStream stream(kHead, {});
  const auto delta_of = [&](const ChoiceDelta& delta) {
    return dump_json(body_of(stream.delta(delta)).at("choices").at(0).at("delta"));
  };
  EXPECT_EQ(delta_of({.choice = 0, .text = "", .tool_calls = {kSecondCall}, .tokens = {}}),
            R"({"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]})");
  EXPECT_EQ(delta_of({.choice = 0, .text = "So:", .tool_calls = {kSecondCall}, .tokens = {}}),
            R"({"content":"So:","tool_calls":[)"
            R"({"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]})");
}

TEST(ChatAnswer, ChoicesAreNumbered) {
  Answer answer = one_choice({.text = "a", .prompt_tokens = {}, .tokens = {}, .reason = FinishReason::kStop});
  answer.choices.push_back({.text = "b", .prompt_tokens = {}, .tokens = {}, .reason = FinishReason::kLength});
  GenerationOptions options;
  options.num_choices = 2;
  const json::value body = body_of(format_chat_answer(kHead, options, answer));
  EXPECT_EQ(body.at("choices").at(1).at("index").as_int64(), 1);
  EXPECT_EQ(body.at("choices").at(1).at("message").at("content").as_string(), "b");
  EXPECT_EQ(body.at("choices").at(1).at("finish_reason").as_string(), "length");
}

TEST(ChatAnswer, LogprobsHaveTheShapeOfTheChatApi) {
  GenerationOptions options;
  options.num_top_logprobs = 1;
  const Answer answer = one_choice({.text = "a\xF0\x9F\x98\x80",
                                    .prompt_tokens = {},
                                    .tokens = {token(7, "a", -0.1F, {{7, "a", -0.1F}}), token(8, "\xF0\x9F", -2.5F)},
                                    .reason = FinishReason::kLength});
  const json::value body = body_of(format_chat_answer(kHead, options, answer));
  EXPECT_EQ(dump_json(body.at("choices").at(0).at("logprobs")),
            R"({"content":[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.1,)"
            R"("bytes":[97]}]},{"token":"\\xf0\\x9f","logprob":-2.5,"bytes":[240,159],"top_logprobs":[]}]})");
}

TEST(ChatAnswer, AnImpossibleTokenHasAFiniteLogprob) {
  GenerationOptions options;
  options.num_top_logprobs = 0;
  const Answer answer = one_choice({.text = "a",
                                    .prompt_tokens = {},
                                    .tokens = {token(1, "a", -std::numeric_limits<float>::infinity())},
                                    .reason = FinishReason::kStop});
  EXPECT_THAT(format_chat_answer(kHead, options, answer), HasSubstr(R"("logprob":-9999.0)"));
}

TEST(ChatAnswer, TokenIdsAreThereWhenAskedFor) {
  GenerationOptions options;
  options.return_token_ids = true;
  Answer answer = one_choice({.text = "ab",
                              .prompt_tokens = {},
                              .tokens = {token(7, "a", 0), token(8, "b", 0)},
                              .reason = FinishReason::kStop});
  answer.prompt_token_ids = {{1, 2, 3}};
  const json::value body = body_of(format_chat_answer(kHead, options, answer));
  EXPECT_EQ(dump_json(body.at("prompt_token_ids")), "[1,2,3]");
  EXPECT_EQ(dump_json(body.at("choices").at(0).at("token_ids")), "[7,8]");
  EXPECT_EQ(dump_json(body.at("choices").at(0).at("logprobs")), "null");
  EXPECT_THAT(format_chat_answer(kHead, {}, answer), Not(HasSubstr("token_ids")));
}

TEST(ChatAnswer, RatesOverNoTimeAreZero) {
  const Answer answer{.choices = {{}}, .prompt_token_ids = {}, .usage = {}, .timings = {}};
  EXPECT_THAT(format_chat_answer(kHead, {}, answer), HasSubstr(R"("prefill_tps":0.0,"decode_tps":0.0)"));
}

TEST(ChatStreamTest, SendsTheRoleThenContentThenTheFinishReason) {
  ChatStream stream(kHead, {});
  const std::string head = join({R"({"id":"chatcmpl-x1","object":"chat.completion.chunk",)", kHeadJson});
  EXPECT_EQ(stream.start(0, {}), head + R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},)"
                                        R"("logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(stream.delta({.choice = 0, .text = "Pa\"", .tokens = {}}),
            head + R"("choices":[{"index":0,"delta":{"content":"Pa\""},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(stream.finish({.choice = 0, .reason = FinishReason::kLength, .usage = kUsage, .timings = kTimings}),
            join({head, R"("choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],)", kTimingsJson,
                  "}"}));
  EXPECT_EQ(stream.usage(kUsage), "");
}

TEST(ChatStreamTest, UsageIsNullUntilTheUsageChunkWhichHasNoChoices) {
  GenerationOptions options;
  options.include_usage = true;
  ChatStream stream(kHead, options);
  for (const std::string& chunk :
       {stream.start(0, {}), stream.delta({.choice = 0, .text = "a", .tokens = {}}), stream.finish({})}) {
    EXPECT_TRUE(body_of(chunk).at("usage").is_null()) << chunk;
  }
  EXPECT_EQ(stream.usage(kUsage), join({R"({"id":"chatcmpl-x1","object":"chat.completion.chunk",)", kHeadJson,
                                        R"("choices":[],)", kUsageJson, "}"}));
}

TEST(ChatStreamTest, LogprobsAndTokenIdsComeWithTheirDelta) {
  GenerationOptions options;
  options.num_top_logprobs = 0;
  options.return_token_ids = true;
  ChatStream stream(kHead, options);
  const std::vector<TokenId> prompt = {1, 2};
  EXPECT_EQ(dump_json(body_of(stream.start(0, prompt)).at("prompt_token_ids")), "[1,2]");
  const json::value chunk = body_of(stream.delta({.choice = 3, .text = "", .tokens = {token(9, "\xC3", -1)}}));
  EXPECT_EQ(
      dump_json(chunk.at("choices")),
      R"([{"index":3,"delta":{"content":""},"logprobs":{"content":[{"token":"\\xc3","logprob":-1.0,"bytes":[195],)"
      R"("top_logprobs":[]}]},"finish_reason":null,"token_ids":[9]}])");
}

TEST(CompletionAnswer, HasTheShapeOfATextCompletion) {
  const Answer answer = one_choice({.text = " b", .prompt_tokens = {}, .tokens = {}, .reason = FinishReason::kLength});
  EXPECT_EQ(format_completion_answer(kHead, {}, answer),
            join({R"({"id":"cmpl-x1","object":"text_completion",)", kHeadJson,
                  R"("choices":[{"index":0,"text":" b","logprobs":null,"finish_reason":"length"}],)", kUsageJson, ",",
                  kTimingsJson, "}"}));
}

TEST(CompletionAnswer, EchoedPromptTokensComeFirstAndTheVeryFirstHasNoLogprob) {
  GenerationOptions options;
  options.num_top_logprobs = 1;
  const TokenInfo first{.id = 1, .bytes = "\xC3\xA9", .logprob = std::nullopt, .top = {}};
  const Answer answer = one_choice({.text = "\xC3\xA9 b c",
                                    .prompt_tokens = {first, at(1, token(2, " b", -3, {{5, " z", -0.5F}}))},
                                    .tokens = {at(3, token(3, " c", -0.25F, {{3, " c", -0.25F}}))},
                                    .reason = FinishReason::kLength});
  const json::value body = body_of(format_completion_answer(kHead, options, answer));
  EXPECT_EQ(dump_json(body.at("choices").at(0).at("logprobs")),
            "{\"tokens\":[\"\xC3\xA9\",\" b\",\" c\"],\"token_logprobs\":[null,-3.0,-0.25],"
            "\"top_logprobs\":[null,{\" z\":-0.5,\" b\":-3.0},{\" c\":-0.25}],\"text_offset\":[0,1,3]}");
}

TEST(CompletionAnswer, ATokenThatIsHalfACharacterIsShownAsBytes) {
  GenerationOptions options;
  options.num_top_logprobs = 0;
  const Answer answer = one_choice({.text = "\xC3\xA9!",
                                    .prompt_tokens = {},
                                    .tokens = {token(1, "\xC3", -1), token(2, "\xA9", -2), token(3, "!", -3)},
                                    .reason = FinishReason::kStop});
  const json::value logprobs =
      body_of(format_completion_answer(kHead, options, answer)).at("choices").at(0).at("logprobs");
  EXPECT_EQ(dump_json(logprobs.at("tokens")), R"(["bytes:\\xc3","bytes:\\xa9","!"])");
}

TEST(CompletionAnswer, EachChoiceKnowsItsPrompt) {
  GenerationOptions options;
  options.num_choices = 2;
  options.return_token_ids = true;
  Answer answer{.choices = {}, .prompt_token_ids = {{1}, {2}}, .usage = kUsage, .timings = kTimings};
  for (TokenId id = 0; id < 4; ++id) {
    answer.choices.push_back(
        {.text = "t", .prompt_tokens = {}, .tokens = {token(id, "t", 0)}, .reason = FinishReason::kStop});
  }
  const json::value body = body_of(format_completion_answer(kHead, options, answer));
  std::string prompts;
  for (const json::value& choice : body.at("choices").as_array()) prompts += dump_json(choice.at("prompt_token_ids"));
  EXPECT_EQ(prompts, "[1][1][2][2]");
  EXPECT_FALSE(body.as_object().contains("prompt_token_ids"));

  answer.prompt_token_ids = {{1}};
  EXPECT_EQ(dump_json(body_of(format_completion_answer(kHead, options, answer)).at("prompt_token_ids")), "[1]");
}

TEST(CompletionStreamTest, SendsTextThenTheFinishReason) {
  CompletionStream stream(kHead, {});
  const std::string head = join({R"({"id":"cmpl-x1","object":"text_completion",)", kHeadJson});
  EXPECT_EQ(stream.start(0, {}), "");
  EXPECT_EQ(stream.delta({.choice = 1, .text = "b", .tokens = {}}),
            head + R"("choices":[{"index":1,"text":"b","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(
      stream.finish({.choice = 1, .reason = FinishReason::kStop, .usage = kUsage, .timings = kTimings}),
      join({head, R"("choices":[{"index":1,"text":"","logprobs":null,"finish_reason":"stop"}],)", kTimingsJson, "}"}));
  EXPECT_EQ(stream.usage(kUsage), "");
}

TEST(CompletionStreamTest, OffsetsAreThoseInTheWholeText) {
  GenerationOptions options;
  options.num_top_logprobs = 0;
  CompletionStream stream(kHead, options);
  const json::value chunk =
      body_of(stream.delta({.choice = 1, .text = "de", .tokens = {at(3, token(2, "d", 0)), at(4, token(3, "e", 0))}}));
  EXPECT_EQ(dump_json(chunk.at("choices").at(0).at("logprobs").at("text_offset")), "[3,4]");
}

TEST(CompletionStreamTest, EchoedTokensAreNotGeneratedOnes) {
  GenerationOptions options;
  options.return_token_ids = true;
  CompletionStream stream(kHead, options);
  const std::vector<TokenId> prompt = {1};
  EXPECT_EQ(dump_json(body_of(stream.start(0, prompt)).at("choices").at(0).at("prompt_token_ids")), "[1]");
  const json::value echo =
      body_of(stream.delta({.choice = 0, .text = "a", .tokens = {token(1, "a", 0)}, .echo = true}));
  EXPECT_EQ(dump_json(echo.at("choices").at(0).at("token_ids")), "[]");
  const json::value rest = body_of(stream.delta({.choice = 0, .text = "b", .tokens = {token(2, "b", 0)}}));
  EXPECT_EQ(dump_json(rest.at("choices").at(0).at("token_ids")), "[2]");
}

// Random text of every length of UTF-8 character, control characters and quotes included.
std::string random_text(std::mt19937& random, int length) {
  constexpr char32_t kRanges[][2] = {{0x01, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0x10000, 0x10FFFF}};
  std::string text;
  for (int i = 0; i < length; ++i) {
    const auto& range = kRanges[random() % 4];
    append_utf8(text, range[0] + random() % (range[1] - range[0] + 1));
  }
  return text;
}

TEST(StreamProperty, ConcatenatedDeltasEqualTheWholeAnswer) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ChatStream chat(kHead, {});
    CompletionStream completion(kHead, {});
    std::string whole;
    std::string from_chat;
    std::string from_completion;
    for (unsigned i = 0; i < 1 + random() % 10; ++i) {
      const ChoiceDelta delta{
          .choice = 0, .text = random_text(random, 1 + static_cast<int>(random() % 8)), .tokens = {}};
      whole += delta.text;
      from_chat +=
          std::string_view(body_of(chat.delta(delta)).at("choices").at(0).at("delta").at("content").as_string());
      from_completion += std::string_view(body_of(completion.delta(delta)).at("choices").at(0).at("text").as_string());
    }
    const Answer answer = one_choice({.text = whole, .prompt_tokens = {}, .tokens = {}, .reason = FinishReason::kStop});
    const json::value body = body_of(format_chat_answer(kHead, {}, answer));
    const json::value text_body = body_of(format_completion_answer(kHead, {}, answer));
    EXPECT_EQ(std::string_view(body.at("choices").at(0).at("message").at("content").as_string()), from_chat);
    EXPECT_EQ(std::string_view(text_body.at("choices").at(0).at("text").as_string()), from_completion);
    EXPECT_EQ(from_chat, whole);
  }
}

}  // namespace
}  // namespace redpoll::api::openai
