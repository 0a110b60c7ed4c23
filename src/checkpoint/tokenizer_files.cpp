#include "checkpoint/tokenizer_files.h"

#include <algorithm>

#include "base/file.h"
#include "checkpoint/turn_end.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

const json::object* object_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* array_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_array();
}

std::optional<std::string> text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

std::optional<TokenId> as_token(const json::value& value) {
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > (1 << 26)) return std::nullopt;
  return static_cast<TokenId>(value.get_int64());
}

// The entry of `added_tokens` with this text.
const json::object* find_added_token(const json::object& tokenizer, std::string_view text) {
  const json::array* added = array_at(tokenizer, "added_tokens");
  if (added == nullptr) return nullptr;
  for (const json::value& entry : *added) {
    const json::object* object = entry.if_object();
    if (object != nullptr && text_at(*object, "content") == text) return object;
  }
  return nullptr;
}

std::optional<TokenId> find_token(const json::object& tokenizer, std::string_view text) {
  if (const json::object* added = find_added_token(tokenizer, text)) {
    const json::value* id = added->if_contains("id");
    return id == nullptr ? std::nullopt : as_token(*id);
  }
  const json::object* model = object_at(tokenizer, "model");
  const json::object* vocabulary = model == nullptr ? nullptr : object_at(*model, "vocab");
  const json::value* id = vocabulary == nullptr ? nullptr : vocabulary->if_contains(text);
  return id == nullptr ? std::nullopt : as_token(*id);
}

std::optional<TokenId> find_special_token(const json::object& tokenizer, std::string_view text) {
  const json::object* added = find_added_token(tokenizer, text);
  if (added == nullptr) return std::nullopt;
  const json::value* is_special = added->if_contains("special");
  if (is_special == nullptr || !is_special->is_bool() || !is_special->get_bool()) return std::nullopt;
  return find_token(tokenizer, text);
}

// A role's text: "<s>" or {"content": "<s>", ...}.
std::optional<std::string> role_text(const json::object& object, std::string_view role) {
  if (auto text = text_at(object, role)) return text;
  const json::object* token = object_at(object, role);
  return token == nullptr ? std::nullopt : text_at(*token, "content");
}

// Whether a post-processor of tokenizer.json, or one within a sequence, puts `token` around a single text.
bool adds_token(const json::value& processor, std::string_view token) {
  const json::object* object = processor.if_object();
  if (object == nullptr) return false;
  if (const json::array* nested = array_at(*object, "processors")) {
    for (const json::value& inner : *nested) {
      if (adds_token(inner, token)) return true;
    }
  }
  const json::array* pieces = array_at(*object, "single");
  if (pieces == nullptr) return false;
  return std::ranges::any_of(*pieces, [&](const json::value& piece) {
    const json::object* entry = piece.if_object();
    const json::object* special = entry == nullptr ? nullptr : object_at(*entry, "SpecialToken");
    return special != nullptr && text_at(*special, "id") == token;
  });
}

TokenizerInfo make_info(const json::object& config, const json::object& special_map, const json::object& tokenizer) {
  const auto role = [&](std::string_view name) -> std::optional<SpecialToken> {
    auto text = role_text(config, name);
    if (!text) text = role_text(special_map, name);
    if (!text || text->empty()) return std::nullopt;
    const auto id = find_token(tokenizer, *text);
    return SpecialToken{std::move(*text), id};
  };
  TokenizerInfo info;
  info.bos = role("bos_token");
  info.eos = role("eos_token");
  info.pad = role("pad_token");
  info.unk = role("unk_token");
  if (const json::value* processor = tokenizer.if_contains("post_processor")) {
    info.add_bos_token = info.bos && adds_token(*processor, info.bos->text);
    info.add_eos_token = info.eos && adds_token(*processor, info.eos->text);
  }
  if (info.eos && info.eos->id) info.eos_ids.push_back(*info.eos->id);
  return info;
}

// `chat_template` of a JSON file: a text, or a list of {"name", "template"}.
Status take_templates(const fs::path& path, const json::object& object, TokenizerFiles& files) {
  const json::value* value = object.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return {};
  if (value->is_string()) {
    files.chat_template = std::string(value->get_string());
    return {};
  }
  const auto broken = [&](const std::string& what) {
    return in_file(path, {ErrorCode::kCorruptFile, "'chat_template' " + what, "chat_template"});
  };
  if (!value->is_array()) return broken("must be a string or a list of named templates");
  for (const json::value& entry : value->get_array()) {
    const json::object* named = entry.if_object();
    auto name = named == nullptr ? std::nullopt : text_at(*named, "name");
    auto text = named == nullptr ? std::nullopt : text_at(*named, "template");
    if (!name || !text) return broken("has an entry without 'name' and 'template'");
    if (*name == "default") {
      files.chat_template = std::move(*text);
    } else {
      files.named_chat_templates[std::move(*name)] = std::move(*text);
    }
  }
  if (!files.chat_template && files.named_chat_templates.size() == 1) {
    files.chat_template = files.named_chat_templates.begin()->second;
  }
  if (!files.chat_template && !files.named_chat_templates.empty()) {
    return broken("has several templates but none is named 'default'");
  }
  return {};
}

Status read_templates(const fs::path& folder, const json::object& config, TokenizerFiles& files) {
  auto jinja = read_file(folder / "chat_template.jinja");
  if (!jinja && jinja.error().code != ErrorCode::kNotFound) return std::unexpected(std::move(jinja).error());
  if (jinja) {
    files.chat_template = std::move(*jinja);
    return {};
  }
  RETURN_IF_ERROR(take_templates(folder / "tokenizer_config.json", config, files));
  if (files.chat_template) return {};
  ASSIGN_OR_RETURN(const auto object, read_json_file(folder / "chat_template.json"));
  return object ? take_templates(folder / "chat_template.json", *object, files) : Status{};
}

}  // namespace

Result<TokenizerFiles> read_tokenizer_files(const fs::path& folder) {
  TokenizerFiles files;
  const fs::path path = folder / "tokenizer.json";
  auto text = read_file(path);
  if (!text && text.error().code != ErrorCode::kNotFound) return std::unexpected(std::move(text).error());
  json::object tokenizer;
  if (text) {
    auto parsed = parse_json(*text);
    if (!parsed) return in_file(path, {ErrorCode::kCorruptFile, parsed.error().message, {}});
    if (!parsed->is_object()) return in_file(path, {ErrorCode::kCorruptFile, "expected an object", {}});
    tokenizer = std::move(parsed->get_object());
    files.json = std::move(*text);
  } else if (std::error_code error; fs::exists(folder / "tokenizer.model", error)) {
    return fail(ErrorCode::kUnsupported,
                folder.string() +
                    " has a SentencePiece tokenizer.model but no tokenizer.json; make one with "
                    "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) of the transformers "
                    "library, or use a GGUF file of the model");
  }
  ASSIGN_OR_RETURN(const auto config, read_json_file(folder / "tokenizer_config.json"));
  ASSIGN_OR_RETURN(const auto special_map, read_json_file(folder / "special_tokens_map.json"));
  const json::object empty;
  files.info = make_info(config ? *config : empty, special_map ? *special_map : empty, tokenizer);
  RETURN_IF_ERROR(read_templates(folder, config ? *config : empty, files));
  if (files.chat_template) {
    add_turn_ends(
        *files.chat_template, [&](std::string_view token) { return find_special_token(tokenizer, token); },
        files.info.eos_ids);
  }
  return files;
}

}  // namespace redpoll::checkpoint
