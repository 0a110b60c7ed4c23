#include "text/tool_calls/python_literal.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/json.h"
#include "base/utf8.h"

namespace redpoll::text {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_in_number(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E'; }

// Writes the literal as JSON, token by token.
class JsonWriter {
 public:
  explicit JsonWriter(std::string_view text) : rest_(text) {}

  std::optional<std::string> write() {
    while (!rest_.empty()) {
      if (!write_token()) return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  bool write_token() {
    const char first = rest_.front();
    if (first == '\'' || first == '"') return write_string();
    if (is_letter(first)) return write_name();
    if (is_in_number(first)) {
      out_ += take_while(is_in_number);
      return true;
    }
    constexpr std::string_view kPunctuation = "[]{},: \t\r\n";
    if (kPunctuation.find(first) == std::string_view::npos) return false;
    out_ += first;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view take_while(bool (*belongs)(char)) {
    const auto end = std::ranges::find_if_not(rest_, belongs);
    return take(static_cast<std::size_t>(end - rest_.begin()));
  }

  std::string_view take(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  bool write_name() {
    const std::string_view name = take_while(is_letter);
    if (name == "True") {
      out_ += "true";
    } else if (name == "False") {
      out_ += "false";
    } else if (name == "None") {
      out_ += "null";
    } else {
      return false;
    }
    return true;
  }

  bool write_string() {
    const char quote = take(1).front();
    std::string text;
    for (;;) {
      const std::size_t length = rest_.find_first_of(quote == '"' ? "\"\\" : "'\\");
      if (length == std::string_view::npos) return false;
      text += take(length);
      if (take(1).front() == quote) break;
      if (!read_escape(text)) return false;
    }
    out_ += dump_json(json::value(text));
    return true;
  }

  bool read_escape(std::string& text) {
    if (rest_.empty()) return false;
    const char kind = take(1).front();
    switch (kind) {
      case 'n': text += '\n'; return true;
      case 'r': text += '\r'; return true;
      case 't': text += '\t'; return true;
      case 'x': return read_code_point(2, text);
      case 'u': return read_code_point(4, text);
      case 'U': return read_code_point(8, text);
      default: text += kind; return kind == '\\' || kind == '\'' || kind == '"';
    }
  }

  bool read_code_point(std::size_t num_digits, std::string& text) {
    const std::string_view digits = take(num_digits);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool is_number = error == std::errc() && digits.size() == num_digits && end == digits.data() + num_digits;
    const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (!is_number || is_surrogate || code > 0x10FFFF) return false;
    append_utf8(text, static_cast<char32_t>(code));
    return true;
  }

  std::string_view rest_;
  std::string out_;
};

}  // namespace

std::optional<std::string> python_literal_as_json(std::string_view text) { return JsonWriter(text).write(); }

}  // namespace redpoll::text
