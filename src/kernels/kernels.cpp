#include "kernels/kernels.h"

namespace redpoll::kernels {

std::size_t Kernels::matrix_bytes(const MatrixWeights& weights) const {
  return weights.weight.size() + weights.scales.size() + weights.biases.size();
}

std::vector<mx::array*> StateStorage::pools() {
  if (memory.ndim() == 0) return {&convolution};  // a layer without a memory
  return {&convolution, &memory};
}

std::vector<mx::array*> KvStorage::pools() {
  if (packing.bits == 0) return {&keys, &values};
  return {&keys, &values, &key_affines, &value_affines};
}

mx::Dtype mlx_type(FloatType type) {
  switch (type) {
    case FloatType::kF16: return mx::float16;
    case FloatType::kBF16: return mx::bfloat16;
    case FloatType::kF32: break;
  }
  return mx::float32;
}

mx::Dtype mlx_type(WeightType type) {
  switch (type) {
    case WeightType::kF16: return mx::float16;
    case WeightType::kBF16: return mx::bfloat16;
    case WeightType::kF32: break;
  }
  return mx::float32;
}

std::optional<KvFloats> KvStorage::floats() const {
  const auto type_of = [](const mx::array& x) -> std::optional<FloatType> {
    for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
      if (mlx_type(type) == x.dtype()) return type;
    }
    return std::nullopt;
  };
  const auto key_type = type_of(keys);
  const auto value_type = type_of(values);
  if (!key_type || !value_type) return std::nullopt;
  return KvFloats{.keys = *key_type, .values = *value_type};
}

std::size_t KvStorage::bytes_per_block() const {
  const std::size_t codes = keys.nbytes() + values.nbytes();
  const std::size_t affines = packing.bits == 0 ? 0 : key_affines.nbytes() + value_affines.nbytes();
  return (codes + affines) / static_cast<std::size_t>(keys.shape(0));
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
