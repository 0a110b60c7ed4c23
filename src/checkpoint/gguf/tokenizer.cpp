#include "checkpoint/gguf/tokenizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/gguf/pre_tokenizer.h"
#include "checkpoint/gguf/sentencepiece_merges.h"
#include "checkpoint/gguf/vocabulary.h"
#include "checkpoint/turn_end.h"

namespace redpoll::checkpoint {
namespace {

using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

// The parts of a tokenizer.json beside the vocabulary; each is JSON.
struct Parts {
  std::string_view normalizer;
  std::string_view pre_tokenizer;
  std::string_view decoder;
  std::string_view unk_token;  // a text, "" for none
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool marks_spaces = false;  // the normalizer makes U+2581 of spaces, and nothing more
};

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_bool(std::string& out, std::string_view name, bool value) {
  out += '"';
  out += name;
  out += value ? "\":true," : "\":false,";
}

bool is_added(GgufTokenType type) {
  return type == GgufTokenType::kControl || type == GgufTokenType::kUserDefined || type == GgufTokenType::kUnknown;
}

/// Runs of spaces are found after the normalizer, in which a text's own U+2581 are spaces too, as in SentencePiece.
bool is_marked(const GgufVocabulary& vocabulary, std::size_t id, const Parts& parts) {
  return parts.marks_spaces && vocabulary.types[id] == GgufTokenType::kUserDefined && !vocabulary.tokens[id].empty() &&
         vocabulary.tokens[id].find_first_not_of(' ') == std::string_view::npos;
}

void append_token(std::string& out, const GgufVocabulary& vocabulary, std::size_t id, const Parts& parts) {
  if (!is_marked(vocabulary, id, parts)) return append_quoted(out, vocabulary.tokens[id]);
  out += '"';
  for (std::size_t i = 0; i < vocabulary.tokens[id].size(); ++i) out += "▁";
  out += '"';
}

void append_added_tokens(std::string& out, const GgufVocabulary& vocabulary, const Parts& parts) {
  out += "\"added_tokens\":[";
  bool is_first = true;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!is_added(vocabulary.types[i]) || vocabulary.tokens[i].empty()) continue;
    if (!is_first) out += ',';
    is_first = false;
    out += "{\"id\":" + std::to_string(i) + ",\"content\":";
    append_token(out, vocabulary, i, parts);
    out += R"(,"single_word":false,"lstrip":false,"rstrip":false,)";
    append_bool(out, "normalized", is_marked(vocabulary, i, parts));
    append_bool(out, "special", vocabulary.types[i] != GgufTokenType::kUserDefined);
    out.back() = '}';
  }
  out += "],";
}

void append_model(std::string& out, const GgufVocabulary& vocabulary, const Merges& merges, const Parts& parts) {
  out += R"("model":{"type":"BPE","dropout":null,"unk_token":)";
  if (parts.unk_token.empty()) {
    out += "null";
  } else {
    append_quoted(out, parts.unk_token);
  }
  out += R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,)";
  append_bool(out, "fuse_unk", parts.fuse_unk);
  append_bool(out, "byte_fallback", parts.byte_fallback);
  append_bool(out, "ignore_merges", parts.ignore_merges);
  out += "\"vocab\":{";
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_token(out, vocabulary, i, parts);
    out += ':';
    out += std::to_string(i);
  }
  out += "},\"merges\":[";
  for (std::size_t i = 0; i < merges.size(); ++i) {
    out += i == 0 ? "[" : ",[";
    append_quoted(out, merges[i].first);
    out += ',';
    append_quoted(out, merges[i].second);
    out += ']';
  }
  out += "]}";
}

void append_special_piece(std::string& out, std::string_view token) {
  out += R"({"SpecialToken":{"id":)";
  append_quoted(out, token);
  out += ",\"type_id\":0}}";
}

