#include "checkpoint/gguf/file.h"

#include <cstring>
#include <limits>

#include "checkpoint/gguf/parser.h"

namespace redpoll::checkpoint {
namespace {

template <typename T>
double load_number(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

double GgufArray::number(std::uint64_t i) const {
  CHECK(is_number() && i < count, "number() of an array that has no such number");
  const auto size = static_cast<std::uint64_t>(gguf_value_bytes(static_cast<GgufValueType>(element_type)));
  const std::byte* at = packed.data() + i * size;
  switch (static_cast<GgufValueType>(element_type)) {
    case GgufValueType::kU8:
    case GgufValueType::kBool: return load_number<std::uint8_t>(at);
    case GgufValueType::kI8: return load_number<std::int8_t>(at);
    case GgufValueType::kU16: return load_number<std::uint16_t>(at);
    case GgufValueType::kI16: return load_number<std::int16_t>(at);
    case GgufValueType::kU32: return load_number<std::uint32_t>(at);
    case GgufValueType::kI32: return load_number<std::int32_t>(at);
    case GgufValueType::kF32: return load_number<float>(at);
    case GgufValueType::kU64: return load_number<std::uint64_t>(at);
    case GgufValueType::kI64: return load_number<std::int64_t>(at);
    case GgufValueType::kF64: return load_number<double>(at);
    default: return 0;
  }
}

bool GgufArray::is_text() const { return element_type == static_cast<std::uint32_t>(GgufValueType::kString); }

bool GgufArray::is_number() const { return gguf_value_bytes(static_cast<GgufValueType>(element_type)) > 0; }

std::unexpected<Error> GgufFile::wrong_type(std::string_view key, std::string_view expected) const {
  return fail(ErrorCode::kCorruptFile,
              name_ + ": metadata '" + std::string(key) + "': expected " + std::string(expected), std::string(key));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::optional<std::int64_t>> GgufFile::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string range = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  std::int64_t number = 0;
  if (const auto* unsigned_value = std::get_if<std::uint64_t>(value)) {
    if (*unsigned_value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return wrong_type(key, range + ", got " + std::to_string(*unsigned_value));
    }
    number = static_cast<std::int64_t>(*unsigned_value);
  } else if (const auto* signed_value = std::get_if<std::int64_t>(value)) {
    number = *signed_value;
  } else {
    return wrong_type(key, range);
  }
  if (number < min || number > max) return wrong_type(key, range + ", got " + std::to_string(number));
  return number;
}

Result<std::optional<double>> GgufFile::real(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<double>(value);
  if (number == nullptr) return wrong_type(key, "a floating-point number");
  return *number;
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) return wrong_type(key, "a boolean");
  return *flag;
}

Result<std::optional<std::string_view>> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return wrong_type(key, "a string");
  return *text;
}

Result<const GgufArray*> GgufFile::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) return wrong_type(key, "an array");
  return array;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> storage,
                                 std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  file.storage_ = std::move(storage);
  RETURN_IF_ERROR(GgufParser(bytes, file).run());
  return file;
}

}  // namespace redpoll::checkpoint
