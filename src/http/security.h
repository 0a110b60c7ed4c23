// Who may talk to the server: the Host check (against DNS rebinding), the Origin check (against foreign web pages) and
// API keys. Pure functions of header values; connection.cpp calls them before a body is read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/request.h"

namespace redpoll::http {

struct SecurityOptions {
  std::vector<std::string> allow_hosts;                       // "name" (any port), "name:port", or "*" for every Host
  std::vector<std::string> allow_origins;                     // "https://app.example", or "*" for every Origin
  std::vector<std::string> api_keys;                          // empty: no key is asked for
  std::vector<std::string> keyless_paths = {"/health", "/"};  // GET and HEAD of these need no key
};

/// A Host or an Origin's authority, lower case: "localhost" and 8080. The port is 0 where none was given.
struct Authority {
  std::string host;  // without brackets and without a closing dot
  std::uint16_t port = 0;
};

/// Reads "name", "name:port", "1.2.3.4:port", "[::1]:port"; kInvalidArgument for anything else.
[[nodiscard]] Result<Authority> parse_authority(std::string_view text);

/// localhost, any name under .localhost, 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_loopback_host(std::string_view host);

/// kForbidden unless `host_header` is a loopback name, `bound_host`, the address `local_address` that the client has
/// really connected to, or on the list; kInvalidArgument if it is no host at all.
[[nodiscard]] Status check_host(const SecurityOptions& options, std::string_view host_header,
                                std::string_view bound_host, std::string_view local_address);

enum class OriginKind { kNone, kSame, kAllowed };

/// kNone without an Origin header; kForbidden if it is neither that of the server's own pages (`host_header`) nor
/// allowed. Only for kAllowed may access-control headers be sent.
[[nodiscard]] Result<OriginKind> check_origin(const SecurityOptions& options, const std::vector<Header>& headers,
                                              std::string_view host_header);

/// The configured keys as SHA-256 digests. Comparing digests of equal length without an early exit tells a caller's
/// stopwatch neither how much of a key was right nor which key it was.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  [[nodiscard]] bool empty() const { return digests_.empty(); }
  [[nodiscard]] bool contains(std::string_view key) const;

 private:
  std::vector<std::array<unsigned char, 32>> digests_;
};

/// kUnauthorized unless `Authorization: Bearer <key>` or `x-api-key: <key>` holds one of the keys, none are
/// configured, or method and path need none. Messages never repeat what was sent.
[[nodiscard]] Status check_api_key(const SecurityOptions& options, const ApiKeys& keys, const Request& request);

}  // namespace redpoll::http
