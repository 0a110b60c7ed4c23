#include "checkpoint/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sha256.h"

namespace redpoll::checkpoint {
namespace {

constexpr std::size_t kWholeBytes = 1 << 20;
constexpr std::size_t kStretches = 256;
constexpr std::size_t kStretchBytes = 4096;

void add_sample(Sha256& hash, std::span<const std::byte> bytes) {
  if (bytes.size() <= kWholeBytes) return hash.update(bytes);
  const std::size_t last_start = bytes.size() - kStretchBytes;
  for (std::size_t i = 0; i < kStretches; ++i) {
    // last_start / 255 * i, without the overflow of last_start * i or the loss of the division.
    const std::size_t steps = kStretches - 1;
    const std::size_t start = last_start / steps * i + last_start % steps * i / steps;
    hash.update(bytes.subspan(start, kStretchBytes));
  }
}

}  // namespace

std::string fingerprint(std::string_view config_text, std::span<const std::string> tensors,
                        std::span<const std::shared_ptr<const MappedFile>> files) {
  Sha256 hash;
  // Lengths go before contents, so that no two different lists run together into the same bytes.
  const auto add_text = [&](std::string_view text) {
    hash.update(std::to_string(text.size()) + ":");
    hash.update(text);
  };
  add_text("redpoll checkpoint 2");
  add_text(config_text);
  for (const std::string& tensor : tensors) add_text(tensor);
  for (const auto& file : files) {
    add_text(std::to_string(file->bytes().size()));
    add_sample(hash, file->bytes());
  }
  return hash.hex_digest();
}

std::string whole_fingerprint(std::string_view beginning, std::span<const std::shared_ptr<const MappedFile>> files) {
  Sha256 hash;
  hash.update(beginning);
  for (const auto& file : files) {
    const XXH128_hash_t contents = XXH3_128bits(file->bytes().data(), file->bytes().size());
    hash.update(" " + std::to_string(contents.high64) + " " + std::to_string(contents.low64));
  }
  return hash.hex_digest();
}

}  // namespace redpoll::checkpoint
