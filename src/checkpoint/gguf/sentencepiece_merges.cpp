#include "checkpoint/gguf/sentencepiece_merges.h"

#include <algorithm>
#include <tuple>

#include "base/utf8.h"

namespace redpoll::checkpoint {
namespace {

struct Merge {
  std::string_view left;
  std::string_view right;
  float score;              // of the whole
  std::size_t left_length;  // in characters
  std::size_t right_length;
  TokenId whole_id;
  TokenId left_id;
  TokenId right_id;
};

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// The id of a piece that merging can make or use, or nullopt.
std::optional<TokenId> mergeable_id(const GgufVocabulary& vocabulary, std::string_view text) {
  const auto found = vocabulary.ids.find(text);
  if (found == vocabulary.ids.end()) return std::nullopt;
  const GgufTokenType type = vocabulary.type_of(found->second);
  if (type != GgufTokenType::kNormal && type != GgufTokenType::kUnused) return std::nullopt;
  return found->second;
}

// Pieces longer than this are data, not words; without a limit one of a megabyte would take hours.
constexpr std::size_t kMaxPieceBytes = 1024;

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> sentencepiece_merges(const GgufVocabulary& vocabulary) {
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view piece = vocabulary.tokens[id];
    const auto whole_id = mergeable_id(vocabulary, piece);
    if (piece.size() > kMaxPieceBytes || !whole_id) continue;
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if (is_continuation(piece[cut])) continue;
      const std::string_view left = piece.substr(0, cut);
      const std::string_view right = piece.substr(cut);
      const auto left_id = mergeable_id(vocabulary, left);
      const auto right_id = left_id ? mergeable_id(vocabulary, right) : std::nullopt;
      if (!right_id) continue;
      merges.push_back({left, right, vocabulary.scores[id], count_characters(left), count_characters(right), *whole_id,
                        *left_id, *right_id});
    }
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    const auto rank = [](const Merge& m) { return std::tie(m.score, m.left_length, m.right_length); };
    if (rank(a) != rank(b)) return rank(a) > rank(b);
    return std::tie(a.whole_id, a.left_id, a.right_id) < std::tie(b.whole_id, b.left_id, b.right_id);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace redpoll::checkpoint
