#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/json.h"

namespace redpoll::checkpoint {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kMaxDimensions = 32;

std::unexpected<Error> corrupt(const std::string& file, const std::string& what) {
  return fail(ErrorCode::kCorruptFile, file + ": " + what);
}

struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;  // in the data section
  std::uint64_t end;
};

std::size_t count_members(const json::value& value) {
  std::size_t count = 0;
  if (const json::object* object = value.if_object()) {
    count += object->size();
    for (const auto& [key, member] : *object) count += count_members(member);
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& element : *array) count += count_members(element);
  }
  return count;
}

// The JSON parser lets the last of two equal keys win, so a file could say one thing to us and another to others. In
// valid JSON every member has exactly one colon outside of strings.
bool has_duplicate_keys(std::string_view text, const json::value& parsed) {
  std::size_t colons = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') ++i;
    if (!in_string && text[i] == ':') ++colons;
  }
  return colons != count_members(parsed);
}

std::optional<std::uint64_t> as_uint(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  return std::nullopt;
}

Result<std::vector<std::int64_t>> read_shape(const json::value* value, const std::string& file,
                                             const std::string& name) {
  const json::array* array = value == nullptr ? nullptr : value->if_array();
  if (array == nullptr || array->size() > kMaxDimensions) {
    return corrupt(
        file, "tensor '" + name + "' needs a 'shape' of at most " + std::to_string(kMaxDimensions) + " whole numbers");
  }
  std::vector<std::int64_t> shape;
  for (const json::value& element : *array) {
    const auto extent = as_uint(element);
    if (!extent || *extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return corrupt(file,
                     "tensor '" + name + "' has an extent that is not a whole number from 0: " + dump_json(element));
    }
    shape.push_back(static_cast<std::int64_t>(*extent));
  }
  return shape;
}

Result<Entry> read_entry(const std::string& file, const std::string& name, const json::value& value,
                         std::uint64_t data_bytes) {
  const json::object* object = value.if_object();
  if (object == nullptr) return corrupt(file, "the header's entry '" + name + "' is not an object");
  const json::value* dtype_value = object->if_contains("dtype");
  if (dtype_value == nullptr || !dtype_value->is_string()) {
    return corrupt(file, "tensor '" + name + "' needs a 'dtype' that is a string");
  }
  const std::string dtype_text(dtype_value->get_string());
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) return corrupt(file, "tensor '" + name + "' has the unknown dtype '" + dtype_text + "'");
  ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, read_shape(object->if_contains("shape"), file, name));

  const json::value* offsets_value = object->if_contains("data_offsets");
  const json::array* offsets = offsets_value == nullptr ? nullptr : offsets_value->if_array();
  const auto begin = offsets != nullptr && offsets->size() == 2 ? as_uint((*offsets)[0]) : std::nullopt;
  const auto end = begin ? as_uint((*offsets)[1]) : std::nullopt;
  if (!end) return corrupt(file, "tensor '" + name + "' needs 'data_offsets' of two whole numbers");
  if (*begin > *end || *end > data_bytes) {
    return corrupt(file, "tensor '" + name + "' lies at bytes " + std::to_string(*begin) + " to " +
                             std::to_string(*end) + " of a data section of " + std::to_string(data_bytes));
  }
  const auto needed = array_bytes(*dtype, shape);
  if (!needed || *needed != *end - *begin) {
    return corrupt(file, "tensor '" + name + "' of shape " + shape_text(shape) + " and dtype " + dtype_text +
                             (needed ? " needs " + std::to_string(*needed) + " bytes, has "
                                     : " needs more bytes than there are numbers, has ") +
                             std::to_string(*end - *begin));
  }
  return Entry{name, *dtype, std::move(shape), *begin, *end};
}

// Byte ranges must follow each other and fill the file: whatever lies between tensors could carry anything.
Status check_layout(std::vector<Entry>& entries, const std::string& file, std::uint64_t data_bytes) {
  std::ranges::sort(
      entries, [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      return corrupt(file,
                     "tensor '" + entry.name + "' begins at byte " + std::to_string(entry.begin) + ", which " +
                         (entry.begin < expected ? "overlaps the one before it, ending at " : "leaves a gap after ") +
                         std::to_string(expected));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    return corrupt(
        file, "tensors fill " + std::to_string(expected) + " bytes of a data section of " + std::to_string(data_bytes));
  }
  return {};
}

Result<json::value> read_header(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    return corrupt(file, "too short for a safetensors file: " + std::to_string(bytes.size()) + " bytes");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    return corrupt(file, "its header claims " + std::to_string(length) + " bytes, more than the limit of " +
                             std::to_string(kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    return corrupt(file, "truncated: its header claims " + std::to_string(length) + " bytes, the file has " +
                             std::to_string(bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  auto parsed = parse_json(text, {.max_depth = 8});
  if (!parsed) return corrupt(file, "header: " + parsed.error().message);
  if (!parsed->is_object()) return corrupt(file, "header: expected an object");
  if (has_duplicate_keys(text, *parsed)) return corrupt(file, "header: a name is there twice");
  return parsed;
}

}  // namespace

Status read_safetensors(std::span<const std::byte> bytes, const std::shared_ptr<const void>& storage,
                        const std::string& name, ParameterMap& parameters) {
  ASSIGN_OR_RETURN(const json::value header, read_header(bytes, name));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);

  std::vector<Entry> entries;
  for (const auto& [key, value] : header.get_object()) {
    if (key == "__metadata__") continue;
    ASSIGN_OR_RETURN(Entry entry, read_entry(name, std::string(key), value, data.size()));
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(check_layout(entries, name, data.size()));
  for (Entry& entry : entries) {
    Tensor tensor =
        make_tensor(entry.dtype, std::move(entry.shape), data.subspan(entry.begin, entry.end - entry.begin), storage);
    if (!parameters.insert(entry.name, std::move(tensor))) {
      return corrupt(name, "tensor '" + entry.name + "' is in another file of the model too");
    }
  }
  return {};
}

}  // namespace redpoll::checkpoint
