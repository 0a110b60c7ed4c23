// GgufParser: fills a GgufFile from bytes that nobody has checked. Internal to checkpoint/.
#pragma once

#include <set>

#include "checkpoint/gguf/file.h"

namespace redpoll::checkpoint {

/// The container's codes for metadata values.
enum class GgufValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Bytes of a number or boolean; 0 for strings, arrays and unknown codes.
[[nodiscard]] int gguf_value_bytes(GgufValueType type);

/// Used once. Every length is compared with the bytes that are left before it is believed.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, GgufFile& file) : bytes_(bytes), file_(file) {}
  [[nodiscard]] Status run();

 private:
  // Where a tensor's data begins, relative to the data section, until the section's own start is known.
  struct Placement {
    std::size_t tensor;
    std::uint64_t offset;
    std::uint64_t size;
  };

  template <typename T>
  [[nodiscard]] Result<T> read(std::string_view what);
  [[nodiscard]] Result<std::string_view> read_text(std::string_view what);
  [[nodiscard]] Result<GgufValue> read_value(GgufValueType type, const std::string& key);
  [[nodiscard]] Result<GgufArray> read_array(const std::string& key, int depth);
  [[nodiscard]] Result<std::uint64_t> read_count(std::string_view what, std::uint64_t min_bytes_each);
  [[nodiscard]] Status read_metadata(std::uint64_t count);
  [[nodiscard]] Status read_tensor(std::set<std::string, std::less<>>& names);
  [[nodiscard]] Result<std::vector<std::int64_t>> read_shape(const std::string& name);
  [[nodiscard]] Status add_placement(const GgufTensor& tensor, std::uint64_t offset);
  [[nodiscard]] Status place_tensors(std::uint64_t alignment);

  [[nodiscard]] std::size_t left() const { return bytes_.size() - position_; }
  [[nodiscard]] std::unexpected<Error> corrupt(const std::string& what) const;

  std::span<const std::byte> bytes_;
  GgufFile& file_;
  std::size_t position_ = 0;
  std::vector<Placement> placements_;
};

}  // namespace redpoll::checkpoint
