// Small helpers for the JSON files of a model folder.
#include "base/file.h"
#include "checkpoint/tokenizer_files.h"

namespace redpoll::checkpoint {

namespace fs = std::filesystem;

std::unexpected<Error> in_file(const fs::path& path, Error error) {
  error.message = path.string() + ": " + error.message;
  return std::unexpected(std::move(error));
}

Result<std::optional<json::object>> read_json_file(const fs::path& path) {
  auto text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!text) return std::unexpected(std::move(text).error());
  auto value = parse_json(*text);
  if (!value) return in_file(path, {ErrorCode::kCorruptFile, value.error().message, {}});
  if (!value->is_object()) {
    return in_file(path,
                   {ErrorCode::kCorruptFile, "expected an object, got " + std::string(json_kind_name(*value)), {}});
  }
  return std::move(value->get_object());
}

}  // namespace redpoll::checkpoint
