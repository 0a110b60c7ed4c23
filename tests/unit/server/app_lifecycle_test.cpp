// Starting and stopping.
#include <gmock/gmock.h>

#include <thread>

#include "unit/server/app_fixture.h"

namespace redpoll::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(AppTest, ListensWhileTheModelIsLoaded) {
  configure_log({.level = LogLevel::kOff});
  ServerOptions options;
  options.port = 0;
  std::string listening;
  const auto source = [&]() -> Result<std::shared_ptr<ServedModel>> {
    const auto port = static_cast<std::uint16_t>(std::stoi(listening.substr(listening.rfind(':') + 1)));
    TestClient client(port);
    const Reply health = client.get("/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(health.body, R"({"status": "loading", "reason": "the model is still being loaded"})");
    EXPECT_TRUE(health.headers.contains("retry-after"));
    for (const char* path : {"/stats", "/metrics", "/v1/models", "/v1/models/x", "/"}) {
      EXPECT_EQ(client.get(path).status, 503) << path;
    }
    const Reply chat = client.post(kChat, hello(), kJson);
    EXPECT_EQ(chat.status, 503);
    EXPECT_THAT(chat.body, HasSubstr("the model is still being loaded"));
    EXPECT_EQ(client.post("/tokenize", "{}", kJson).status, 503);
    return scripted_server("a");
  };
  const auto app = App::start_with(options, source, [&](std::string_view line) { listening = line; });
  ASSERT_TRUE(app) << app.error().message;
  EXPECT_EQ(listening, "listening on " + (*app)->base_url());
}

TEST_F(AppTest, ModelThatCannotBeLoadedEndsTheStart) {
  configure_log({.level = LogLevel::kOff});
  ServerOptions options;
  options.port = 0;
  const auto app = App::start_with(options, [] { return fail(ErrorCode::kCorruptFile, "half a model"); });
  ASSERT_FALSE(app);
  EXPECT_EQ(app.error().message, "half a model");
}

TEST_F(AppTest, RequestThatAWorkerStillHoldsAtTheEndIsDroppedCleanly) {
  serve("a");
  // Longer than handlers are waited for once their client is gone.
  for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i) {
    app_->context().workers->post([] { std::this_thread::sleep_for(milliseconds{2300}); });
  }
  TestClient client(port_);
  send_chat(client, hello());
  std::this_thread::sleep_for(milliseconds{50});
  app_.reset();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(AppTest, StopLetsARunningStreamFinish) {
  serve("abcdefghij", {.step_delay = milliseconds{20}});
  TestClient client(port_);
  const std::string body = hello(R"(, "stream": true)");
  send_chat(client, body);
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_NE(client.read_chunk(), "");
  EXPECT_TRUE(app_->stop(milliseconds{5000}));
  EXPECT_THAT(client.read_to_end(), HasSubstr("data: [DONE]"));
}

TEST_F(AppTest, PortInUseIsAnErrorThatNamesIt) {
  serve("a");
  ServerOptions options;
  options.port = port_;
  bool loaded = false;
  const auto second = App::start_with(options, [&] {
    loaded = true;
    return scripted_server("a");
  });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(port_)));
  EXPECT_FALSE(loaded);  // nobody waits for a model to learn this
}

TEST_F(AppTest, OtherMachinesNeedKeys) {  // user case 85
  ServerOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  const auto app = App::start_with(options, [] { return scripted_server("a"); });
  ASSERT_FALSE(app);
  EXPECT_THAT(app.error().message, StartsWith("refusing to serve other machines on '0.0.0.0' without keys"));
}

}  // namespace
}  // namespace redpoll::server
