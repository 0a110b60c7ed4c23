// Merge rules for a SentencePiece BPE vocabulary, which keeps scores instead. Internal to checkpoint/.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/gguf/vocabulary.h"

namespace redpoll::checkpoint {

/// Every way to split a piece into two pieces is a merge. SentencePiece joins the pair whose whole has the highest
/// score first, so merges are ordered by that; ties by the length of the halves, in characters, longer first, as the
/// converter of the transformers library does. Control, byte, unknown and user-defined tokens take no part. Needs
/// scores.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> sentencepiece_merges(
    const GgufVocabulary& vocabulary);

}  // namespace redpoll::checkpoint
