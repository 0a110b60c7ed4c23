// The files around the weights of a model folder: tokenizer, chat template, generation defaults, licence. Internal to
// checkpoint/.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace redpoll::checkpoint {

struct TokenizerFiles {
  std::string json;  // "" if the folder has no tokenizer at all
  TokenizerInfo info;
  std::optional<std::string> chat_template;
  std::map<std::string, std::string> named_chat_templates;
};

/// tokenizer.json as it is; roles from tokenizer_config.json or special_tokens_map.json; the template from
/// chat_template.jinja, tokenizer_config.json or chat_template.json, the first that has one. info.eos_ids has what the
/// tokenizer and the template say; the caller adds the rest. kUnsupported for a folder that has only a SentencePiece
/// tokenizer.model; kCorruptFile, naming the file, for one that cannot be read.
[[nodiscard]] Result<TokenizerFiles> read_tokenizer_files(const std::filesystem::path& folder);

/// Empty if the folder has no generation_config.json.
[[nodiscard]] Result<GenerationDefaults> read_generation_defaults(const std::filesystem::path& folder);

/// The `license` of the front matter of README.md, "" if there is none.
[[nodiscard]] std::string read_license(const std::filesystem::path& folder);

/// The JSON object in a file, nullopt if there is no such file. Errors name the file.
[[nodiscard]] Result<std::optional<json::object>> read_json_file(const std::filesystem::path& path);

/// `error` with the file's path before its message.
[[nodiscard]] std::unexpected<Error> in_file(const std::filesystem::path& path, Error error);

}  // namespace redpoll::checkpoint
