#include "kernels/kernels.h"

namespace redpoll::kernels {

std::vector<mx::array*> KvStorage::pools() { return {&keys, &values}; }

std::vector<mx::array*> StateStorage::pools() {
  if (memory.ndim() == 0) return {&convolution};  // a layer without a memory
  return {&convolution, &memory};
}

std::vector<mx::array> Kernels::apply_all(const mx::array& x, std::span<const LinearMap> maps) const {
  std::vector<const Matrix*> weights;
  weights.reserve(maps.size());
  for (const LinearMap& map : maps) weights.push_back(map.weight);
  std::vector<mx::array> results = multiply_all(x, weights);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].bias != nullptr) results[i] = add_bias(results[i], *maps[i].bias);
  }
  return results;
}

}  // namespace redpoll::kernels
