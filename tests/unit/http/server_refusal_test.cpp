// What the server refuses: too much, too slow, malformed or ambiguous.
#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

using testing::HasSubstr;

TEST_F(ServerTest, RefusesABodyBeforeItIsSent) {
  options_.max_body_bytes = 10;
  start();
  TestClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.body, message("expected a body of at most 10 bytes; got 11", "payload_too_large"));
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed_within(milliseconds(2000)));
}

TEST_F(ServerTest, AClientStillReadsTheRefusalOfABodyThatItSends) {
  options_.max_body_bytes = 1000;
  start();
  TestClient client(port());
  const Reply reply = client.post("/echo", std::string(std::size_t{8} << 20U, 'x'));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.body, message("expected a body of at most 1000 bytes; got 8388608", "payload_too_large"));
}

TEST_F(ServerTest, LimitsChunkedBodies) {
  options_.max_body_bytes = 10;
  start();
  TestClient client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.body, message("expected a body of at most 10 bytes", "payload_too_large"));
}

TEST_F(ServerTest, ABodyOfExactlyTheLimitPasses) {
  options_.max_body_bytes = 10;
  start();
  TestClient client(port());
  EXPECT_EQ(client.post("/echo", "1234567890").body, "1234567890");
}

TEST_F(ServerTest, ACompressedBodyIsRefused) {
  start();
  TestClient client(port());
  const Reply reply = client.post("/echo", "x", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(reply.status, 415);
  EXPECT_EQ(reply.body, message("expected a body without Content-Encoding; got 'gzip'", "unsupported_media_type"));
  EXPECT_EQ(reply.headers.at("accept-encoding"), "identity");
  TestClient plain(port());
  EXPECT_EQ(plain.post("/echo", "x", "Content-Encoding: identity\r\n").body, "x");
}

TEST_F(ServerTest, LimitsHeads) {
  options_.max_header_bytes = 1024;
  start();
  for (const std::string& head :
       {"GET /health HTTP/1.1\r\nHost: localhost\r\nx-long: " + std::string(2000, 'x') + "\r\n\r\n",
        "GET /" + std::string(2000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nx-endless: " + std::string(200'000, 'x')}) {
    TestClient client(port());
    client.send(head);
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 431);
    EXPECT_EQ(reply.body, message("expected a request head of at most 1024 bytes", "payload_too_large"));
    EXPECT_TRUE(client.is_closed_within(milliseconds(2000)));
  }
}

TEST_F(ServerTest, ASlowHeadTimesOut) {
  options_.header_timeout = milliseconds(100);
  start();
  TestClient client(port());
  client.send("GET /health HTTP/1.1\r\nHo");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(reply.body, message("the request's head did not arrive within 100 ms", "request_timeout"));
}

TEST_F(ServerTest, ADrippingHeadTimesOutAllTheSame) {
  options_.header_timeout = milliseconds(200);
  start();
  TestClient client(port());
  const auto begin = std::chrono::steady_clock::now();
  client.send("GET /health HTTP/1.1\r\n");
  while (client.send("x-a: b\r\n") && std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) {
    std::this_thread::sleep_for(milliseconds(20));
    if (!records(0).empty()) break;
  }
  EXPECT_EQ(client.read_reply().status, 408);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(ServerTest, ASlowBodyTimesOut) {
  options_.body_timeout = milliseconds(100);
  start();
  TestClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(reply.body, message("the request's body did not arrive within 100 ms", "request_timeout"));
}

TEST_F(ServerTest, ASilentConnectionIsClosedWithoutAnAnswer) {
  options_.header_timeout = milliseconds(50);
  options_.keep_alive_timeout = milliseconds(100);
  start();
  TestClient silent(port());
  EXPECT_EQ(silent.read_to_end(), "");
  TestClient idle(port());
  EXPECT_EQ(idle.get("/health").status, 200);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(connections_reach(0, milliseconds(2000)));
}

TEST_F(ServerTest, MalformedRequestsAreRefusedAndTheConnectionClosed) {
  start();
  for (const char* bytes : {
           "nonsense\r\n\r\n",
           "GET  HTTP/1.1\r\n\r\n",
           "GET /health HTTP/1.1\r\nbad header\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: localhost\n\r\n",
           "GET /health HTTP/1.1\r\nHost: local\x01host\r\n\r\n",
           "\x16\x03\x01\x02 tls hello\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1x\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
       }) {
    TestClient client(port());
    client.send(bytes);
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 400) << bytes;
    EXPECT_THAT(reply.body, HasSubstr("malformed")) << bytes;
    EXPECT_TRUE(client.is_closed_within(milliseconds(2000))) << bytes;
  }
  TestClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, AmbiguousFramingIsRefused) {
  start();
  const std::string start_of_request = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* headers : {
           "Content-Length: 2\r\nContent-Length: 2\r\n",
           "Content-Length: 2\r\nContent-Length: 3\r\n",
           "Content-Length: 2, 2\r\n",
           "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
           "Content-Length: 2\r\nTransfer-Encoding: identity\r\n",
       }) {
    TestClient client(port());
    client.send(start_of_request + headers + "\r\n{}GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 400) << headers;
    EXPECT_EQ(client.read_to_end(), "") << headers;
  }
  TestClient two_hosts(port());
  EXPECT_EQ(two_hosts.get("/health", "Host: evil.example\r\n").body,
            message("expected one Host header; got several", "invalid_argument"));
  TestClient old(port());
  old.send("POST /echo HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(old.read_reply().status, 400);
}

TEST_F(ServerTest, AnUnknownTransferEncodingIsNotImplemented) {
  start();
  for (const char* encoding : {"gzip", "gzip, chunked", "xchunked", "chunked, identity"}) {
    TestClient client(port());
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + std::string(encoding) + "\r\n\r\n");
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 501) << encoding;
    EXPECT_EQ(reply.body, message("expected Transfer-Encoding: chunked", "unsupported"));
  }
}

TEST_F(ServerTest, AnotherProtocolVersionIsRefused) {
  start();
  TestClient client(port());
  client.send("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 505);
}

TEST_F(ServerTest, ABodyShorterThanDeclaredIsAnError) {
  start();
  TestClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
  client.close_sending();
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, message("the connection ended inside the request's body", "invalid_argument"));
}

TEST_F(ServerTest, AnUnknownExpectationIsRefused) {
  start();
  TestClient client(port());
  const Reply reply = client.get("/health", "Expect: miracles\r\n");
  EXPECT_EQ(reply.status, 417);
  EXPECT_EQ(reply.body, message("expected Expect: 100-continue or none", "unsupported"));
}

TEST_F(ServerTest, AHeaderThatTheFormatterGivesIsNotSentTwice) {
  options_.max_connections = 1;
  options_.format_error = [](const ErrorContext& context) {
    Response response = default_error_response(context);
    response.headers = {{"Retry-After", "7"}, {"WWW-Authenticate", "Bearer realm=\"ours\""}};
    return response;
  };
  options_.security.api_keys = {"key"};
  start();
  TestClient first(port());
  Reply reply = first.post("/echo", "");
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer realm=\"ours\"");
  EXPECT_EQ(reply.head.find("www-authenticate"), std::string::npos);
  TestClient second(port());
  reply = second.get("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "7");
  EXPECT_EQ(reply.head.find("retry-after"), std::string::npos);
}

TEST_F(ServerTest, ConnectionsBeyondTheLimitAreRefused) {
  options_.max_connections = 2;
  start();
  TestClient first(port());
  TestClient second(port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  TestClient third(port());
  const Reply reply = third.get("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  EXPECT_EQ(reply.body, message("too many connections; try again later", "unavailable"));
  first.close();
  third.close();
  ASSERT_TRUE(connections_reach(1, milliseconds(2000)));
  TestClient fourth(port());
  EXPECT_EQ(fourth.get("/health").status, 200);
}

}  // namespace
}  // namespace redpoll::http
