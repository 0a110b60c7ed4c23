#include "http/security.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace redpoll::http {
namespace {

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::array<unsigned char, 32> sha256_of(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool is_ipv4_loopback(std::string_view host) {
  int num_parts = 0;
  bool loopback = false;
  for (;;) {
    const auto dot = host.find('.');
    const std::string_view part = host.substr(0, dot);
    unsigned value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value > 255) return false;
    if (num_parts == 0) loopback = value == 127;
    ++num_parts;
    if (dot == std::string_view::npos) return loopback && num_parts == 4;
    host.remove_prefix(dot + 1);
  }
}

// "name" on the list allows every port of that host, "name:port" that one.
bool is_listed(const std::vector<std::string>& list, const Authority& host) {
  return std::ranges::any_of(list, [&](const std::string& entry) {
    if (entry == "*") return true;
    const auto allowed = parse_authority(entry);
    return allowed && allowed->host == host.host && (allowed->port == 0 || allowed->port == host.port);
  });
}

// The authority of "http://host[:port]" with the scheme's own port filled in; nullopt for "null" and other schemes.
struct Origin {
  Authority authority;
  std::uint16_t default_port = 0;
};

Result<Origin> parse_origin(std::string_view text) {
  Origin origin;
  const std::string lower = to_lower(text);
  std::string_view rest = lower;
  if (rest.starts_with("http://")) {
    origin.default_port = 80;
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    origin.default_port = 443;
    rest.remove_prefix(8);
  } else {
    return fail(ErrorCode::kForbidden, "not a web origin");
  }
  ASSIGN_OR_RETURN(origin.authority, parse_authority(rest));
  return origin;
}

bool is_same_origin(std::string_view origin_header, std::string_view host_header) {
  const auto origin = parse_origin(origin_header);
  const auto host = parse_authority(host_header);
  if (!origin || !host || origin->authority.host != host->host) return false;
  const auto port_or_default = [&](std::uint16_t port) { return port == 0 ? origin->default_port : port; };
  return port_or_default(origin->authority.port) == port_or_default(host->port);
}

std::string_view presented_key(const Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    std::string_view key = authorization.substr(kScheme.size());
    key.remove_prefix(std::min(key.size(), key.find_first_not_of(' ')));
    return key;
  }
  return request.header("x-api-key");
}

}  // namespace

Result<Authority> parse_authority(std::string_view text) {
  const auto malformed = [&] {
    return fail(ErrorCode::kInvalidArgument, "expected host or host:port; got " + in_quotes(text));
  };
  Authority authority;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return malformed();
    authority.host = to_lower(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  } else {
    const auto colon = rest.find(':');
    authority.host = to_lower(rest.substr(0, colon));
    rest.remove_prefix(std::min(rest.size(), colon));
    if (authority.host.find_first_of("/@?#\\ ,") != std::string::npos) return malformed();
  }
  if (authority.host.ends_with('.')) authority.host.pop_back();
  if (authority.host.empty()) return malformed();
  if (rest.empty()) return authority;
  if (rest.front() != ':') return malformed();
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), authority.port);
  if (rest.empty() || error != std::errc() || end != rest.data() + rest.size()) return malformed();
  return authority;
}

bool is_loopback_host(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "::1" || is_ipv4_loopback(host);
}

Status check_host(const SecurityOptions& options, std::string_view host_header, std::string_view bound_host,
                  std::string_view local_address) {
  if (std::ranges::find(options.allow_hosts, "*") != options.allow_hosts.end()) return {};
  if (host_header.empty()) return fail(ErrorCode::kForbidden, "expected a Host header; got none");
  ASSIGN_OR_RETURN(const Authority host, parse_authority(host_header));
  if (is_loopback_host(host.host) || host.host == to_lower(bound_host) || host.host == to_lower(local_address) ||
      is_listed(options.allow_hosts, host)) {
    return {};
  }
  return fail(ErrorCode::kForbidden,
              "the host " + in_quotes(host.host) + " is not allowed; allow it with --allow-host");
}

Result<OriginKind> check_origin(const SecurityOptions& options, const std::vector<Header>& headers,
                                std::string_view host_header) {
  const std::string* origin = find_header(headers, "origin");
  if (origin == nullptr) return OriginKind::kNone;
  if (is_same_origin(*origin, host_header)) return OriginKind::kSame;
  const bool listed = std::ranges::any_of(options.allow_origins, [&](const std::string& allowed) {
    return allowed == "*" || equal_ignoring_case(allowed, *origin);
  });
  if (listed) return OriginKind::kAllowed;
  return fail(ErrorCode::kForbidden,
              "the origin " + in_quotes(*origin) + " is not allowed; allow it with --allow-origin");
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  digests_.reserve(keys.size());
  for (const std::string& key : keys) digests_.push_back(sha256_of(key));
}

bool ApiKeys::contains(std::string_view key) const {
  const auto digest = sha256_of(key);
  unsigned found = 0;
  for (const auto& known : digests_) found |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0 ? 1U : 0U;
  return found != 0;
}

Status check_api_key(const SecurityOptions& options, const ApiKeys& keys, const Request& request) {
  if (keys.empty()) return {};
  const bool reads_only = request.method == "GET" || request.method == "HEAD";
  if (reads_only && std::ranges::find(options.keyless_paths, request.path) != options.keyless_paths.end()) return {};
  const std::string_view key = presented_key(request);
  if (key.empty()) {
    return fail(ErrorCode::kUnauthorized,
                "expected an API key in 'Authorization: Bearer <key>' or 'x-api-key: <key>'; got none");
  }
  if (!keys.contains(key)) return fail(ErrorCode::kUnauthorized, "the API key is not one of this server's");
  return {};
}

}  // namespace redpoll::http
