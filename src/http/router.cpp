#include "http/router.h"

#include <algorithm>
#include <optional>

namespace redpoll::http {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  for (;;) {
    const auto slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_parameter(std::string_view segment) { return segment.starts_with('{'); }

std::string join(const std::vector<std::string>& segments, std::size_t from) {
  std::string joined = segments[from];
  for (std::size_t i = from + 1; i < segments.size(); ++i) joined += '/' + segments[i];
  return joined;
}

// The parameters if the decoded segments of a path fit the pattern.
std::optional<Parameters> match_segments(const std::vector<std::string>& pattern,
                                         const std::vector<std::string>& path) {
  const bool open_ended = is_parameter(pattern.back());
  if (path.size() < pattern.size() || (path.size() > pattern.size() && !open_ended)) return std::nullopt;
  Parameters parameters;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_parameter(pattern[i])) {
      if (pattern[i] != path[i]) return std::nullopt;
      continue;
    }
    std::string value = i + 1 == pattern.size() ? join(path, i) : path[i];
    if (value.empty()) return std::nullopt;
    parameters.emplace_back(pattern[i].substr(1, pattern[i].size() - 2), std::move(value));
  }
  return parameters;
}

void add_method(std::vector<std::string>& methods, std::string method) {
  if (std::ranges::find(methods, method) == methods.end()) methods.push_back(std::move(method));
}

}  // namespace

void Router::add(std::string method, std::string_view pattern, Handler handler) {
  CHECK(pattern.starts_with('/'), "a route's pattern starts with '/'");
  CHECK(handler != nullptr, "a route has a handler");
  Route route{std::move(method), {}, 0, std::move(handler)};
  for (const std::string_view segment : split_path(pattern)) {
    CHECK(is_parameter(segment) == segment.ends_with('}'), "a parameter is a whole segment: {name}");
    route.segments.emplace_back(segment);
    route.num_literals += is_parameter(segment) ? 0 : 1;
  }
  for (const Route& other : routes_) {
    CHECK(other.method != route.method || other.segments != route.segments, "a route is added once");
  }
  routes_.push_back(std::move(route));
}

Result<Router::Match> Router::find(std::string_view method, std::string_view path) const {
  // Decoding after splitting keeps an escaped slash inside its segment.
  std::vector<std::string> segments;
  for (const std::string_view segment : split_path(path)) {
    ASSIGN_OR_RETURN(std::string decoded, percent_decode(segment));
    segments.push_back(std::move(decoded));
  }
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match match;
  int best = -1;
  std::vector<std::string> methods;
  for (const Route& route : routes_) {
    auto parameters = match_segments(route.segments, segments);
    if (!parameters) continue;
    add_method(methods, route.method);
    if (route.method == "GET") add_method(methods, "HEAD");
    if (route.method != wanted || route.num_literals <= best) continue;
    best = route.num_literals;
    match.handler = &route.handler;
    match.parameters = std::move(*parameters);
  }
  if (!methods.empty()) add_method(methods, "OPTIONS");
  for (const std::string& name : methods) match.allowed_methods += (match.allowed_methods.empty() ? "" : ", ") + name;
  return match;
}

}  // namespace redpoll::http
