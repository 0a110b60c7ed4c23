// Edit distance: how far two words are apart, for suggestions after a typing mistake.
#pragma once

#include <cstddef>
#include <string_view>

namespace redpoll {

/// Levenshtein distance: the fewest bytes to insert, delete or replace that make one out of the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace redpoll
