#include "bench/prompts.h"

#include <array>
#include <string_view>

namespace redpoll::bench {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    "time",   "year",    "people",   "way",   "day",        "man",    "thing", "woman", "life",    "child",  "world",
    "school", "state",   "family",   "group", "country",    "hand",   "part",  "place", "case",    "week",   "company",
    "system", "program", "question", "work",  "government", "number", "night", "point", "home",    "water",  "room",
    "mother", "area",    "money",    "story", "fact",       "month",  "lot",   "right", "study",   "book",   "eye",
    "job",    "word",    "business", "issue", "side",       "kind",   "head",  "house", "service", "friend", "father",
    "power",  "hour",    "game",     "line",  "end",        "member", "law",   "car",   "city"};

}  // namespace

// The remainder instead of a standard distribution, whose results differ between libraries; the bias is below 1e-14.
std::vector<TokenId> PromptSource::ids(int num_tokens, int vocab_size) {
  std::vector<TokenId> ids(static_cast<std::size_t>(num_tokens));
  for (TokenId& id : ids) id = static_cast<TokenId>(random_() % static_cast<std::uint64_t>(vocab_size));
  return ids;
}

std::string PromptSource::words(int num_words) {
  std::string text;
  for (int i = 0; i < num_words; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random_() % kWords.size()];
  }
  return text;
}

}  // namespace redpoll::bench
