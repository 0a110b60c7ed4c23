// Requests and responses over a real socket. Refusals are in server_refusal_test.cpp, streams in event_stream_test.cpp.
#include "http/server.h"

#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  start();
  TestClient client(port());
  for (int i = 0; i < 3; ++i) {
    const Reply reply = client.get("/health");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"status": "ok"})");
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
    EXPECT_TRUE(reply.headers.at("x-request-id").starts_with("req_"));
    EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
    EXPECT_FALSE(reply.headers.contains("connection"));
    EXPECT_FALSE(reply.headers.contains("access-control-allow-origin"));
  }
  EXPECT_EQ(server_->num_connections(), 1);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  TestClient client(port());
  std::string requests;
  for (int i = 0; i < 20; ++i) {
    requests += "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n" + std::to_string(10 + i);
  }
  client.send(requests);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.read_reply().body, std::to_string(10 + i));
}

TEST_F(ServerTest, ReadsARequestThatArrivesByteByByte) {
  start();
  TestClient client(port());
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello")) {
    client.send(std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(client.read_reply().body, "hello");
}

TEST_F(ServerTest, ReadsChunkedBodies) {
  start();
  TestClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n");
  client.send("5\r\nhello\r\n1;note=x\r\n \r\n");
  client.send("5\r\nworld\r\n0\r\nx-trailer: ignored\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "hello world");
  EXPECT_EQ(client.post("/echo", "again").body, "again");
}

TEST_F(ServerTest, ReadsALargeBody) {
  start();
  TestClient client(port());
  const std::string body(std::size_t{5} << 20U, 'x');
  EXPECT_EQ(client.post("/echo", body).body, body);
}

TEST_F(ServerTest, SendsContinueOnlyToAClientThatWaitsForIt) {
  start();
  TestClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 100);
  client.send("late");
  EXPECT_EQ(client.read_reply().body, "late");
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nearly");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "early");
}

TEST_F(ServerTest, UnknownRoutesAndMethodsSayWhatThereIs) {
  start();
  TestClient client(port());
  const Reply unknown = client.get("/nowhere?key=secret");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, message("no such route: GET /nowhere", "not_found"));
  const Reply wrong = client.get("/echo");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong.body, message("expected POST, OPTIONS for /echo; got GET", "method_not_allowed"));
  EXPECT_EQ(client.get("/%zz").status, 400);
  client.send("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Reply options = client.read_reply();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, OPTIONS");
  EXPECT_FALSE(options.headers.contains("content-length"));
}

TEST_F(ServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  start();
  TestClient client(port());
  client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Reply reply = client.read_reply(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-length"), "16");
  EXPECT_EQ(client.get("/health").body, R"({"status": "ok"})");
}

TEST_F(ServerTest, TheClientsRequestIdComesBackAlsoOnErrors) {
  start();
  TestClient client(port());
  EXPECT_EQ(client.get("/health", "X-Request-Id: abc-1\r\n").headers.at("x-request-id"), "abc-1");
  EXPECT_EQ(client.get("/nowhere", "X-Request-Id: abc-2\r\n").headers.at("x-request-id"), "abc-2");
  EXPECT_TRUE(client.get("/health", "X-Request-Id: a b\r\n").headers.at("x-request-id").starts_with("req_"));
  client.send("nonsense\r\n\r\n");
  EXPECT_TRUE(client.read_reply().headers.at("x-request-id").starts_with("req_"));
}

TEST_F(ServerTest, HonoursConnectionCloseAndHttp10) {
  start();
  TestClient closing(port());
  const Reply reply = closing.get("/health", "Connection: close\r\n");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(closing.is_closed_within(milliseconds(500)));
  TestClient old(port());
  old.send("GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(old.read_reply().head.starts_with("HTTP/1.0 200 OK\r\n"));
  EXPECT_TRUE(old.is_closed_within(milliseconds(500)));
}

TEST_F(ServerTest, AHandlerThatThrowsFailsItsRequestOnly) {
  router_.add("GET", "/throws", [](Request&, Exchange&) -> Task<Response> {
    throw std::runtime_error("secret detail");
    co_return Response{};
  });
  router_.add("GET", "/throws-oddly", [](Request&, Exchange&) -> Task<Response> {
    throw 7;
    co_return Response{};
  });
  start();
  TestClient client(port());
  for (const char* path : {"/throws", "/throws-oddly"}) {
    const Reply reply = client.get(path);
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(reply.body, message("internal error; the server's log says more", "internal"));
    EXPECT_EQ(client.get("/health").status, 200);
  }
}

TEST_F(ServerTest, ErrorsTakeTheShapeThatTheOwnerGivesThem) {
  options_.format_error = [](const ErrorContext& context) {
    Response response;
    response.status = context.status;
    response.content_type = "text/plain";
    response.body = context.path + " " + context.request_id + " " + context.error.message;
    return response;
  };
  start();
  TestClient client(port());
  const Reply reply = client.get("/nowhere", "x-request-id: r1\r\n");
  EXPECT_EQ(reply.body, "/nowhere r1 no such route: GET /nowhere");
  EXPECT_EQ(reply.headers.at("content-type"), "text/plain");
}

TEST_F(ServerTest, TheAccessLogHoldsWhatHappenedAndNoSecrets) {
  options_.security.api_keys = {"sk-secret"};
  start();
  TestClient client(port());
  client.post("/echo?key=sk-secret", "hello", "Authorization: Bearer sk-secret\r\nx-request-id: r1\r\n");
  client.post("/echo", "hello");
  const auto log = records(2);
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].request_id, "r1");
  EXPECT_EQ(log[0].method, "POST");
  EXPECT_EQ(log[0].path, "/echo");
  EXPECT_EQ(log[0].status, 200);
  EXPECT_GT(log[0].bytes_sent, 100U);
  EXPECT_THAT(log[0].remote_address, testing::StartsWith("127.0.0.1:"));
  EXPECT_FALSE(log[0].client_gone);
  EXPECT_EQ(log[1].status, 401);
}

TEST_F(ServerTest, ServesFromSeveralIoThreads) {
  options_.io_threads = 3;
  start();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      TestClient client(port());
      for (int j = 0; j < 50; ++j) {
        const std::string body = std::to_string(i * 1000 + j);
        if (client.post("/echo", body).body == body) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

}  // namespace
}  // namespace redpoll::http
