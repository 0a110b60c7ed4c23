// Any bytes as a file of the disk cache: an Error, or a header that writing gives back to the byte. Nearly all inputs
// fail at a hash, so they are also tried with padding, length, key and checksum put right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache/disk_format.h"

namespace {

using namespace redpoll;

using Bytes = std::vector<std::byte>;

// See docs/formats/kv-cache-files.md.
constexpr std::size_t kLengthAt = 12;
constexpr std::size_t kChecksumAt = 16;
constexpr std::size_t kKindAt = 24;
constexpr std::size_t kNumTokensAt = 32;
constexpr std::size_t kPayloadBytesAt = 40;
constexpr std::size_t kParentAt = 96;
constexpr std::size_t kKeyAt = 112;
constexpr std::size_t kTokensAt = 128;
constexpr std::size_t kAlignment = 4096;

std::uint64_t get(const Bytes& bytes, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

void put(Bytes& bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<std::byte>(value >> (8 * i));
}

void put_key(Bytes& bytes) {
  const std::uint64_t num_tokens = get(bytes, kNumTokensAt, 4);
  if (num_tokens > (bytes.size() - kTokensAt) / 4) return;
  cache::StoredHead head;
  head.kind = get(bytes, kKindAt, 4) == 1 ? cache::StoredKind::kRun : cache::StoredKind::kSnapshot;
  std::copy_n(bytes.begin() + kParentAt, head.parent.size(), head.parent.begin());
  for (std::size_t i = 0; i < num_tokens; ++i) {
    head.tokens.push_back(static_cast<TokenId>(get(bytes, kTokensAt + 4 * i, 4)));
  }
  std::ranges::copy(cache::key_of(head), bytes.begin() + kKeyAt);
}

/// A header that is right but for what the numbers in it say.
Bytes repaired(std::span<const std::byte> given) {
  Bytes bytes(given.begin(), given.end());
  bytes.resize((std::max<std::size_t>(bytes.size(), 1) + kAlignment - 1) / kAlignment * kAlignment);
  put(bytes, kLengthAt, bytes.size(), 4);
  put_key(bytes);
  Bytes rest = bytes;
  rest.erase(rest.begin() + kChecksumAt, rest.begin() + kChecksumAt + 8);
  put(bytes, kChecksumAt, XXH3_64bits(rest.data(), rest.size()), 8);
  return bytes;
}

void check_decoded(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  const auto header = cache::decode_header(bytes, file_bytes);
  if (!header) return;
  const Bytes again = cache::encode_header(*header);
  CHECK(again.size() <= bytes.size(), "a header lies within what was given");
  CHECK(std::ranges::equal(again, bytes.first(again.size())), "a header can be written in one way only");
  CHECK(again.size() + header->payload_bytes == file_bytes, "header and payload make the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto given = std::as_bytes(std::span(data, size));
  check_decoded(given, size);
  const Bytes bytes = repaired(given);
  check_decoded(bytes, bytes.size() + get(bytes, kPayloadBytesAt, 8));
  return 0;
}
