// What a file of the disk tier looks like: a header that says whose blocks it holds, and the blocks' bytes as they
// stand in memory. Pure: bytes in, values out; docs/formats/kv-cache-files.md has the layout byte by byte. Knows
// neither folders nor what the bytes of a block mean.
//
// Files are named by what they are of. The key of a run of tokens is a hash of these and of the key of the run before,
// so that it stands for all tokens from the start of the text, and the first key, the root, stands for the model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "cache/payload.h"

namespace redpoll::cache {

inline constexpr std::uint32_t kDiskFormatVersion = 1;

/// The first half of a SHA-256.
using ContentKey = std::array<std::byte, 16>;

/// Nanoseconds since 1970: a file's time of modification, which says when it was last used.
using FileTime = std::int64_t;

enum class StoredKind {
  kRun,       // whole blocks of the group that sees all tokens, of one run of tokens
  kSnapshot,  // all else that a cache of so many tokens needs: blocks of the tokens after the last run, windows, states
};

/// Places in the block table of a group, in whose order the payload holds their blocks.
struct StoredPart {
  int group = 0;
  int first_block = 0;
  int num_blocks = 0;

  bool operator==(const StoredPart&) const = default;
};

struct StoredHead {
  StoredKind kind = StoredKind::kRun;
  ContentKey key{};     // run_key or snapshot_key of the next two
  ContentKey parent{};  // key of the run before, or the root
  int first_token = 0;  // tokens of all runs before
  std::vector<TokenId> tokens;
  std::vector<StoredPart> parts;

  bool operator==(const StoredHead&) const = default;
};

/// As it is read back: equal to what was written.
struct StoredFile {
  StoredHead head;
  Payload payload;
};

/// `fingerprint`: of the model and of how its blocks are laid out, any text.
[[nodiscard]] ContentKey root_key(std::string_view fingerprint);
[[nodiscard]] ContentKey run_key(const ContentKey& parent, std::span<const TokenId> tokens);
/// `tokens`: those after the last whole run, maybe none.
[[nodiscard]] ContentKey snapshot_key(const ContentKey& parent, std::span<const TokenId> tokens);

[[nodiscard]] ContentKey key_of(const StoredHead& head);

struct FileHeader {
  StoredHead head;
  std::string fingerprint;  // 64 lower-case hex digits
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_checksum = 0;
  std::int64_t created_at = 0;  // Unix seconds
};

[[nodiscard]] std::uint64_t payload_checksum(std::span<const std::byte> payload);

/// Bytes before the payload: a multiple of 4096.
[[nodiscard]] std::size_t header_bytes(const StoredHead& head);
[[nodiscard]] std::vector<std::byte> encode_header(const FileHeader& header);

/// So many bytes of a file are enough for `announced_header_bytes`.
inline constexpr std::size_t kFirstHeaderBytes = 4096;
/// How many bytes must be given to decode_header, for a file that begins with these and is `file_bytes` long.
[[nodiscard]] Result<std::size_t> announced_header_bytes(std::span<const std::byte> beginning,
                                                         std::uint64_t file_bytes);
/// kUnsupported: another format version; kCorruptFile: anything that our own writer would not have written, the key
/// included.
[[nodiscard]] Result<FileHeader> decode_header(std::span<const std::byte> bytes, std::uint64_t file_bytes);

/// "run-KEY.kv" or "snapshot-KEY.kv", KEY in hex.
[[nodiscard]] std::string file_name(StoredKind kind, const ContentKey& key);

struct ParsedName {
  StoredKind kind = StoredKind::kRun;
  ContentKey key{};
};
/// Nothing for a name that `file_name` never gives.
[[nodiscard]] std::optional<ParsedName> parse_file_name(std::string_view name);

/// The first 16 digits, which name the folder of a fingerprint's files.
[[nodiscard]] std::string folder_name(std::string_view fingerprint);
[[nodiscard]] bool is_folder_name(std::string_view name);

}  // namespace redpoll::cache
