#include "http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "http/wire_format.h"

namespace redpoll::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kGentleCloseLimit{1000};
constexpr int kClientClosedRequest = 499;  // nginx's number, for the access log only

asio::ip::address unmapped(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

std::string describe(const asio::ip::tcp::endpoint& endpoint) {
  const auto address = unmapped(endpoint.address());
  const std::string text = address.to_string();
  return (address.is_v6() ? "[" + text + "]" : text) + ":" + std::to_string(endpoint.port());
}

void add_missing_header(Response& response, std::string_view name, std::string_view value) {
  if (find_header(response.headers, name) == nullptr) response.headers.emplace_back(name, value);
}

}  // namespace

// One request and what becomes of it.
struct Connection::Turn {
  Request request;
  RequestHead head;  // its request has been moved out
  std::chrono::steady_clock::time_point started;
  std::uint64_t bytes_before = 0;
  const Handler* handler = nullptr;
  Response response;
  std::vector<Header> cors_headers;
  bool body_unread = false;  // the next request cannot be found on the wire
  bool head_sent = false;
  bool keep_alive = true;
};

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<const ServerContext> context)
    : context_(std::move(context)),
      link_(std::make_shared<ClientLink>(std::move(socket), context_->options.write_timeout)),
      reader_(*link_, context_->options) {
  error_code ignored;
  remote_address_ = describe(link_->socket().remote_endpoint(ignored));
  local_host_ = unmapped(link_->socket().local_endpoint(ignored).address()).to_string();
}

Task<void> Connection::run() {
  const auto self = shared_from_this();
  Next next = Next::kNextRequest;
  while (next == Next::kNextRequest) next = co_await serve_one();
  if (next == Next::kCloseGently && !link_->gone()) co_await link_->close_gently(kGentleCloseLimit);
  link_->close();
}

Task<void> Connection::refuse() {
  const auto self = shared_from_this();
  Turn turn;
  turn.started = std::chrono::steady_clock::now();
  turn.keep_alive = false;
  turn.request.id = choose_request_id({});
  set_error(turn, 503, Error{ErrorCode::kUnavailable, "too many connections; try again later", {}});
  add_missing_header(turn.response, "retry-after", "1");
  co_await write_response(turn);
  report(turn);
  co_await link_->close_gently(kGentleCloseLimit);
}

void Connection::begin_shutdown() {
  stopping_ = true;
  error_code ignored;
  if (reader_.idle()) link_->socket().cancel(ignored);
}

Task<Connection::Next> Connection::serve_one() {
  if (stopping_ || link_->gone()) co_return Next::kClose;
  auto head = co_await reader_.read_head();
  Turn turn;
  turn.started = std::chrono::steady_clock::now();
  turn.bytes_before = link_->bytes_sent();
  if (head) {
    turn.head = std::move(*head);
    turn.request = std::move(turn.head.request);
    turn.keep_alive = turn.head.keep_alive;
    turn.body_unread = turn.head.has_body;
    turn.request.remote_address = remote_address_;
    turn.request.id = choose_request_id(turn.request.header("x-request-id"));
    co_await serve(turn);
  } else {
    if (head.error().status == 0) co_return Next::kClose;
    turn.keep_alive = false;
    turn.body_unread = true;
    turn.request.id = choose_request_id({});
    set_error(turn, head.error().status, std::move(head.error().error));
    co_await write_response(turn);
  }
  report(turn);
  if (link_->gone()) co_return Next::kClose;
  if (!turn.keep_alive || turn.body_unread || stopping_) co_return Next::kCloseGently;
  co_return Next::kNextRequest;
}

Task<void> Connection::serve(Turn& turn) {
  if (admit(turn)) {
    const bool received = co_await receive_body(turn);
    if (received && turn.handler != nullptr) {
      co_await run_handler(turn);
      co_return;
    }
    if (link_->gone()) co_return;
  }
  co_await write_response(turn);
}

