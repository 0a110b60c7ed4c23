#include "engine/disk/ssd_cache.h"

#include <string>
#include <utility>

namespace redpoll::engine {

Result<cache::DirectoryCheck> check_directory(const SsdCacheOptions& options) {
  auto checked = cache::check_directory(options.directory);
  if (!checked) return about_ssd_cache(std::move(checked).error());
  return checked;
}

Status check_could_be_made(const SsdCacheOptions& options) {
  Status checked = cache::check_could_be_made(options.directory);
  return checked ? checked : about_ssd_cache(std::move(checked).error());
}

std::unexpected<Error> about_ssd_cache(Error error) {
  if (!error.param.empty()) return std::unexpected(std::move(error));
  return fail(error.code, "--ssd-cache: " + error.message, "ssd-cache");
}

Status check_max_bytes(const SsdCacheOptions& options, const cache::CachePools& pools,
                       std::span<const std::size_t> block_bytes) {
  const auto run_tokens = static_cast<std::size_t>(options.run_blocks * pools.block_tokens());
  cache::StoredHead run{.tokens = std::vector<TokenId>(run_tokens), .parts = {{}}};
  cache::StoredHead snapshot{.tokens = {}, .parts = {}};
  std::uint64_t run_bytes = 0;
  std::uint64_t snapshot_bytes = 0;
  for (int group = 0; group < pools.num_groups(); ++group) {
    const std::uint64_t block = block_bytes[static_cast<std::size_t>(group)];
    const bool is_state = pools.kind(group) == cache::CacheKind::kRecurrent;
    if (!is_state && pools.window(group) == 0) {
      run_bytes = cache::header_bytes(run) + block * static_cast<std::uint64_t>(options.run_blocks);
    } else {
      const int num_blocks = is_state ? 1 : cache::blocks_spanned(pools.window(group), pools.block_tokens());
      snapshot.parts.push_back({.group = group, .first_block = 0, .num_blocks = num_blocks});
      snapshot_bytes += block * static_cast<std::uint64_t>(num_blocks);
    }
  }
  if (!snapshot.parts.empty()) snapshot_bytes += cache::header_bytes(snapshot);
  const std::uint64_t least = run_bytes + snapshot_bytes;
  if (options.max_bytes >= least) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--ssd-cache-max allows " + std::to_string(options.max_bytes) + " bytes, and of this model " +
                  std::to_string(run_tokens) + " tokens take " + std::to_string(least) +
                  ": nothing could be kept; raise it, or leave out --ssd-cache",
              "ssd-cache-max");
}

}  // namespace redpoll::engine
