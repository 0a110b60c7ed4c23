#include "kernels/kernels.h"

namespace redpoll::kernels {

std::size_t Kernels::matrix_bytes(const MatrixWeights& weights) const {
  return weights.weight.size() + weights.scales.size() + weights.biases.size();
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
