#include "api/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/models.h"
#include "api/stats.h"
#include "unit/api/bad_input.h"

namespace redpoll::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RequestLimits kLimits{.max_choices = 8, .max_prompts = 4, .vocab_size = 100};

TEST(Tokenize, TextComesUnderThreeNames) {
  for (const std::string name : {"content", "text", "prompt"}) {
    const auto request = parse_tokenize_request(body_of(R"({")" + name + R"(":"a b"})"));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(std::get<std::string>(request->input), "a b");
    EXPECT_FALSE(request->add_special);
    EXPECT_FALSE(request->with_pieces);
    EXPECT_THAT(request->warnings, IsEmpty());
  }
}

TEST(Tokenize, SeveralTextsAreRefusedRatherThanAllButOneDropped) {
  expect_refused({R"({"content":"a","prompt":"b"})", "'prompt': expected one text, got another in 'content'", "prompt"},
                 parse_tokenize_request);
  expect_refused({R"({"text":"a","prompt":"a"})", "'prompt': expected one text, got another in 'text'", "prompt"},
                 parse_tokenize_request);
  expect_refused({R"({"content":["a","b"]})", R"('content': expected a string, got array ["a","b"])", "content"},
                 parse_tokenize_request);
  EXPECT_TRUE(parse_tokenize_request(body_of(R"({"content":"a","prompt":null})")).has_value());
}

TEST(Tokenize, MessagesAreAConversation) {
  const auto request = parse_tokenize_request(body_of(
      R"({"model":"m","messages":[{"role":"developer","content":"x"}],"add_special":true,"with_pieces":true,
          "add_generation_prompt":false,"foo":1})"));
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(dump_json(std::get<Conversation>(request->input).messages), R"([{"role":"system","content":"x"}])");
  EXPECT_FALSE(std::get<Conversation>(request->input).add_generation_prompt);
  EXPECT_EQ(request->model, "m");
  EXPECT_TRUE(request->add_special);
  EXPECT_TRUE(request->with_pieces);
  EXPECT_THAT(request->warnings, ElementsAre("foo"));
}

TEST(Tokenize, SaysWhatIsWrong) {
  for (const BadInput& row : std::initializer_list<BadInput>{
           {"{}", "'content' is required, or 'messages'", "content"},
           {R"({"content":5})", "'content': expected a string, got number 5", "content"},
           {R"({"content":"a","messages":[{"role":"user","content":"x"}]})",
            "'messages': expected either a text or messages, got both", "messages"},
           {R"({"messages":[]})", "'messages': expected at least one message", "messages"},
           {R"({"content":"a","add_special":1})", "'add_special': expected a boolean, got number 1", "add_special"},
           {"[]", "expected a JSON object as the request, got array", ""}}) {
    expect_refused(row, parse_tokenize_request);
  }
}

TEST(Tokenize, TokensAreIdsOrIdsWithPieces) {
  const std::vector<TokenPiece> tokens = {{1, " a"}, {2, "\xE2\x82"}};
  EXPECT_EQ(format_tokens(tokens, false), R"({"tokens":[1,2]})");
  EXPECT_EQ(format_tokens(tokens, true), R"({"tokens":[{"id":1,"piece":" a"},{"id":2,"piece":[226,130]}]})");
  EXPECT_EQ(format_tokens({}, false), R"({"tokens":[]})");
}

TEST(Detokenize, ReadsIdsAndWritesText) {
  const auto request = parse_detokenize_request(body_of(R"({"tokens":[1,99],"foo":1})"), kLimits);
  ASSERT_TRUE(request.has_value());
  EXPECT_THAT(request->tokens, ElementsAre(1, 99));
  EXPECT_THAT(request->warnings, ElementsAre("foo"));
  EXPECT_EQ(format_detokenized("a \"b\""), R"({"content":"a \"b\""})");
}

TEST(Detokenize, SaysWhatIsWrong) {
  const auto parse = [](const json::value& body) { return parse_detokenize_request(body, kLimits); };
  for (const BadInput& row : std::initializer_list<BadInput>{
           {"{}", "'tokens' is required", "tokens"},
           {R"({"tokens":"1"})", R"('tokens': expected an array, got string "1")", "tokens"},
           {R"({"tokens":[1,100]})", "'tokens[1]': expected a token id from 0 to 99, got 100", "tokens[1]"},
           {R"({"tokens":["a"]})", "'tokens[0]': expected a token id from 0 to 99, got string", "tokens[0]"}}) {
    expect_refused(row, parse);
  }
}

