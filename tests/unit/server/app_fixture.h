// AppTest: a whole server around a scripted model on a free loopback port, and what its tests read from answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/app.h"
#include "server/app_context.h"
#include "unit/http/test_client.h"
#include "unit/server/scripted_server.h"

namespace redpoll::server {

using http::Reply;
using http::TestClient;
using std::chrono::milliseconds;

inline constexpr std::string_view kJson = "Content-Type: application/json\r\n";
inline constexpr std::string_view kChat = "/v1/chat/completions";
inline constexpr std::string_view kHello = R"({"messages": [{"role": "user", "content": "hello"}], "temperature": 0)";

inline std::string hello(std::string_view more = "") { return std::string(kHello) + std::string(more) + "}"; }

// Sends a chat request without waiting for the answer.
inline void send_chat(TestClient& client, const std::string& body) {
  client.send("POST " + std::string(kChat) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(kJson) +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

// The data of every event of a stream.
inline std::vector<std::string> events(const std::string& body) {
  std::vector<std::string> out;
  std::string_view rest = body;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with("data: ")) out.emplace_back(line.substr(6));
  }
  return out;
}

inline json::object parse(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value) << text;
  return value && value->is_object() ? value->get_object() : json::object();
}

inline std::string error_code(const Reply& reply) {
  const json::object body = parse(reply.body);
  const json::value* code = body.at("error").as_object().if_contains("code");
  return code->is_string() ? std::string(code->get_string()) : std::string();
}

class AppTest : public ::testing::Test {
 protected:
  void serve(const std::string& answer, const ScriptOptions& script = {}, ServerOptions options = {}) {
    configure_log({.level = LogLevel::kOff});
    options.port = 0;
    auto app = App::start_with(options, [&] { return scripted_server(answer, script); });
    ASSERT_TRUE(app) << app.error().message;
    app_ = *std::move(app);
    port_ = static_cast<std::uint16_t>(std::stoi(app_->base_url().substr(app_->base_url().rfind(':') + 1)));
  }
  [[nodiscard]] Reply post(std::string_view path, std::string_view body) const {
    return TestClient(port_).post(path, body, kJson);
  }
  [[nodiscard]] Reply get(std::string_view path) const { return TestClient(port_).get(path); }
  ServedModel& model() { return *app_->context().model; }

  std::unique_ptr<App> app_;
  std::uint16_t port_ = 0;
};

}  // namespace redpoll::server
