// Client: one connection to an HTTP/1.1 server, for programs of ours that are clients themselves. Blocking, without
// TLS, redirects or proxies.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/request.h"

namespace redpoll::http {

struct Url {
  std::string host;  // without brackets
  std::uint16_t port = 80;
  std::string path;  // "" or "/prefix", without a slash at the end
};
/// "http://host", ":port" and "/prefix" optional; "http://[::1]:8080".
[[nodiscard]] Result<Url> parse_url(std::string_view text);

struct ClientRequest {
  std::string method = "GET";
  std::string target;  // appended to the URL's path
  std::vector<Header> headers = {};
  std::string body = {};
};

struct ClientResponse {
  int status = 0;
  std::string body;  // empty if its pieces were handed to on_data
};

/// Pieces of a body as they arrive.
using OnData = std::function<void(std::string_view bytes)>;

/// For one thread at a time.
class Client {
 public:
  /// `patience`: how long the server may stay silent, here and in every exchange.
  [[nodiscard]] static Result<std::unique_ptr<Client>> connect(const Url& url, std::chrono::milliseconds patience);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Sends a request and reads its answer. With `on_data`, the body of a 200 is handed to it instead of being kept;
  /// other statuses are answers too, not errors. The connection stays open for the next one if the server agrees;
  /// after an Error it is of no more use.
  [[nodiscard]] Result<ClientResponse> exchange(const ClientRequest& request, const OnData& on_data = {});

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace redpoll::http
