// What somebody may have meant by a word that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace redpoll::cli {

/// The candidates that differ from `word` in at most a third of its letters or begin with it, letter case aside;
/// nearest first, at most three.
[[nodiscard]] std::vector<std::string> near_matches(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean A or B?", or nothing when no candidate is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace redpoll::cli