// Everything that can be judged by the head alone. False: turn.response says why not, or answers an OPTIONS.
bool Connection::admit(Turn& turn) const {
  const SecurityOptions& security = context_->options.security;
  const std::string_view host = turn.request.header("host");
  if (auto status = parse_target(turn.request); !status) {
    set_error(turn, 400, std::move(status).error());
    return false;
  }
  if (auto status = check_host(security, host, context_->options.host, local_host_); !status) {
    set_error(turn, status.error().code == ErrorCode::kForbidden ? 403 : 400, std::move(status).error());
    return false;
  }
  if (!admit_origin(turn)) return false;
  if (auto status = check_api_key(security, context_->keys, turn.request); !status) {
    set_error(turn, 401, std::move(status).error());
    add_missing_header(turn.response, "www-authenticate", "Bearer");
    return false;
  }
  return find_route(turn) && admit_body(turn);
}

bool Connection::admit_body(Turn& turn) const {
  const auto limit = context_->options.max_body_bytes;
  if (turn.head.content_length.value_or(0) > limit) {
    set_error(turn, 413,
              Error{ErrorCode::kPayloadTooLarge,
                    "expected a body of at most " + std::to_string(limit) + " bytes; got " +
                        std::to_string(*turn.head.content_length),
                    {}});
    return false;
  }
  const std::string_view expect = turn.request.header("expect");
  if (!expect.empty() && !equal_ignoring_case(expect, "100-continue")) {
    set_error(turn, 417, Error{ErrorCode::kUnsupported, "expected Expect: 100-continue or none", {}});
    return false;
  }
  const std::string_view encoding = turn.request.header("content-encoding");
  if (turn.head.has_body && !encoding.empty() && !equal_ignoring_case(encoding, "identity")) {
    set_error(turn, 415,
              Error{ErrorCode::kUnsupportedMediaType,
                    "expected a body without Content-Encoding; got " + in_quotes(encoding),
                    {}});
    add_missing_header(turn.response, "accept-encoding", "identity");
    return false;
  }
  return true;
}

bool Connection::admit_origin(Turn& turn) const {
  const Request& request = turn.request;
  auto origin = check_origin(context_->options.security, request.headers, request.header("host"));
  if (!origin) {
    set_error(turn, 403, std::move(origin).error());
    return false;
  }
  if (*origin != OriginKind::kAllowed) return true;
  turn.cors_headers.emplace_back("access-control-allow-origin", request.header("origin"));
  turn.cors_headers.emplace_back("vary", "Origin");
  const std::string_view wanted_method = request.header("access-control-request-method");
  if (request.method != "OPTIONS" || wanted_method.empty()) {
    turn.cors_headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after, x-redpoll-warnings");
    return true;
  }
  // A preflight: browsers send it without a key, and it reaches no handler.
  turn.response.status = 204;
  turn.response.content_type.clear();
  turn.response.headers.emplace_back("access-control-allow-methods", wanted_method);
  if (const std::string_view names = request.header("access-control-request-headers"); !names.empty()) {
    turn.response.headers.emplace_back("access-control-allow-headers", names);
  }
  turn.response.headers.emplace_back("access-control-max-age", "600");
  return false;
}

bool Connection::find_route(Turn& turn) const {
  auto match = context_->router.find(turn.request.method, turn.request.path);
  if (!match) {
    set_error(turn, 400, std::move(match).error());
    return false;
  }
  if (match->handler != nullptr) {
    turn.handler = match->handler;
    turn.request.parameters = std::move(match->parameters);
    return true;
  }
  const std::string& method = turn.request.method;
  if (match->allowed_methods.empty()) {
    set_error(
        turn, 404,
        Error{ErrorCode::kNotFound, "no such route: " + shortened(method) + " " + shortened(turn.request.path), {}});
    return false;
  }
  if (method == "OPTIONS") {
    turn.response.status = 204;
    turn.response.content_type.clear();
  } else {
    set_error(turn, 405,
              Error{ErrorCode::kMethodNotAllowed,
                    "expected " + match->allowed_methods + " for " + shortened(turn.request.path) + "; got " +
                        shortened(method),
                    {}});
  }
  add_missing_header(turn.response, "allow", match->allowed_methods);
  return false;
}

