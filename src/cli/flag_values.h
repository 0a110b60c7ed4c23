// Values as text, from wherever they come: numbers in a range, switches. Messages say what was expected and what was
// got, and leave it to the caller to name the flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace redpoll::cli {

struct WholeRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};
struct Range {
  double min = 0;
  double max = 0;
};

/// Decimal digits with an optional minus sign, nothing around them.
[[nodiscard]] Result<std::int64_t> parse_whole(std::string_view text, WholeRange range);
/// A decimal number; NaN and infinities are out of every range.
[[nodiscard]] Result<double> parse_number(std::string_view text, Range range);
/// true, yes, on, 1 and false, no, off, 0.
[[nodiscard]] Result<bool> parse_switch(std::string_view text);

/// The fewest digits that read back equal, without an exponent: "0.5", "1000000".
[[nodiscard]] std::string number_text(double value);

/// A value as messages show it: a number bare, other text in quotes, "nothing" for an empty one.
[[nodiscard]] std::string shown_value(std::string_view text);

}  // namespace redpoll::cli
