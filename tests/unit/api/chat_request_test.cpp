#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/chat.h"
#include "base/json.h"
#include "unit/api/bad_input.h"

namespace redpoll::api::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr RequestLimits kLimits{.max_choices = 8, .max_prompts = 4, .vocab_size = 100};

Result<ChatRequest> parse(const json::value& body) { return parse_chat_request(body, kLimits); }

// A request whose messages are fine, with more fields.
std::string with(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
}

ChatRequest parsed(const std::string& text) {
  auto request = parse(body_of(text));
  EXPECT_TRUE(request.has_value()) << text << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : ChatRequest{};
}

TEST(ChatRequest, TheSmallestRequestLeavesEverythingElseToTheDefaults) {
  const ChatRequest request = parsed(R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(dump_json(request.conversation.messages), R"([{"role":"user","content":"hi"}])");
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_FALSE(request.options.stream);
  EXPECT_FALSE(request.options.max_tokens.has_value());
  EXPECT_FALSE(request.options.num_top_logprobs.has_value());
  EXPECT_FALSE(request.options.sampling.temperature.has_value());
  EXPECT_EQ(request.options.num_choices, 1);
  EXPECT_THAT(request.warnings, IsEmpty());
}

TEST(ChatRequest, ReadsEverySamplingField) {
  const ChatRequest request = parsed(with(R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,
      "typical_p":0.95,"xtc_probability":0.25,"xtc_threshold":0.125,"repetition_penalty":1.5,
      "repetition_context_size":64,"presence_penalty":-2,"frequency_penalty":2,"dry_multiplier":0.75,"dry_base":1.75,
      "dry_allowed_length":3,"dry_sequence_breakers":["\n",":"],"logit_bias":{"9":-100,"5":1.5},"seed":-7)"));
  EXPECT_EQ(request.model, "m");
  const SamplingOverrides& sampling = request.options.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.05F);
  EXPECT_EQ(sampling.typical_p, 0.95F);
  EXPECT_EQ(sampling.xtc_probability, 0.25F);
  EXPECT_EQ(sampling.xtc_threshold, 0.125F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.repetition_context_size, 64);
  EXPECT_EQ(sampling.presence_penalty, -2.0F);
  EXPECT_EQ(sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(sampling.dry_multiplier, 0.75F);
  EXPECT_EQ(sampling.dry_base, 1.75F);
  EXPECT_EQ(sampling.dry_allowed_length, 3);
  ASSERT_TRUE(sampling.dry_sequence_breakers.has_value());
  EXPECT_THAT(*sampling.dry_sequence_breakers, ElementsAre("\n", ":"));
  EXPECT_THAT(sampling.logit_bias, ElementsAre(Pair(5, 1.5F), Pair(9, -100.0F)));
  EXPECT_EQ(sampling.seed, static_cast<std::uint64_t>(-7));
}

TEST(ChatRequest, ReadsEveryGenerationField) {
  const GenerationOptions options = parsed(with(R"("max_tokens":50,"min_tokens":3,"ignore_eos":true,"stop":["a","b"],
      "n":8,"logprobs":true,"top_logprobs":20,"return_token_ids":true,"priority":-3,"stream":true,
      "stream_options":{"include_usage":true})"))
                                        .options;
  EXPECT_EQ(options.max_tokens, 50);
  EXPECT_EQ(options.min_tokens, 3);
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_THAT(options.stop, ElementsAre("a", "b"));
  EXPECT_EQ(options.num_choices, 8);
  EXPECT_EQ(options.num_top_logprobs, 20);
  EXPECT_TRUE(options.return_token_ids);
  EXPECT_EQ(options.priority, -3);
  EXPECT_TRUE(options.stream);
  EXPECT_TRUE(options.include_usage);
}

TEST(ChatRequest, MaxCompletionTokensWins) {
  EXPECT_EQ(parsed(with(R"("max_tokens":5,"max_completion_tokens":9)")).options.max_tokens, 9);
  EXPECT_EQ(parsed(with(R"("max_completion_tokens":9)")).options.max_tokens, 9);
}

TEST(ChatRequest, NullFieldsAreAbsent) {
  const ChatRequest request = parsed(with(R"("temperature":null,"stop":null,"tools":null,"tool_choice":null,
      "response_format":null,"logit_bias":null,"seed":null,"adapter":null,"stream_options":null,"model":null)"));
  EXPECT_FALSE(request.options.sampling.temperature.has_value());
  EXPECT_THAT(request.options.stop, IsEmpty());
  EXPECT_THAT(request.warnings, IsEmpty());
}

TEST(ChatRequest, ZeroAndMinusOneBecomeWhatTheSamplerMeansByThem) {
  const SamplingOverrides sampling =
      parsed(with(R"("top_p":0,"top_k":-1,"repetition_context_size":0,"temperature":0)")).options.sampling;
  EXPECT_GT(*sampling.top_p, 0.0F);
  EXPECT_LT(1.0F - *sampling.top_p, 1.0F);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_context_size, 0);
  EXPECT_EQ(sampling.temperature, 0.0F);
}

TEST(ChatRequest, ASingleStopStringIsAListOfOne) {
  EXPECT_THAT(parsed(with(R"("stop":"\n\n")")).options.stop, ElementsAre("\n\n"));
  EXPECT_THAT(parsed(with(R"("stop":[])")).options.stop, IsEmpty());
}

TEST(ChatRequest, LogprobsAloneMeansTheChosenTokenOnly) {
  EXPECT_EQ(parsed(with(R"("logprobs":true)")).options.num_top_logprobs, 0);
  EXPECT_FALSE(parsed(with(R"("logprobs":false,"top_logprobs":0)")).options.num_top_logprobs.has_value());
}

TEST(ChatRequest, KnownFieldsWithoutEffectAreSilentAndUnknownOnesAreWarnings) {
  EXPECT_THAT(
      parsed(with(R"("user":"u","metadata":{},"store":false,"service_tier":"auto","prompt_cache_key":"k")")).warnings,
      IsEmpty());
  EXPECT_THAT(parsed(with(R"("mirostat":2,"cache_prompt":true)")).warnings, ElementsAre("mirostat", "cache_prompt"));
  EXPECT_THAT(parsed(with(R"("stream":true,"stream_options":{"include_usage":true,"continuous":1},
                             "response_format":{"type":"text","schema":{}},"x":1)"))
                  .warnings,
              ElementsAre("x", "stream_options.continuous", "response_format.schema"));
}

TEST(ChatRequest, UsageInChunksIsOptional) {
  EXPECT_FALSE(parsed(with(R"("stream":true)")).options.include_usage);
  EXPECT_FALSE(parsed(with(R"("stream":true,"stream_options":{"include_usage":false})")).options.include_usage);
}

TEST(ChatRequest, ReasoningEffortReachesTheTemplateUnderBothNames) {
  EXPECT_EQ(dump_json(parsed(with(R"("reasoning_effort":"low")")).conversation.chat_template_kwargs),
            R"({"reasoning_effort":"low","enable_thinking":true})");
  EXPECT_EQ(dump_json(parsed(with(R"("reasoning_effort":"none")")).conversation.chat_template_kwargs),
            R"({"reasoning_effort":"none","enable_thinking":false})");
}

TEST(ChatRequest, SpelledOutTemplateArgumentsWinOverReasoningEffort) {
  EXPECT_EQ(
      dump_json(parsed(with(R"("reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false,"x":[1]})"))
                    .conversation.chat_template_kwargs),
      R"({"enable_thinking":false,"x":[1],"reasoning_effort":"low"})");
}

void expect_all_refused(const std::vector<BadInput>& rows) {
  for (const BadInput& row : rows) expect_refused(row, parse);
}

TEST(RefusedChatRequest, SaysWhatARequestIs) {
  expect_all_refused({{"[]", "expected a JSON object as the request, got array", ""},
                      {"null", "expected a JSON object as the request, got null", ""},
                      {R"("x")", "expected a JSON object as the request, got string", ""},
                      {"{}", "'messages' is required", "messages"},
                      {R"({"messages":null})", "'messages' is required", "messages"},
                      {R"({"messages":[]})", "'messages': expected at least one message", "messages"},
                      {R"({"messages":"hi"})", R"('messages': expected an array, got string "hi")", "messages"},
                      {with(R"("model":5)"), "'model': expected a string, got number 5", "model"}});
}

TEST(RefusedChatRequest, SaysTheRangeOfANumber) {
  expect_all_refused(
      {{with(R"("temperature":2.5)"), "'temperature': expected a number from 0 to 2, got 2.5", "temperature"},
       {with(R"("temperature":-0.1)"), "'temperature': expected a number from 0 to 2, got -0.1", "temperature"},
       {with(R"("temperature":"hot")"), R"('temperature': expected a number, got string "hot")", "temperature"},
       {with(R"("top_p":1.1)"), "'top_p': expected a number from 0 to 1, got 1.1", "top_p"},
       {with(R"("top_k":-2)"), "'top_k': expected a whole number from -1 to 2147483647, got -2", "top_k"},
       {with(R"("top_k":1.5)"), "'top_k': expected a whole number from -1 to 2147483647, got 1.5", "top_k"},
       {with(R"("min_p":2)"), "'min_p': expected a number from 0 to 1, got 2", "min_p"},
       {with(R"("typical_p":2)"), "'typical_p': expected a number from 0 to 1, got 2", "typical_p"},
       {with(R"("xtc_probability":2)"), "'xtc_probability': expected a number from 0 to 1, got 2", "xtc_probability"},
       {with(R"("xtc_threshold":2)"), "'xtc_threshold': expected a number from 0 to 1, got 2", "xtc_threshold"},
       {with(R"("repetition_penalty":0)"), "'repetition_penalty': expected a number from 0.01 to 10, got 0",
        "repetition_penalty"},
       {with(R"("repetition_context_size":-1)"),
        "'repetition_context_size': expected a whole number from 0 to 2147483647, got -1", "repetition_context_size"},
       {with(R"("presence_penalty":3)"), "'presence_penalty': expected a number from -2 to 2, got 3",
        "presence_penalty"},
       {with(R"("frequency_penalty":-3)"), "'frequency_penalty': expected a number from -2 to 2, got -3",
        "frequency_penalty"},
       {with(R"("dry_multiplier":-1)"), "'dry_multiplier': expected a number from 0 to 100, got -1", "dry_multiplier"},
       {with(R"("dry_base":0.5)"), "'dry_base': expected a number from 1 to 100, got 0.5", "dry_base"},
       {with(R"("dry_allowed_length":0)"), "'dry_allowed_length': expected a whole number from 1 to 2147483647, got 0",
        "dry_allowed_length"},
       {with(R"("dry_sequence_breakers":["a",""])"), "'dry_sequence_breakers[1]': expected a string that is not empty",
        "dry_sequence_breakers[1]"},
       {with(R"("max_tokens":0)"), "'max_tokens': expected a whole number from 1 to 2147483647, got 0", "max_tokens"},
       {with(R"("max_tokens":4294967296)"),
        "'max_tokens': expected a whole number from 1 to 2147483647, got 4294967296", "max_tokens"},
       {with(R"("max_completion_tokens":-1)"),
        "'max_completion_tokens': expected a whole number from 1 to 2147483647, got -1", "max_completion_tokens"},
       {with(R"("max_tokens":4,"min_tokens":5)"), "'min_tokens': expected at most max_tokens, which is 4, got 5",
        "min_tokens"},
       {with(R"("min_tokens":-1)"), "'min_tokens': expected a whole number from 0 to 2147483647, got -1", "min_tokens"},
       {with(R"("n":0)"), "'n': expected a whole number from 1 to 2147483647, got 0", "n"},
       {with(R"("n":9)"), "'n': expected at most 8, got 9", "n"},
       {with(R"("seed":1.5)"),
        "'seed': expected a whole number from -9223372036854775808 to 9223372036854775807, got 1.5", "seed"},
       {with(R"("priority":3000000000)"),
        "'priority': expected a whole number from -2147483648 to 2147483647, got 3000000000", "priority"},
       {with(R"("top_logprobs":21,"logprobs":true)"), "'top_logprobs': expected a whole number from 0 to 20, got 21",
        "top_logprobs"},
       {with(R"("top_logprobs":5)"), "'top_logprobs': needs 'logprobs' to be true", "top_logprobs"},
       {with(R"("logprobs":3)"), "'logprobs': expected a boolean, got number 3", "logprobs"},
       {with(R"("stream":"yes")"), R"('stream': expected a boolean, got string "yes")", "stream"},
       {with(R"("ignore_eos":1)"), "'ignore_eos': expected a boolean, got number 1", "ignore_eos"},
       {with(R"("return_token_ids":1)"), "'return_token_ids': expected a boolean, got number 1", "return_token_ids"},
       {with(R"("stream_options":{"include_usage":true})"), "'stream_options': allowed only when 'stream' is true",
        "stream_options"},
       {with(R"("stream":true,"stream_options":{"include_usage":1})"),
        "'stream_options.include_usage': expected a boolean, got number 1", "stream_options.include_usage"}});
}

std::string many_strings(int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += (i > 0 ? ",\"s\"" : "\"s\"");
  return out + "]";
}
TEST(RefusedChatRequest, ChecksStopStringsAndBiases) {
  expect_all_refused(
      {{with(R"("stop":"")"), "'stop': expected a string that is not empty", "stop"},
       {with(R"("stop":["a",""])"), "'stop[1]': expected a string that is not empty", "stop[1]"},
       {with(R"("stop":[1])"), "'stop[0]': expected a string, got number", "stop[0]"},
       {with(R"("stop":7)"), "'stop': expected a string or an array of strings, got number", "stop"},
       {with(R"("stop":["a",")" + std::string(4097, 'b') + R"("])"),
        "'stop[1]': expected a string of at most 4096 bytes, got 4097", "stop[1]"},
       {with(R"("stop":")" + std::string(4097, 'b') + '"'), "'stop': expected a string of at most 4096 bytes, got 4097",
        "stop"},
       {with(R"("dry_sequence_breakers":[")" + std::string(4097, 'b') + R"("])"),
        "'dry_sequence_breakers[0]': expected a string of at most 4096 bytes, got 4097", "dry_sequence_breakers[0]"},
       {with(R"("stop":)" + many_strings(17)), "'stop': expected at most 16 strings, got 17", "stop"},
       {with(R"("dry_sequence_breakers":)" + many_strings(65)),
        "'dry_sequence_breakers': expected at most 64 strings, got 65", "dry_sequence_breakers"},
       {with(R"("logit_bias":[1])"), "'logit_bias': expected an object, got array [1]", "logit_bias"},
       {with(R"("logit_bias":{"cat":1})"), "'logit_bias': expected token ids from 0 to 99 as keys, got 'cat'",
        "logit_bias"},
       {with(R"("logit_bias":{"01":1})"), "'logit_bias': expected token ids from 0 to 99 as keys, got '01'",
        "logit_bias"},
       {with(R"("logit_bias":{"-1":1})"), "'logit_bias': expected token ids from 0 to 99 as keys, got '-1'",
        "logit_bias"},
       {with(R"("logit_bias":{"100":1})"), "'logit_bias': expected token ids from 0 to 99 as keys, got '100'",
        "logit_bias"},
       {with(R"("logit_bias":{"5":101})"), "'logit_bias.5': expected a number from -100 to 100, got 101",
        "logit_bias.5"},
       {with(R"("logit_bias":{"5":null})"), "'logit_bias.5': expected a number, got null", "logit_bias.5"}});
}

BadInput unsupported(const std::string& name, const std::string& value) {
  return {with('"' + name + "\":" + value), "'" + name + "' is not supported yet by this server", name,
          ErrorCode::kUnsupported};
}
TEST(RefusedChatRequest, RefusesWhatItKnowsButCannotHonour) {
  expect_all_refused(
      {unsupported("guided_json", "{}"),
       unsupported("guided_regex", R"("a+")"),
       unsupported("guided_choice", R"(["a"])"),
       unsupported("guided_grammar", R"("x")"),
       unsupported("structured_outputs", "{}"),
       unsupported("adapter", R"("a")"),
       unsupported("audio", "{}"),
       unsupported("web_search_options", "{}"),
       unsupported("functions", "[]"),
       unsupported("function_call", R"("auto")"),
       unsupported("modalities", R"(["text","audio"])"),
       {with(R"("response_format":{"type":"json_object"})"),
        "'response_format': 'json_object' is not supported yet by this server", "response_format",
        ErrorCode::kUnsupported},
       {with(R"("response_format":{"type":"json_schema","json_schema":{}})"),
        "'response_format': 'json_schema' is not supported yet by this server", "response_format",
        ErrorCode::kUnsupported},
       {with(R"("response_format":{"type":"xml"})"),
        "'response_format.type': expected text, json_object or json_schema, got 'xml'", "response_format.type"},
       {with(R"("response_format":{})"), "'response_format.type' is required", "response_format.type"},
       {with(R"("chat_template_kwargs":[])"), "'chat_template_kwargs': expected an object, got array []",
        "chat_template_kwargs"},
       {with(R"("chat_template_kwargs":{"messages":[]})"),
        "'chat_template_kwargs.messages': the server sets this itself", "chat_template_kwargs.messages"},
       {with(R"("chat_template_kwargs":{"chat_template":"x"})"),
        "'chat_template_kwargs.chat_template': the server sets this itself", "chat_template_kwargs.chat_template"},
       {with(R"("reasoning_effort":3)"), "'reasoning_effort': expected a string, got number 3", "reasoning_effort"}});
}

TEST(ChatRequest, TextResponseFormatAndTextModalityAreFine) {
  EXPECT_THAT(parsed(with(R"("response_format":{"type":"text"},"modalities":["text"])")).warnings, IsEmpty());
}

TEST(ChatRequest, TextThatIsNotUnicodeNeverReachesTheParser) {
  EXPECT_FALSE(parse_json(R"({"messages":[{"role":"user","content":"\uD800"}]})").has_value());
  EXPECT_FALSE(parse_json(R"({"messages":[{"role":"user","content":"\uDC00x"}]})").has_value());
  EXPECT_FALSE(parse_json("{\"messages\":[{\"role\":\"user\",\"content\":\"\xED\xA0\x80\"}]}").has_value());
  EXPECT_FALSE(parse_json(R"({"temperature":NaN})").has_value());
}

}  // namespace
}  // namespace redpoll::api::openai
