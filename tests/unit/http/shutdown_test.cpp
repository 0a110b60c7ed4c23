// Starting and stopping.
#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

TEST_F(ServerTest, APortInUseIsAnErrorThatSaysWhatToDo) {
  start();
  ServerOptions other;
  other.port = port();
  const auto second = Server::start(other, Router());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1:" + std::to_string(port()) +
                                        ": address already in use; choose another with --port");
}

TEST(ServerStart, AHostThatCannotBeHadIsAnError) {
  ServerOptions options;
  options.port = 0;
  options.host = "no-such-host.invalid";
  EXPECT_EQ(Server::start(options, Router()).error().message,
            "cannot listen on no-such-host.invalid:0: the host name has no address");
  options.host = "203.0.113.7";  // reserved for documentation
  EXPECT_EQ(Server::start(options, Router()).error().message,
            "cannot listen on 203.0.113.7:0: this machine has no such address; choose another with --host");
}

TEST_F(ServerTest, ANameIsListenedOnAtEveryAddress) {
  options_.host = "localhost";
  start();
  TestClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, TheUnspecifiedIpv6AddressServesIpv4Too) {
  options_.host = "::";
  auto server = Server::start(options_, std::move(router_));
  if (!server) GTEST_SKIP() << "no IPv6 here: " << server.error().message;
  TestClient client((*server)->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_THAT(records(1).at(0).remote_address, testing::StartsWith("127.0.0.1:"));
  EXPECT_TRUE((*server)->stop(milliseconds(2000)));
}

TEST_F(ServerTest, StoppingClosesIdleConnectionsAtOnce) {
  start();
  TestClient used(port());
  EXPECT_EQ(used.get("/health").status, 200);
  TestClient fresh(port());
  ASSERT_TRUE(connections_reach(2, milliseconds(2000)));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(server_->stop(milliseconds(5000)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1000));
  EXPECT_TRUE(used.is_closed_within(milliseconds(500)));
  EXPECT_TRUE(fresh.is_closed_within(milliseconds(500)));
  EXPECT_FALSE(TestClient(port()).connected());
}

TEST_F(ServerTest, StoppingLetsARunningStreamFinish) {
  Signal go;
  Counter started;
  router_.add("GET", "/stream", [&](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    (void)co_await events->send("one");
    started.add();
    co_await go.wait(milliseconds(5000));
    EXPECT_TRUE(co_await events->send("two"));
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(started.reaches(1, milliseconds(2000)));
  Status stopped;
  std::thread stopper([&] { stopped = server_->stop(milliseconds(5000)); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(TestClient(port()).connected());
  go.notify();
  EXPECT_EQ(client.read_reply().body, "data: one\n\ndata: two\n\n");
  EXPECT_TRUE(client.saw_last_chunk());
  client.close();
  stopper.join();
  EXPECT_TRUE(stopped);
}

TEST_F(ServerTest, AnExchangeThatOutlivesTheGraceIsCutOff) {
  Counter started;
  Counter told;
  router_.add("GET", "/wait", [&](Request&, Exchange& exchange) -> Task<Response> {
    Signal signal;
    exchange.on_disconnect([signal] { signal.notify(); });
    started.add();
    if (co_await signal.wait(milliseconds(20'000))) told.add();
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(started.reaches(1, milliseconds(2000)));
  const Status status = server_->stop(milliseconds(100));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "connections cut off after a grace of 100 ms: 1");
  EXPECT_EQ(told.value(), 1);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(ServerTest, AHandlerThatNeverEndsCannotKeepTheServerFromStopping) {
  Counter started;
  router_.add("GET", "/stubborn", [&](Request&, Exchange&) -> Task<Response> {
    started.add();
    const Signal never;
    co_await never.wait(std::chrono::hours(1));
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /stubborn HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(started.reaches(1, milliseconds(2000)));
  EXPECT_FALSE(server_->stop(milliseconds(10)));
  server_.reset();
}

TEST_F(ServerTest, DestructionWithoutStopEndsEverything) {
  start();
  TestClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
  server_.reset();
  EXPECT_TRUE(client.is_closed_within(milliseconds(500)));
}

}  // namespace
}  // namespace redpoll::http
