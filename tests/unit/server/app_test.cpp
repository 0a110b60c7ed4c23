// What clients get from the routes.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "unit/server/app_fixture.h"

namespace redpoll::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(AppTest, ChatAnswers) {
  serve("Paris.");
  const Reply reply = post(kChat, hello());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json::object body = parse(reply.body);
  const json::object& choice = body.at("choices").as_array()[0].as_object();
  EXPECT_EQ(choice.at("message").as_object().at("content"), "Paris.");
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(body.at("model"), "scripted");
  EXPECT_EQ(body.at("usage").as_object().at("completion_tokens"), 6);
}

TEST_F(AppTest, StreamEqualsTheWholeAnswerAndEndsInDone) {  // user cases 12, 36
  const std::string answer = "def f():\n    def g():\n        return '\xE2\x82\xAC'\n\n    return g\n";
  serve(answer);
  const Reply reply = post(kChat, hello(R"(, "stream": true)"));
  ASSERT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers.at("content-type"), StartsWith("text/event-stream"));
  std::vector<std::string> data = events(reply.body);
  ASSERT_GE(data.size(), 4U);
  EXPECT_EQ(data.back(), "[DONE]");
  data.pop_back();
  std::string text;
  int finish_reasons = 0;
  for (const std::string& event : data) {
    const json::object chunk = parse(event);
    const json::object& choice = chunk.at("choices").as_array()[0].as_object();
    if (const json::value* content = choice.at("delta").as_object().if_contains("content")) {
      text += content->get_string();
    }
    finish_reasons += choice.at("finish_reason").is_null() ? 0 : 1;
  }
  EXPECT_EQ(text, answer);
  EXPECT_EQ(finish_reasons, 1);
  EXPECT_EQ(parse(data.front()).at("choices").as_array()[0].as_object().at("delta").as_object().at("role"),
            "assistant");
}

TEST_F(AppTest, OnlyTheTokenEndsAnAnswerNotItsSpelling) {  // user case 5
  const std::string answer = "<|end|> ends a turn, <|end|>";
  serve(answer);
  const json::object body = parse(post(kChat, hello()).body);
  const json::object& choice = body.at("choices").as_array()[0].as_object();
  EXPECT_EQ(std::string_view(choice.at("message").as_object().at("content").as_string()), answer);
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(body.at("usage").as_object().at("completion_tokens"), static_cast<int>(answer.size()));
}

TEST_F(AppTest, RoleComesAtOnceWhileThePromptIsStillProcessed) {
  serve("abc", {.step_delay = milliseconds{400}});
  TestClient client(port_);
  const std::string body = hello(R"(, "stream": true)");
  const auto start = std::chrono::steady_clock::now();
  send_chat(client, body);
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_THAT(client.read_chunk(), HasSubstr("\"role\":\"assistant\""));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds{300});
}

TEST_F(AppTest, SilentStreamGetsComments) {
  ServerOptions options;
  options.comment_interval = milliseconds{50};
  serve("a", {.step_delay = milliseconds{300}}, options);
  const Reply reply = post(kChat, hello(R"(, "stream": true)"));
  EXPECT_THAT(reply.body, HasSubstr("\n: still working\n"));
  EXPECT_EQ(events(reply.body).back(), "[DONE]");
}

TEST_F(AppTest, StreamWhoseTokensAreHeldBackGetsCommentsToo) {
  ServerOptions options;
  options.comment_interval = milliseconds{100};
  const std::string answer(20, 'a');  // may be the start of the stop string until it ends
  serve(answer, {.step_delay = milliseconds{30}}, options);
  const Reply reply = post(kChat, hello(R"(, "stream": true, "stop": ")" + answer + answer + '"'));
  EXPECT_THAT(reply.body, HasSubstr("\n: still working\n"));
  EXPECT_THAT(reply.body, HasSubstr("\"content\":\"" + answer + '"'));
}

TEST_F(AppTest, StepThatThrowsIsA500ForItsRequestOnly) {  // user case 47
  serve("abcdef", {.throw_at_position = 60});
  const std::string long_prompt(80, 'x');
  const Reply failed = post(kChat, R"({"messages": [{"role": "user", "content": ")" + long_prompt + "\"}]}");
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(error_code(failed), "internal_error");
  EXPECT_EQ(post(kChat, hello()).status, 200);
  EXPECT_EQ(get("/health").body, R"({"status": "ok"})");
}

