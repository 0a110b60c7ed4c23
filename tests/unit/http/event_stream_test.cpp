// Streams and clients that go away.
#include <sys/resource.h>

#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

using testing::HasSubstr;

constexpr std::string_view kOpenStream = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

class EventStreamTest : public ServerTest {
 protected:
  // Waits, silent, until told that the client has gone; the answer then reaches nobody.
  void add_waiting_routes() {
    router_.add("GET", "/wait", [this](Request&, Exchange& exchange) -> Task<Response> {
      co_await wait_for_disconnect(exchange);
      co_return Response{};
    });
    router_.add("GET", "/stream", [this](Request&, Exchange& exchange) -> Task<Response> {
      EventStream* events = co_await exchange.open_event_stream();
      (void)co_await events->send("first");
      co_await wait_for_disconnect(exchange);
      co_return Response{};
    });
  }

  Task<void> wait_for_disconnect(Exchange& exchange) {
    Signal signal;
    exchange.on_disconnect([this, signal] {
      gone_.add();
      signal.notify();
    });
    started_.add();
    if (co_await signal.wait(milliseconds(1500))) noticed_.add();
    finished_.add();
  }

  Counter started_;
  Counter gone_;
  Counter noticed_;
  Counter finished_;
};

TEST_F(EventStreamTest, EventsArriveOneByOneAndTheConnectionIsKept) {
  Signal go;
  router_.add("GET", "/stream", [&go](Request&, Exchange& exchange) -> Task<Response> {
    std::vector<Header> headers = {{"x-extra", "yes"}};  // named, because gcc 12 fails on a list beside co_await
    EventStream* events = co_await exchange.open_event_stream(std::move(headers));
    EXPECT_TRUE(co_await events->send("one"));
    co_await go.wait(std::chrono::seconds(5));
    EXPECT_TRUE(co_await events->send("two", "named"));
    EXPECT_TRUE(co_await events->comment("still here"));
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send(kOpenStream);
  const Reply head = client.read_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(head.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(head.headers.at("x-extra"), "yes");
  EXPECT_TRUE(head.headers.contains("x-request-id"));
  EXPECT_EQ(client.read_chunk(), "data: one\n\n");  // before the handler goes on
  go.notify();
  EXPECT_EQ(client.read_chunk(), "event: named\ndata: two\n\n");
  EXPECT_EQ(client.read_chunk(), ": still here\n\n");
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_TRUE(client.saw_last_chunk());
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(EventStreamTest, Http10StreamsEndWithTheConnection) {
  router_.add("GET", "/stream", [](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    (void)co_await events->send("one");
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_FALSE(client.read_head().headers.contains("transfer-encoding"));
  EXPECT_EQ(client.read_to_end(), "data: one\n\n");
}

TEST_F(EventStreamTest, Http10StreamsNeverPromiseAnotherRequest) {
  router_.add("GET", "/stream", [](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    (void)co_await events->send("one");
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /stream HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client.read_head().headers.at("connection"), "close");
  EXPECT_EQ(client.read_to_end(), "data: one\n\n");
}

TEST_F(EventStreamTest, AHandlerThatThrowsEndsItsStreamWithTheProtocolsLastEvents) {
  options_.format_stream_error = [](const ErrorContext& context) {
    return std::vector<std::string>{"ERROR " + context.error.message, "[DONE]"};
  };
  router_.add("GET", "/stream", [](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    (void)co_await events->send("one");
    throw std::runtime_error("secret detail");
  });
  start();
  TestClient client(port());
  client.send(kOpenStream);
  client.read_head();
  EXPECT_EQ(client.read_chunk(), "data: one\n\n");
  EXPECT_EQ(client.read_chunk(), "data: ERROR internal error; the server's log says more\n\n");
  EXPECT_EQ(client.read_chunk(), "data: [DONE]\n\n");
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_TRUE(client.saw_last_chunk());
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(EventStreamTest, HeadOfAStreamIsAHead) {
  add_waiting_routes();
  router_.add("GET", "/short", [](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    EXPECT_FALSE(co_await events->send("one"));
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("HEAD /short HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_reply(true).status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(EventStreamTest, AResetIsNoticedAtOnceWhileNothingIsWritten) {
  add_waiting_routes();
  start();
  for (const std::string_view request :
       {std::string_view("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"), kOpenStream}) {
    const int before = noticed_.value();
    TestClient client(port());
    client.send(request);
    ASSERT_TRUE(started_.reaches(before + 1, milliseconds(2000)));
    if (request == kOpenStream) {
      client.read_head();
      client.read_chunk();
    }
    client.reset();
    EXPECT_TRUE(noticed_.reaches(before + 1, milliseconds(200)));
  }
  const auto log = records(2);
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].status, 499);
  EXPECT_TRUE(log[0].client_gone);
  EXPECT_EQ(log[1].status, 200);
  EXPECT_TRUE(log[1].client_gone);
}

TEST_F(EventStreamTest, AnOrdinaryCloseIsNoticedAtOnceToo) {
  add_waiting_routes();
  start();
  for (const std::string_view request :
       {std::string_view("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"), kOpenStream}) {
    const int before = noticed_.value();
    TestClient client(port());
    client.send(request);
    ASSERT_TRUE(started_.reaches(before + 1, milliseconds(2000)));
    if (request == kOpenStream) {
      client.read_head();
      client.read_chunk();
    }
    client.close();
    EXPECT_TRUE(noticed_.reaches(before + 1, milliseconds(200)));
  }
}

TEST_F(EventStreamTest, ACloseBehindPipelinedBytesIsNoticed) {
  add_waiting_routes();
  start();
  TestClient client(port());
  client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(started_.reaches(1, milliseconds(2000)));
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(20));
  client.reset();
  EXPECT_TRUE(noticed_.reaches(1, milliseconds(200)));
}

TEST_F(EventStreamTest, AHalfClosedClientStillGetsItsAnswer) {
  router_.add("GET", "/slow", [](Request&, Exchange& exchange) -> Task<Response> {
    co_await sleep_for(milliseconds(300));
    Response response;
    response.body = exchange.client_gone() ? "gone" : "here";
    co_return response;
  });
  router_.add("GET", "/stream", [](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    co_await sleep_for(milliseconds(300));
    EXPECT_TRUE(co_await events->send("here"));
    co_return Response{};
  });
  start();
  TestClient client(port());
  client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.close_sending();
  Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 100);  // the probe, which clients skip
  reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "here");

  TestClient streaming(port());
  streaming.send(kOpenStream);
  streaming.close_sending();
  std::string text = streaming.read_to_end();
  EXPECT_THAT(text, HasSubstr("data: here\n\n"));
  EXPECT_THAT(text, testing::EndsWith("0\r\n\r\n"));
}

TEST_F(EventStreamTest, APipelinedRequestIsNotTakenForADisconnect) {
  router_.add("GET", "/slow", [](Request&, Exchange& exchange) -> Task<Response> {
    co_await sleep_for(milliseconds(200));
    Response response;
    response.body = exchange.client_gone() ? "gone" : "here";
    co_return response;
  });
  start();
  TestClient client(port());
  client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(50));
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "here");
  EXPECT_EQ(client.read_reply().body, R"({"status": "ok"})");
}

TEST_F(EventStreamTest, ASlowReaderHoldsTheWriterBackAndCostsNoMemory) {
  std::atomic<int> sent = 0;
  router_.add("GET", "/stream", [&sent](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    const std::string data(10'000, 'x');
    for (int i = 0; i < 10'000 && co_await events->send(data); ++i) ++sent;  // 100 MB
    co_return Response{};
  });
  start();
  TestClient client(port(), 4096);
  client.send(kOpenStream);
  int before = -1;
  while (before != sent) {
    before = sent;
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 2000);  // what the kernel's buffers hold, no more
  client.read_head();
  for (int i = 0; i < 1500; ++i) ASSERT_EQ(client.read_chunk().size(), 10'008U);
  EXPECT_GT(sent, before);
  client.reset();
  EXPECT_TRUE(connections_reach(0, milliseconds(1000)));
  EXPECT_LT(sent, 10'000);
}

TEST_F(EventStreamTest, AClientThatNeverReadsIsGivenUp) {
  options_.write_timeout = milliseconds(200);
  router_.add("GET", "/stream", [this](Request&, Exchange& exchange) -> Task<Response> {
    exchange.on_disconnect([this] { gone_.add(); });
    EventStream* events = co_await exchange.open_event_stream();
    const std::string data(100'000, 'x');
    while (co_await events->send(data)) {
    }
    co_return Response{};
  });
  start();
  TestClient client(port(), 4096);
  client.send(kOpenStream);
  EXPECT_TRUE(gone_.reaches(1, milliseconds(5000)));
  EXPECT_TRUE(connections_reach(0, milliseconds(1000)));
}

TEST_F(EventStreamTest, ServesTwoHundredStreamsAtOnce) {
  ThreadPool pool(2);
  options_.io_threads = 2;
  router_.add("GET", "/stream", [this, &pool](Request&, Exchange& exchange) -> Task<Response> {
    EventStream* events = co_await exchange.open_event_stream();
    started_.add();
    for (int i = 0; i < 20; ++i) {
      Signal signal;
      pool.post([signal] { signal.notify(); });
      EXPECT_TRUE(co_await signal.wait(std::chrono::seconds(20)));
      const int value = co_await run_on(pool, [i] { return i * i; });
      EXPECT_TRUE(co_await events->send(std::to_string(value)));
    }
    co_return Response{};
  });
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    ASSERT_TRUE(clients.back()->send(kOpenStream));
  }
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "data: " + std::to_string(i * i) + "\n\n";
  for (const auto& client : clients) EXPECT_EQ(client->read_reply().body, expected);
  EXPECT_EQ(started_.value(), 200);
}

TEST_F(EventStreamTest, TwentyResetStreamsAllEnd) {
  add_waiting_routes();
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    clients.back()->send(kOpenStream);
  }
  ASSERT_TRUE(started_.reaches(20, milliseconds(5000)));
  for (const auto& client : clients) client->reset();
  EXPECT_TRUE(noticed_.reaches(20, milliseconds(500)));
  EXPECT_TRUE(connections_reach(0, milliseconds(1000)));
}

TEST_F(EventStreamTest, NoDisconnectIsReportedAfterTheHandlerHasReturned) {
  router_.add("GET", "/quick", [this](Request&, Exchange& exchange) -> Task<Response> {
    exchange.on_disconnect([this] { gone_.add(); });
    co_return Response{};
  });
  start();
  TestClient client(port());
  EXPECT_EQ(client.get("/quick").status, 200);
  client.reset();
  EXPECT_TRUE(connections_reach(0, milliseconds(1000)));
  EXPECT_EQ(gone_.value(), 0);
}

}  // namespace
}  // namespace redpoll::http
