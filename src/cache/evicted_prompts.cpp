#include "cache/evicted_prompts.h"

#include <algorithm>

namespace redpoll::cache {
namespace {

constexpr std::size_t kStep = 32;
constexpr std::size_t kMostRemembered = 128;

/// FNV-1a, a token at a time, mixed once more so that all bits count.
std::vector<std::uint64_t> hashes_of(std::span<const TokenId> tokens) {
  std::vector<std::uint64_t> hashes;
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(tokens[i])) * 0x100000001b3U;
    hash ^= hash >> 29U;
    if ((i + 1) % kStep == 0) hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

void EvictedPrompts::note(std::span<const TokenId> tokens) {
  beginnings_.push_back(hashes_of(tokens));
  if (beginnings_.size() > kMostRemembered) beginnings_.pop_front();
}

int EvictedPrompts::longest(std::span<const TokenId> tokens) const {
  const std::vector<std::uint64_t> hashes = hashes_of(tokens);
  std::ptrdiff_t most = 0;
  for (const std::vector<std::uint64_t>& beginning : beginnings_) {
    most = std::max(most, std::ranges::mismatch(hashes, beginning).in1 - hashes.begin());
  }
  return static_cast<int>(most * static_cast<std::ptrdiff_t>(kStep));
}

}  // namespace redpoll::cache
