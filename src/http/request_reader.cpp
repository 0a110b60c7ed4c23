#include "http/request_reader.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

namespace redpoll::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::http::error;
using boost::system::error_code;

namespace {

// Room for what follows a head in the same read: the start of a body, or pipelined requests.
constexpr std::size_t kReadAhead = std::size_t{64} << 10U;

std::unexpected<ReadFailure> failure(int status, ErrorCode code, std::string message) {
  return std::unexpected(ReadFailure{status, Error{code, std::move(message), {}}});
}

std::unexpected<ReadFailure> nothing_to_answer() { return std::unexpected(ReadFailure{}); }

bool is_parse_error(const error_code& error_value) {
  return error_value.category() == beast::http::make_error_code(error::bad_line_ending).category();
}

std::unexpected<ReadFailure> head_failure(const error_code& cause, const ServerOptions& options) {
  if (cause == error::end_of_stream || !is_parse_error(cause)) return nothing_to_answer();
  if (cause == error::header_limit || cause == error::buffer_overflow) {
    return failure(431, ErrorCode::kPayloadTooLarge,
                   "expected a request head of at most " + std::to_string(options.max_header_bytes) + " bytes");
  }
  if (cause == error::bad_version) {
    return failure(505, ErrorCode::kUnsupported, "expected HTTP/1.1 or HTTP/1.0");
  }
  if (cause == error::partial_message) {
    return failure(400, ErrorCode::kInvalidArgument, "the connection ended inside the request's head");
  }
  return failure(400, ErrorCode::kInvalidArgument, "malformed HTTP request: " + cause.message());
}

std::unexpected<ReadFailure> body_failure(const error_code& cause, const ServerOptions& options) {
  if (!is_parse_error(cause)) return nothing_to_answer();
  if (cause == error::body_limit) {
    return failure(413, ErrorCode::kPayloadTooLarge,
                   "expected a body of at most " + std::to_string(options.max_body_bytes) + " bytes");
  }
  if (cause == error::partial_message || cause == error::end_of_stream) {
    return failure(400, ErrorCode::kInvalidArgument, "the connection ended inside the request's body");
  }
  return failure(400, ErrorCode::kInvalidArgument, "malformed request body: " + cause.message());
}

std::string text_of(beast::string_view view) { return {view.data(), view.size()}; }

std::ptrdiff_t count_headers(const std::vector<Header>& headers, std::string_view name) {
  return std::ranges::count_if(headers, [&](const Header& h) { return equal_ignoring_case(h.first, name); });
}

// A proxy in front of us may read an ambiguous request in another way than we do, and so be led to smuggle a second
// one past its checks (RFC 9112, section 11.2). Beast refuses most of them; these it lets through.
std::optional<ReadFailure> find_ambiguity(const RequestHead& head) {
  const auto& headers = head.request.headers;
  const auto refuse = [](int status, ErrorCode code, std::string message) {
    return ReadFailure{status, Error{code, std::move(message), {}}};
  };
  for (const std::string name : {"Host", "Origin", "Authorization", "X-Api-Key", "Content-Type", "Expect"}) {
    if (count_headers(headers, name) > 1) {
      return refuse(400, ErrorCode::kInvalidArgument, "expected one " + name + " header; got several");
    }
  }
  if (!head.http_1_0 && find_header(headers, "host") == nullptr) {
    return refuse(400, ErrorCode::kInvalidArgument, "expected a Host header, as HTTP/1.1 demands; got none");
  }
  const std::string* length = find_header(headers, "content-length");
  if (length != nullptr) {
    if (count_headers(headers, "content-length") > 1 || length->find(',') != std::string::npos) {
      return refuse(400, ErrorCode::kInvalidArgument, "expected one Content-Length; got several");
    }
  }
  const std::string* encoding = find_header(headers, "transfer-encoding");
  if (encoding == nullptr) return std::nullopt;
  if (length != nullptr || head.http_1_0 || count_headers(headers, "transfer-encoding") > 1) {
    return refuse(400, ErrorCode::kInvalidArgument,
                  "expected either Content-Length or one Transfer-Encoding, the latter in HTTP/1.1 only");
  }
  if (!equal_ignoring_case(*encoding, "chunked")) {
    return refuse(501, ErrorCode::kUnsupported, "expected Transfer-Encoding: chunked");
  }
  return std::nullopt;
}

}  // namespace

