#include "http/client.h"

#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseUrl, HostPortAndPathAreOptionalFromTheRight) {
  const auto url = parse_url("http://localhost");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "localhost");
  EXPECT_EQ(url->port, 80);
  EXPECT_EQ(url->path, "");
  const auto longer = parse_url("http://127.0.0.1:8080/api/");
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->host, "127.0.0.1");
  EXPECT_EQ(longer->port, 8080);
  EXPECT_EQ(longer->path, "/api");
}

TEST(ParseUrl, IPv6AddressesStandInBrackets) {
  const auto url = parse_url("http://[::1]:9000");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 9000);
  EXPECT_EQ(parse_url("http://[::1]")->port, 80);
}

TEST(ParseUrl, SaysWhatItExpected) {
  EXPECT_EQ(parse_url("https://x").error().message, "expected a URL that begins with http://, got 'https://x'");
  EXPECT_EQ(parse_url("http://:80").error().message, "expected a host after http://, got 'http://:80'");
  EXPECT_EQ(parse_url("http://[::1").error().message,
            "expected an address in brackets, as in http://[::1]:8080, got 'http://[::1'");
  for (const std::string port : {"", "0", "65536", "8o", "-1"}) {
    EXPECT_EQ(parse_url("http://x:" + port).error().message,
              "expected a port from 1 to 65535 after the host, got 'http://x:" + port + "'");
  }
}

class ClientTest : public ServerTest {
 protected:
  std::unique_ptr<Client> connect(milliseconds patience = milliseconds(5000)) {
    auto client = Client::connect({.host = "127.0.0.1", .port = port(), .path = ""}, patience);
    EXPECT_TRUE(client) << client.error().message;
    return *std::move(client);
  }
};

TEST_F(ClientTest, AConnectionServesOneExchangeAfterTheOther) {
  start();
  const auto client = connect();
  for (int i = 0; i < 3; ++i) {
    const std::string body(static_cast<std::size_t>(i) * 100'000, 'x');
    const auto response = client->exchange({.method = "POST", .target = "/echo", .body = body});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, body);
  }
  EXPECT_EQ(server_->num_connections(), 1);
}

TEST_F(ClientTest, ARefusalIsAnAnswerAndKeepsItsBody) {
  start();
  bool handed_over = false;
  const auto response = connect()->exchange({.target = "/nowhere"}, [&](std::string_view) { handed_over = true; });
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 404);
  EXPECT_THAT(response->body, HasSubstr("/nowhere"));
  EXPECT_FALSE(handed_over);
}

TEST_F(ClientTest, PiecesOfAStreamArriveBeforeItsEnd) {
  Signal go_on;
  router_.add("GET", "/stream", [&](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    (void)co_await events->send("one");
    (void)co_await go_on.wait(std::chrono::seconds(5));
    (void)co_await events->send("two");
    co_return Response{};
  });
  start();
  std::string received;
  const auto response = connect()->exchange({.target = "/stream"}, [&](std::string_view bytes) {
    received += bytes;
    if (received == "data: one\n\n") go_on.notify();
  });
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(received, "data: one\n\ndata: two\n\n");
  EXPECT_EQ(response->body, "");
}

TEST_F(ClientTest, ASilentServerIsAnErrorAfterThePatience) {
  router_.add("GET", "/slow", [](Request&, Exchange&) -> Task<Response> {
    co_await sleep_for(milliseconds(400));
    co_return Response{};
  });
  start();
  const auto response = connect(milliseconds(50))->exchange({.target = "/slow"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(response.error().message,
            "no answer from 127.0.0.1:" + std::to_string(port()) + ": nothing came for 50 ms");
}

TEST_F(ClientTest, NobodyListeningIsAnErrorThatNamesThePlace) {
  start();
  const std::uint16_t free_port = port();
  server_.reset();
  const auto client = Client::connect({.host = "127.0.0.1", .port = free_port, .path = ""}, milliseconds(1000));
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, StartsWith("cannot connect to 127.0.0.1:" + std::to_string(free_port) + ": "));
}

TEST_F(ClientTest, AServerThatGoesAwayIsAnError) {
  start();
  const auto client = connect();
  ASSERT_TRUE(client->exchange({.target = "/health"}));
  // More than a closing connection waits for its client, should the stop come just behind the answer.
  ASSERT_TRUE(server_->stop(milliseconds(10000)));
  const auto response = client->exchange({.target = "/health"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace redpoll::http