TEST(ApplyTemplate, ReadsWhatTheTemplateReads) {
  const auto request = parse_template_request(body_of(
      R"({"messages":[{"role":"user","content":"x"}],"tools":[{"function":{"name":"f"}}],"add_generation_prompt":false,
          "chat_template_kwargs":{"a":1},"temperature":1})"));
  ASSERT_TRUE(request.has_value());
  EXPECT_FALSE(request->conversation.add_generation_prompt);
  EXPECT_EQ(dump_json(request->conversation.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])");
  EXPECT_EQ(dump_json(request->conversation.chat_template_kwargs), R"({"a":1})");
  EXPECT_THAT(request->warnings, ElementsAre("temperature"));
  EXPECT_EQ(format_rendered("<s>\n"), R"({"prompt":"<s>\n"})");
}

TEST(ApplyTemplate, SaysWhatIsWrong) {
  expect_refused({"{}", "'messages' is required", "messages"}, parse_template_request);
  expect_refused({R"({"messages":[{"role":"user","content":"x"}],"add_generation_prompt":"no"})",
                  R"('add_generation_prompt': expected a boolean, got string "no")", "add_generation_prompt"},
                 parse_template_request);
}

TEST(Health, OkIsExactlyWhatScriptsLookFor) { EXPECT_EQ(format_health("ok", ""), R"({"status": "ok"})"); }

TEST(Health, AFailureHasItsReason) {
  EXPECT_EQ(format_health("failed", "a \"step\" \xFF"),
            "{\"status\": \"failed\", \"reason\": \"a \\\"step\\\" \xEF\xBF\xBD\"}");
}

TEST(Models, TheListHoldsModelObjects) {
  const openai::ModelInfo model{.id = "smol", .created = 1700000000, .context_window = 2048};
  const std::string object =
      R"({"id":"smol","object":"model","created":1700000000,"owned_by":"redpoll","context_window":2048})";
  EXPECT_EQ(openai::format_model(model), object);
  EXPECT_EQ(openai::format_model_list(std::span(&model, 1)), R"({"object":"list","data":[)" + object + "]}");
  EXPECT_EQ(openai::format_model_list({}), R"({"object":"list","data":[]})");
}

TEST(StatsFormat, HasEverySectionWithItsFields) {
  Stats stats;
  stats.server = {.version = "0.1.0", .model = "smol", .started_at = 1700000000, .uptime_s = 2.5};
  stats.engine = {.state = "ready",
                  .running = 1,
                  .waiting = 2,
                  .step_ms_p50 = 8.25,
                  .tokens_per_s = 40,
                  .prefill_tokens_per_s = 300};
  stats.requests = {{.id = "r1", .state = "prefill", .prompt_tokens = 9, .computed_tokens = 4, .generated_tokens = 0}};
  stats.kv = {.block_tokens = 32,
              .blocks_total = 100,
              .blocks_used = 3,
              .bytes_total = 6400,
              .bytes_used = 192,
              .scheme = "f16"};
  stats.prompt_cache = {.entries = 1, .bytes = 128, .max_bytes = 4096, .hits = 5, .misses = 6, .hit_tokens = 70};
  stats.ssd_cache = {.entries = 7,
                     .bytes = 512,
                     .max_bytes = 1ULL << 35U,
                     .restores = 8,
                     .spills = 9,
                     .restore_ms_last = 1.5,
                     .waiting = 3,
                     .given_up = 12,
                     .dropped = 10,
                     .failed = 11};
  stats.memory = {.budget_bytes = 1ULL << 40U,
                  .weights_bytes = 77,
                  .kv_bytes = 6400,
                  .step_bytes = 99,
                  .rss_bytes = 88,
                  .max_context = 3200};
  EXPECT_EQ(
      format_stats(stats),
      R"({"server":{"version":"0.1.0","model":"smol","started_at":1700000000,"uptime_s":2.5},)"
      R"("engine":{"state":"ready","running":1,"waiting":2,"step_ms_p50":8.25,"tokens_per_s":40.0,)"
      R"("prefill_tokens_per_s":300.0},)"
      R"("requests":[{"id":"r1","state":"prefill","prompt_tokens":9,"computed_tokens":4,"generated_tokens":0}],)"
      R"("kv":{"block_tokens":32,"blocks_total":100,"blocks_used":3,"bytes_total":6400,"bytes_used":192,"scheme":"f16"},)"
      R"("prompt_cache":{"entries":1,"bytes":128,"max_bytes":4096,"hits":5,"misses":6,"hit_tokens":70},)"
      R"("ssd_cache":{"entries":7,"bytes":512,"max_bytes":34359738368,"restores":8,"spills":9,"restore_ms_last":1.5,"waiting":3,)"
      R"("given_up":12,"dropped":10,"failed":11},)"
      R"("memory":{"budget_bytes":1099511627776,"weights_bytes":77,"kv_bytes":6400,"step_bytes":99,"rss_bytes":88,"max_context":3200}})");
}

}  // namespace
}  // namespace redpoll::api
