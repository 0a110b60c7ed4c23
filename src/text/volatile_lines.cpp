#include "text/volatile_lines.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "text/rust_call.h"

namespace redpoll::text {
namespace {

// What Claude Code puts before its system prompt: fields of fixed form, of which the last two may be absent.
constexpr std::string_view kBillingHeader =
    R"(x-anthropic-billing-header: cc_version=[0-9]+\.[0-9]+\.[0-9]+(\.[0-9a-f]{3})?; cc_entrypoint=[A-Za-z0-9_-]+;)"
    R"(( cch=[0-9a-f]{5};)?( cc_workload=[A-Za-z0-9_-]+;)?)";

const LinePattern& billing_header() {
  static const LinePattern pattern = [] {
    Result<LinePattern> parsed = LinePattern::parse(kBillingHeader);
    CHECK(parsed.has_value(), "our own pattern must be one");
    return *std::move(parsed);
  }();
  return pattern;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(line.ends_with("\r\n") ? 2 : 1);
  return line;
}

}  // namespace

struct LinePattern::Native {
  RpLinePattern* handle = nullptr;
  Native() = default;
  ~Native() { rp_line_pattern_free(handle); }
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
};

Result<LinePattern> LinePattern::parse(std::string_view pattern) {
  auto native = std::make_shared<Native>();
  RustBuffer message;
  const RpStatus status = rp_line_pattern_new(rust_bytes(pattern), pattern.size(), &native->handle, message.out());
  if (status == RP_OK) return LinePattern(std::move(native));
  return rust_failure(status,
                      "expected a regular expression, got " + in_quotes(pattern) + ": " + std::string(message.view()),
                      ErrorCode::kInvalidArgument);
}

bool LinePattern::matches(std::string_view line) const {
  bool matches = false;
  RustBuffer message;
  const RpStatus status =
      rp_line_pattern_matches(native_->handle, rust_bytes(line), line.size(), &matches, message.out());
  return status == RP_OK && matches;
}

LeadingLines VolatileLines::find(std::string_view text) const {
  const auto is_volatile = [this](std::string_view line) {
    return (known && billing_header().matches(line)) ||
           std::ranges::any_of(given, [line](const LinePattern& pattern) { return pattern.matches(line); });
  };
  LeadingLines found;
  while (found.bytes < text.size()) {
    const std::string_view rest = text.substr(found.bytes);
    const std::size_t end = rest.find('\n');
    const std::string_view line = end == std::string_view::npos ? rest : rest.substr(0, end + 1);
    if (!is_volatile(without_line_end(line))) break;
    ++found.count;
    found.bytes += line.size();
  }
  return found;
}

}  // namespace redpoll::text
