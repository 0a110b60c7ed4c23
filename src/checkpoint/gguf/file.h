// Reading of the GGUF container, versions 2 and 3: metadata and tensor descriptions as views of the file's bytes. What
// the metadata means is known in model.h and tokenizer.h. Internal to checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace redpoll::checkpoint {

/// Element types of the container's tensors, with the numbers it uses; those named are the ones we read.
enum class GgufType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ40 = 2,
  kQ41 = 3,
  kQ50 = 6,
  kQ51 = 7,
  kQ80 = 8,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kBF16 = 30,
  kMxfp4 = 39,
};

/// The name of any type the format has had, known to us or not: "Q4_K", "IQ2_XXS", "type 77".
[[nodiscard]] std::string gguf_type_name(std::uint32_t type);

/// Elements are stored in blocks along the row: `elements` of them in `bytes`.
struct GgufBlock {
  int elements = 0;
  int bytes = 0;

  friend bool operator==(const GgufBlock&, const GgufBlock&) = default;
};
/// nullopt for types that we do not read.
[[nodiscard]] std::optional<GgufBlock> gguf_block(std::uint32_t type);

struct GgufArray;

/// Integers of all widths widen to 64 bits, floats to double. Texts are views of the file.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

/// Arrays of numbers and booleans stay packed in the file; read them with `number`.
struct GgufArray {
  std::uint32_t element_type = 0;  // the container's code
  std::uint64_t count = 0;
  std::span<const std::byte> packed;  // of numbers and booleans
  std::vector<std::string_view> texts;
  std::vector<GgufArray> arrays;

  /// Element i of an array of numbers or booleans, i < count.
  [[nodiscard]] double number(std::uint64_t i) const;
  [[nodiscard]] bool is_text() const;
  [[nodiscard]] bool is_number() const;
};

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;
  std::vector<std::int64_t> shape;   // outermost first, as everywhere else in this program
  std::span<const std::byte> bytes;  // empty for types that we do not read
};

/// One parsed file. Holds views of the bytes; `storage` keeps them alive.
class GgufFile {
 public:
  /// kCorruptFile for whatever contradicts itself, with expected and got; kUnsupported for other versions, big-endian
  /// files and one part of a split model. Counts are checked against the bytes left before anything is allocated.
  [[nodiscard]] static Result<GgufFile> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> storage,
                                              std::string name);

  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// nullopt when absent; kCorruptFile, naming the key, when of another type or out of range.
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view key, std::int64_t min,
                                                            std::int64_t max) const;
  [[nodiscard]] Result<std::optional<double>> real(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::string_view>> text(std::string_view key) const;
  /// nullptr when absent.
  [[nodiscard]] Result<const GgufArray*> array(std::string_view key) const;

  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::shared_ptr<const void>& storage() const { return storage_; }

 private:
  friend class GgufParser;
  GgufFile() = default;
  [[nodiscard]] std::unexpected<Error> wrong_type(std::string_view key, std::string_view expected) const;

  std::string name_;
  std::shared_ptr<const void> storage_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace redpoll::checkpoint