TEST_F(AppTest, ErrorInsideAStreamIsAnEventThenDone) {  // user case 43
  serve(std::string(200, 'a'), {.throw_at_position = 40});
  const Reply reply = post(kChat, hello(R"(, "stream": true)"));
  EXPECT_EQ(reply.status, 200);
  const std::vector<std::string> data = events(reply.body);
  ASSERT_GE(data.size(), 3U);
  EXPECT_EQ(data.back(), "[DONE]");
  const json::object error = parse(data[data.size() - 2]).at("error").as_object();
  EXPECT_EQ(error.at("type"), "server_error");
}

TEST_F(AppTest, ClientThatLeavesAWholeAnswerIsNotWorkedFor) {
  serve(std::string(4000, 'a'), {.step_delay = milliseconds{2}});
  {
    TestClient client(port_);
    const std::string body = hello(R"(, "max_tokens": 4000)");
    send_chat(client, body);
    EXPECT_TRUE(eventually([&] { return model().engine->stats().running == 1; }));
    client.reset();
  }
  EXPECT_TRUE(becomes_idle(model()));
  EXPECT_TRUE(
      eventually([&] { return get("/metrics").body.find("redpoll_cancellations_total 1\n") != std::string::npos; }));
}

TEST_F(AppTest, ClientThatLeavesAStreamIsNotWorkedFor) {  // user case 63
  serve(std::string(4000, 'a'), {.step_delay = milliseconds{2}});
  TestClient client(port_);
  const std::string body = hello(R"(, "max_tokens": 4000, "stream": true)");
  send_chat(client, body);
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_NE(client.read_chunk(), "");
  client.reset();
  EXPECT_TRUE(becomes_idle(model()));
}

TEST_F(AppTest, RequestTimeoutEndsAnswersAndStreams) {
  ServerOptions options;
  options.request_timeout = milliseconds{100};
  serve(std::string(4000, 'a'), {.step_delay = milliseconds{5}}, options);
  const Reply whole = post(kChat, hello());
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(error_code(whole), "timeout");
  EXPECT_THAT(whole.body, HasSubstr("the request was not done after 100 ms, which is this server's limit"));
  const std::vector<std::string> data = events(post(kChat, hello(R"(, "stream": true)")).body);
  ASSERT_GE(data.size(), 2U);
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_THAT(data[data.size() - 2], HasSubstr("\"code\":\"timeout\""));
  EXPECT_TRUE(becomes_idle(model()));
}

TEST_F(AppTest, FullQueueIs429WithRetryAfter) {
  serve(std::string(4000, 'a'), {.step_delay = milliseconds{5}, .max_batch = 1, .max_queue = 1});
  const std::string body = hello(R"(, "max_tokens": 4000, "stream": true)");
  TestClient running(port_);
  TestClient waiting(port_);
  for (TestClient* client : {&running, &waiting}) {
    send_chat(*client, body);
    EXPECT_EQ(client->read_head().status, 200);
    EXPECT_NE(client->read_chunk(), "");
    eventually([&] { return model().engine->stats().running == 1; });
  }
  const Reply refused = post(kChat, hello());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(error_code(refused), "queue_full");
  EXPECT_TRUE(refused.headers.contains("retry-after"));
}

TEST_F(AppTest, UnknownModelListsWhatIsServed) {  // user case 92
  serve("a");
  const Reply reply = post(kChat, hello(R"(, "model": "/etc/passwd")"));
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(error_code(reply), "model_not_found");
  EXPECT_THAT(reply.body, HasSubstr("'scripted'"));
  EXPECT_EQ(get("/v1/models/scripted").status, 200);
  EXPECT_EQ(get("/v1/models/org/other").status, 404);
}

TEST_F(AppTest, BodiesThatAreNotJsonAreRefused) {
  serve("a");
  EXPECT_EQ(TestClient(port_).post(kChat, hello(), "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(post(kChat, "{\"messages\"").status, 400);
  EXPECT_EQ(post(kChat, R"({"messages": [{"role": "user", "content": "\uD800"}]})").status, 400);  // user case 13
  EXPECT_EQ(post(kChat, std::string(5000, '[')).status, 400);
}

TEST_F(AppTest, HealthSaysWhyTheEngineCannotAnswer) {
  serve("a", {.throw_at_position = 0});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(kChat, hello()).status, 500);
  ASSERT_TRUE(eventually([&] { return get("/health").status == 503; }));
  const Reply reply = get("/health");
  EXPECT_EQ(parse(reply.body).at("status"), "failed");
  EXPECT_NE(parse(reply.body).at("reason"), "");
  EXPECT_TRUE(reply.headers.contains("retry-after"));
  const Reply refused = post(kChat, hello());
  EXPECT_EQ(refused.status, 503);
}

