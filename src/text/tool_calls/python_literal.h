// Python's spelling of a JSON value. Chat templates that print the arguments of earlier calls with Jinja's `string`
// show it to the model, which answers alike: {'wanted': True, 'names': ["it's"], 'limit': None}.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"

namespace redpoll::text {

/// The value that Python's repr() prints as `text`, which must be valid UTF-8. Nothing for what is neither that nor
/// JSON: names other than True, False and None, tuples, numbers that JSON lacks.
[[nodiscard]] std::optional<json::value> read_python_literal(std::string_view text);

}  // namespace redpoll::text
