#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/rust_call.h"

namespace redpoll::text {
namespace {

/// RpIds that free themselves.
struct RustIds {
  RpIds ids{};
  RustIds() = default;
  ~RustIds() { rp_ids_free(ids); }
  RustIds(const RustIds&) = delete;
  RustIds& operator=(const RustIds&) = delete;
};

}  // namespace

struct Tokenizer::Native {
  RpTokenizer* handle = nullptr;
  Native() = default;
  ~Native() { rp_tokenizer_free(handle); }
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
};

Tokenizer::Tokenizer(std::unique_ptr<Native> native) : native_(std::move(native)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  auto native = std::make_unique<Native>();
  RustBuffer message;
  const RpStatus status =
      rp_tokenizer_new(rust_bytes(tokenizer_json), tokenizer_json.size(), &native->handle, message.out());
  if (status != RP_OK) return rust_failure(status, message.view(), ErrorCode::kCorruptFile);
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(native)));
  RETURN_IF_ERROR(tokenizer->load_table());
  return tokenizer;
}

Status Tokenizer::load_table() {
  RpTokenTable table{};
  RustBuffer message;
  const RpStatus status = rp_tokenizer_table(native_->handle, &table, message.out());
  if (status != RP_OK) return rust_failure(status, message.view(), ErrorCode::kCorruptFile);
  bytes_.assign(reinterpret_cast<const char*>(table.bytes.data), table.bytes.size);
  offsets_.assign(table.offsets.data, table.offsets.data + table.offsets.size);
  flags_.assign(table.flags.data, table.flags.data + table.flags.size);
  strips_leading_space_ = table.strips_leading_space;
  max_bytes_per_token_ = table.max_bytes_per_token;
  known_bytes_.assign(table.known_bytes.data, table.known_bytes.data + table.known_bytes.size);
  rp_buffer_free(table.bytes);
  rp_ids_free(table.offsets);
  rp_buffer_free(table.flags);
  rp_buffer_free(table.known_bytes);
  if (flags_.size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    return fail(ErrorCode::kCorruptFile, "tokenizer.json: a token id is larger than 2147483647");
  }
  return {};
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  RustIds ids;
  RustBuffer message;
  const RpStatus status = rp_tokenizer_encode(native_->handle, rust_bytes(text), text.size(),
                                              options.add_special_tokens, &ids.ids, message.out());
  if (status != RP_OK) return rust_failure(status, message.view(), ErrorCode::kInvalidArgument);
  return std::vector<TokenId>(ids.ids.data, ids.ids.data + ids.ids.size);
}

Result<LocatedIds> Tokenizer::encode_located(std::string_view text, EncodeOptions options) const {
  RustIds ids;
  RustIds begins;
  RustBuffer message;
  const RpStatus status = rp_tokenizer_encode_with_begins(
      native_->handle, rust_bytes(text), text.size(), options.add_special_tokens, &ids.ids, &begins.ids, message.out());
  if (status != RP_OK) return rust_failure(status, message.view(), ErrorCode::kInvalidArgument);
  return LocatedIds{.ids = {ids.ids.data, ids.ids.data + ids.ids.size},
                    .begins = {begins.ids.data, begins.ids.data + begins.ids.size}};
}

std::size_t Tokenizer::least_tokens(std::string_view text) const {
  if (max_bytes_per_token_ == 0) return 0;
  const auto is_known = [this](char c) { return known_bytes_[static_cast<unsigned char>(c)] != 0; };
  const auto num_known = static_cast<std::size_t>(std::ranges::count_if(text, is_known));
  return num_known / max_bytes_per_token_ + (num_known % max_bytes_per_token_ == 0 ? 0 : 1);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  ASSIGN_OR_RETURN(LocatedText located, decode_located(ids, options));
  return std::move(located.text);
}

Result<LocatedText> Tokenizer::decode_located(std::span<const TokenId> ids, DecodeOptions options) const {
  Detokenizer detokenizer(*this, {.skip_special_tokens = options.skip_special_tokens, .starts_text = true});
  LocatedText located;
  located.begins.reserve(ids.size());
  std::size_t num_characters = 0;
  for (const TokenId id : ids) {
    if (!contains(id)) {
      return fail(ErrorCode::kInvalidArgument, "expected token ids of the vocabulary (0 to " +
                                                   std::to_string(vocab_size() - 1) + "), got " + std::to_string(id));
    }
    located.begins.push_back(num_characters);
    const std::string piece = detokenizer.push(id);
    num_characters += count_characters(piece);
    located.text += piece;
  }
  located.text += detokenizer.flush();
  return located;
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  const std::int64_t id = rp_tokenizer_token_to_id(native_->handle, rust_bytes(token), token.size());
  if (id < 0) return std::nullopt;
  return static_cast<TokenId>(id);
}

std::string_view Tokenizer::token_view(TokenId id) const {
  if (!contains(id)) return {};
  const auto index = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

std::string Tokenizer::token_text(TokenId id) const { return replace_invalid_utf8(token_view(id)); }

}  // namespace redpoll::text
