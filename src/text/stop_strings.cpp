#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace redpoll::text {

StopStringMatcher::StopStringMatcher(std::vector<std::string> stop_strings) {
  for (std::string& text : stop_strings) {
    Pattern pattern{.text = std::move(text), .fallback = {}};
    pattern.fallback.resize(pattern.text.size(), 0);
    for (std::size_t i = 1, border = 0; i < pattern.text.size(); ++i) {
      while (border > 0 && pattern.text[i] != pattern.text[border]) border = pattern.fallback[border - 1];
      if (pattern.text[i] == pattern.text[border]) ++border;
      pattern.fallback[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopStringMatcher::advance(Pattern& pattern, char byte) {
  while (pattern.matched > 0 && pattern.text[pattern.matched] != byte) {
    pattern.matched = pattern.fallback[pattern.matched - 1];
  }
  if (pattern.text[pattern.matched] == byte) ++pattern.matched;
}

StopStringMatcher::Output StopStringMatcher::push(std::string_view text) {
  if (found_) return {.text = {}, .matched = found_};
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t found_bytes = 0;
    for (std::size_t index = 0; index < patterns_.size(); ++index) {
      Pattern& pattern = patterns_[index];
      if (pattern.text.empty()) continue;
      advance(pattern, text[i]);
      if (pattern.matched == pattern.text.size() && pattern.matched > found_bytes) {
        found_bytes = pattern.matched;
        found_ = static_cast<int>(index);
      }
    }
    if (found_) {
      held_ += text.substr(0, i + 1);
      held_.resize(held_.size() - found_bytes);
      return {.text = std::exchange(held_, {}), .matched = found_};
    }
  }
  held_ += text;
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_) longest = std::max(longest, pattern.matched);
  Output output{.text = held_.substr(0, held_.size() - longest), .matched = std::nullopt};
  held_.erase(0, output.text.size());
  return output;
}

std::string StopStringMatcher::flush() {
  found_.reset();
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace redpoll::text
