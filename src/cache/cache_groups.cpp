#include "cache/cache_groups.h"

#include <algorithm>
#include <utility>

namespace redpoll::cache {

std::vector<CacheGroup> make_cache_groups(const std::vector<LayerCache>& layers) {
  std::vector<CacheGroup> groups;
  CacheGroup states{.kind = CacheKind::kRecurrent, .window = 0, .layers = {}};
  for (int layer = -1; const LayerCache& cache : layers) {
    ++layer;
    if (cache.kind == CacheKind::kRecurrent) states.layers.push_back(layer);
    if (cache.kind != CacheKind::kAttention) continue;
    auto group = std::ranges::find(groups, cache.window, &CacheGroup::window);
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {.kind = CacheKind::kAttention, .window = cache.window, .layers = {}});
    }
    group->layers.push_back(layer);
  }
  if (!states.layers.empty()) groups.push_back(std::move(states));
  return groups;
}

}  // namespace redpoll::cache
