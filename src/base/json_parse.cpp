// parse_json: Boost.JSON's grammar with differences from its ready-made parser, which rounds one number in ten to a
// neighbour of the right double, lets those that no double can hold become infinite, cannot refuse duplicate keys, and
// calls half a surrogate pair or a broken byte a syntax error.
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

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
class ValueBuilder {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the parser looks for these names.
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  // NOLINTEND(readability-identifier-naming)

  explicit ValueBuilder(DuplicateKeys duplicate_keys) : unique_keys_(duplicate_keys == DuplicateKeys::kRefuse) {}

  [[nodiscard]] json::value release() { return stack_.release(); }
  // What stopped the parser, if it was not the grammar.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool on_document_begin(json::error_code& /*error*/) {
    stack_.reset();
    return true;
  }
  bool on_document_end(json::error_code& /*error*/) { return true; }
  bool on_object_begin(json::error_code& /*error*/) {
    if (unique_keys_) keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t size, json::error_code& /*error*/) {
    if (unique_keys_) keys_.pop_back();
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(json::error_code& /*error*/) { return true; }
  bool on_array_end(std::size_t size, json::error_code& /*error*/) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    if (unique_keys_) key_ += std::string_view(part);
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view last_part, std::size_t /*size*/, json::error_code& error) {
    stack_.push_key(last_part);
    if (!unique_keys_) return true;
    key_ += std::string_view(last_part);
    std::string key = std::exchange(key_, {});
    if (keys_.back().contains(key)) {
      return stop("the key " + in_quotes(key) + " comes twice in one object", error);
    }
    keys_.back().insert(std::move(key));
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view last_part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_string(last_part);
    return true;
  }
  bool on_number_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
  bool on_int64(std::int64_t value, json::string_view /*text*/, json::error_code& /*error*/) {
    stack_.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, json::string_view /*text*/, json::error_code& /*error*/) {
    stack_.push_uint64(value);
    return true;
  }
  // The document is parsed in one piece, so `text` is the whole number.
  bool on_double(double /*rounded*/, json::string_view text, json::error_code& error) {
    const double value = nearest_double({text.data(), text.size()});
    if (!std::isfinite(value)) return stop("a number larger than a double can hold", error);
    stack_.push_double(value);
    return true;
  }
  bool on_bool(bool value, json::error_code& /*error*/) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(json::error_code& /*error*/) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
  bool on_comment(json::string_view /*text*/, json::error_code& /*error*/) { return true; }

 private:
  bool stop(std::string problem, json::error_code& error) {
    problem_ = std::move(problem);
    error = json::error::syntax;
    return false;
  }

  json::value_stack stack_;
  bool unique_keys_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects that are open
  std::string key_;                                    // the parts of one that is not complete
  std::string problem_;
};

std::unexpected<Error> malformed(std::size_t position, const std::string& problem) {
  return fail(ErrorCode::kInvalidArgument, "malformed JSON at byte " + std::to_string(position) + ": " + problem);
}

constexpr std::size_t kEscapeBytes = 6;  // of \uD800

// The number in an escape such as \uD800 at `position`; 0 if there is none.
unsigned unicode_escape(std::string_view text, std::size_t position) {
  if (position >= text.size() || !text.substr(position).starts_with("\\u")) return 0;
  // An escaped backslash with a u behind it is no escape.
  const std::string_view before = text.substr(0, position);
  const std::size_t backslashes = before.size() - (before.find_last_not_of('\\') + 1);
  if (backslashes % 2 == 1) return 0;
  const std::string_view digits = text.substr(position + 2, kEscapeBytes - 2);
  unsigned code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  return error == std::errc() && digits.size() == 4 && end == digits.data() + digits.size() ? code : 0;
}

bool is_leading_surrogate(unsigned code) { return code >= 0xD800 && code < 0xDC00; }
bool is_trailing_surrogate(unsigned code) { return code >= 0xDC00 && code < 0xE000; }

// Where the escape of half a surrogate pair stands that made the parser stop at `stopped`.
std::optional<std::size_t> find_lone_surrogate(std::string_view text, std::size_t stopped) {
  constexpr std::size_t kReach = 2 * kEscapeBytes + 2;  // it stops after the half, or within the escape that follows
  for (std::size_t position = stopped - std::min(kReach, stopped); position < stopped; ++position) {
    const unsigned code = unicode_escape(text, position);
    if (is_leading_surrogate(code) && !is_trailing_surrogate(unicode_escape(text, position + kEscapeBytes))) {
      return position;
    }
    const bool paired = position >= kEscapeBytes && is_leading_surrogate(unicode_escape(text, position - kEscapeBytes));
    if (is_trailing_surrogate(code) && !paired) return position;
  }
  return std::nullopt;
}

// A failure of the grammar in words that name its cause, where the parser's own would only say "syntax error".
std::unexpected<Error> explain(std::string_view text, std::size_t stopped, const json::error_code& error) {
  if (text.starts_with("\xEF\xBB\xBF")) return malformed(0, "a byte order mark; expected UTF-8 without one");
  if (const auto position = find_lone_surrogate(text, stopped)) {
    return malformed(*position,
                     std::string(text.substr(*position, kEscapeBytes)) + " is half of a surrogate pair, no character");
  }
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid < text.size() && valid <= stopped + 3 && stopped <= valid + 3) {
    return malformed(valid, "bytes that are not UTF-8");
  }
  return malformed(stopped, error.message());
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const JsonOptions& options) {
  json::parse_options parse_options;
  parse_options.max_depth = options.max_depth;
  json::basic_parser<ValueBuilder> parser(parse_options, options.duplicate_keys);
  json::error_code error;
  const std::size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (!error && consumed < text.size()) error = json::error::extra_data;
  if (!error) return parser.handler().release();
  if (!parser.handler().problem().empty()) return malformed(consumed, parser.handler().problem());
  return explain(text, consumed, error);
}

}  // namespace redpoll
