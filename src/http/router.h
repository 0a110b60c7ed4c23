// Router: from method and path to a handler. Built once before the server starts, read-only afterwards.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/task.h"

namespace redpoll::http {

/// Answers one request: with the Response it returns, or by a stream that it opens on the exchange. Runs on the I/O
/// thread. What it throws becomes a 500 (or, in a stream, a last event) for this request only.
using Handler = std::function<Task<Response>(Request&, Exchange&)>;

class Router {
 public:
  struct Match {
    const Handler* handler = nullptr;                             // nullptr: no such path, or no such method on it
    std::vector<std::pair<std::string, std::string>> parameters;  // decoded
    std::string allowed_methods;  // "GET, HEAD, POST, OPTIONS"; "" if the path is unknown
  };

  /// `pattern` is literal segments and {name} segments: "/v1/models/{id}". A {name} matches one segment, in last place
  /// the whole rest, slashes included, but never nothing. Where several patterns match, the one with more literal
  /// segments wins, whatever the order of adding. Patterns are fixed in the program, so a malformed or repeated one is
  /// a programmer error.
  void add(std::string method, std::string_view pattern, Handler handler);

  /// `path` is percent-encoded. HEAD finds the handler of GET. kInvalidArgument if an escape in the path is malformed.
  [[nodiscard]] Result<Match> find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;  // "{id}" keeps its braces
    int num_literals = 0;
    Handler handler;
  };
  std::vector<Route> routes_;
};

}  // namespace redpoll::http
