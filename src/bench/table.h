// Table: figures under headings, as text for people. Knows nothing of what it shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace redpoll::bench {

/// The first column stands to the left, the others to the right. Cells are ASCII.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  /// As many cells as there are headings.
  void add_row(std::vector<std::string> cells);
  /// A line each, without blanks at the end.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Three digits, or all before the point where there are more: "0.123", "12.3", "4567". NaN is "-".
[[nodiscard]] std::string format_figure(double value);
/// The same, of KiB, MiB or GiB, whichever suits.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

}  // namespace redpoll::bench
