// The ways in which BPE vocabularies cut text before merging, by the name that GGUF files give them, as the parts of a
// tokenizer.json that the original model has. Internal to checkpoint/.
#pragma once

#include <string>
#include <string_view>

namespace redpoll::checkpoint {

struct PreTokenizer {
  std::string_view name;           // tokenizer.ggml.pre
  std::string_view normalizer;     // JSON
  std::string_view pre_tokenizer;  // JSON
  bool ignore_merges = false;      // a piece that is a token as a whole is not built from merges
  bool adds_bos = false;           // when the file does not say
};

/// nullptr if not known: another way would give other ids without anybody noticing.
[[nodiscard]] const PreTokenizer* find_pre_tokenizer(std::string_view name);
[[nodiscard]] std::string known_pre_tokenizers();

}  // namespace redpoll::checkpoint
