// The file with the keys that clients may use, and the rule that nobody serves a network without one by accident.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace redpoll::server {

struct ApiKeys {
  std::vector<std::string> keys;
  std::string warning;  // not empty: the file's permissions let other users read it
};

/// One key a line; blank lines and lines that start with # are skipped, space around a key is dropped. Fails when the
/// file cannot be read, holds no key, or a key has characters that an HTTP header cannot carry.
[[nodiscard]] Result<ApiKeys> read_api_keys(const std::filesystem::path& file);

struct Exposure {
  std::string_view host;  // that is listened on
  bool has_keys = false;
  bool insecure = false;  // --insecure was said
};
/// Fails for a host that other machines may reach when there are no keys and the user has not said --insecure.
[[nodiscard]] Status check_exposure(const Exposure& exposure);

/// What whoever starts the server must read about --insecure: who may use it at `address`, or that the flag changes
/// nothing. Empty without the flag.
[[nodiscard]] std::string exposure_warning(const Exposure& exposure, const std::string& address);

}  // namespace redpoll::server
