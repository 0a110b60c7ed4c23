#include "bench/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace redpoll::bench {
namespace {

constexpr std::size_t kGap = 2;  // blanks between columns

}  // namespace

Table::Table(std::vector<std::string> headings) { rows_.push_back(std::move(headings)); }

void Table::add_row(std::vector<std::string> cells) {
  CHECK(cells.size() == rows_.front().size(), "a row has a cell for each heading");
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + padding : std::string(kGap, ' ') + padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string format_figure(double value) {
  if (std::isnan(value)) return "-";
  // Rounding may add a digit, as in 9.996: so round first, then count.
  for (int decimals = 3; decimals > 0; --decimals) {
    const double scale = std::pow(10.0, decimals);
    if (std::round(std::abs(value) * scale) < 1000) {
      char text[32];
      std::snprintf(text, sizeof text, "%.*f", decimals, value);
      return text;
    }
  }
  char text[512];  // the longest double has 309 digits before the point
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr double kKiB = 1024;
  const auto number = static_cast<double>(bytes);
  if (number < kKiB * kKiB) return format_figure(number / kKiB) + " KiB";
  if (number < kKiB * kKiB * kKiB) return format_figure(number / kKiB / kKiB) + " MiB";
  return format_figure(number / kKiB / kKiB / kKiB) + " GiB";
}

}  // namespace redpoll::bench
