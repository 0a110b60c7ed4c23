#include "cache/disk_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/sha256.h"

namespace redpoll::cache {
namespace {

constexpr std::string_view kMagic = "redpolkv";
constexpr std::string_view kSuffix = ".kv";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::size_t kFingerprintBytes = 32;
constexpr std::size_t kFolderDigits = 16;

// Offsets and sizes of docs/formats/kv-cache-files.md.
constexpr std::size_t kChecksumOffset = 16;
constexpr std::size_t kFixedBytes = 128;
constexpr std::size_t kTokenBytes = 4;
constexpr std::size_t kPartBytes = 12;
constexpr std::size_t kAlignment = 4096;
constexpr std::uint32_t kRunCode = 1;
constexpr std::uint32_t kSnapshotCode = 2;

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

std::string_view kind_name(StoredKind kind) { return kind == StoredKind::kRun ? "run" : "snapshot"; }

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte value : bytes) {
    hex += kHexDigits[std::to_integer<unsigned>(value) >> 4U];
    hex += kHexDigits[std::to_integer<unsigned>(value) & 0xFU];
  }
  return hex;
}

bool is_hex(std::string_view text) { return text.find_first_not_of(kHexDigits) == std::string_view::npos; }

/// As many bytes as there are; `hex` has two lower-case digits for each.
void from_hex(std::string_view hex, std::span<std::byte> bytes) {
  CHECK(hex.size() == 2 * bytes.size() && is_hex(hex), "expected two lower-case hex digits for each byte");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((kHexDigits.find(hex[2 * i]) << 4U) | kHexDigits.find(hex[2 * i + 1]));
  }
}