// [BOS] text [EOS], each if asked for; the same around each text of a pair.
std::string post_processor(const GgufVocabulary& vocabulary, const TokenizerInfo& info) {
  if (!info.add_bos_token && !info.add_eos_token) return "null";
  const auto sequence = [&](std::string_view name) {
    std::string pieces;
    if (info.add_bos_token) {
      append_special_piece(pieces, info.bos->text);
      pieces += ',';
    }
    pieces += R"({"Sequence":{"id":")" + std::string(name) + R"(","type_id":0}})";
    if (info.add_eos_token) {
      pieces += ',';
      append_special_piece(pieces, info.eos->text);
    }
    return pieces;
  };
  std::string out = R"({"type":"TemplateProcessing","single":[)" + sequence("A") + "],\"pair\":[" + sequence("A") +
                    "," + sequence("B") + "],\"special_tokens\":{";
  std::vector<TokenId> ids;
  if (info.add_bos_token) ids.push_back(*info.bos->id);
  if (info.add_eos_token && !(info.add_bos_token && info.bos->id == info.eos->id)) ids.push_back(*info.eos->id);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_quoted(out, vocabulary.text_of(ids[i]));
    out += ":{\"id\":";
    append_quoted(out, vocabulary.text_of(ids[i]));
    out += ",\"ids\":[" + std::to_string(ids[i]) + "],\"tokens\":[";
    append_quoted(out, vocabulary.text_of(ids[i]));
    out += "]}";
  }
  return out + "}}";
}

std::string tokenizer_json(const GgufVocabulary& vocabulary, const Merges& merges, const Parts& parts,
                           const TokenizerInfo& info) {
  std::string out;
  out.reserve(vocabulary.tokens.size() * 24 + merges.size() * 24 + 4096);
  out += R"({"version":"1.0","truncation":null,"padding":null,)";
  append_added_tokens(out, vocabulary, parts);
  out += "\"normalizer\":" + std::string(parts.normalizer) + ",\"pre_tokenizer\":" + std::string(parts.pre_tokenizer) +
         ",\"post_processor\":" + post_processor(vocabulary, info) + ",\"decoder\":" + std::string(parts.decoder) + ",";
  append_model(out, vocabulary, merges, parts);
  return out + "}";
}

Result<Merges> read_merges(const GgufFile& file, const GgufVocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  ASSIGN_OR_RETURN(const GgufArray* array, file.array(kKey));
  const auto broken = [&](const std::string& what) {
    return fail(ErrorCode::kCorruptFile, file.name() + ": metadata '" + std::string(kKey) + "' " + what,
                std::string(kKey));
  };
  if (array == nullptr) return broken("is missing");
  if (!array->is_text() && array->count > 0) return broken("must be an array of strings");
  Merges merges;
  merges.reserve(array->texts.size());
  std::string whole;
  for (const std::string_view text : array->texts) {
    const std::size_t space = text.find(' ', 1);  // a space itself would be written as U+0120
    const std::string_view left = text.substr(0, std::min(space, text.size()));
    const std::string_view right = space == std::string_view::npos ? "" : text.substr(space + 1);
    whole.assign(left).append(right);
    if (right.empty() || !vocabulary.ids.contains(left) || !vocabulary.ids.contains(right) ||
        !vocabulary.ids.contains(whole)) {
      return broken("at " + std::to_string(merges.size()) + " joins texts that are not tokens");
    }
    merges.emplace_back(left, right);
  }
  return merges;
}

std::optional<SpecialToken> special_token(const GgufVocabulary& vocabulary, std::optional<TokenId> id) {
  if (!id) return std::nullopt;
  return SpecialToken{std::string(vocabulary.text_of(*id)), id};
}

// `adds_bos`: what this kind of vocabulary does when the file does not say.
Result<TokenizerInfo> make_info(const GgufFile& file, const GgufVocabulary& vocabulary, bool adds_bos) {
  TokenizerInfo info;
  info.bos = special_token(vocabulary, vocabulary.bos);
  info.eos = special_token(vocabulary, vocabulary.eos);
  info.unk = special_token(vocabulary, vocabulary.unk);
  info.pad = special_token(vocabulary, vocabulary.pad);
  info.add_bos_token = vocabulary.add_bos.value_or(adds_bos && info.bos.has_value());
  info.add_eos_token = vocabulary.add_eos.value_or(false);
  for (const auto& [is_added, token, role] :
       {std::tuple{info.add_bos_token, &info.bos, "bos"}, std::tuple{info.add_eos_token, &info.eos, "eos"}}) {
    if (is_added && !*token) {
      return fail(ErrorCode::kCorruptFile, file.name() + ": metadata 'tokenizer.ggml.add_" + role +
                                               "_token' is set, but there is no 'tokenizer.ggml." + role +
                                               "_token_id'");
    }
  }
  info.eos_ids = vocabulary.end_ids;
  ASSIGN_OR_RETURN(const auto chat_template, file.text("tokenizer.chat_template"));
  const auto control_id = [&](std::string_view token) -> std::optional<TokenId> {
    const auto found = vocabulary.ids.find(token);
    const bool is_control =
        found != vocabulary.ids.end() && vocabulary.type_of(found->second) == GgufTokenType::kControl;
    return is_control ? std::optional(found->second) : std::nullopt;
  };
  add_turn_ends(chat_template.value_or(""), control_id, info.eos_ids);
  return info;
}

