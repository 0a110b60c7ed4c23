#include "cli/flag_values.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/text.h"

namespace redpoll::cli {
namespace {

std::optional<double> read_number(std::string_view text) {
  // What strtod would accept besides decimal numbers is spelled with other characters: "0x10", " 1", "nan".
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  const std::string terminated(text);
  char* end = nullptr;
  const double value = std::strtod(terminated.c_str(), &end);
  return end == terminated.c_str() + terminated.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_whole(std::string_view text, WholeRange range) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.min || value > range.max) {
    return fail(ErrorCode::kInvalidArgument, "expected a whole number from " + std::to_string(range.min) + " to " +
                                                 std::to_string(range.max) + ", got " + shown_value(text));
  }
  return value;
}

Result<double> parse_number(std::string_view text, Range range) {
  const std::optional<double> value = read_number(text);
  if (!value || !(*value >= range.min && *value <= range.max)) {
    return fail(ErrorCode::kInvalidArgument, "expected a number from " + number_text(range.min) + " to " +
                                                 number_text(range.max) + ", got " + shown_value(text));
  }
  return *value;
}

Result<bool> parse_switch(std::string_view text) {
  constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "1"};
  constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "0"};
  for (const std::string_view word : kTrue) {
    if (text == word) return true;
  }
  for (const std::string_view word : kFalse) {
    if (text == word) return false;
  }
  return fail(ErrorCode::kInvalidArgument, "expected true or false, got " + shown_value(text));
}

std::string number_text(double value) {
  std::array<char, 400> buffer;  // the largest double has 309 digits
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return error == std::errc() ? std::string(buffer.data(), end) : "?";
}

std::string shown_value(std::string_view text) {
  if (text.empty()) return "nothing";
  if (read_number(text)) return std::string(text);
  return in_quotes(text);
}

}  // namespace redpoll::cli
