// JSON on Boost.JSON: parsing with limits into an Error that says where, typed access to an object's fields that
// names the field at fault, and printing that any parser reads back unchanged. Objects keep their key order, which
// matters for tool schemas in prompts.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace redpoll {

namespace json = boost::json;

enum class DuplicateKeys { kLastWins, kRefuse };

struct JsonOptions {
  std::size_t max_depth = 64;
  /// Which value a reader takes is anybody's guess, so what comes over the network should be refused; files and what a
  /// model wrote are read as most readers do.
  DuplicateKeys duplicate_keys = DuplicateKeys::kLastWins;
};

/// Parses one JSON document. Depth is limited (a depth bomb is an Error), lone surrogates, invalid UTF-8 and a byte
/// order mark are refused, and so are NaN, Infinity and numbers larger than any double; others become the nearest
/// double, or an integer when written as one that fits.
[[nodiscard]] Result<json::value> parse_json(std::string_view text, const JsonOptions& options = {});

/// Compact text. Doubles print with the fewest digits that read back equal, in Python's form ("0.7", "1.0", "1e-07");
/// NaN and infinities, which JSON lacks, print as null. Strings must be valid UTF-8.
[[nodiscard]] std::string dump_json(const json::value& value);

/// "null", "boolean", "number", "string", "array", "object": for messages.
[[nodiscard]] std::string_view json_kind_name(const json::value& value);

/// Reads the fields of one object and remembers which were asked for, so that the rest can be reported. A field that
/// is absent or null reads as nullopt; one of the wrong type or out of range is an Error with `param` set to its
/// path ("messages[0].role") and a message that says expected and got. Keeps a reference to the object.
class JsonReader {
 public:
  explicit JsonReader(const json::object& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  [[nodiscard]] Result<std::optional<bool>> optional_bool(std::string_view name);
  /// Whole numbers only; 3.0 is accepted as 3, 3.5 is refused.
  [[nodiscard]] Result<std::optional<std::int64_t>> optional_int(std::string_view name, std::int64_t min,
                                                                 std::int64_t max);
  [[nodiscard]] Result<std::optional<double>> optional_double(std::string_view name, double min, double max);
  [[nodiscard]] Result<std::optional<std::string>> optional_string(std::string_view name);
  /// The value whatever its type, or nullptr when absent or null.
  [[nodiscard]] const json::value* optional_value(std::string_view name);
  [[nodiscard]] Result<const json::array*> optional_array(std::string_view name);    // nullptr when absent
  [[nodiscard]] Result<const json::object*> optional_object(std::string_view name);  // nullptr when absent

  [[nodiscard]] Result<std::string> required_string(std::string_view name);
  [[nodiscard]] Result<const json::array*> required_array(std::string_view name);

  /// "messages[0].role" for name "role" in the object at "messages[0]".
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] const json::object& object() const { return object_; }
  /// Paths of the fields that no accessor has asked for, in the object's order, then those of nested objects.
  [[nodiscard]] std::vector<std::string> unread_fields() const;
  /// Takes over the unread fields of an object inside this one. To be called when that one has been read.
  void note_unread(const JsonReader& nested);
  /// Marks a field as known without reading it.
  void ignore(std::string_view name) { (void)optional_value(name); }

 private:
  [[nodiscard]] std::unexpected<Error> wrong_type(std::string_view name, std::string_view expected,
                                                  const json::value& got) const;

  const json::object& object_;
  std::string path_;
  std::unordered_set<std::string> read_;
  std::vector<std::string> unread_inside_;
};

}  // namespace redpoll
