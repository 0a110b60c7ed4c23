#include "server/api_keys.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "http/security.h"

namespace redpoll::server {
namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool is_visible_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

Result<ApiKeys> read_api_keys(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string content, read_file(file, kMaxFileBytes));
  ApiKeys out;
  std::string_view rest = content;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view key = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (key.empty() || key.front() == '#') continue;
    if (!is_visible_ascii(key)) {
      return fail(ErrorCode::kInvalidArgument,
                  "line " + std::to_string(line_number) + " of key file '" + file.string() +
                      "' is not a key: expected visible ASCII characters without space",
                  "api-key-file");
    }
    out.keys.emplace_back(key);
  }
  if (out.keys.empty()) {
    return fail(ErrorCode::kInvalidArgument, "key file '" + file.string() + "' has no keys: expected one a line",
                "api-key-file");
  }
  using std::filesystem::perms;
  std::error_code error;
  const perms mode = std::filesystem::status(file, error).permissions();
  if (!error && (mode & (perms::group_read | perms::others_read)) != perms::none) {
    out.warning = "other users of this machine can read key file '" + file.string() + "': chmod 600 it";
  }
  return out;
}

Status check_exposure(std::string_view host, bool has_keys, bool insecure) {
  std::string_view name = host;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (http::is_loopback_host(name) || has_keys || insecure) return {};
  return fail(ErrorCode::kInvalidArgument,
              "refusing to serve other machines on '" + std::string(host) +
                  "' without keys: give --api-key-file, or --insecure if everybody who reaches this address may use it",
              "host");
}

}  // namespace redpoll::server
