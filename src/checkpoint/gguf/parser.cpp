#include "checkpoint/gguf/parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "checkpoint/tensor.h"

namespace redpoll::checkpoint {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1 << 20;
constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kMinValueBytes = 8 + 4 + 1;           // empty key, type, one byte
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, rank, one extent, type, offset

}  // namespace

int gguf_value_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool: return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16: return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32: return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64: return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray: return 0;
  }
  return 0;
}

std::unexpected<Error> GgufParser::corrupt(const std::string& what) const {
  return fail(ErrorCode::kCorruptFile, file_.name_ + ": " + what);
}

template <typename T>
Result<T> GgufParser::read(std::string_view what) {
  if (left() < sizeof(T)) {
    return corrupt("truncated: the file ends at byte " + std::to_string(bytes_.size()) + ", within " +
                   std::string(what));
  }
  T value;
  std::memcpy(&value, bytes_.data() + position_, sizeof value);
  position_ += sizeof value;
  return value;
}

Result<std::uint64_t> GgufParser::read_count(std::string_view what, std::uint64_t min_bytes_each) {
  ASSIGN_OR_RETURN(const std::uint64_t count, read<std::uint64_t>(what));
  if (count > left() / min_bytes_each) {
    return corrupt("truncated or broken: " + std::string(what) + " is " + std::to_string(count) +
                   ", which needs more than the " + std::to_string(left()) + " bytes that follow");
  }
  return count;
}

Result<std::string_view> GgufParser::read_text(std::string_view what) {
  ASSIGN_OR_RETURN(const std::uint64_t length, read_count("the length of " + std::string(what), 1));
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + position_), length);
  position_ += length;
  return text;
}

Result<GgufArray> GgufParser::read_array(const std::string& key, int depth) {
  const std::string what = "metadata '" + key + "'";
  if (depth > kMaxArrayDepth) return corrupt(what + " nests arrays deeper than " + std::to_string(kMaxArrayDepth));
  GgufArray array;
  ASSIGN_OR_RETURN(array.element_type, read<std::uint32_t>(what));
  const auto type = static_cast<GgufValueType>(array.element_type);
  const auto element_bytes = static_cast<std::uint64_t>(gguf_value_bytes(type));
  const bool is_text = type == GgufValueType::kString;
  if (element_bytes == 0 && !is_text && type != GgufValueType::kArray) {
    return corrupt(what + " is an array of the unknown type " + std::to_string(array.element_type));
  }
  const std::uint64_t min_bytes = element_bytes > 0 ? element_bytes : is_text ? 8 : 12;
  ASSIGN_OR_RETURN(array.count, read_count("the count of " + what, min_bytes));
  if (element_bytes > 0) {
    array.packed = bytes_.subspan(position_, array.count * element_bytes);
    position_ += array.packed.size();
    return array;
  }
  if (is_text) array.texts.reserve(array.count);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    if (is_text) {
      ASSIGN_OR_RETURN(const std::string_view text, read_text(what));
      array.texts.push_back(text);
    } else {
      ASSIGN_OR_RETURN(GgufArray nested, read_array(key, depth + 1));
      array.arrays.push_back(std::move(nested));
    }
  }
  return array;
}

