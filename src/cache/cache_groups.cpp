#include "cache/cache_groups.h"

#include <algorithm>

namespace redpoll::cache {

std::vector<CacheGroup> make_cache_groups(const std::vector<LayerCache>& layers) {
  std::vector<CacheGroup> groups;
  for (int layer = -1; const LayerCache& cache : layers) {
    ++layer;
    if (cache.kind == CacheKind::kNone) continue;
    auto group = std::ranges::find(groups, cache.window, &CacheGroup::window);
    if (group == groups.end()) group = groups.insert(groups.end(), {.window = cache.window, .layers = {}});
    group->layers.push_back(layer);
  }
  return groups;
}

}  // namespace redpoll::cache