TEST_F(AppTest, StatusRoutesAnswerWhileAStepRunsAndWorkersTokenize) {
  serve("a", {.step_delay = milliseconds{500}});
  TestClient busy(port_);
  const std::string body = hello();
  send_chat(busy, body);
  std::vector<std::unique_ptr<TestClient>> tokenizing;
  const std::string text = R"({"content": ")" + std::string(300'000, 'a') + R"("})";
  for (int i = 0; i < 4; ++i) {
    auto& client = *tokenizing.emplace_back(std::make_unique<TestClient>(port_));
    client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + std::string(kJson) +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  TestClient client(port_);
  ASSERT_EQ(client.get("/health").status, 200);
  std::vector<milliseconds> times;
  for (int i = 0; i < 20; ++i) {
    for (const char* path : {"/stats", "/health", "/metrics"}) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(client.get(path).status, 200);
      times.push_back(std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start));
    }
  }
  std::ranges::sort(times);
  EXPECT_LT(times[times.size() / 2], milliseconds{50});
}

// As often as it takes for the chat to come while all the long texts are there; if they held all workers it never
// could.
TEST_F(AppTest, LongTextsLeaveAWorkerToOtherRequests) {
  serve("a");
  const std::string text = R"({"content": ")" + std::string(1'500'000, 'a') + R"("})";
  const int num_clients = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  bool is_overtaken = false;
  for (int attempt = 0; attempt < 10 && !is_overtaken; ++attempt) {
    std::atomic<int> num_done = 0;
    std::vector<std::jthread> clients;
    for (int i = 0; i < num_clients; ++i) {
      clients.emplace_back([&] {
        EXPECT_EQ(post("/tokenize", text).status, 200);
        ++num_done;
      });
    }
    std::this_thread::sleep_for(milliseconds{100});
    EXPECT_EQ(post(kChat, hello()).status, 200);
    is_overtaken = num_done == 0;
  }
  EXPECT_TRUE(is_overtaken);
}

TEST_F(AppTest, NativeRoutesShareTheTokenizerAndTemplate) {
  serve("a");
  EXPECT_EQ(post("/tokenize", R"({"content": "ab"})").body, R"({"tokens":[97,98]})");
  EXPECT_EQ(post("/detokenize", R"({"tokens": [97, 98]})").body, R"({"content":"ab"})");
  EXPECT_EQ(post("/apply-template", hello()).body, R"({"prompt":"[user]hello<|start|>"})");
  EXPECT_EQ(post("/detokenize", R"({"tokens": [99999]})").status, 400);
}

TEST_F(AppTest, NativeRoutesCheckTheModelToo) {
  serve("a");
  for (const auto& [path, fields] : std::vector<std::pair<std::string, std::string>>{
           {"/tokenize", R"("content": "a")"},
           {"/detokenize", R"("tokens": [97])"},
           {"/apply-template", R"("messages": [{"role": "user", "content": "a"}])"}}) {
    EXPECT_EQ(post(path, "{" + fields + R"(, "model": "scripted"})").status, 200) << path;
    const Reply other = post(path, "{" + fields + R"(, "model": "gpt-4"})");
    EXPECT_EQ(other.status, 404) << path;
    EXPECT_EQ(error_code(other), "model_not_found") << path;
  }
}

TEST_F(AppTest, ListOfPromptsNeedsNoQueue) {
  ServerOptions options;
  options.engine.max_batch = 2;
  options.engine.max_queue = 0;
  serve("a", {}, options);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": ["a", "b"], "max_tokens": 1})").status, 200);
  const Reply refused = post("/v1/completions", R"({"prompt": ["a", "b", "c"], "max_tokens": 1})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("'prompt': expected at most 2 prompts, got 3"));
}

TEST_F(AppTest, ChoicesMayBeMoreThanRunAtOnce) {
  ServerOptions options;
  options.engine.max_batch = 2;
  serve("a", {}, options);
  EXPECT_EQ(post(kChat, hello(R"(, "n": 3)")).status, 200);
  const Reply refused = post(kChat, hello(R"(, "n": 129)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("'n': expected at most 128, got 129"));
}

TEST_F(AppTest, AKeyThatComesTwiceIsRefused) {
  serve("a");
  const Reply refused = post(kChat, hello(R"(, "temperature": 1)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("the key 'temperature' comes twice in one object"));
}

TEST_F(AppTest, PageShowsUnlessSwitchedOff) {
  serve("a");
  const Reply page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("scripted"));
  EXPECT_THAT(page.headers.at("content-security-policy"), StartsWith("default-src 'none'"));
  EXPECT_EQ(page.head.find("x-content-type-options"), page.head.rfind("x-content-type-options"));
  ServerOptions options;
  options.web_page = false;
  serve("a", {}, options);
  EXPECT_EQ(get("/").status, 404);
}

}  // namespace
}  // namespace redpoll::server
