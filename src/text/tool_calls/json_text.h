// JSON text as a model wrote it, passed on without a way through values, on which long numbers would lose digits and
// keys that come twice would become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace redpoll::text {

/// Without the white space around tokens. Strings, numbers and the order of keys stay as they are written.
[[nodiscard]] std::string compact_json(std::string_view json);

struct JsonMember {
  std::string key;  // without escapes
  std::string_view value;
};

/// The members of an object in the order of its text, which must be valid and compact, and outlive them.
[[nodiscard]] std::vector<JsonMember> members_of(std::string_view object);

}  // namespace redpoll::text
