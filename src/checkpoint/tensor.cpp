#include "checkpoint/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>

namespace redpoll::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are read in place and are little-endian");

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array<DTypeFacts, 22> kDTypes = {{
    {DType::kBool, "BOOL", 8},
    {DType::kF4, "F4", 4},
    {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6},
    {DType::kU8, "U8", 8},
    {DType::kI8, "I8", 8},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E5M2, "F8_E5M2", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
    {DType::kI16, "I16", 16},
    {DType::kU16, "U16", 16},
    {DType::kF16, "F16", 16},
    {DType::kBF16, "BF16", 16},
    {DType::kI32, "I32", 32},
    {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},
    {DType::kC64, "C64", 64},
    {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},
    {DType::kU64, "U64", 64},
}};

// The table is in the order of the enumerators.
const DTypeFacts& facts(DType dtype) {
  const DTypeFacts& row = kDTypes[static_cast<std::size_t>(dtype)];
  CHECK(row.dtype == dtype, "the table of types is out of order");
  return row;
}

}  // namespace

std::string_view dtype_name(DType dtype) { return facts(dtype).name; }

int dtype_bits(DType dtype) { return facts(dtype).bits; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeFacts& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

std::optional<std::uint64_t> array_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::uint64_t elements = 1;
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      is_empty = true;  // but go on: a negative extent may follow
      continue;
    }
    if (elements > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(extent)) return std::nullopt;
    elements *= static_cast<std::uint64_t>(extent);
  }
  if (is_empty) return 0;
  const auto bits = static_cast<std::uint64_t>(dtype_bits(dtype));
  if (elements > std::numeric_limits<std::uint64_t>::max() / bits) return std::nullopt;
  if (elements * bits % 8 != 0) return std::nullopt;
  return elements * bits / 8;
}

OwnedBytes allocate_bytes(std::size_t size) {
  // MLX adopts foreign memory without a copy only if its own header fits before it, hence the readable bytes in front.
  constexpr std::align_val_t kAlignment{64};
  constexpr std::size_t kFront = 64;
  auto* memory = static_cast<std::byte*>(::operator new(kFront + size, kAlignment));
  std::shared_ptr<void> storage(memory, [](void* p) { ::operator delete(p, std::align_val_t{64}); });
  return {{memory + kFront, size}, std::move(storage)};
}

Tensor make_tensor(DType dtype, std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> storage) {
  const auto alignment = static_cast<std::uintptr_t>(std::max(1, dtype_bits(dtype) / 8));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
    const OwnedBytes copy = allocate_bytes(bytes.size());
    // Not std::ranges::copy, which in gcc 12 copies constant bytes one by one.
    std::copy(bytes.begin(), bytes.end(), copy.bytes.begin());
    bytes = copy.bytes;
    storage = copy.storage;
  }
  return {dtype, std::move(shape), bytes, std::move(storage)};
}

bool ParameterMap::insert(std::string name, Tensor tensor) {
  return insert(std::move(name), [tensor = std::move(tensor)] { return tensor; });
}

bool ParameterMap::insert(std::string name, std::function<Tensor()> make) {
  return tensors_.emplace(std::move(name), std::move(make)).second;
}

std::optional<Tensor> ParameterMap::read(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  return found->second();
}

std::vector<std::string> ParameterMap::names(std::string_view prefix) const {
  std::vector<std::string> names;
  for (auto at = tensors_.lower_bound(prefix); at != tensors_.end() && at->first.starts_with(prefix); ++at) {
    names.push_back(at->first);
  }
  return names;
}

}  // namespace redpoll::checkpoint