// False: turn.response says why, or the client has gone.
Task<bool> Connection::receive_body(Turn& turn) {
  if (!turn.head.has_body) co_return true;
  if (turn.request.has_header("expect") && !turn.head.http_1_0 && !reader_.body_has_begun()) {
    if (!co_await link_->write(std::string(kContinue))) co_return false;
  }
  auto body = co_await reader_.read_body();
  if (body) {
    turn.request.body = std::move(*body);
    turn.body_unread = false;
    co_return true;
  }
  if (body.error().status == 0) {
    link_->mark_gone();
  } else {
    set_error(turn, body.error().status, std::move(body.error().error));
  }
  co_return false;
}

// The second of the two places that catch exceptions: whatever a handler throws ends this exchange only.
Task<void> Connection::run_handler(Turn& turn) {
  ConnectionExchange exchange(*link_, response_head(turn), turn.request.method == "HEAD");
  std::optional<std::string> failure;
  try {
    turn.response = co_await (*turn.handler)(turn.request, exchange);
  } catch (const std::exception& exception) {
    failure = exception.what();
  } catch (...) {
    failure = "unknown exception";
  }
  exchange.end_watch();
  if (failure) {
    log_error("a handler failed", {{"request_id", turn.request.id}, {"path", turn.request.path}, {"reason", *failure}});
  }
  if (exchange.stream_opened()) {
    turn.head_sent = true;
    turn.response.status = 200;
    if (turn.head.http_1_0) turn.keep_alive = false;
    if (failure) co_await end_failed_stream(turn, exchange);
    (void)co_await exchange.finish_stream();
    co_return;
  }
  if (failure) set_error(turn, 500, Error{ErrorCode::kInternal, "internal error; the server's log says more", {}});
  co_await write_response(turn);
}

Task<void> Connection::end_failed_stream(const Turn& turn, ConnectionExchange& exchange) {
  const ErrorContext context{500, Error{ErrorCode::kInternal, "internal error; the server's log says more", {}},
                             turn.request.path, turn.request.id};
  const auto& options = context_->options;
  std::vector<std::string> last_events;
  if (options.format_stream_error) {
    last_events = options.format_stream_error(context);
  } else {
    last_events.push_back(options.format_error(context).body);
  }
  for (const std::string& data : last_events) (void)co_await exchange.send(data, {});
}

void Connection::set_error(Turn& turn, int status, Error error) const {
  const ErrorContext context{status, std::move(error), turn.request.path, turn.request.id};
  turn.response = context_->options.format_error(context);
}

ResponseHead Connection::response_head(const Turn& turn) const {
  ResponseHead head;
  head.request_id = turn.request.id;
  head.keep_alive = turn.keep_alive && !turn.body_unread && !stopping_;
  head.http_1_0 = turn.head.http_1_0;
  head.headers = turn.cors_headers;
  return head;
}

Task<void> Connection::write_response(Turn& turn) {
  ResponseHead head = response_head(turn);
  head.status = turn.response.status;
  head.content_type = turn.response.content_type;
  for (Header& header : turn.response.headers) head.headers.push_back(std::move(header));
  const bool bodiless = head.status == 204 || head.status == 304;
  if (!bodiless) head.content_length = turn.response.body.size();
  turn.keep_alive = head.keep_alive;
  std::string bytes = format_head(head);
  if (!bodiless && turn.request.method != "HEAD") bytes += turn.response.body;
  turn.head_sent = co_await link_->write(std::move(bytes));
}

void Connection::report(const Turn& turn) const {
  if (!context_->options.access_log) return;
  AccessRecord record;
  record.request_id = turn.request.id;
  record.remote_address = remote_address_;
  record.method = turn.request.method;
  record.path = turn.request.path;
  record.status = turn.head_sent ? turn.response.status : kClientClosedRequest;
  record.bytes_sent = link_->bytes_sent() - turn.bytes_before;
  record.duration =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - turn.started);
  record.client_gone = link_->gone();
  context_->options.access_log(record);
}

}  // namespace redpoll::http