Result<GgufValue> GgufParser::read_value(GgufValueType type, const std::string& key) {
  const std::string what = "metadata '" + key + "'";
  const auto widen = [](auto to, auto result) -> Result<GgufValue> {
    if (!result) return std::unexpected(std::move(result).error());
    return GgufValue(static_cast<decltype(to)>(*result));
  };
  switch (type) {
    case GgufValueType::kU8: return widen(std::uint64_t{}, read<std::uint8_t>(what));
    case GgufValueType::kU16: return widen(std::uint64_t{}, read<std::uint16_t>(what));
    case GgufValueType::kU32: return widen(std::uint64_t{}, read<std::uint32_t>(what));
    case GgufValueType::kU64: return widen(std::uint64_t{}, read<std::uint64_t>(what));
    case GgufValueType::kI8: return widen(std::int64_t{}, read<std::int8_t>(what));
    case GgufValueType::kI16: return widen(std::int64_t{}, read<std::int16_t>(what));
    case GgufValueType::kI32: return widen(std::int64_t{}, read<std::int32_t>(what));
    case GgufValueType::kI64: return widen(std::int64_t{}, read<std::int64_t>(what));
    case GgufValueType::kF32: return widen(double{}, read<float>(what));
    case GgufValueType::kF64: return widen(double{}, read<double>(what));
    case GgufValueType::kBool: return widen(bool{}, read<std::uint8_t>(what));
    case GgufValueType::kString: return widen(std::string_view{}, read_text(what));
    case GgufValueType::kArray: {
      ASSIGN_OR_RETURN(GgufArray array, read_array(key, 1));
      return GgufValue(std::move(array));
    }
  }
  return corrupt(what + " has the unknown type " + std::to_string(static_cast<std::uint32_t>(type)));
}

Status GgufParser::read_metadata(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view key_text, read_text("a metadata key"));
    const std::string key(key_text);
    ASSIGN_OR_RETURN(const std::uint32_t type, read<std::uint32_t>("metadata '" + key + "'"));
    ASSIGN_OR_RETURN(GgufValue value, read_value(static_cast<GgufValueType>(type), key));
    if (!file_.metadata_.try_emplace(key, std::move(value)).second) {
      return corrupt("metadata '" + key + "' is there twice");
    }
  }
  return {};
}

