// What the tests of the disk tier share: files of runs and snapshots with known content.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/disk_format.h"
#include "support/temporary_folder.h"

namespace redpoll::cache {

using test::TemporaryFolder;
using Tokens = std::vector<TokenId>;

inline constexpr int kRunTokens = 4;
inline const std::string kFingerprint(64, 'a');
inline const std::string kOtherFingerprint(64, 'b');

inline StoredHead head_of(StoredKind kind, const ContentKey& parent, int first_token, Tokens tokens) {
  StoredHead head{.kind = kind, .parent = parent, .first_token = first_token, .tokens = std::move(tokens), .parts = {}};
  head.key = key_of(head);
  head.parts = {{.group = 0, .first_block = first_token / kRunTokens, .num_blocks = 1}};
  return head;
}

/// The files of a text: its whole runs, then a snapshot of the rest.
inline std::vector<StoredHead> heads_of(const Tokens& tokens, const std::string& fingerprint = kFingerprint) {
  std::vector<StoredHead> heads;
  ContentKey parent = root_key(fingerprint);
  auto at = tokens.begin();
  for (; tokens.end() - at >= kRunTokens; at += kRunTokens) {
    const int first_token = static_cast<int>(at - tokens.begin());
    heads.push_back(head_of(StoredKind::kRun, parent, first_token, Tokens(at, at + kRunTokens)));
    parent = heads.back().key;
  }
  const int first_token = static_cast<int>(at - tokens.begin());
  heads.push_back(head_of(StoredKind::kSnapshot, parent, first_token, Tokens(at, tokens.end())));
  return heads;
}

/// Bytes that depend on the key alone.
inline Payload payload_of(const StoredHead& head, std::size_t size) {
  std::mt19937_64 random(std::to_integer<unsigned>(head.key[0]) * 256 + std::to_integer<unsigned>(head.key[1]));
  Payload payload(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random();
    std::memcpy(payload.data() + at, &bits, std::min(size - at, sizeof bits));
  }
  return payload;
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void set_content(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace redpoll::cache
