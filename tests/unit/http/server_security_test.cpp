// Host, Origin and key checks as a client meets them.
#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

using testing::HasSubstr;

TEST_F(ServerTest, AForeignHostIsForbidden) {
  start();
  TestClient client(port());
  client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  const Reply foreign = client.read_reply();
  EXPECT_EQ(foreign.status, 403);
  EXPECT_THAT(foreign.body, HasSubstr("the host 'evil.example' is not allowed; allow it with --allow-host"));
  client.send("GET /health HTTP/1.0\r\n\r\n");  // which needs none, but then we cannot know who is meant
  const Reply missing = client.read_reply();
  EXPECT_EQ(missing.status, 403);
  EXPECT_THAT(missing.body, HasSubstr("expected a Host header; got none"));
}

TEST_F(ServerTest, AMissingHostIsABadRequest) {  // RFC 9112, section 3.2
  options_.security.allow_hosts = {"*"};
  start();
  TestClient missing(port());
  missing.send("GET /health HTTP/1.1\r\n\r\n");
  const Reply none = missing.read_reply();
  EXPECT_EQ(none.status, 400);
  EXPECT_EQ(none.body, message("expected a Host header, as HTTP/1.1 demands; got none", "invalid_argument"));
}

TEST_F(ServerTest, AHostThatIsNoneIsABadRequest) {
  start();
  TestClient client(port());
  client.send("GET /health HTTP/1.1\r\nHost: a b\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, message("expected host or host:port; got 'a b'", "invalid_argument"));
}

TEST_F(ServerTest, AHeaderThatDecidesMayNotComeTwice) {
  start();
  for (const std::string name : {"Host", "Origin", "Authorization", "X-Api-Key", "Content-Type", "Expect"}) {
    TestClient client(port());
    std::string request = "GET /health HTTP/1.1\r\n";
    if (name != "Host") request += "Host: localhost\r\n";
    request.append(name).append(": a\r\n").append(name).append(": b\r\n\r\n");
    client.send(request);
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 400) << name;
    EXPECT_EQ(reply.body, message("expected one " + name + " header; got several", "invalid_argument"));
  }
}

TEST_F(ServerTest, NoRefusalRepeatsAHugeValue) {
  start();
  const std::string huge(20'000, 'x');
  for (const std::string& head :
       {"GET /" + huge + " HTTP/1.1\r\nHost: localhost\r\n\r\n", huge + " / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        huge + " /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost: " + huge + "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://" + huge + "\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Encoding: " + huge + "\r\n\r\nx"}) {
    TestClient client(port());
    client.send(head);
    const Reply reply = client.read_reply();
    EXPECT_GE(reply.status, 400) << head.substr(0, 30);
    EXPECT_LT(reply.body.size(), 400U) << head.substr(0, 30);
  }
}

TEST_F(ServerTest, AForeignPageCannotDriveTheServer) {
  options_.security.allow_origins = {"https://app.example"};
  start();
  TestClient client(port());
  client.send(
      "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n");
  const Reply preflight = client.read_reply();
  EXPECT_EQ(preflight.status, 403);
  EXPECT_FALSE(preflight.headers.contains("access-control-allow-origin"));
  EXPECT_FALSE(preflight.headers.contains("access-control-allow-methods"));
  const Reply simple = client.post("/echo", "x", "Origin: https://evil.example\r\n");
  EXPECT_EQ(simple.status, 403);
  EXPECT_FALSE(simple.headers.contains("access-control-allow-origin"));
  EXPECT_THAT(simple.body, HasSubstr("the origin 'https://evil.example' is not allowed"));
}

TEST_F(ServerTest, AnAllowedPageGetsItsPreflightAndItsAnswers) {
  options_.security.allow_origins = {"https://app.example"};
  options_.security.api_keys = {"sk"};
  start();
  TestClient client(port());
  client.send(
      "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type,authorization\r\n\r\n");
  const Reply preflight = client.read_reply();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "content-type,authorization");
  EXPECT_EQ(preflight.headers.at("vary"), "Origin");
  EXPECT_FALSE(preflight.headers.contains("access-control-allow-credentials"));
  const Reply answer = client.post("/echo", "x", "Origin: https://app.example\r\nAuthorization: Bearer sk\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://app.example");
  const Reply error = client.post("/echo", "x", "Origin: https://app.example\r\n");
  EXPECT_EQ(error.status, 401);
  EXPECT_EQ(error.headers.at("access-control-allow-origin"), "https://app.example");
}

TEST_F(ServerTest, TheServersOwnPageNeedsNoPermissionAndGetsNoHeader) {
  start();
  TestClient client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080\r\nContent-Length: 1\r\n\r\nx");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_FALSE(reply.headers.contains("access-control-allow-origin"));
}

TEST_F(ServerTest, AKeyIsAskedForBeforeTheBodyIsRead) {
  options_.security.api_keys = {"sk-one"};
  start();
  TestClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.post("/echo", "x", "x-api-key: sk-one\r\n").status, 200);
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer");
  EXPECT_THAT(reply.body, HasSubstr("got none"));
}

}  // namespace
}  // namespace redpoll::http
