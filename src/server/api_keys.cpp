#include "server/api_keys.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "http/security.h"

namespace redpoll::server {
namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;

bool is_loopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return http::is_loopback_host(host);
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

Status check_exposure(const Exposure& exposure) {
  if (is_loopback(exposure.host) || exposure.has_keys || exposure.insecure) return {};
  return fail(ErrorCode::kInvalidArgument,
              "refusing to serve other machines on '" + std::string(exposure.host) +
                  "' without keys: give --api-key-file, or --insecure if everybody who reaches this address may use it",
              "host");
}

std::string exposure_warning(const Exposure& exposure, const std::string& address) {
  if (!exposure.insecure) return {};
  if (exposure.has_keys) return "--insecure changes nothing: clients need a key of --api-key-file";
  if (is_loopback(exposure.host)) return "--insecure changes nothing: " + address + " is open to this machine only";
  return "INSECURE: " + address +
         " serves every machine that can reach it, without asking for a key: all of them may use the model and read "
         "/stats and /metrics; --api-key-file closes it";
}

}  // namespace redpoll::server
