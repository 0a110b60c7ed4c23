// VolatileLines: the lines at the start of a system prompt that say nothing to a model and change with every request,
// as some agents send them for their own bookkeeping. One such line makes every prompt differ from the first token on,
// so that nothing of it is found in a prompt cache. Which lines those are is told by patterns; all others are the
// prompt.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace redpoll::text {

/// A regular expression as Rust's regex crate writes them (no backreferences, no look-around), which a line must match
/// in full. Copies share what was compiled; any number of threads may use it.
class LinePattern {
 public:
  /// kInvalidArgument with reason and place for what is no regular expression or takes over 1 MB when compiled.
  [[nodiscard]] static Result<LinePattern> parse(std::string_view pattern);

  /// In time linear in the length of `line`, whatever the pattern is. False for what is not UTF-8.
  [[nodiscard]] bool matches(std::string_view line) const;

 private:
  struct Native;
  explicit LinePattern(std::shared_ptr<const Native> native) : native_(std::move(native)) {}

  std::shared_ptr<const Native> native_;
};

struct LeadingLines {
  int count = 0;
  std::size_t bytes = 0;  // with the line ends after them

  bool operator==(const LeadingLines&) const = default;
};

struct VolatileLines {
  bool known = true;                    // the lines of known agents are volatile, too
  std::vector<LinePattern> given = {};  // besides those

  /// The lines that `text` begins with and that match a pattern each. A line ends with LF, CR LF, or the text.
  [[nodiscard]] LeadingLines find(std::string_view text) const;
};

}  // namespace redpoll::text
