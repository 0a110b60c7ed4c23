// Tensor: a named array of a checkpoint as bytes on the host, usually a view into a mapped file. Knows nothing of MLX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace redpoll::checkpoint {

/// Every element type that the safetensors format names. Values are little-endian; types of less than a byte are
/// packed without gaps.
enum class DType {
  kBool,
  kF4,      // E2M1, 4 bits
  kF6E2M3,  // 6 bits
  kF6E3M2,  // 6 bits
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,  // a power of two, as scale of a block
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,  // two F32
  kF64,
  kI64,
  kU64,
};

/// The name in a safetensors header: "F32", "BF16", "F8_E4M3".
[[nodiscard]] std::string_view dtype_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// Bits of one element: 4 to 64.
[[nodiscard]] int dtype_bits(DType dtype);

/// Immutable once loaded, so safe to read from any thread; copies share the bytes. `bytes` is row-major, aligned for
/// the element type, and stays valid for as long as any copy of `storage` lives.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> storage;
};

/// "(576, 1536)", for messages.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// The number of bytes of an array, or nullopt if the shape is negative, overflows 64 bits or ends within a byte.
[[nodiscard]] std::optional<std::uint64_t> array_bytes(DType dtype, std::span<const std::int64_t> shape);

/// Memory for a tensor that is computed rather than mapped.
struct OwnedBytes {
  std::span<std::byte> bytes;  // uninitialised; begins on a 64-byte boundary with 64 readable bytes before it
  std::shared_ptr<void> storage;
};
[[nodiscard]] OwnedBytes allocate_bytes(std::size_t size);

/// A tensor of the given bytes, copied only if they are not aligned for the type.
[[nodiscard]] Tensor make_tensor(DType dtype, std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> storage);

/// Tensors by name, in the order of names. A value: copying copies the index, not the data.
class ParameterMap {
 public:
  /// False, changing nothing, if the name is taken.
  bool insert(std::string name, Tensor tensor);
  /// A tensor that `make` computes when it is read, from any thread, so that it takes no memory before.
  bool insert(std::string name, std::function<Tensor()> make);
  /// nullopt if there is no such tensor.
  [[nodiscard]] std::optional<Tensor> read(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// All names that start with `prefix`, sorted. Costs no more than what it finds.
  [[nodiscard]] std::vector<std::string> names(std::string_view prefix = {}) const;
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] bool empty() const { return tensors_.empty(); }

 private:
  std::map<std::string, std::function<Tensor()>, std::less<>> tensors_;
};

}  // namespace redpoll::checkpoint
