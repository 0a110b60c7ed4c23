// Arbitrary bytes as what a client sends on one connection. Whatever comes, the reader ends with requests that the
// checks and the router can take, or with an error that can be sent; never with a request that has two readings.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/utf8.h"
#include "http/request_reader.h"
#include "http/router.h"
#include "http/security.h"
#include "http/wire_format.h"

namespace {

using namespace redpoll;
using namespace redpoll::http;
namespace asio = boost::asio;

// Fits in a socket's buffer, so that writing needs no second thread.
constexpr std::size_t kMaxInput = 32768;

const ServerOptions& options() {
  static const ServerOptions instance = [] {
    ServerOptions limits;
    limits.max_body_bytes = 4096;
    limits.max_header_bytes = 2048;
    return limits;
  }();
  return instance;
}

const Router& router() {
  static const Router instance = [] {
    Router routes;
    const Handler nothing = [](Request&, Exchange&) -> Task<Response> { co_return Response{}; };
    routes.add("GET", "/", nothing);
    routes.add("GET", "/models/{id}", nothing);
    routes.add("POST", "/jobs/{id}/events", nothing);
    return routes;
  }();
  return instance;
}

void check_head(RequestHead& head) {
  Request& request = head.request;
  const auto count = [&](std::string_view name) {
    return std::ranges::count_if(request.headers, [&](const Header& h) { return equal_ignoring_case(h.first, name); });
  };
  CHECK(count("content-length") + count("transfer-encoding") <= 1, "a body's length has one reading");
  CHECK(count("host") <= 1, "a request has one host");
  for (const auto& [name, value] : request.headers) {
    CHECK((name + value).find_first_of("\r\n") == std::string::npos, "a header stays one line");
  }
  if (!parse_target(request)) return;
  CHECK(request.path.starts_with('/') || request.path == "*", "a target is a path");
  if (const auto query = parse_query(request.target)) {
    for (const auto& [name, value] : *query) CHECK(is_valid_utf8(name) && is_valid_utf8(value), "a query is text");
  }
  (void)check_host(options().security, request.header("host"), "127.0.0.1", "127.0.0.1");
  (void)check_origin(options().security, request.headers, request.header("host"));
  if (const auto match = router().find(request.method, request.path)) {
    for (const auto& [name, value] : match->parameters) CHECK(is_valid_utf8(value), "a parameter is text");
  }
  const std::string id = choose_request_id(request.header("x-request-id"));
  CHECK(!id.empty() && id.size() <= 128, "a request has an id");
}

Task<void> read_everything(RequestReader& reader) {
  for (;;) {
    auto head = co_await reader.read_head();
    if (!head) {
      CHECK(head.error().status == 0 || !head.error().error.message.empty(), "an error says something");
      co_return;
    }
    check_head(*head);
    const auto body = co_await reader.read_body();
    if (!body) co_return;
    CHECK(body->size() <= options().max_body_bytes, "a body keeps its limit");
    CHECK(!head->content_length || *head->content_length == body->size(), "a body has its declared length");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  if (size > kMaxInput || ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  CHECK(::write(ends[0], data, size) == static_cast<ssize_t>(size), "the input fits in the socket's buffer");
  ::close(ends[0]);
  asio::io_context io(1);
  // A Unix socket behaves like a TCP one for all that is done here.
  const auto link = std::make_shared<ClientLink>(asio::ip::tcp::socket(io, asio::ip::tcp::v4(), ends[1]),
                                                 std::chrono::milliseconds(1000));
  RequestReader reader(*link, options());
  asio::co_spawn(io, read_everything(reader), asio::detached);
  io.run();
  return 0;
}
