#include "http/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>

namespace redpoll::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

std::unexpected<Error> not_a_url(std::string_view text, std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument, "expected " + std::string(expected) + ", got '" + std::string(text) + "'");
}

std::string place(const Url& url) {
  const bool is_v6 = url.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return not_a_url(text, "a URL that begins with http://");
  std::string_view rest = text.substr(kScheme.size());
  Url url;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  rest = rest.substr(0, slash);

  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return not_a_url(text, "an address in brackets, as in http://[::1]:8080");
  const std::size_t colon = rest.find(':', bracket);
  url.host = bracket > 0 ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  if (url.host.empty()) return not_a_url(text, "a host after http://");
  if (colon == std::string_view::npos) return url;
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
    return not_a_url(text, "a port from 1 to 65535 after the host");
  }
  return url;
}

class Client::Impl {
 public:
  Impl(Url url, std::chrono::milliseconds patience) : url_(std::move(url)), patience_(patience), stream_(io_) {}

  Status connect();
  Result<ClientResponse> exchange(const ClientRequest& request, const OnData& on_data);

 private:
  // Starts one operation and runs until it has ended or the patience with it. Beast's time limits need the
  // asynchronous forms.
  template <typename Start>
  error_code wait_for(const Start& start) {
    error_code result;
    stream_.expires_after(patience_);
    start([&result](const error_code& error, auto&&...) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }
  [[nodiscard]] std::unexpected<Error> failure(std::string_view what, const error_code& cause) const;

  Url url_;
  std::chrono::milliseconds patience_;
  asio::io_context io_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
};

std::unexpected<Error> Client::Impl::failure(std::string_view what, const error_code& cause) const {
  const std::string start = std::string(what) + " " + place(url_) + ": ";
  if (cause == beast::error::timeout) {
    return fail(ErrorCode::kTimeout, start + "nothing came for " + std::to_string(patience_.count()) + " ms");
  }
  if (cause == beast::http::error::end_of_stream || cause == beast::http::error::partial_message) {
    return fail(ErrorCode::kIo, start + "the server closed the connection");
  }
  return fail(ErrorCode::kIo, start + cause.message());
}

Status Client::Impl::connect() {
  error_code error;
  tcp::resolver resolver(io_);
  const auto addresses = resolver.resolve(url_.host, std::to_string(url_.port), error);
  if (error) return failure("cannot find", error);
  error = wait_for([&](auto handler) { stream_.async_connect(addresses, std::move(handler)); });
  if (error) return failure("cannot connect to", error);
  stream_.socket().set_option(tcp::no_delay(true), error);
  return {};
}

Result<ClientResponse> Client::Impl::exchange(const ClientRequest& request, const OnData& on_data) {
  beast::http::request<beast::http::string_body> message;
  message.method_string(request.method);
  message.target(url_.path + request.target);
  message.version(11);
  message.set(beast::http::field::host, place(url_));
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  error_code error = wait_for([&](auto handler) { beast::http::async_write(stream_, message, std::move(handler)); });
  if (error) return failure("cannot send to", error);

  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(boost::none);
  error = wait_for([&](auto handler) { beast::http::async_read_header(stream_, buffer_, parser, std::move(handler)); });
  if (error) return failure("no answer from", error);
  ClientResponse response{.status = static_cast<int>(parser.get().result_int()), .body = {}};
  std::string& body = parser.get().body();
  const bool hand_over = on_data && response.status == 200;
  while (!parser.is_done()) {
    error = wait_for([&](auto handler) { beast::http::async_read_some(stream_, buffer_, parser, std::move(handler)); });
    if (error) return failure("half an answer from", error);
    if (hand_over && !body.empty()) on_data(std::exchange(body, {}));
  }
  response.body = std::move(body);
  return response;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const Url& url, std::chrono::milliseconds patience) {
  auto impl = std::make_unique<Impl>(url, patience);
  RETURN_IF_ERROR(impl->connect());
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Result<ClientResponse> Client::exchange(const ClientRequest& request, const OnData& on_data) {
  return impl_->exchange(request, on_data);
}

}  // namespace redpoll::http