Result<GgufTokenizer> read_byte_level(const GgufFile& file, const GgufVocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const auto name, file.text("tokenizer.ggml.pre"));
  const PreTokenizer* pre = find_pre_tokenizer(name.value_or("default"));
  if (pre == nullptr) {
    return fail(ErrorCode::kUnsupported,
                file.name() + ": the pre-tokenizer '" + std::string(*name) + "' is not supported; known are " +
                    known_pre_tokenizers(),
                "tokenizer.ggml.pre");
  }
  ASSIGN_OR_RETURN(const Merges merges, read_merges(file, vocabulary));
  GgufTokenizer tokenizer;
  ASSIGN_OR_RETURN(tokenizer.info, make_info(file, vocabulary, pre->adds_bos));
  Parts parts;
  parts.normalizer = pre->normalizer;
  parts.pre_tokenizer = pre->pre_tokenizer;
  parts.decoder = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
  parts.ignore_merges = pre->ignore_merges;
  tokenizer.json = tokenizer_json(vocabulary, merges, parts, tokenizer.info);
  return tokenizer;
}

// As the tokenizer.json of Llama 2 and its like: spaces become U+2581, one is put before the text if the file says so,
// and characters without a piece fall back to bytes.
Result<GgufTokenizer> read_sentencepiece(const GgufFile& file, const GgufVocabulary& vocabulary) {
  if (vocabulary.scores.empty()) {
    return fail(ErrorCode::kCorruptFile, file.name() + ": metadata 'tokenizer.ggml.scores' is missing",
                "tokenizer.ggml.scores");
  }
  GgufTokenizer tokenizer;
  ASSIGN_OR_RETURN(tokenizer.info, make_info(file, vocabulary, true));
  Parts parts;
  const bool has_prefix = vocabulary.add_space_prefix.value_or(true);
  parts.normalizer = has_prefix ? R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                                  R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})"
                                : R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
  parts.pre_tokenizer = "null";
  parts.marks_spaces = !has_prefix;
  parts.decoder = has_prefix ? R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},)"
                               R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},)"
                               R"({"type":"Strip","content":" ","start":1,"stop":0}]})"
                             : R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},)"
                               R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]})";
  if (tokenizer.info.unk) parts.unk_token = tokenizer.info.unk->text;
  parts.fuse_unk = true;
  parts.byte_fallback = true;
  tokenizer.json = tokenizer_json(vocabulary, sentencepiece_merges(vocabulary), parts, tokenizer.info);
  return tokenizer;
}

}  // namespace

Result<GgufTokenizer> read_gguf_tokenizer(const GgufFile& file) {
  ASSIGN_OR_RETURN(const auto model, file.text("tokenizer.ggml.model"));
  if (!model) {
    return fail(ErrorCode::kCorruptFile, file.name() + ": metadata 'tokenizer.ggml.model' is missing",
                "tokenizer.ggml.model");
  }
  if (*model != "gpt2" && *model != "llama") {
    return fail(
        ErrorCode::kUnsupported,
        file.name() + ": the tokenizer model '" + std::string(*model) + "' is not supported; known are gpt2 and llama",
        "tokenizer.ggml.model");
  }
  ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  return *model == "gpt2" ? read_byte_level(file, vocabulary) : read_sentencepiece(file, vocabulary);
}

}  // namespace redpoll::checkpoint
