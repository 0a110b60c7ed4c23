// Python's spelling of a JSON value. Chat templates that print the arguments of earlier calls with Jinja's `string`
// show it to the model, which answers alike: {'wanted': True, 'names': ["it's"], 'limit': None}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace redpoll::text {

/// The JSON text of the value that Python's repr() prints as `text`, which must be valid UTF-8. Nothing where there is
/// a token that is neither Python's nor JSON's, such as a name other than True, False and None; whether the tokens make
/// a value is left to who parses the text.
[[nodiscard]] std::optional<std::string> python_literal_as_json(std::string_view text);

}  // namespace redpoll::text
