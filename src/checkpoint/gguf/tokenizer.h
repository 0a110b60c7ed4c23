// The tokenizer that a GGUF file describes, as the text of a Hugging Face tokenizer.json. Internal to checkpoint/.
#pragma once

#include <string>

#include "base/error.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/tokenizer_info.h"

namespace redpoll::checkpoint {

struct GgufTokenizer {
  std::string json;
  TokenizerInfo info;
};

/// Two kinds are known: byte-level BPE with merges ("gpt2") and SentencePiece BPE with scores ("llama"). Control tokens
/// become special, user-defined ones are kept whole but are ordinary text. If the file asks for BOS or EOS around a
/// text, a post-processor adds them. kUnsupported names another kind or a pre-tokenizer that is not known;
/// kCorruptFile a merge of tokens that are not in the vocabulary.
[[nodiscard]] Result<GgufTokenizer> read_gguf_tokenizer(const GgufFile& file);

}  // namespace redpoll::checkpoint