Result<std::vector<std::int64_t>> GgufParser::read_shape(const std::string& name) {
  const std::string what = "the description of tensor '" + name + "'";
  ASSIGN_OR_RETURN(const std::uint32_t rank, read<std::uint32_t>(what));
  if (rank < 1 || rank > kMaxDimensions) {
    return corrupt("tensor '" + name + "' has " + std::to_string(rank) + " dimensions, expected 1 to 4");
  }
  std::vector<std::int64_t> shape;
  for (std::uint32_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(const std::uint64_t extent, read<std::uint64_t>(what));
    if (extent < 1 || extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return corrupt("tensor '" + name + "' has an extent of " + std::to_string(extent));
    }
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  std::ranges::reverse(shape);  // the file has the fastest dimension first
  return shape;
}

Status GgufParser::add_placement(const GgufTensor& tensor, std::uint64_t offset) {
  const auto block = gguf_block(tensor.type);
  if (!block) return {};  // refused by whoever needs it, with its name
  if (tensor.shape.back() % block->elements != 0) {
    return corrupt("tensor '" + tensor.name + "' has rows of " + std::to_string(tensor.shape.back()) +
                   " elements, which blocks of " + std::to_string(block->elements) + " do not fill");
  }
  const auto elements = array_bytes(DType::kU8, tensor.shape);
  const auto block_elements = static_cast<std::uint64_t>(block->elements);
  const auto block_bytes = static_cast<std::uint64_t>(block->bytes);
  if (!elements || *elements / block_elements > std::numeric_limits<std::uint64_t>::max() / block_bytes) {
    return corrupt("tensor '" + tensor.name + "' of shape " + shape_text(tensor.shape) +
                   " has more bytes than there are numbers");
  }
  placements_.push_back({file_.tensors_.size(), offset, *elements / block_elements * block_bytes});
  return {};
}

Status GgufParser::read_tensor(std::set<std::string, std::less<>>& names) {
  GgufTensor tensor;
  ASSIGN_OR_RETURN(const std::string_view name, read_text("a tensor's name"));
  tensor.name = name;
  ASSIGN_OR_RETURN(tensor.shape, read_shape(tensor.name));
  ASSIGN_OR_RETURN(tensor.type, read<std::uint32_t>("the description of tensor '" + tensor.name + "'"));
  ASSIGN_OR_RETURN(const std::uint64_t offset, read<std::uint64_t>("the description of tensor '" + tensor.name + "'"));
  if (!names.insert(tensor.name).second) return corrupt("tensor '" + tensor.name + "' is there twice");
  RETURN_IF_ERROR(add_placement(tensor, offset));
  file_.tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufParser::place_tensors(std::uint64_t alignment) {
  std::ranges::sort(placements_, {}, &Placement::offset);
  const std::uint64_t data_start = (position_ + alignment - 1) / alignment * alignment;
  std::uint64_t previous_end = 0;
  for (const Placement& placement : placements_) {
    GgufTensor& tensor = file_.tensors_[placement.tensor];
    if (placement.offset % alignment != 0) {
      return corrupt("tensor '" + tensor.name + "' is at " + std::to_string(placement.offset) +
                     ", which is not a multiple of the alignment " + std::to_string(alignment));
    }
    if (placement.offset < previous_end) {
      return corrupt("tensor '" + tensor.name + "' at " + std::to_string(placement.offset) +
                     " overlaps the one before it, which ends at " + std::to_string(previous_end));
    }
    if (placement.size > std::numeric_limits<std::uint64_t>::max() - placement.offset) {
      return corrupt("tensor '" + tensor.name + "' ends beyond all numbers");
    }
    previous_end = placement.offset + placement.size;
  }
  const std::uint64_t present = bytes_.size() > data_start ? bytes_.size() - data_start : 0;
  if (previous_end > present) {
    const bool is_countable = previous_end <= std::numeric_limits<std::uint64_t>::max() - data_start;
    return corrupt("truncated: its tensors need " +
                   (is_countable ? std::to_string(data_start + previous_end) + " bytes" : "more bytes than exist") +
                   ", the file has " + std::to_string(bytes_.size()));
  }
  for (const Placement& placement : placements_) {
    file_.tensors_[placement.tensor].bytes = bytes_.subspan(data_start + placement.offset, placement.size);
  }
  return {};
}

Status GgufParser::run() {
  constexpr std::string_view kMagic = "GGUF";
  if (bytes_.size() < kMagic.size() || std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
    return corrupt("not a GGUF file: it does not begin with 'GGUF'");
  }
  position_ = kMagic.size();
  ASSIGN_OR_RETURN(const std::uint32_t version, read<std::uint32_t>("the header"));
  if (version != 2 && version != 3) {
    const bool is_swapped = version != 0 && (version & 0xFFFFU) == 0;
    return fail(ErrorCode::kUnsupported,
                file_.name_ + ": " +
                    (is_swapped ? "big-endian GGUF files are not supported"
                                : "GGUF version " + std::to_string(version) + " is not supported, expected 2 or 3"));
  }
  ASSIGN_OR_RETURN(const std::uint64_t num_tensors, read_count("the number of tensors", kMinTensorBytes));
  ASSIGN_OR_RETURN(const std::uint64_t num_values, read_count("the number of metadata values", kMinValueBytes));
  RETURN_IF_ERROR(read_metadata(num_values));

  ASSIGN_OR_RETURN(const auto parts, file_.integer("split.count", 0, std::numeric_limits<std::int64_t>::max()));
  if (parts.value_or(1) > 1) {
    return fail(ErrorCode::kUnsupported,
                file_.name_ + ": one of " + std::to_string(*parts) + " parts; merge a split model into one file first");
  }
  ASSIGN_OR_RETURN(const auto alignment, file_.integer("general.alignment", 1, kMaxAlignment));
  const auto alignment_value = static_cast<std::uint64_t>(alignment.value_or(kDefaultAlignment));
  if (!std::has_single_bit(alignment_value) || alignment_value < 8) {
    return corrupt("'general.alignment' is " + std::to_string(alignment_value) + ", expected a power of two from 8");
  }
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < num_tensors; ++i) RETURN_IF_ERROR(read_tensor(names));
  return place_tensors(alignment_value);
}

}  // namespace redpoll::checkpoint
