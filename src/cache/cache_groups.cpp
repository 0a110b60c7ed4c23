#include "cache/cache_groups.h"

#include <algorithm>

namespace redpoll::cache {

std::vector<CacheGroup> make_cache_groups(const std::vector<LayerCache>& layers) {
  std::vector<CacheGroup> groups;
  for (int layer = 0; const LayerCache& shape : layers) {
    auto group = std::ranges::find(groups, shape, &CacheGroup::shape);
    if (group == groups.end()) group = groups.insert(groups.end(), {.shape = shape, .layers = {}});
    group->layers.push_back(layer++);
  }
  return groups;
}

}  // namespace redpoll::cache
