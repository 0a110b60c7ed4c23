// SHA-256, for identities of files and contents. The library behind it (OpenSSL) appears in sha256.cpp only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace redpoll {

/// Feed bytes in any pieces, then ask once for the digest. Not for several threads at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }

  /// 64 lower-case hex digits of all that came before. Ends the object's use.
  [[nodiscard]] std::string hex_digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace redpoll