struct RequestReader::Parser {
  beast::flat_buffer buffer;
  std::optional<beast::http::request_parser<beast::http::string_body>> current;
};

RequestReader::RequestReader(ClientLink& link, const ServerOptions& options)
    : link_(link), options_(options), parser_(std::make_unique<Parser>()) {
  parser_->buffer.max_size(options.max_header_bytes + kReadAhead);
}

RequestReader::~RequestReader() = default;

bool RequestReader::body_has_begun() const { return parser_->buffer.size() > 0; }

Task<bool> RequestReader::wait_for_first_byte() {
  if (parser_->buffer.size() > 0) co_return true;
  idle_ = true;
  link_.start_deadline(first_ ? options_.header_timeout : options_.keep_alive_timeout);
  error_code cause;
  co_await link_.socket().async_wait(asio::socket_base::wait_read, asio::redirect_error(asio::use_awaitable, cause));
  const bool expired = link_.stop_deadline();
  idle_ = false;
  co_return !cause && !expired;
}

Task<std::expected<RequestHead, ReadFailure>> RequestReader::read_head() {
  if (!co_await wait_for_first_byte()) co_return nothing_to_answer();
  first_ = false;
  auto& parser = parser_->current.emplace();
  parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  // A declared length is judged after the checks that need no body; this only lets the head through.
  parser.body_limit(boost::none);

  link_.start_deadline(options_.header_timeout);
  error_code cause;
  co_await beast::http::async_read_header(link_.socket(), parser_->buffer, parser,
                                          asio::redirect_error(asio::use_awaitable, cause));
  if (link_.stop_deadline()) {
    if (!parser.got_some() && parser_->buffer.size() == 0) co_return nothing_to_answer();
    co_return failure(
        408, ErrorCode::kRequestTimeout,
        "the request's head did not arrive within " + std::to_string(options_.header_timeout.count()) + " ms");
  }
  if (cause) co_return head_failure(cause, options_);

  RequestHead head;
  const auto& message = parser.get();
  head.request.method = text_of(message.method_string());
  head.request.target = text_of(message.target());
  for (const auto& field : message)
    head.request.headers.emplace_back(text_of(field.name_string()), text_of(field.value()));
  head.http_1_0 = message.version() < 11;
  head.keep_alive = message.keep_alive();
  head.has_body = !parser.is_done();
  if (const auto length = parser.content_length()) head.content_length = *length;
  if (auto ambiguity = find_ambiguity(head)) co_return std::unexpected(std::move(*ambiguity));
  co_return head;
}

Task<std::expected<std::string, ReadFailure>> RequestReader::read_body() {
  auto& parser = *parser_->current;
  if (parser.is_done()) co_return std::string();
  // Beast compares a declared length with the limit at the head only, and reserves as much here.
  if (parser.content_length().value_or(0) > options_.max_body_bytes)
    co_return body_failure(error::body_limit, options_);
  parser.body_limit(options_.max_body_bytes);
  link_.start_deadline(options_.body_timeout);
  error_code cause;
  co_await beast::http::async_read(link_.socket(), parser_->buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, cause));
  if (link_.stop_deadline()) {
    co_return failure(
        408, ErrorCode::kRequestTimeout,
        "the request's body did not arrive within " + std::to_string(options_.body_timeout.count()) + " ms");
  }
  if (cause) co_return body_failure(cause, options_);
  co_return std::move(parser.get().body());
}

}  // namespace redpoll::http