/// Little endian whatever the machine.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <typename T>
  void number(T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

 private:
  std::vector<std::byte>& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  [[nodiscard]] T number() {
    std::uint64_t value = 0;
    const auto own = raw(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(own[i]) << (8 * i);
    return static_cast<T>(value);
  }
  [[nodiscard]] std::span<const std::byte> raw(std::size_t size) {
    CHECK(size <= bytes_.size() - at_, "whoever reads has counted the bytes");
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  void skip(std::size_t size) { static_cast<void>(raw(size)); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// Of all its bytes but the checksum's own.
std::uint64_t header_checksum(std::span<const std::byte> header) {
  const auto before = header.first(kChecksumOffset);
  const auto after = header.subspan(kChecksumOffset + sizeof(std::uint64_t));
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, before.data(), before.size());
  XXH3_64bits_update(&state, after.data(), after.size());
  return XXH3_64bits_digest(&state);
}

std::uint64_t padded(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

ContentKey hash_tokens(std::string_view domain, const ContentKey& parent, std::span<const TokenId> tokens) {
  std::vector<std::byte> bytes;
  bytes.reserve(tokens.size() * kTokenBytes);
  Writer writer(bytes);
  for (const TokenId token : tokens) writer.number(token);
  Sha256 hash;
  hash.update(domain);
  hash.update(parent);
  hash.update(bytes);
  ContentKey key;
  from_hex(hash.hex_digest().substr(0, 2 * key.size()), key);
  return key;
}

std::unexpected<Error> corrupt(std::string message) { return fail(ErrorCode::kCorruptFile, std::move(message)); }

std::unexpected<Error> corrupt(std::string_view what, std::string_view expected, std::uint64_t got) {
  return corrupt(std::string(what) + ": expected " + std::string(expected) + ", got " + std::to_string(got));
}

/// A number that is to be an int and not negative.
Status read_count(Reader& reader, std::string_view what, int& value) {
  const auto number = reader.number<std::uint32_t>();
  if (number > kMaxInt) return corrupt(what, "at most 2147483647", number);
  value = static_cast<int>(number);
  return {};
}

Status read_tokens(Reader& reader, std::uint32_t num_tokens, StoredHead& head) {
  head.tokens.reserve(num_tokens);
  for (std::uint32_t i = 0; i < num_tokens; ++i) {
    RETURN_IF_ERROR(read_count(reader, "token id", head.tokens.emplace_back()));
  }
  if (head.first_token + static_cast<std::int64_t>(num_tokens) > kMaxInt) {
    return corrupt("number of tokens", "an end below 2147483648", num_tokens);
  }
  return {};
}

Status read_parts(Reader& reader, std::uint32_t num_parts, StoredHead& head) {
  head.parts.reserve(num_parts);
  for (std::uint32_t i = 0; i < num_parts; ++i) {
    StoredPart& part = head.parts.emplace_back();
    RETURN_IF_ERROR(read_count(reader, "group of a part", part.group));
    RETURN_IF_ERROR(read_count(reader, "first block of a part", part.first_block));
    RETURN_IF_ERROR(read_count(reader, "blocks of a part", part.num_blocks));
    if (part.num_blocks == 0 || part.first_block > kMaxInt - part.num_blocks) {
      return corrupt("blocks of a part", "at least one, and an end below 2147483648",
                     static_cast<std::uint64_t>(part.num_blocks));
    }
  }
  return {};
}

}  // namespace

ContentKey root_key(std::string_view fingerprint) {
  return hash_tokens("redpoll kv root\n" + std::string(fingerprint) + '\n', {}, {});
}

ContentKey run_key(const ContentKey& parent, std::span<const TokenId> tokens) {
  return hash_tokens("redpoll kv run\n", parent, tokens);
}

ContentKey snapshot_key(const ContentKey& parent, std::span<const TokenId> tokens) {
  return hash_tokens("redpoll kv snapshot\n", parent, tokens);
}

ContentKey key_of(const StoredHead& head) {
  return head.kind == StoredKind::kRun ? run_key(head.parent, head.tokens) : snapshot_key(head.parent, head.tokens);
}

std::uint64_t payload_checksum(std::span<const std::byte> payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

std::size_t header_bytes(const StoredHead& head) {
  return padded(kFixedBytes + head.tokens.size() * kTokenBytes + head.parts.size() * kPartBytes);
}

std::vector<std::byte> encode_header(const FileHeader& header) {
  const StoredHead& head = header.head;
  std::array<std::byte, kFingerprintBytes> fingerprint;
  from_hex(header.fingerprint, fingerprint);
  const std::size_t size = header_bytes(head);

  std::vector<std::byte> bytes;
  bytes.reserve(size);
  Writer writer(bytes);
  writer.raw(std::as_bytes(std::span(kMagic)));
  writer.number(kDiskFormatVersion);
  writer.number(static_cast<std::uint32_t>(size));
  writer.number(std::uint64_t{0});  // the checksum
  writer.number(head.kind == StoredKind::kRun ? kRunCode : kSnapshotCode);
  writer.number(static_cast<std::uint32_t>(head.first_token));
  writer.number(static_cast<std::uint32_t>(head.tokens.size()));
  writer.number(static_cast<std::uint32_t>(head.parts.size()));
  writer.number(header.payload_bytes);
  writer.number(header.payload_checksum);
  writer.number(header.created_at);
  writer.raw(fingerprint);
  writer.raw(head.parent);
  writer.raw(head.key);
  for (const TokenId token : head.tokens) writer.number(token);
  for (const StoredPart& part : head.parts) {
    writer.number(part.group);
    writer.number(part.first_block);
    writer.number(part.num_blocks);
  }
  bytes.resize(size);

  std::vector<std::byte> checksum;
  Writer(checksum).number(header_checksum(bytes));
  std::ranges::copy(checksum, bytes.begin() + kChecksumOffset);
  return bytes;
}

Result<std::size_t> announced_header_bytes(std::span<const std::byte> beginning, std::uint64_t file_bytes) {
  if (beginning.size() < kFixedBytes) return corrupt("size", "at least 4096 bytes", beginning.size());
  Reader reader(beginning);
  if (!std::ranges::equal(reader.raw(kMagic.size()), std::as_bytes(std::span(kMagic)))) {
    return corrupt("it does not begin with 'redpolkv'");
  }
  if (const auto version = reader.number<std::uint32_t>(); version != kDiskFormatVersion) {
    return fail(ErrorCode::kUnsupported,
                "format version: expected " + std::to_string(kDiskFormatVersion) + ", got " + std::to_string(version));
  }
  const auto size = reader.number<std::uint32_t>();
  if (size == 0 || size % kAlignment != 0 || size > file_bytes) {
    return corrupt("header length", "a multiple of 4096 within the file's " + std::to_string(file_bytes) + " bytes",
                   size);
  }
  return size;
}

Result<FileHeader> decode_header(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const std::size_t size, announced_header_bytes(bytes, file_bytes));
  if (size > bytes.size()) return corrupt("header length", "at most " + std::to_string(bytes.size()), size);
  bytes = bytes.first(size);
  Reader reader(bytes);
  reader.skip(kChecksumOffset);
  if (reader.number<std::uint64_t>() != header_checksum(bytes)) return corrupt("the header's checksum is wrong");

  FileHeader header;
  StoredHead& head = header.head;
  const auto kind = reader.number<std::uint32_t>();
  if (kind != kRunCode && kind != kSnapshotCode) return corrupt("kind", "1 or 2", kind);
  head.kind = kind == kRunCode ? StoredKind::kRun : StoredKind::kSnapshot;
  RETURN_IF_ERROR(read_count(reader, "first token", head.first_token));
  const auto num_tokens = reader.number<std::uint32_t>();
  const auto num_parts = reader.number<std::uint32_t>();
  const std::uint64_t used =
      kFixedBytes + std::uint64_t{num_tokens} * kTokenBytes + std::uint64_t{num_parts} * kPartBytes;
  if (padded(used) != size) return corrupt("header length", std::to_string(padded(used)), size);
  header.payload_bytes = reader.number<std::uint64_t>();
  if (header.payload_bytes != file_bytes - size) {
    return corrupt("payload length", std::to_string(file_bytes - size) + " as the file has", header.payload_bytes);
  }
  header.payload_checksum = reader.number<std::uint64_t>();
  header.created_at = reader.number<std::int64_t>();
  header.fingerprint = to_hex(reader.raw(kFingerprintBytes));
  std::ranges::copy(reader.raw(head.parent.size()), head.parent.begin());
  std::ranges::copy(reader.raw(head.key.size()), head.key.begin());
  RETURN_IF_ERROR(read_tokens(reader, num_tokens, head));
  RETURN_IF_ERROR(read_parts(reader, num_parts, head));
  const auto padding = reader.raw(size - static_cast<std::size_t>(used));
  if (!std::ranges::all_of(padding, [](std::byte value) { return value == std::byte{0}; })) {
    return corrupt("the header's padding is not zero");
  }
  if (head.key != key_of(head)) return corrupt("the key is not that of the tokens");
  return header;
}

std::string file_name(StoredKind kind, const ContentKey& key) {
  return std::string(kind_name(kind)) + '-' + to_hex(key) + std::string(kSuffix);
}

std::optional<ParsedName> parse_file_name(std::string_view name) {
  ParsedName parsed;
  for (const StoredKind kind : {StoredKind::kRun, StoredKind::kSnapshot}) {
    const std::size_t start = kind_name(kind).size() + 1;
    const std::size_t digits = 2 * parsed.key.size();
    if (name.size() != start + digits + kSuffix.size() || !is_hex(name.substr(start, digits))) continue;
    parsed.kind = kind;
    from_hex(name.substr(start, digits), parsed.key);
    if (file_name(parsed.kind, parsed.key) == name) return parsed;
  }
  return std::nullopt;
}

std::string folder_name(std::string_view fingerprint) {
  CHECK(fingerprint.size() == 2 * kFingerprintBytes && is_hex(fingerprint), "a fingerprint has 64 hex digits");
  return std::string(fingerprint.substr(0, kFolderDigits));
}

bool is_folder_name(std::string_view name) { return name.size() == kFolderDigits && is_hex(name); }

}  // namespace redpoll::cache
