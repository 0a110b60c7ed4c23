// parse_json: Boost.JSON's grammar with two differences from its ready-made parser, which rounds one number in ten to
// a neighbour of the right double and lets those that no double can hold become infinite.
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/json.h"

namespace redpoll {
namespace {

// The double nearest to a number's text, infinite when the number is too large.
double nearest_double(std::string_view text) {
#ifdef __cpp_lib_to_chars
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{}) return value;
#endif
  return std::strtod(std::string(text).c_str(), nullptr);  // also the limits, for which from_chars gives no value
}

// The events of boost::json::basic_parser, put together on a stack of values. Returning false stops the parser.
struct ValueBuilder {
  // NOLINTBEGIN(readability-identifier-naming): the parser looks for these names.
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  // NOLINTEND(readability-identifier-naming)

  json::value_stack stack;
  bool number_too_large = false;

  bool on_document_begin(json::error_code& /*error*/) {
    stack.reset();
    return true;
  }
  bool on_document_end(json::error_code& /*error*/) { return true; }
  bool on_object_begin(json::error_code& /*error*/) { return true; }
  bool on_object_end(std::size_t size, json::error_code& /*error*/) {
    stack.push_object(size);
    return true;
  }
  bool on_array_begin(json::error_code& /*error*/) { return true; }
  bool on_array_end(std::size_t size, json::error_code& /*error*/) {
    stack.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack.push_chars(part);
    return true;
  }
  bool on_key(json::string_view last_part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack.push_key(last_part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack.push_chars(part);
    return true;
  }
  bool on_string(json::string_view last_part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack.push_string(last_part);
    return true;
  }
  bool on_number_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
  bool on_int64(std::int64_t value, json::string_view /*text*/, json::error_code& /*error*/) {
    stack.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, json::string_view /*text*/, json::error_code& /*error*/) {
    stack.push_uint64(value);
    return true;
  }
  // The document is parsed in one piece, so `text` is the whole number.
  bool on_double(double /*rounded*/, json::string_view text, json::error_code& error) {
    const double value = nearest_double({text.data(), text.size()});
    if (!std::isfinite(value)) {
      number_too_large = true;
      error = json::error::exponent_overflow;
      return false;
    }
    stack.push_double(value);
    return true;
  }
  bool on_bool(bool value, json::error_code& /*error*/) {
    stack.push_bool(value);
    return true;
  }
  bool on_null(json::error_code& /*error*/) {
    stack.push_null();
    return true;
  }
  bool on_comment_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
  bool on_comment(json::string_view /*text*/, json::error_code& /*error*/) { return true; }
};

}  // namespace

Result<json::value> parse_json(std::string_view text, std::size_t max_depth) {
  json::parse_options options;
  options.max_depth = max_depth;
  json::basic_parser<ValueBuilder> parser(options);
  json::error_code error;
  std::size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (!error && consumed < text.size()) error = json::error::extra_data;
  if (error) {
    const bool too_large = parser.handler().number_too_large;
    return fail(ErrorCode::kInvalidArgument,
                "malformed JSON at byte " + std::to_string(consumed) + ": " +
                    (too_large ? "a number larger than a double can hold" : error.message()));
  }
  return parser.handler().stack.release();
}

}  // namespace redpoll
