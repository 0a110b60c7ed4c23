#include "cli/suggestions.h"

#include <algorithm>
#include <utility>

#include "base/edit_distance.h"

namespace redpoll::cli {
namespace {

constexpr std::size_t kMaxSuggestions = 3;
constexpr std::size_t kShortestBeginning = 2;  // letters; fewer begin too many words

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::vector<std::string> near_matches(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = lower(word);
  const std::size_t num_letters = wanted.size() - std::min(wanted.find_first_not_of('-'), wanted.size());
  const std::size_t limit = std::max<std::size_t>(1, wanted.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> scored;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, candidate);
    const bool begins =
        num_letters >= kShortestBeginning && (candidate.starts_with(wanted) || wanted.starts_with(candidate + '-'));
    if (begins || distance <= limit) scored.emplace_back(begins ? 0 : distance, candidate);
  }
  std::ranges::sort(scored);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(scored.size(), kMaxSuggestions); ++i) names.push_back(scored[i].second);
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string text;
  for (const std::string& match : near_matches(word, candidates)) text += (text.empty() ? "" : " or ") + match;
  return text.empty() ? "" : "; did you mean " + text + "?";
}

}  // namespace redpoll::cli
